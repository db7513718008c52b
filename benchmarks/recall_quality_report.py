"""The results of `recall_quality.py` as a page of tables. Shares are in percent, differences in points of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from pages import ms, table

MORE = ("complete", "partial", "used")
AT = ("256", "1000")
"""The budgets at which what is measured besides evidence is shown."""


def markdown(results: Mapping[str, Any]) -> str:
    """The page."""
    parts = [_head(results), _data(results), _main(results)]
    if "peers" in results:
        parts.append(_peers(results))
    if "ablation" in results:
        parts.append(_ablation(results))
    if "floor" in results:
        parts.append(_floor(results))
    return "\n\n".join([*parts, _more(results), _categories(results)]) + "\n"


def _head(results: Mapping[str, Any]) -> str:
    machine = results["machine"]
    embedders = "\n".join(f"- `{name}`: {about}" for name, about in results["embedders"].items())
    quick = "\n\nThis was a quick run, of a few questions: its figures mean nothing." if results["quick"] else ""
    return f"""# Recall quality

Written by `{results["command"]}` on {results["date"]}.

Machine: {machine["cores"]} cores, {machine["processor"]}, {machine["system"]}; Python {machine["python"]}, SQLite
{machine["sqlite"]}; load {machine["load_before"]} before the run.{quick}

Evidence is the share of the turns that answer a question which are in the injected block as a whole, in percent,
averaged over the questions; a budget is in tokens of four characters. Rows of loomflow are a mode and an embedder:

{embedders}

No block of loomflow was over its budget: the run would have ended. CPU is the median of a call in milliseconds, without
the embedding of the question: of loomflow an injection, over all budgets; of a peer one search, or an injection where
it makes the block itself.

![Evidence by budget](recall_quality.svg)"""


def _data(results: Mapping[str, Any]) -> str:
    rows = [
        (
            name, str(len(one["conversations"])), f"{one['episodes']:,}", f"{one['main']:,}",
            ", ".join(f"{category} {count}" for category, count in one["categories"].items()),
            f"{100 / one['main']:.2f}",
        )
        for name, one in results["data"].items()
    ]  # fmt: skip
    heads = ("data set", "conversations", "episodes", "main questions", "by category", "one question, in points")
    named = "; ".join(
        f"{name}: {', '.join(one['conversations'])}"
        for name, one in results["data"].items()
        if len(one["conversations"]) > 1
    )
    which = f"\n\nConversations of {named}." if named else ""
    return (
        "## Data\n\nAn episode is two turns that follow each other. Main are all categories but the adversarial one, "
        f"whose questions have no answer.\n\n{table(heads, rows)}{which}"
    )


def _main(results: Mapping[str, Any]) -> str:
    parts = ["## Evidence, main categories"]
    for name, rows in results["recall"].items():
        heads = ("", *results["budgets"], "CPU ms")
        lines = [(system, *_evidence(row, "main"), ms(row["cpu_ms"])) for system, row in rows.items()]
        parts.append(f"### {name}\n\n{_note(results['data'][name], results)}{table(heads, lines)}")
    return "\n\n".join(parts)


def _note(data: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    if not data["wide"]:
        return ""
    peers = " Peers' blocks are measured in characters too." if "peers" in results else ""
    return (
        "loomflow counts each wide character as a token, four times what the scoring does, and so injects less under "
        f"the same budget. The rows by characters have `token_counter` count as the scoring does.{peers}\n\n"
    )


def _peers(results: Mapping[str, Any]) -> str:
    rows = [
        (name, peer["package"], "MiniLM" if peer["minilm"] else "none given", peer["note"])
        for name, peer in results["peers"].items()
    ]
    heads = ("row", "package", "embedder", "how it was set up")
    return f"## Peers\n\n{table(heads, rows)}"


def _ablation(results: Mapping[str, Any]) -> str:
    about = (
        'Points of evidence that mode "fill" loses in the main categories without a signal, at a budget and on average '
        "of all budgets. Negative: it is better without."
    )
    parts = [
        f"## What each signal is worth\n\n{about}",
        *(_worth(results, embedder) for embedder in results["embedders"]),
        "### Evidence without each signal",
        *(
            f"{data}, embedder {embedder}:\n\n" + table(("without", *results["budgets"]), _without(values))
            for data, rows in results["ablation"].items()
            for embedder, values in rows.items()
        ),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _worth(results: Mapping[str, Any], embedder: str) -> str:
    sets = results["ablation"]
    heads = ["worth", *(f"{data} {budget}" for data in sets for budget in (*AT, "mean"))]
    signals = [signal for signal in next(iter(sets.values()))[embedder] if signal]
    rows = [(signal, *(cell for data in sets for cell in _losses(sets[data][embedder], signal))) for signal in signals]
    return f"### Embedder {embedder}\n\n{table(heads, rows)}"


def _losses(values: Mapping[str, Mapping[str, float]], signal: str) -> Iterator[str]:
    loss = {budget: values[""][budget] - values[signal][budget] for budget in values[""]}
    yield from (_points(loss[budget]) for budget in AT)
    yield _points(mean(loss.values()))


def _without(values: Mapping[str, Mapping[str, float]]) -> Iterator[Sequence[str]]:
    for signal, found in values.items():
        yield (signal or "(with all)", *(_percent(found[budget]) for budget in values[""]))


def _floor(results: Mapping[str, Any]) -> str:
    prompts = results["prompts"]
    quoted = {name: ", ".join(f"`{prompt}`" for prompt in prompts[name]) for name in prompts}
    parts = [
        f"""## Floor of relevance

