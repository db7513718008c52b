"""Draws `context.svg`: the parts of one request in the order in which they are sent, from an example of `context.md`.

    python docs/request.py

The first example is run, and what is drawn is the account of its last request. A test compares the drawing with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from timeline import STYLE, story

from loomflow.account import ContextAccount

FOLDER = Path(__file__).parent
PAGE, DRAWING = FOLDER / "context.md", FOLDER / "context.svg"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a request.

    Attributes:
        name: in the account.
        limit: what limits it, and the default.
        life: where it comes from, and whether it is stored.
        colour: of its bar.
    """

    name: str
    limit: str
    life: str
    colour: str


TAIL = "recall"
"""What stands right before the prompt where memory is placed at the tail."""

SECTIONS = (
    (
        "tools",
        (
            Part(
                "tools",
                "tool_definitions_token_budget: ¼ of the window",
                "the rest is found by search",
                "#6b7280",
            ),
        ),
    ),
    (
        "system section",
        (
            Part("instructions", "whole", "the agent's, the same in every run", "#3b82f6"),
            Part("blocks", "whole, and first of memory_token_budget", "read for each run, not stored in it", "#16a34a"),
            Part("recall", "memory_token_budget: none", "searched for each run, not stored in it", "#d97706"),
        ),
    ),
    (
        "messages",
        (
            Part("summary", "about a tenth of auto_compact_at_tokens", "made in this run, never stored", "#a855f7"),
            Part("history", "history_token_budget: ½ of the window", "whole turns of the session", "#0891b2"),
            Part("prompt", "whole", "stored before the model is asked", "#e11d48"),
            Part("transcript", "tool_result_max_tokens: 4,000 a result", "stored whole after the run", "#64748b"),
        ),
    ),
)
WIDTH, NAME, BAR, LONGEST, LIMIT = 880, 130, 234, 210, 520
TOP, ROW, BETWEEN, GHOST, BELOW = 72, 42, 10, 26, 56
HEIGHT = TOP + ROW * 8 + BETWEEN * 2 + GHOST + BELOW


async def drawing() -> str:
    """The drawing, as SVG that needs nothing else."""
    names = await story(PAGE)
    account: ContextAccount = names["result"].context
    await names["memory"].aclose()
    assert all(account.shares.values()), f"a part of the request is missing: {account.shares}"
    assert set(account.shares) == {part.name for _, parts in SECTIONS for part in parts}
    return "\n".join([*_ground(account), *_rows(account), "</svg>\n"])


def _ground(account: ContextAccount) -> Iterator[str]:
    head = f"One request: {account.total:,} tokens, for a window of {account.window:,}"
    shares = ", ".join(f"{part.name} {account.shares[part.name]:,}" for _, parts in SECTIONS for part in parts)
    about = f"The parts in the order in which they are sent, with their tokens: {shares}."
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-labelledby="title about">'
    yield f'  <title id="title">{escape(head)}</title>\n  <desc id="about">{escape(about)}</desc>'
    yield f"  <style>{STYLE}\n  </style>"
    yield f'  <rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>'
    yield f'  <text class="text head" x="16" y="28">{escape(head)}</text>'
    for x, label in ((16, "sent ↓"), (BAR, "tokens, to scale"), (LIMIT, "how much, by default")):
        yield f'  <text class="faint" x="{x}" y="{TOP - 16}">{label}</text>'
    limits = f"Above {account.compact_at:,} tokens the oldest messages become the summary (default: 0.8 of the window)."
    for y, note in ((34, limits), (14, "Above the window nothing is sent: ContextError.")):
        yield f'  <text class="text" x="16" y="{HEIGHT - y}">{escape(note)}</text>'


def _rows(account: ContextAccount) -> Iterator[str]:
    y, scale = TOP, LONGEST / max(account.shares.values())
    for section, parts in SECTIONS:
        yield f'  <path class="grid" d="M16 {y - BETWEEN / 2:g}H{WIDTH - 16}"/>'
        yield f'  <text class="faint" x="16" y="{y + 18}">{section}</text>'
        for part in parts:
            if part.name == "prompt":
                yield from _ghost(y)
                y += GHOST
            tokens = account.shares[part.name]
            width = max(tokens * scale, 2)
            yield f'  <text class="text value" x="{NAME}" y="{y + 18}">{part.name}</text>'
            shape = f'x="{BAR}" y="{y + 4}" width="{width:.1f}" height="20"'
            yield f'  <rect {shape} fill="{part.colour}" fill-opacity="0.75"/>'
            yield f'  <text class="text" x="{BAR + width + 8:.1f}" y="{y + 18}">{tokens:,}</text>'
            yield f'  <text class="text" x="{LIMIT}" y="{y + 14}">{escape(part.limit)}</text>'
            yield f'  <text class="faint" x="{LIMIT}" y="{y + 30}">{escape(part.life)}</text>'
            y += ROW
        y += BETWEEN


def _ghost(y: float) -> Iterator[str]:
    """Where recall stands instead, if memory is placed at the tail."""
    (colour,) = [part.colour for _, parts in SECTIONS for part in parts if part.name == TAIL]
    yield (
        f'  <rect x="{NAME - 6}" y="{y - 2}" width="{LIMIT - NAME - 14}" height="20" fill="none" stroke="{colour}" '
        'stroke-dasharray="4 3"/>'
    )
    note = f'{TAIL}, if memory_placement is "tail"'
    yield f'  <text class="text" x="{NAME}" y="{y + 12}">{escape(note)}</text>'


if __name__ == "__main__":
    DRAWING.write_text(asyncio.run(drawing()), encoding="utf-8")
