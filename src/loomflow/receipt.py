"""The receipt of an injection: what was put in front of the model, what was left out, and why."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from .items import Kind

Status = Literal["injected", "truncated", "dropped"]


@dataclass(frozen=True, slots=True)
class InjectedItem:
    """One candidate of an injection and its fate.

    Attributes:
        kind: "block", "fact" or "episode".
        id: of the fact or episode; the name of a block.
        text: as it stands in the block, without its bullet; for a dropped item, as it would have stood.
        tokens: of the line, bullet included.
        rank: place in the recall of its own kind, from 0; None for blocks.
        relevance: 1 / (60 + rank + 1) (rule R6); in mode "fill" the score of its signals on a scale from 0 to 1, half
            of it for a fact that the agent or a tool said; None for blocks.
        decay: 0 to 1 (rule R7); 1 where decay is off.
        score: relevance times decay; None for blocks.
        status: "injected", "truncated" or "dropped".
        reason: why, in a few words.
        lexical_rank, vector_rank: places in the two searches behind the recall; None if not found there.
        signals: in mode "fill", what its relevance is made of (see `loomflow.index.scoring`); empty otherwise.
    """

    kind: Kind
    id: str
    text: str
    tokens: int
    rank: int | None
    relevance: float | None
    decay: float
    score: float | None
    status: Status
    reason: str
    lexical_rank: int | None = None
    vector_rank: int | None = None
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class MemoryAction:
    """One use of a memory tool by the model in the run.

    Attributes:
        tool: "remember", "correct", "forget", "search_memory" or "edit_block".
        arguments: what the model gave, in one line.
        outcome: what the tool answered.
        tokens: of the answer, by the estimate.
    """

    tool: str
    arguments: str
    outcome: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Injection:
    """The rendered memory block of one run, together with its receipt.

    Attributes:
        text: the block, empty when there is nothing to inject.
        tokens: of `text`, by the configured counter.
        budget: the ceiling that applied; None without one.
        items: every candidate, in the order of packing.
        pinned_tokens: of the part that is never cut: the working blocks, without the note above them.
        pinned: the working blocks in `text`, word for word.
        over_budget: why `tokens` is above `budget`; empty if it is not. Only pinned blocks and the minimal excerpt
            can cause it.
        problems: what failed while recalling; the block was made from what could be read.
        actions: what the model did with its memory tools in the run; empty before it, and where it has none.
        query, user_id, session_id, at, half_life_days: what it was made for.
    """

    text: str
    tokens: int
    budget: int | None
    items: tuple[InjectedItem, ...]
    query: str
    user_id: str | None
    session_id: str | None
    at: datetime
    half_life_days: float | None = None
    pinned_tokens: int = 0
    pinned: str = ""
    over_budget: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    actions: tuple[MemoryAction, ...] = ()

    @property
    def recalled(self) -> str:
        """`text` without the working blocks: what was recalled, and the note that it is data."""
        if not self.pinned:
            return self.text
        note, found = (part.strip("\n") for part in self.text.split(self.pinned, 1))
        return "\n".join(part for part in (note, found) if part) if found else ""

    def explain(self) -> str:
        """The receipt as a table in plain text."""
        lines = [self._summary(), *(f"! {note}" for note in self.over_budget + self.problems)]
        done = [f"tool {action.tool}({action.arguments}): {_one_line(action.outcome)}" for action in self.actions]
        if not self.items:
            return "\n".join([*lines, "Nothing was recalled.", *done])
        rows = [self._headings(), *(self._cells(item) for item in self.items)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        for row in rows:
            cells = [
                cell.rjust(width) if column in _NUMERIC else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=False))
            ]
            lines.append("  ".join([*cells, row[-1]]).rstrip())
        return "\n".join([*lines, *done])

    def _repr_html_(self) -> str:
        """The receipt as an HTML table, shown by notebooks. Stored text is escaped."""
        notes = "".join(f"<p><b>{html.escape(note)}</b></p>" for note in self.over_budget + self.problems)
        head = "".join(f"<th>{heading}</th>" for heading in self._headings())
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in self._cells(item)) + "</tr>"
            for item in self.items
        )
        done = "".join(
            f"<li>{html.escape(f'{action.tool}({action.arguments}): {action.outcome}')}</li>" for action in self.actions
        )
        actions = f"<ul>{done}</ul>" if done else ""
        return (
            f"<p>{html.escape(self._summary())}</p>{notes}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
            f"</table>{actions}<pre>{html.escape(self.text)}</pre>"
        )

    def _headings(self) -> tuple[str, ...]:
        return (*_HEADINGS[:-1], "signals", "text") if self._has_signals else _HEADINGS

    def _cells(self, item: InjectedItem) -> tuple[str, ...]:
        cells = _cells(item)
        if not self._has_signals:
            return cells
        return (*cells[:-1], " ".join(f"{name}={value:.2f}" for name, value in item.signals.items()), cells[-1])

    @property
    def _has_signals(self) -> bool:
        return any(item.signals for item in self.items)

    def _summary(self) -> str:
        ceiling = "no budget" if self.budget is None else f"budget {self.budget}"
        half_life = f", half-life {self.half_life_days:g} days" if self.half_life_days else ""
        counts = ", ".join(
            f"{sum(item.status == status for item in self.items)} {status}"
            for status in ("injected", "truncated", "dropped")
        )
        return f"{self.tokens} tokens ({ceiling}{half_life}): {counts}"


_HEADINGS = ("status", "kind", "rank", "decay", "score", "tokens", "reason", "text")
_NUMERIC = {2, 3, 4, 5}
_TEXT_SHOWN = 60


def _cells(item: InjectedItem) -> tuple[str, ...]:
    text = _one_line(item.text)
    return (
        item.status,
        item.kind,
        "" if item.rank is None else str(item.rank),
        f"{item.decay:.3f}",
        "" if item.score is None else f"{item.score:.5f}",
        str(item.tokens),
        item.reason,
        text,
    )


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SHOWN else f"{line[: _TEXT_SHOWN - 1]}…"
