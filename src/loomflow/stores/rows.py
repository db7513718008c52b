"""Between items and rows: how facts, episodes and blocks are written to columns and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from loomflow.checks import to_json
from loomflow.items import Episode, Fact, MemoryBlock, Source
from loomflow.moments import from_micros, to_micros
from loomflow.predicates import fact_key
from loomflow.records import Item, OpenRun, Turn
from loomflow.words import normal_form

Owner = int | str
"""What stands for a user in the rows that are theirs: a number, or their id itself."""

Row = Sequence[Any]
Frozen = TypeVar("Frozen")


class BuiltOnUse(Mapping[int, Item]):
    """Items by row number, made from their rows when asked for: a search reads more rows than are used."""

    def __init__(self, rows: Mapping[int, Row], build: Callable[[Row, str | None], Item], user: str | None) -> None:
        self._rows = rows
        self._build = build
        self._user = user

    def __getitem__(self, number: int) -> Item:
        return self._build(self._rows[number], self._user)

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _maybe_from_micros(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def block_of(row: Row, user: str | None) -> MemoryBlock:
    """A block from: name, content, updated_at, version."""
    name, content, updated_at, version = row
    return MemoryBlock(name, content, user_id=user, updated_at=from_micros(updated_at), version=version)


def episode_columns(episode: Episode, owner: Owner, turn: int) -> dict[str, object]:
    """The columns of an episode whose id and time are set."""
    return {
        "owner": owner,
        "id": episode.id,
        "session_id": episode.session_id,
        "turn": turn,
        "occurred_at": to_micros(episode.occurred_at),
        "input": episode.input,
        "output": episode.output,
        "user_name": episode.user_name,
        "agent_name": episode.agent_name,
        "metadata": to_json(episode.metadata),
    }


def episode_of(row: Row, user: str | None) -> Episode:
    """An episode from: no, id, session_id, occurred_at, input, output, user_name, agent_name, metadata, ..."""
    _, id_, session_id, occurred_at, input_, output, user_name, agent_name, metadata = row[:9]
    return _trusted(
        Episode,
        input=input_, output=output, session_id=session_id, user_id=user, occurred_at=from_micros(occurred_at),
        id=id_, metadata=_metadata(metadata), user_name=user_name, agent_name=agent_name,
    )  # fmt: skip


def turn_of(row: Row, user: str | None) -> Turn:
    """A turn from the columns of an episode, then: messages, turn, error, is_text, is_open."""
    messages, _, error, is_text, is_open = row[9:]
    if not is_open:
        return Turn(episode=episode_of(row, user), messages=messages)
    _, run_id, session_id, started_at, prompt = row[:5]
    run = OpenRun(run_id, session_id, prompt, from_micros(started_at), messages, error, bool(is_text))
    return Turn(interrupted=run, messages=messages)


def fact_columns(fact: Fact, owner: Owner) -> dict[str, object]:
    """The columns of a version of a fact."""
    subject_key, predicate_key = fact_key(fact)
    return {
        "owner": owner,
        "id": fact.id,
        "subject": fact.subject,
        "predicate": fact.predicate,
        "object": fact.object,
        "subject_key": subject_key,
        "predicate_key": predicate_key,
        "object_key": normal_form(fact.object),
        "valid_from": to_micros(fact.valid_from),
        "valid_until": to_micros(fact.valid_until),
        "recorded_at": to_micros(fact.recorded_at),
        "retired_at": to_micros(fact.retired_at),
        "confidence": fact.confidence,
        "source_episode_id": fact.source_episode_id,
        "metadata": to_json(fact.metadata),
        "origin": fact.origin,
        "quote": fact.quote,
        "told_at": to_micros(fact.told_at),
        "sources": sources_text(fact.sources),
    }


def sources_text(sources: Sequence[Source]) -> str | None:
    """The tellings of a fact as JSON: the fields of `Source` in order, times in microseconds."""
    rows = [
        [
            one.id, to_micros(one.told_at), to_micros(one.recorded_at), to_micros(one.valid_from),
            to_micros(one.valid_until), one.episode_id, one.quote, one.origin, one.confidence, one.metadata,
        ]
        for one in sources
    ]  # fmt: skip
    return json.dumps(rows, ensure_ascii=False) if rows else None


def _sources(text: str | None) -> tuple[Source, ...]:
    return tuple(
        _trusted(
            Source,
            id=id_, told_at=from_micros(told_at), recorded_at=from_micros(recorded_at),
            valid_from=_maybe_from_micros(valid_from), valid_until=_maybe_from_micros(valid_until),
            episode_id=episode_id, quote=quote, origin=origin, confidence=confidence, metadata=metadata,
        )
        for (
            id_, told_at, recorded_at, valid_from, valid_until, episode_id, quote, origin, confidence, metadata,
        ) in json.loads(text or "[]")
    )  # fmt: skip


def fact_of(row: Row, user: str | None) -> Fact:
    """A fact from: no, id, subject, predicate, object, valid_from, valid_until, recorded_at, retired_at, ...

    What a search reads has no sources: they are many, and not looked at.
    """
    (
        _, id_, subject, predicate, object_, valid_from, valid_until, recorded_at, retired_at,
        confidence, source_episode_id, metadata, origin, quote, told_at,
    ) = row[:15]  # fmt: skip
    return _trusted(
        Fact,
        subject=subject, predicate=predicate, object=object_, user_id=user, valid_from=_maybe_from_micros(valid_from),
        valid_until=_maybe_from_micros(valid_until), recorded_at=_maybe_from_micros(recorded_at),
        retired_at=_maybe_from_micros(retired_at), confidence=confidence, source_episode_id=source_episode_id, id=id_,
        metadata=_metadata(metadata), origin=origin, quote=quote, told_at=_maybe_from_micros(told_at),
        sources=_sources(row[15]) if len(row) > 15 else (),
    )  # fmt: skip


def _trusted(kind: type[Frozen], **fields: Any) -> Frozen:
    """An item of fields that were checked before they were written: checking twice costs more than reading."""
    item = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(item, name, value)
    return item


def _metadata(text: str) -> Mapping[str, Any]:
    return {} if text == "{}" else json.loads(text)
