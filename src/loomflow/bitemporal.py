"""How a new fact changes what is believed: supersession over valid time and recorded time, as a pure function.

Nothing is overwritten. What changes is a new version with its own `recorded_at`, and the version before it is retired
at that moment. The two time axes are those of Snodgrass, "Developing Time-Oriented Database Applications in SQL",
2000.

Only a fact with the same subject and the same single-valued predicate can be superseded. Which predicates those are is
a list of names and endings; every other predicate gathers values, because a true fact that is retired by mistake (a
second allergy) does more harm than an old one that stays (it ranks below the new one and can be retracted).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from .items import Fact
from .words import normal_form

SINGLE_VALUED = frozenset(
    name.strip()
    for name in """
    name, full name, first name, last name, nickname, age, birthday, born on, born in, date of birth, birthplace,
    gender, pronouns, lives in, lives at, live in, resides in, residence, home, home city, home town, hometown,
    city, country, town, state, address, location, located in, based in, moved to, current city, current location,
    timezone, time zone, native language, preferred language, language preference, works at, works for, work at,
    work for, employer, employed by, company, workplace, job, job title, title, role, position, occupation,
    profession, works as, is employed at, is employed by, reports to, manager, boss, salary, department, married
    to, spouse, wife, husband, partner, fiance, marital status, relationship status, email, email address, phone,
    phone number, mobile, username, handle, website, status, mood, weight, height, blood type, diet, nationality,
    religion, school, university, studies at, attends, major, plan, subscription, tier, account number, passport
    number
    """.split(",")
)
"""Predicates that hold one value at a time, in normal form."""

SINGLE_VALUED_STARTS = ("favorite ", "favourite ", "current ", "preferred ", "primary ", "main ", "default ")
SINGLE_VALUED_ENDS = (" name", " email", " phone", " address", " status", " birthday", " age", " timezone")


def predicate_key(predicate: str) -> str:
    """A predicate in the form in which it is compared: `Lives_In` and `lives in` are one."""
    return normal_form(predicate.replace("_", " ").replace("-", " "))


@lru_cache(maxsize=4096)
def is_single_valued(predicate: str) -> bool:
    """Whether a subject has one value at a time for this predicate.

    >>> is_single_valued("lives_in"), is_single_valued("allergic_to")
    (True, False)
    """
    key = predicate_key(predicate)
    return key in SINGLE_VALUED or key.startswith(SINGLE_VALUED_STARTS) or key.endswith(SINGLE_VALUED_ENDS)


def fact_key(fact: Fact) -> tuple[str, str]:
    """Subject and predicate in normal form: facts with equal keys are about the same thing."""
    return normal_form(fact.subject), predicate_key(fact.predicate)


@dataclass(frozen=True, slots=True)
class FactChanges:
    """What to write: versions to retire (each with `retired_at` set) and versions to add."""

    retire: tuple[Fact, ...] = ()
    add: tuple[Fact, ...] = ()


def supersede(believed: Iterable[Fact], new: Fact) -> FactChanges:
    """Say how `new` changes the facts believed now.

    Args:
        believed: versions not retired that share the key of `new`, or its id; others are left alone.
        new: the fact as told, with `id` and `recorded_at` set.

    Returns:
        The versions to retire and to add; empty if `new` is known already, to the letter.
    """
    believed = list(believed)
    same_id = next((fact for fact in believed if fact.id == new.id), None)
    if same_id is not None:
        return _correct(same_id, new)
    peers = [fact for fact in believed if fact_key(fact) == fact_key(new)]
    told_before = next((fact for fact in peers if _restates(new, fact)), None)
    if told_before is not None:
        return _confirm(told_before, new)
    return _place(peers, new) if is_single_valued(new.predicate) else FactChanges(add=(new,))


def started(fact: Fact) -> datetime:
    """When a fact began, for ordering: its `valid_from`, else when it was recorded."""
    start = fact.valid_from or fact.recorded_at
    assert start is not None, "facts are ordered after recorded_at is set"
    return start


def _restates(new: Fact, old: Fact) -> bool:
    return normal_form(new.object) == normal_form(old.object) and (
        old.is_valid_at(started(new)) or (old.valid_from, old.valid_until) == (new.valid_from, new.valid_until)
    )


def _correct(old: Fact, new: Fact) -> FactChanges:
    corrected = replace(
        new,
        valid_from=new.valid_from or old.valid_from,
        metadata={**old.metadata, **new.metadata},
        source_episode_id=new.source_episode_id or old.source_episode_id,
    )
    if replace(corrected, recorded_at=old.recorded_at) == old:
        return FactChanges()
    return _revise(old, corrected)


def _confirm(old: Fact, new: Fact) -> FactChanges:
    confirmed = replace(
        old,
        confidence=max(old.confidence, new.confidence),
        metadata={**old.metadata, **new.metadata},
        recorded_at=new.recorded_at,
        valid_until=new.valid_until or old.valid_until,
        source_episode_id=new.source_episode_id or old.source_episode_id,
    )
    return FactChanges() if confirmed == old else _revise(old, confirmed)


def _revise(old: Fact, version: Fact) -> FactChanges:
    """Replace a version by another, never moving recorded time backwards."""
    moment = _later(old.recorded_at, version.recorded_at)
    return FactChanges(retire=(replace(old, retired_at=moment),), add=(replace(version, recorded_at=moment),))


def _later(a: datetime | None, b: datetime | None) -> datetime | None:
    return max(moment for moment in (a, b) if moment is not None)


def _place(peers: Sequence[Fact], new: Fact) -> FactChanges:
    """Put a value of a single-valued predicate in its place on the time line."""
    start = started(new)
    overlapped = [p for p in peers if started(p) <= start and (p.valid_until is None or p.valid_until > start)]
    following = min((p for p in peers if started(p) > start), key=started, default=None)
    retire: list[Fact] = []
    add: list[Fact] = []
    for peer in overlapped:
        changes = _revise(peer, replace(peer, valid_until=start, recorded_at=new.recorded_at))
        retire += changes.retire
        add += changes.add
    if following is not None:
        end = started(following)
        if new.valid_until is None or new.valid_until > end:
            new = replace(new, valid_until=end)
        if following.valid_from is None:
            changes = _revise(following, replace(following, valid_from=end))
            retire += changes.retire
            add += changes.add
    if overlapped or following is not None:
        new = replace(new, valid_from=start)
    return FactChanges(retire=tuple(retire), add=(*add, new))
