"""The results of `latency.py` as a page: tables, ratios to the peer, and the numbers to reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NAMES = {
    "recall": "recall_scored, 12 episodes",
    "recall_facts": "recall_facts, 5 facts",
    "remember": "remember, one durable episode",
    "inject": "inject, budget 1,500 tokens",
    "inject_unbounded": "inject, no budget",
    "inject_everyone": "inject, every time another user",
}
PHASES = {
    "imports": "import of `Memory`",
    "embedder": "loading the embedder",
    "first_inject": "cold first inject",
    "second_inject": "second inject",
    "fresh_process": "all of it as one process",
}
INJECT_MS = {"1000": 2.0, "10000": 5.0, "100000": 15.0}
REMEMBER_MS = {"median": 1.0, "p99": 4.0}
COLD_MS = 100.0
IMPORT_MS = 30.0
TIMES_FASTER = 200.0
AT = "10000"


def markdown(results: Mapping[str, Any]) -> str:
    """The page."""
    parts = [_head(results), _calls(results), _cold(results), _bulk(results), _imports(results)]
    if "reference" in results:
        parts.append(_ratios(results))
    return "\n\n".join([*parts, _targets(results)]) + "\n"


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
Repetitions: {repetitions["reads"]} reads, {repetitions["writes"]} writes, {repetitions["starts"]} cold starts,
{repetitions["imports"]} imports. Of fewer than 100, the p99 is the highest value. "Loop" is the CPU time that a fixed
loop of Python took at the end of each process: where it is longer, the machine was slower just then."""


def _corpora(results: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    yield from ((f"{int(size):,}", values) for size, values in results["sizes"].items())
    many = results.get("many_users")
    if many:
        yield f"{many['episodes']:,} of {many['users']:,} users", many


def _calls(results: Mapping[str, Any]) -> str:
    rows = [
        (
            episodes, NAMES[case], *_spreads(values[case]), _alone(values[case]),
            f"{values[case]['peak_mb']:.0f}",
            f"{values[case]['yardstick_ms']:.0f}",
        )
        for episodes, values in _corpora(results) for case in NAMES if case in values
    ]  # fmt: skip
    heads = ("episodes", "call", "CPU median", "CPU p99", "wall median", "wall p99", "CPU alone", "peak MB", "loop")
    return f"## Calls\n\n{_table(heads, rows)}"


def _alone(values: Mapping[str, Any]) -> str:
    return _ms(values["alone_cpu_ms"]) if "alone_cpu_ms" in values else ""


def _spreads(values: Mapping[str, Any]) -> list[str]:
    return [_ms(values[clock][name]) for clock in ("cpu_ms", "wall_ms") for name in ("median", "p99")]


def _cold(results: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = []
    for episodes, values in _corpora(results):
        cold = values["cold"]
        rows += [
            (episodes, name, _ms(cold[phase]["cpu_ms"]), _ms(cold[phase]["wall_ms"]))
            for phase, name in PHASES.items()
        ]  # fmt: skip
    return (
        "## Cold start\n\nOf an existing file, in a fresh process, medians. The first four happen one after the other; "
        "the first inject opens the file, and loads the user's vectors. The last is another process, all of it."
        f"\n\n{_table(('episodes', 'phase', 'CPU', 'wall'), rows)}"
    )


def _bulk(results: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = []
    for episodes, values in _corpora(results):
        built = values["build"]
        each = built["cpu_s"] * 1000 / built["episodes"]
        rows.append(
            (episodes, f"{built['facts']:,}", f"{built['wall_s']:.1f}", _ms(each), f"{built['file_mb']:.1f}",
             f"{built['peak_mb']:.0f}")
        )  # fmt: skip
    heads = ("episodes", "facts", "seconds", "CPU ms an episode", "file MB", "peak MB")
    return f"## Bulk loading\n\nIn batches of 1,000, embedding included.\n\n{_table(heads, rows)}"


def _imports(results: Mapping[str, Any]) -> str:
    rows = [("loomflow", name, values) for name, values in results["imports"].items()]
    if "reference" in results:
        peer = results["reference"]
        rows += [(peer["package"], name, values) for name, values in peer["imports"].items()]
    lines = [
        (whose, f"`{name}`", _ms(values["cpu_ms"]), _ms(values["over_python_ms"]), f"{values['peak_mb']:.0f}")
        for whose, name, values in rows
    ]
    heads = ("package", "process", "CPU", "CPU over bare Python", "peak MB")
    return f"## Imports\n\n{_table(heads, lines)}"


def _ratios(results: Mapping[str, Any]) -> str:
    peer = results["reference"]
    rows: list[Sequence[str]] = []
    for size, theirs in peer["sizes"].items():
        ours = results["sizes"][size]
        for case, name in NAMES.items():
            if case in theirs:
                ours_ms, theirs_ms = (whose[case]["cpu_ms"]["median"] for whose in (ours, theirs))
                times = (_ms(ours_ms), _ms(theirs_ms), f"{theirs_ms / ours_ms:.1f}")
                others = [f"{whose[case][key]:.0f}" for key in ("peak_mb", "yardstick_ms") for whose in (ours, theirs)]
                rows.append((f"{int(size):,}", name, *times, *others))
    heads = (
        "episodes",
        "call",
        "loomflow CPU",
        "peer CPU",
        "ratio",
        "loomflow MB",
        "peer MB",
        "loomflow loop",
        "peer loop",
    )
    return (
        f"## Peer\n\n`{peer['package']}` of the package index, another library of this name: its SQLite memory with "
        f"its default embedder, in the same run, on the same corpus and questions. Medians.\n\n{_table(heads, rows)}"
    )


def _targets(results: Mapping[str, Any]) -> str:
    rows = [(_verdict(value, reached), what, value) for what, value, reached in _goals(results)]
    return f"## To reach\n\n{_table(('', 'what', 'measured'), rows)}"


def _verdict(value: str, reached: bool) -> str:
    return "not measured" if not value else "PASS" if reached else "FAIL"


def _goals(results: Mapping[str, Any]) -> Iterable[tuple[str, str, bool]]:
    sizes = results["sizes"]
    ours, theirs = sizes.get(AT), results.get("reference", {}).get("sizes", {}).get(AT)
    what = f"inject at 10,000 at least {TIMES_FASTER:.0f} times faster (CPU) than the peer's recall_scored"
    if ours and theirs:
        times = theirs["recall"]["cpu_ms"]["median"] / ours["inject"]["cpu_ms"]["median"]
        yield what, f"{times:.0f} times", times >= TIMES_FASTER
    else:
        yield what, "", False
    cold = ours["cold"]["first_inject"]["cpu_ms"] if ours else None
    yield _goal("cold first inject at 10,000", cold, COLD_MS)
    yield _goal(
        "`import loomflow` over bare Python", results["imports"]["import loomflow"]["over_python_ms"], IMPORT_MS
    )
    for size, limit in INJECT_MS.items():
        measured = sizes[size]["inject"]["cpu_ms"]["median"] if size in sizes else None
        yield _goal(f"inject at {int(size):,}, median", measured, limit)
    for size, values in sizes.items():
        for name, limit in REMEMBER_MS.items():
            yield _goal(f"remember at {int(size):,}, {name}", values["remember"]["cpu_ms"][name], limit)


def _goal(what: str, measured: float | None, limit: float) -> tuple[str, str, bool]:
    value = "" if measured is None else f"{_ms(measured)} ms"
    return f"{what}: at most {limit:g} ms CPU", value, measured is not None and measured <= limit


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
