"""The plot of `recall_quality.py`: evidence against the budget, a line a system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from plot import Axis, Line, Panel, chart

HEIGHT = 400
OURS = {"fill": ("#2f81f7", "#16a34a", "#d97706"), "top": ("#8b5cf6", "#c026d3", "#db2777")}
PEERS = ("#dc2626", "#7d8590", "#a16207", "#0891b2", "#64748b", "#b45309", "#e0533d")
DASHES = ("7 4", "2 3", "10 3 2 3", "4 2", "12 4", "1 4", "6 2 1 2")


def plot(results: Mapping[str, Any]) -> str:
    """The evidence in the main categories of the data set with the most questions, as SVG."""
    name = max(results["data"], key=lambda one: results["data"][one]["main"])
    budgets: list[int] = results["budgets"]
    lines = tuple(_lines(results["recall"][name], budgets))
    values = "; ".join(f"{line.name} {100 * line.points[0][1]:.0f} to {100 * line.points[-1][1]:.0f}" for line in lines)
    return chart(
        f"Evidence in the block, {name}, {results['data'][name]['main']:,} questions",
        "solid: this project, by mode and embedder" + ("; dashed: peers" if "peers" in results else ""),
        f"Percent of the turns that answer a question, by budget from {budgets[0]} to {budgets[-1]} tokens. {values}.",
        Axis("budget in tokens", {budget: f"{budget:,}" for budget in budgets}),
        [Panel(Axis("evidence", {tick / 100: f"{tick} %" for tick in range(0, 101, 20)}, is_log=False), lines, HEIGHT)],
    )


def _lines(rows: Mapping[str, Any], budgets: list[int]) -> Iterator[Line]:
    used = {"fill": 0, "top": 0, "": 0}
    for name, row in rows.items():
        mode, of_ours, _ = name.partition(", ")
        if of_ours and mode not in OURS:  # another way of counting
            continue
        kind = mode if of_ours else ""
        place, used[kind] = used[kind], used[kind] + 1
        points = tuple(zip(budgets, (one["evidence"] for one in row["scores"]["main"].values()), strict=True))
        if kind:
            yield Line(name, points, OURS[kind][place % len(OURS[kind])])
        else:
            yield Line(name, points, PEERS[place % len(PEERS)], DASHES[place % len(DASHES)])
