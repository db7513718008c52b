"""Line charts as SVG that needs nothing else.

The colours of the lines are to be legible on white and on near black; ground, text and grid follow the reader's scheme.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT, LABEL_X = 880, 64, 640, 668
TOP, BELOW, BETWEEN = 96, 56, 48
"""Room above the first panel, below the last one, and between two."""
LABEL_HEIGHT = 18
STYLE = """
    .ground { fill: #ffffff } .text { fill: #1f2328 } .grid { stroke: #d1d9e0 }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117 } .text { fill: #e6edf3 } .grid { stroke: #30363d }
    }
    text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
    .head { font-size: 16px; font-weight: 600 }"""


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows, and its ticks: values, and how they are written. It goes from the least to the greatest."""

    label: str
    ticks: Mapping[float, str]
    is_log: bool = True

    def share(self, value: float) -> float:
        """Where a value lies between the ends, from 0 to 1."""
        low, high, here = min(self.ticks), max(self.ticks), value
        if self.is_log:
            low, high, here = math.log(low), math.log(high), math.log(value)
        return (here - low) / (high - low) if high > low else 0.5


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its points in order, and how it is drawn."""

    name: str
    points: tuple[tuple[float, float], ...]
    colour: str
    dashes: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over one vertical axis."""

    y: Axis
    lines: tuple[Line, ...]
    height: int


def log_axis(label: str, values: Sequence[float]) -> Axis:
    """A logarithmic axis around values, with ticks at 1, 2 and 5 times the powers of ten, or at fewer if it is long."""
    low, high = min(values), max(values)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 2 else (1, 3)
    every = sorted(float(f"{step}e{decade}") for decade in decades for step in steps)
    first = max(at for at, tick in enumerate(every) if tick <= low)
    last = min((at for at, tick in enumerate(every) if tick >= high), default=len(every) - 1)
    return Axis(label, {tick: f"{tick:,g}" for tick in every[first : max(last, first + 1) + 1]})


def chart(head: str, note: str, about: str, x: Axis, panels: Sequence[Panel]) -> str:
    """Panels under one another, over the same horizontal axis.

    Args:
        head: the title.
        note: a line below it.
        about: the same in words, for who cannot see it.
        x: the horizontal axis.
        panels: at least one, the first on top.
    """
    height = TOP + sum(panel.height for panel in panels) + BETWEEN * (len(panels) - 1) + BELOW
    box = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-labelledby="title about">',
        f'  <title id="title">{escape(head)}</title>',
        f'  <desc id="about">{escape(about)}</desc>',
        f"  <style>{STYLE}\n  </style>",
        f'  <rect class="ground" width="{WIDTH}" height="{height}"/>',
        f'  <text class="text head" x="{LEFT}" y="30">{escape(head)}</text>',
        f'  <text class="text" x="{LEFT}" y="50">{escape(note)}</text>',
    ]
    top = TOP
    for panel in panels:
        parts += _panel(panel, x, top)
        top += panel.height + BETWEEN
    bottom = top - BETWEEN
    for value, text in x.ticks.items():
        parts.append(f'  <text class="text" x="{_x(x, value)}" y="{bottom + 20}" text-anchor="middle">{text}</text>')
    middle = (LEFT + RIGHT) / 2
    parts.append(f'  <text class="text" x="{middle}" y="{bottom + 42}" text-anchor="middle">{escape(x.label)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, x: Axis, top: int) -> Iterator[str]:
    bottom = top + panel.height

    def y(value: float) -> float:
        return round(bottom - panel.height * panel.y.share(value), 1)

    yield f'  <text class="text" x="{LEFT}" y="{top - 12}">{escape(panel.y.label)}</text>'
    for value, text in panel.y.ticks.items():
        yield f'  <path class="grid" d="M{LEFT} {y(value)}H{RIGHT}"/>'
        yield f'  <text class="text" x="{LEFT - 8}" y="{y(value) + 4:g}" text-anchor="end">{text}</text>'
    for value in x.ticks:
        yield f'  <path class="grid" d="M{_x(x, value)} {top}V{bottom}"/>'
    for line in panel.lines:
        points = [(_x(x, at), y(value)) for at, value in line.points]
        how = f'stroke-width="1.8" stroke-dasharray="{line.dashes}"' if line.dashes else 'stroke-width="2.6"'
        joined = " ".join(f"{at},{value}" for at, value in points)
        yield f'  <polyline fill="none" stroke="{line.colour}" {how} points="{joined}"/>'
        for at, value in points:
            yield f'  <circle cx="{at}" cy="{value}" r="2.6" fill="{line.colour}"/>'
    yield from _labels([(line, _x(x, line.points[-1][0]), y(line.points[-1][1])) for line in panel.lines], top, bottom)


def _labels(ends: Sequence[tuple[Line, float, float]], top: float, bottom: float) -> Iterator[str]:
    """The names at the ends of the lines, moved apart where they would overlap."""
    ordered = sorted(ends, key=lambda end: end[2])
    places: list[float] = []
    for _, _, y in ordered:
        places.append(max(y, places[-1] + LABEL_HEIGHT if places else top))
    for place in range(len(places) - 1, -1, -1):  # those that were moved below the axis move the others up
        below = places[place + 1] - LABEL_HEIGHT if place + 1 < len(places) else bottom
        places[place] = min(places[place], below)
    for (line, x, y), at in zip(ordered, places, strict=True):
        yield (
            f'  <path fill="none" stroke="{line.colour}" d="M{x + 4:g} {y}L{LABEL_X - 5} {at:g}"/>'
            f'<text class="text" x="{LABEL_X}" y="{at + 4:g}">{escape(line.name)}</text>'
        )


def _x(axis: Axis, value: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * axis.share(value), 1)
