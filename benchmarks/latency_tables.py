"""What the pages of results are written with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def ms(value: float) -> str:
    """Milliseconds, with as many digits as tell something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
