"""How the costs grow with the number of episodes of a user: the numbers of each size, a table, and a plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pages import ms, table
from plot import Axis, Line, Panel, chart, log_axis


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity, and how it is drawn."""

    name: str
    colour: str
    dashes: str = ""


TIMES = {
    "inject": Curve("inject, top", "#2f81f7"),
    "inject_fill": Curve("inject, fill", "#16a34a"),
    "cold": Curve("cold first inject, top", "#2f81f7", "7 4"),
    "cold_fill": Curve("cold first inject, fill", "#16a34a", "7 4"),
    "remember": Curve("remember", "#d97706"),
}
"""CPU in milliseconds."""
SIZES = {
    "file": Curve("file", "#8b5cf6"),
    "memory": Curve("memory over the import", "#db2777"),
}
"""Megabytes."""


def point(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of one size, out of what was measured at it."""
    numbers = {case: values[case]["cpu_ms"]["median"] for case in ("inject", "inject_fill", "remember")}
    numbers |= {case: values[case]["first_inject"]["cpu_ms"] for case in ("cold", "cold_fill")}
    numbers["file"] = values["build"]["file_mb"]
    numbers["memory"] = values["cold_fill"]["peak_mb"] - values["cold_fill"]["resident_mb"]["imported"]
    return {key: round(numbers[key], 3) for key in TIMES | SIZES}


def growth(results: Mapping[str, Any]) -> str:
    """The table of all sizes."""
    points: Mapping[str, Mapping[str, float]] = results["growth"]
    rows = [
        (f"{int(size):,}", *(ms(of[key]) for key in TIMES), f"{of['file']:.1f}", f"{of['memory']:.0f}")
        for size, of in points.items()
    ]
    heads = ("episodes", *(f"{curve.name}, CPU ms" for curve in TIMES.values()), "file MB", "memory MB")
    return (
        "## Growth\n\nOf one user, medians. Cold is the first inject of a fresh process, with the embedder loaded. "
        "Memory is the highest resident memory of that process above that after the import of the package: it is "
        "of numpy, the embedder, and the user's index.\n\n"
        f"{table(heads, rows)}\n\n![Cost against the number of episodes](latency_growth.svg)"
    )


def plot(results: Mapping[str, Any]) -> str:
    """Times and sizes over the number of episodes."""
    points = {int(size): of for size, of in results["growth"].items()}
    sizes = list(points)

    def panel(label: str, curves: Mapping[str, Curve], height: int) -> Panel:
        lines = tuple(
            Line(curve.name, tuple((size, of[key]) for size, of in points.items()), curve.colour, curve.dashes)
            for key, curve in curves.items()
        )
        return Panel(log_axis(label, [value for line in lines for _, value in line.points]), lines, height)

    ends = "; ".join(
        f"{curve.name} {points[sizes[0]][key]:,.3g} to {points[sizes[-1]][key]:,.3g}"
        for key, curve in (TIMES | SIZES).items()
    )
    return chart(
        "Cost against the number of episodes of one user",
        f"inject with a budget of 1,500 tokens; {results['machine']['processor']}; medians; both axes logarithmic",
        f"From {sizes[0]:,} to {sizes[-1]:,} episodes, CPU in milliseconds and sizes in megabytes. {ends}.",
        Axis("episodes", {size: f"{size:,}" for size in sizes}),
        [panel("CPU, milliseconds", TIMES, 300), panel("Megabytes", SIZES, 150)],
    )
