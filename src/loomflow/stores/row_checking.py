"""Whether a user's rows can be decoded: each of them is, and looked at by type."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from loomflow.items import Episode, Fact

from .database import Database, Owner
from .rows import Row, block_of, episode_of, fact_of
from .segments import EPISODE, KINDS

DAMAGED: Final = (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError)
"""What decoding a damaged row raises."""

_EPISODE_TEXTS = ("id", "session_id", "input", "output")
_FACT_TEXTS = ("id", "subject", "predicate", "object", "origin")


def items_of(db: Database, owner: Owner, kind: int) -> tuple[dict[int, Episode | Fact], list[str]]:
    """A user's episodes, or all versions of their facts, by row number; and the ids of those that cannot be decoded."""
    build, texts = (episode_of, _EPISODE_TEXTS) if kind == EPISODE else (fact_of, _FACT_TEXTS)
    items: dict[int, Episode | Fact] = {}
    bad: list[str] = []
    for row in db.run(f"all_{KINDS[kind]}", {"owner": owner}):
        try:
            items[row[0]] = _sound(build(row, None), texts)
        except DAMAGED:
            bad.append(str(row[1]))
    return items, bad


def undecodable_of(db: Database, owner: Owner) -> list[tuple[str, list[str]]]:
    """Tables in which rows of a user cannot be decoded, and what names these rows."""
    tables: list[tuple[str, str, Callable[[Row], object]]] = [
        ("blocks and their versions", "every_block", _block),
        ("episode_messages", "user_messages", lambda row: _list(row[1])),
        ("open_runs", "user_open_runs", lambda row: (_text(row[2]), row[3] and _list(row[3]), int(row[1]))),
    ]
    found: list[tuple[str, list[str]]] = []
    for table, query, decode in tables:
        bad = [str(row[0]) for row in db.run(query, {"owner": owner}) if not _decodes(row, decode)]
        if bad:
            found.append((table, bad))
    return found


def _decodes(row: Row, decode: Callable[[Row], object]) -> bool:
    try:
        decode(row)
    except DAMAGED:
        return False
    return True


def _sound(item: Episode | Fact, texts: tuple[str, ...]) -> Episode | Fact:
    for name in texts:
        _text(getattr(item, name))
    dict(item.metadata)
    if isinstance(item, Fact):
        float(item.confidence)
    return item


def _block(row: Row) -> None:
    block = block_of(row, None)
    _text(block.name)
    _text(block.content)


def _text(value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")


def _list(text: Any) -> None:
    if not isinstance(json.loads(text), list):
        raise TypeError("not a list")
