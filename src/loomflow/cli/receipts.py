"""Receipts on a terminal and as JSON."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from loomflow.items import Kind
from loomflow.receipt import InjectedItem, Injection

from .display import console, one_line

STATUS_STYLES = {"injected": "green", "truncated": "yellow", "dropped": "bright_black"}
INDENT = "    "
MAX_DROPPED = 10
"""So many dropped items are shown in mode "fill", which looks at hundreds."""

_HEADINGS = ("status", "kind", "tokens", "rank", "decay", "score")
_ROW = "{:<9} {:<7} {:>6} {:>4} {:>5} {:>7}  {}"
_REASON_COLUMN = 45


def say_receipt(injection: Injection, *, stderr: bool = False, max_dropped: int | None = None) -> None:
    """Print a receipt: what was injected, what was left out, and why; in mode "fill" also by which signals.

    Args:
        injection: whose receipt.
        stderr: print it there.
        max_dropped: show only so many of the dropped items; by default all, in mode "fill" `MAX_DROPPED`.
    """
    output = console(stderr=stderr)
    summary, *_ = injection.explain().split("\n")
    output.print(Text(one_line(summary), style="bold"))
    for note in injection.over_budget + injection.problems:
        output.print(Text(f"! {one_line(note)}", style="yellow"))
    if not injection.items:
        output.print(Text("nothing was recalled"))
        return
    has_signals = any(item.signals for item in injection.items)
    if max_dropped is None and has_signals:
        max_dropped = MAX_DROPPED
    last = "reason; under it signals and text" if has_signals else "reason, and the text under it"
    output.print(Text(_ROW.format(*_HEADINGS, last), style="bold"), soft_wrap=True)
    dropped = 0
    for item in injection.items:
        dropped += item.status == "dropped"
        if max_dropped is None or item.status != "dropped" or dropped <= max_dropped:
            _say_item(output, item)
    if max_dropped is not None and dropped > max_dropped:
        output.print(Text(f"… and {dropped - max_dropped} more dropped", style="bright_black"))


def _say_item(output: Console, item: InjectedItem) -> None:
    first, *rest = textwrap.wrap(one_line(item.reason), max(output.width - _REASON_COLUMN, 20)) or [""]
    rank = "" if item.rank is None else str(item.rank)
    score = "" if item.score is None else f"{item.score:.5f}"
    row = _ROW.format(item.status, item.kind, item.tokens, rank, f"{item.decay:.3f}", score, first)
    lines = [row, *(" " * _REASON_COLUMN + part for part in rest)]
    output.print(Text("\n".join(lines), style=STATUS_STYLES[item.status]), soft_wrap=True)
    if item.signals:
        signals = signals_line(item.kind, item.signals, output.width - len(INDENT))
        output.print(Text(f"{INDENT}{signals}", style="bright_black"), soft_wrap=True)
    text = Text(f"{INDENT}{one_line(item.text)}")
    text.truncate(output.width, overflow="ellipsis")
    output.print(text, soft_wrap=True)


def signals_line(kind: Kind, signals: Mapping[str, float], width: int) -> str:
    """The signals of an item in one line of at most `width` characters, those first that moved its score most.

    >>> signals_line("episode", {"vector": 2.0, "question": 1.0, "nearby": 0.5}, 40)
    'nearby 0.50, vector 2.00, question 1.00'
    >>> signals_line("episode", {"vector": 2.0, "question": 1.0, "nearby": 0.5}, 30)
    'nearby 0.50, and 2 more'
    """
    scoring: Any = importlib.import_module("loomflow.index.scoring")  # loads NumPy, which no help needs
    weights: Mapping[str, float] = scoring.FACT_WEIGHTS if kind == "fact" else scoring.WEIGHTS
    strongest = sorted(signals, key=lambda name: -abs(weights.get(name, 0.0) * signals[name]))
    parts = [f"{one_line(name)} {signals[name]:.2f}" for name in strongest]
    for shown in range(len(parts), 0, -1):
        left = len(parts) - shown
        line = ", ".join([*parts[:shown], *([f"and {left} more"] if left else [])])
        if len(line) <= width:
            return line
    return f"{len(parts)} signals"


def injection_fields(injection: Injection) -> dict[str, Any]:
    """A receipt as JSON values."""
    return {name: value for name, value in asdict(injection).items() if name != "text"}
