"""From statements that passed the guards to changes of facts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from loomflow.checks import EARLIEST
from loomflow.errors import ConfigError
from loomflow.items import Episode, Fact
from loomflow.records import FactFilter, FactScript
from loomflow.transactions import Rules, canonical, correction, telling
from loomflow.words import normal_form

from .dates import moment_from, moment_until
from .statements import USER_NAMES, Statement

USER = "user"


def learning(statements: Iterable[Statement], episode: Episode, rules: Rules) -> FactScript[list[Fact]]:
    """Tell what statements say, in order; they were said when the episode took place.

    Returns:
        The versions written, or believed already, one for each statement.
    """
    written: list[Fact] = []
    for statement in statements:
        version = yield from _told(statement, fact_of(statement, episode), rules)
        written.append(version)
    return written


def fact_of(statement: Statement, episode: Episode) -> Fact:
    """The fact that a statement states, with where it is from."""
    at = episode.occurred_at
    assert at is not None
    since = _begun(statement.valid_from, at)
    until = moment_until(statement.valid_until, at) if statement.valid_until else None
    if statement.change == "ends" and until is None:
        until = at
    if since is not None and until is not None and until < since:
        since = None
    return Fact(
        _subject(statement.subject, episode), statement.predicate.strip(), statement.object.strip(),
        user_id=episode.user_id, valid_from=since, valid_until=until, confidence=statement.confidence,
        source_episode_id=episode.id, origin=statement.said_by, quote=statement.quote.strip(), told_at=at,
    )  # fmt: skip


def _begun(named: str | None, at: datetime) -> datetime | None:
    """When a period began. Of a month or a year that is going on, it is only known that it began before `at`."""
    since = moment_from(named) if named else None
    if named is None or since is None:
        return None
    if since.date() == at.date():
        return at  # today: after all that was said before
    return None if moment_until(named, at) == at else since


def _subject(name: str, episode: Episode) -> str:
    key = normal_form(name)
    is_user = key in USER_NAMES or (episode.user_name is not None and key == normal_form(episode.user_name))
    return USER if is_user else name.strip()


def _told(statement: Statement, fact: Fact, rules: Rules) -> FactScript[Fact]:
    if statement.change == "states":
        return (yield from telling(fact, rules))
    subject = yield from canonical(fact.subject)
    believed = yield FactFilter(subject=subject, predicate=fact.predicate)
    if statement.change == "ends":
        ended = _meant(fact.object, [one for one in believed if one.valid_until is None])
        return (yield from telling(fact if ended is None else replace(fact, object=ended.object), rules))
    wrong = None if statement.instead_of is None else _meant(statement.instead_of, believed)
    if wrong is None or wrong.id is None or (wrong.origin == "user" and fact.origin != "user"):
        return (yield from telling(fact, rules))
    try:
        return (yield from correction(wrong.id, _corrected(fact), rules))
    except ConfigError:  # the new times do not go with those that are known: it is told as it is
        return (yield from telling(fact, rules))


def _corrected(fact: Fact) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "object": fact.object, "confidence": fact.confidence, "quote": fact.quote, "origin": fact.origin,
        "source_episode_id": fact.source_episode_id,
    }  # fmt: skip
    times = {"valid_from": fact.valid_from, "valid_until": fact.valid_until}
    return fields | {name: moment for name, moment in times.items() if moment is not None}


def _meant(value: str, believed: Sequence[Fact]) -> Fact | None:
    """The fact with this value, or the only one that says it in more or fewer words; the last told of several."""
    key = normal_form(value)
    same = [fact for fact in believed if normal_form(fact.object) == key]
    if same:
        return max(same, key=_told_at)
    words = set(key.split())
    alike = [fact for fact in believed if _is_part(words, set(normal_form(fact.object).split()))]
    return alike[0] if len(alike) == 1 else None


def _is_part(a: set[str], b: set[str]) -> bool:
    return bool(a and b) and (a <= b or b <= a)


def _told_at(fact: Fact) -> datetime:
    return fact.told_at or fact.recorded_at or EARLIEST
