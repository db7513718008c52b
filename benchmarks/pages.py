"""What the pages of results are written with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


def ms(value: float) -> str:
    """Milliseconds, with as many digits as tell something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(heads: Iterable[object], rows: Iterable[Sequence[object]], *, texts: int | None = None) -> str:
    """A table of Markdown; its columns after so many `texts` are numbers, which stand to the right."""
    named = list(heads)
    rule = ["---" if texts is None or column < texts else "---:" for column in range(len(named))]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in (named, rule, *rows))


def print_and_keep(page: Callable[[], str], results: Path, about: str | None) -> None:
    """Run a script that has one page: print it, and write it to `results` or where `--output` says."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--output", type=Path, default=results, help="where the page is written (default: %(default)s)")
    options = parser.parse_args()
    text = page()
    options.output.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