What `memory_min_relevance` does at a budget of {results["floor_budget"]:,}, by its value.

Main questions for which nothing is injected, and the points of evidence that this costs, as in "1.0 / 0.8":""",
        _by_threshold(results, lambda found, zero: (
            f"{_percent(found['empty'])} / {_points(zero['evidence'] - found['evidence'])}"
        )),
        f"""Items that are injected for prompts that say nothing, in percent of those at 0. They are
{quoted["contentless"]}.""",
        _by_threshold(results, lambda found, zero: _kept(found, zero, "contentless")),
        f"""The same for prompts whose answers are in nobody's memory:
{quoted["off_topic"]}.""",
        _by_threshold(results, lambda found, zero: _kept(found, zero, "off_topic")),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _by_threshold(results: Mapping[str, Any], cell: Any) -> str:
    rows: list[Sequence[str]] = []
    thresholds: list[str] = []
    for data, systems in results["floor"].items():
        for system, found in systems.items():
            thresholds = list(found)
            rows.append((data, system, *(cell(found[one], found[thresholds[0]]) for one in thresholds)))
    return table(("data set", "", *(f"{float(one):g}" for one in thresholds)), rows)


def _kept(found: Mapping[str, float], zero: Mapping[str, float], prompts: str) -> str:
    return _percent(found[prompts] / zero[prompts]) if zero[prompts] else "none at 0"


def _more(results: Mapping[str, Any]) -> str:
    heads = ["", *(f"{name} {budget}" for name in MORE for budget in AT), "over"]
    about = (
        "Complete: all turns that answer the question are in the block. Partial: the share of their characters, "
        "sentence by sentence. Used: the share of the budget that the block takes. Over: blocks that were longer than "
        "the budget, at the worst budget; what was over is not counted."
    )
    parts = [f"## Other measures, main categories\n\n{about}"]
    for data, rows in results["recall"].items():
        lines: list[Sequence[str]] = []
        for system, row in rows.items():
            scores = row["scores"]["main"]
            over = max(one["over"] for one in scores.values())
            lines.append(
                (system, *(_percent(scores[budget][name]) for name in MORE for budget in AT), _percent(over))
            )  # fmt: skip
        parts.append(f"### {data}\n\n{table(heads, lines)}")
    return "\n\n".join(parts)


def _categories(results: Mapping[str, Any]) -> str:
    parts = ["## Evidence by category"]
    for data, rows in results["recall"].items():
        about = results["data"][data]
        for category, count in about["categories"].items():
            apart = "; not one of the main ones" if category == about["not_main"] else ""
            lines = [(system, *_evidence(row, category)) for system, row in rows.items()]
            heads = ("", *results["budgets"])
            parts.append(f"### {data}: {category} ({count} questions{apart})\n\n{table(heads, lines)}")
    return "\n\n".join(parts)


def _evidence(row: Mapping[str, Any], group: str) -> list[str]:
    return [_percent(one["evidence"]) for one in row["scores"][group].values()]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _points(share: float) -> str:
    text = f"{100 * share:.1f}"
    return "0.0" if text == "-0.0" else text
