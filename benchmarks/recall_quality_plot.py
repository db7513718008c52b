"""The plot of `recall_quality.py`: evidence against the budget, a line a system, as SVG that needs nothing else.

The colours of the lines are legible on white and on near black; ground, text and grid follow the reader's scheme.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

WIDTH, HEIGHT = 880, 520
LEFT, RIGHT, TOP, BOTTOM = 56, 640, 72, 464
LABEL_X, LABEL_HEIGHT = 668, 18
OURS = {"fill": ("#2f81f7", "#16a34a", "#0891b2"), "top": ("#8b5cf6", "#c026d3", "#db2777")}
PEERS = ("#d97706", "#dc2626", "#7d8590", "#b45309", "#64748b", "#a16207", "#e0533d")
DASHES = ("7 4", "2 3", "10 3 2 3", "4 2", "12 4", "1 4", "6 2 1 2")
STYLE = """
    .ground { fill: #ffffff } .text { fill: #1f2328 } .grid { stroke: #d1d9e0 }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117 } .text { fill: #e6edf3 } .grid { stroke: #30363d }
    }
    text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
    .head { font-size: 16px; font-weight: 600 }"""


@dataclass(frozen=True, slots=True)
class Line:
    """A system: its evidence for each budget, and how its line is drawn."""

    name: str
    values: tuple[float, ...]
    colour: str
    dashes: str = ""


def plot(results: Mapping[str, Any]) -> str:
    """The evidence in the main categories of the data set with the most questions."""
    name = max(results["data"], key=lambda one: results["data"][one]["main"])
    budgets: list[int] = results["budgets"]
    lines = list(_lines(results["recall"][name]))
    head = f"Evidence in the block, {name}, {results['data'][name]['main']:,} questions"
    best = "; ".join(f"{line.name} {_range(line.values)}" for line in lines)
    about = f"Percent of the turns that answer a question, by budget from {budgets[0]} to {budgets[-1]} tokens. {best}."
    xs = [_x(budget, budgets) for budget in budgets]
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-labelledby="title about">',
        f'  <title id="title">{escape(head)}</title>',
        f'  <desc id="about">{escape(about)}</desc>',
        f"  <style>{STYLE}\n  </style>",
        f'  <rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
        f'  <text class="text head" x="{LEFT}" y="30">{escape(head)}</text>',
        f'  <text class="text" x="{LEFT}" y="50">solid: this project, by mode and embedder; dashed: peers</text>',
        *_grid(budgets, xs),
        *(part for line in lines for part in _drawn(line, xs)),
        *_labels(lines, xs[-1]),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _lines(rows: Mapping[str, Any]) -> Iterator[Line]:
    used = {"fill": 0, "top": 0, "": 0}
    for name, row in rows.items():
        mode = name.partition(", ")[0]
        if ", " in name and mode not in OURS:  # another way of counting
            continue
        kind = mode if ", " in name else ""
        place, used[kind] = used[kind], used[kind] + 1
        values = tuple(one["evidence"] for one in row["scores"]["main"].values())
        if kind:
            yield Line(name, values, OURS[kind][place % len(OURS[kind])])
        else:
            yield Line(name, values, PEERS[place % len(PEERS)], DASHES[place % len(DASHES)])


def _x(budget: int, budgets: Sequence[int]) -> float:
    low, high = math.log(budgets[0]), math.log(budgets[-1])
    return round(LEFT + (RIGHT - LEFT) * (math.log(budget) - low) / (high - low), 1)


def _y(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 1)


def _range(values: Sequence[float]) -> str:
    return f"{100 * values[0]:.0f} to {100 * values[-1]:.0f}"


def _grid(budgets: Sequence[int], xs: Sequence[float]) -> Iterator[str]:
    for percent in range(0, 101, 20):
        y = _y(percent / 100)
        yield f'  <path class="grid" d="M{LEFT} {y}H{RIGHT}"/>'
        yield f'  <text class="text" x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{percent} %</text>'
    for budget, x in zip(budgets, xs, strict=True):
        yield f'  <path class="grid" d="M{x} {TOP}V{BOTTOM}"/>'
        yield f'  <text class="text" x="{x}" y="{BOTTOM + 20}" text-anchor="middle">{budget:,}</text>'
    middle = (LEFT + RIGHT) / 2
    yield f'  <text class="text" x="{middle}" y="{BOTTOM + 42}" text-anchor="middle">budget in tokens</text>'


def _drawn(line: Line, xs: Sequence[float]) -> Iterator[str]:
    points = " ".join(f"{x},{_y(value)}" for x, value in zip(xs, line.values, strict=True))
    how = f'stroke-width="1.8" stroke-dasharray="{line.dashes}"' if line.dashes else 'stroke-width="2.6"'
    yield f'  <polyline fill="none" stroke="{line.colour}" {how} points="{points}"/>'
    for x, value in zip(xs, line.values, strict=True):
        yield f'  <circle cx="{x}" cy="{_y(value)}" r="2.6" fill="{line.colour}"/>'


def _labels(lines: Sequence[Line], x: float) -> Iterator[str]:
    """The names at the ends of the lines, moved apart where they would overlap."""
    ordered = sorted(lines, key=lambda line: -line.values[-1])
    places: list[float] = []
    for line in ordered:
        places.append(max(_y(line.values[-1]), places[-1] + LABEL_HEIGHT if places else TOP))
    for place in range(len(places) - 1, -1, -1):  # those that were moved below the axis move the others up
        below = places[place + 1] - LABEL_HEIGHT if place + 1 < len(places) else float(BOTTOM)
        places[place] = min(places[place], below)
    for line, y in zip(ordered, places, strict=True):
        yield (
            f'  <path fill="none" stroke="{line.colour}" d="M{x + 4} {_y(line.values[-1])}L{LABEL_X - 5} {y}"/>'
            f'<text class="text" x="{LABEL_X}" y="{y + 4}">{escape(line.name)}</text>'
        )
