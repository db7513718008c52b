"""The results of `latency.py` as a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from latency_goals import goals
from latency_growth import growth
from latency_peers import peers
from pages import ms, table

NAMES = {
    "recall": "recall_scored, 12 episodes",
    "recall_facts": "recall_facts, 5 facts",
    "inject": "inject, top, budget 1,500 tokens",
    "inject_fill": "inject, fill, budget 1,500 tokens",
    "inject_unbounded": "inject, top, no budget",
    "inject_everyone": "inject, top, every time another user",
}
PHASES = {
    "imports": "import of `Memory`",
    "embedder": "loading the embedder",
    "first_inject": "cold first inject",
    "second_inject": "second inject",
    "reopened_inject": "first inject of a memory opened anew",
}
MODES = {"cold": "top", "cold_fill": "fill"}


def markdown(results: Mapping[str, Any]) -> str:
    """The page."""
    parts = [_head(results), _calls(results), _writes(results), _cold(results)]
    if "many_users" in results:
        parts.append(_users(results["many_users"]))
    parts += [growth(results), _bulk(results), _imports(results), peers(results), goals(results)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _head(results: Mapping[str, Any]) -> str:
    machine, repetitions = results["machine"], results["repetitions"]
    were_set = ", ".join(results["were_set"]) or "neither"
    return f"""# Latency

Written by `{results["command"]}` on {results["date"]}.

Machine: {machine["cores"]} cores, {machine["processor"]}, {machine["system"]}; Python {machine["python"]}, SQLite
{machine["sqlite"]}; load {machine["load_before"]} before the run. {" and ".join(results["not_passed_on"])} are removed
from the environment of the measuring processes, because they make numpy slow ({were_set} was set).

CPU is that of all threads of the process. Times are in milliseconds. Each row is a fresh process; its peak memory
includes Python, numpy and the embedder. Calls follow one another without a pause, but for "CPU alone": that is the
median of {repetitions["alone"]} calls with rest before and after, and counts what idle threads burn until they sleep.
"Embedding" is what the embedding of the question takes of the CPU median.
Repetitions: {repetitions["reads"]} reads, {repetitions["writes"]} writes, {repetitions["starts"]} cold starts,
{repetitions["imports"]} imports. Of fewer than 100, the p99 is the highest value. "Loop" is the CPU time that a fixed
loop of Python took at the end of each process: where it is longer, the machine was slower just then."""


def _corpora(results: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from ((f"{int(size):,}", values) for size, values in results["sizes"].items())
    many = results.get("many_users")
    if many:
        yield f"{many['episodes']:,} of {many['users']:,} users", many


def _calls(results: Mapping[str, Any]) -> str:
    rows = [
        (
            episodes, name, *_spreads(values[case]), ms(values[case]["alone_cpu_ms"]),
            f"{values[case]['embedding_cpu_ms']:.3f}", f"{values[case]['peak_mb']:.0f}",
            f"{values[case]['yardstick_ms']:.0f}",
        )
        for episodes, values in _corpora(results) for case, name in NAMES.items() if case in values
    ]  # fmt: skip
    heads = (
        "episodes", "call", "CPU median", "CPU p99", "wall median", "wall p99", "CPU alone", "embedding", "peak MB",
        "loop",
    )  # fmt: skip
    return f"## Calls\n\n{table(heads, rows)}"


def _spreads(values: Mapping[str, Any]) -> list[str]:
    return [ms(values[clock][name]) for clock in ("cpu_ms", "wall_ms") for name in ("median", "p99")]


def _writes(results: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = []
    for episodes, values in _corpora(results):
        written = values["remember"]
        rows.append(
            (episodes, f"{written['count']:,}", *_spreads(written), ms(written["whole_cpu_ms"]),
             f"{written['merging_cpu_ms']:.3f}", f"{written['merges']:,}", ms(written["longest_merge_ms"]),
             f"{written['yardstick_ms']:.0f}")
        )  # fmt: skip
    heads = (
        "episodes", "writes", "CPU median", "CPU p99", "wall median", "wall p99", "CPU with all that follows",
        "merging of it", "merges", "longest merge", "loop",
    )  # fmt: skip
    return (
        "## Writing\n\nremember, one durable episode. A background thread merges the index from time to time; some of "
        "that falls into the calls. The CPU with all that follows is that of all writes, until nothing is left to "
        f"merge and the file is closed, over their number.\n\n{table(heads, rows)}"
    )


def _cold(results: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = []
    for episodes, values in _corpora(results):
        for case, mode in MODES.items():
            cold = values[case]
            rows += [
                (episodes, mode, name, ms(cold[phase]["cpu_ms"]), ms(cold[phase]["wall_ms"]))
                for phase, name in PHASES.items()
            ]
        whole = values["cold"]["fresh_process"]
        rows.append((episodes, "top", "all of it as one process", ms(whole["cpu_ms"]), ms(whole["wall_ms"])))
    heads = ("episodes", "mode", "phase", "CPU", "wall")
    return (
        "## Cold start\n\nOf an existing file, in a fresh process, medians. The first five happen one after the other; "
        "the first inject imports what is left to import, opens the file, and reads the user's index. All of it as one "
        f"process is another process, which ends after the first inject.\n\n{table(heads, rows)}"
    )


def _users(many: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = []
    for case, values in many["apart"].items():
        for kind in ("cold", "warm"):
            shared, alone = values["shared"][kind], values["alone"][kind]
            rows.append((NAMES[case], kind, ms(shared), ms(alone), f"{shared / alone:.2f}"))
    some = next(iter(many["apart"].values()))
    heads = ("call", "", "among all", "alone", "ratio")
    return (
        f"## Many users\n\n{many['episodes']:,} episodes of {many['users']:,} users in one file, and the same calls "
        f"for {some['users']} of them in files that hold this one user alone. CPU, medians over these users; "
        f"{some['in_use']:,} others had asked before. Cold is the user's first question, warm a later one, both of "
        f"files that are open.\n\n{table(heads, rows)}"
    )


def _bulk(results: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = []
    for episodes, values in _corpora(results):
        built = values["build"]
        if built["loaded"]:
            each = ms(built["cpu_s"] * 1000 / built["loaded"])
            sizes = (f"{built['file_mb']:.1f}", f"{built['peak_mb']:.0f}")
            rows.append((episodes, f"{built['facts']:,}", f"{built['wall_s']:.1f}", each, *sizes))
    heads = ("episodes", "facts", "seconds", "CPU ms an episode", "file MB", "peak MB")
    return f"## Bulk loading\n\nIn batches of 1,000, embedding included.\n\n{table(heads, rows)}"


def _imports(results: Mapping[str, Any]) -> str:
    measured: list[tuple[str, Mapping[str, Any]]] = [("loomflow", results["imports"])]
    if "reference" in results:
        measured.append((results["reference"]["package"], results["reference"]["imports"]))
    rows = _import_rows(measured)
    heads = ("package", "process", "CPU", "CPU over bare Python", "peak MB")
    return f"## Imports\n\nOf compiled modules, as an installed package has them.\n\n{table(heads, rows)}"


def _import_rows(measured: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Sequence[str]]:
    for package, costs in measured:
        for statement, cost in costs.items():
            times = (ms(cost["cpu_ms"]), ms(cost["over_python_ms"]), f"{cost['peak_mb']:.0f}")
            yield (package, f"`{statement}`", *times)
