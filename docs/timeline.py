"""Draws `facts.svg`: the versions of a fact over valid and recorded time, from the first example of `facts.md`.

    python docs/timeline.py

The example is run, and what is drawn is what its memory then holds. A test compares the drawing with the code.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

from loomflow import Fact

FOLDER = Path(__file__).parent
PAGE, DRAWING = FOLDER / "facts.md", FOLDER / "facts.svg"
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)

EVENTS = (
    ("2026-01-10", "“I live in Porto, since 2019”"),
    ("2026-03-05", "“Two years ago I moved to Braga”"),
    ("2026-05-20", "“Before Porto I lived in Faro”"),
    ("2026-07-01", "corrected: it was Guimarães"),
    ("2026-09-01", "retracted: she never moved"),
)
"""What happened at each moment of recorded time; those of the example, or there is no drawing."""

ASKED = datetime(2025, 6, 1, tzinfo=UTC)
KNOWN = (datetime(2026, 5, 1, tzinfo=UTC), None)
FIRST, LAST = 2015, 2029
WIDTH, LEFT, RIGHT, TOP, BAND, BELOW = 880, 264, 856, 84, 58, 66
HEIGHT = TOP + BAND * len(EVENTS) + BELOW
COLOURS = {"Porto": "#3b82f6", "Braga": "#d97706", "Faro": "#16a34a", "Guimarães": "#a855f7"}
STYLE = """
    .ground { fill: #ffffff } .text { fill: #1f2328 } .faint { fill: #59636e } .grid { stroke: #d1d9e0 }
    .asked { stroke: #1f2328 } .point { fill: #1f2328 }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117 } .text { fill: #e6edf3 } .faint { fill: #9198a1 } .grid { stroke: #30363d }
      .asked { stroke: #e6edf3 } .point { fill: #e6edf3 }
    }
    text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
    .head { font-size: 16px; font-weight: 600 } .value { font-weight: 600 }"""
ABOUT = (
    "A rectangle for each version of a fact: across is when it is true, upwards is when it was believed. Porto reaches "
    "from 2019 without an end until March 2026, when Braga is told, which takes the time from February 2024 on. In May "
    "Faro is added before Porto. In July Braga becomes Guimarães, for the same time. In September that is retracted, "
    "and Porto is without an end again."
)


def example_of(page: Path) -> str:
    """The first example of a page."""
    match = EXAMPLE.search(page.read_text(encoding="utf-8"))
    assert match is not None, f"{page.name} has no example"
    return match[1]


async def story(page: Path = PAGE) -> dict[str, Any]:
    """What the first example of a page has made, by name, once it has run."""
    names: dict[str, Any] = {}
    code = compile(example_of(page), str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with redirect_stdout(StringIO()):
        outcome = eval(code, names)  # noqa: S307  (the page is ours)
        if inspect.iscoroutine(outcome):
            await outcome
    return names


async def drawing() -> str:
    """The drawing, as SVG that needs nothing else."""
    async with (await story())["memory"] as memory:
        versions = await memory.facts.history("user", "lives_in", user_id="ana")
        known = [f"{fact.recorded_at:%Y-%m-%d}" for fact in versions]
        assert set(known) == {date for date, _ in EVENTS}, f"the example records at other moments: {known}"
        answers: list[tuple[float, str]] = []
        for moment in KNOWN:
            found = await memory.facts.query(user_id="ana", predicate="lives_in", valid_at=ASKED, known_at=moment)
            when = f"known in {moment:%B}" if moment else "known now"
            answers.append((_y(moment, TOP + BAND / 2), f"{when}: {found[0].object}"))
    return "\n".join(
        [*_ground(), *(part for fact in versions for part in _version(fact)), *_asked(answers), "</svg>\n"]
    )


def _ground() -> Iterator[str]:
    head = "Where Ana lives: what is true when, and what was believed when"
    note = "A side without a line is open: still true to the right, still believed at the top."
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-labelledby="title about">'
    yield f'  <title id="title">{escape(head)}</title>\n  <desc id="about">{escape(ABOUT)}</desc>'
    yield f"  <style>{STYLE}\n  </style>"
    yield f'  <rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>'
    yield f'  <text class="text head" x="16" y="28">{escape(head)}</text>'
    yield f'  <text class="text" x="16" y="48">{escape(note)}</text>'
    yield f'  <text class="faint" x="16" y="{TOP - 10}">recorded time ↑ (not to scale)</text>'
    bottom = HEIGHT - BELOW
    for date, event in EVENTS:
        y = _y(datetime.fromisoformat(date).replace(tzinfo=UTC), 0)
        yield f'  <path class="grid" d="M16 {y:g}H{RIGHT}"/>'
        yield f'  <text class="text value" x="16" y="{y - 24:g}">{date}</text>'
        yield f'  <text class="text" x="16" y="{y - 8:g}">{escape(event)}</text>'
    for year in range(FIRST, LAST + 1, 2):
        x = _x(datetime(year, 1, 1, tzinfo=UTC), 0)
        yield f'  <path class="grid" d="M{x:g} {TOP}V{bottom}"/>'
        yield f'  <text class="text" x="{x:g}" y="{bottom + 20}" text-anchor="middle">{year}</text>'
    yield f'  <text class="faint" x="{(LEFT + RIGHT) / 2:g}" y="{bottom + 44}" text-anchor="middle">valid time →</text>'


def _version(fact: Fact) -> Iterator[str]:
    left, right = _x(fact.valid_from, LEFT), _x(fact.valid_until, RIGHT)
    bottom, top = _y(fact.recorded_at, 0), _y(fact.retired_at, TOP)
    colour = COLOURS[fact.object]
    sides = f"M{left:g} {top:g}V{bottom:g}H{right:g}"
    sides += f"V{top:g}" if fact.valid_until else f"M{right:g} {top:g}"
    sides += f"H{left:g}" if fact.retired_at else ""
    shape = f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}"'
    yield f'  <rect {shape} fill="{colour}" fill-opacity="0.22"/>'
    yield f'  <path fill="none" stroke="{colour}" stroke-width="2" d="{sides}"/>'
    yield f'  <text class="text value" x="{left + 10:g}" y="{bottom - 10:g}">{escape(fact.object)}</text>'


def _asked(answers: Sequence[tuple[float, str]]) -> Iterator[str]:
    x = _x(ASKED, 0)
    lowest = max(y for y, _ in answers)
    yield f'  <path class="asked" stroke-dasharray="3 3" d="M{x:g} {lowest:g}V{HEIGHT - BELOW}"/>'
    for y, answer in answers:
        yield f'  <circle class="point" cx="{x:g}" cy="{y:g}" r="4.5"/>'
        yield f'  <text class="text" x="{x + 10:g}" y="{y + 4:g}">{escape(answer)}</text>'
    yield f'  <text class="text" x="{x:g}" y="{HEIGHT - BELOW + 36}" text-anchor="middle">{ASKED:%Y-%m-%d}?</text>'


def _x(moment: datetime | None, otherwise: float) -> float:
    """Where a moment of valid time is, to scale."""
    if moment is None:
        return otherwise
    start, end = datetime(FIRST, 1, 1, tzinfo=UTC), datetime(LAST, 1, 1, tzinfo=UTC)
    return round(LEFT + (RIGHT - LEFT) * ((moment - start) / (end - start)), 1)


def _y(moment: datetime | None, otherwise: float) -> float:
    """Where a moment of recorded time is: a step for each event, and between two of them in proportion."""
    if moment is None:
        return otherwise
    known = [datetime.fromisoformat(date).replace(tzinfo=UTC) for date, _ in EVENTS]
    before = max(number for number, at in enumerate(known) if at <= moment)
    share = 0.0
    if before + 1 < len(known):
        share = (moment - known[before]) / (known[before + 1] - known[before])
    return round(HEIGHT - BELOW - BAND * (before + share), 1)


if __name__ == "__main__":
    DRAWING.write_text(asyncio.run(drawing()), encoding="utf-8")
