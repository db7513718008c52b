"""How a new fact changes what is believed: supersession over valid time and recorded time, as a pure function.

Nothing is overwritten. What changes is a new version with its own `recorded_at`, and the version before it is retired
at that moment. The two time axes are those of Snodgrass, "Developing Time-Oriented Database Applications in SQL",
2000.

Only a fact with the same subject and the same single-valued predicate can be superseded. Which predicates those are is
a list of names and endings; every other predicate gathers values, because a true fact that is retired by mistake (a
second allergy) does more harm than an old one that stays (it ranks below the new one and can be retracted).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from .checks import EARLIEST
from .items import Fact
from .words import normal_form

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

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
    """A predicate in the form in which it is compared: `Lives_In`, `livesIn` and `lives in` are one."""
    return normal_form(_CAMEL.sub(" ", predicate).replace("_", " ").replace("-", " "))


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
        The versions to retire and to add, the one that carries what was told last; empty if it is known to the letter.
    """
    believed = list(believed)
    old = next((fact for fact in believed if fact.id == new.id), None)
    peers = [fact for fact in believed if fact_key(fact) == fact_key(new) and fact is not old]
    if old is not None:
        return _replace(old, _corrected(old, new), peers)
    restated = [fact for fact in peers if _restates(new, fact)]
    told_before = max(restated, key=lambda fact: (_times(fact) == _times(new), started(fact)), default=None)
    if told_before is not None:
        others = [fact for fact in peers if fact is not told_before]
        return _replace(told_before, _confirmed(told_before, new, others), others)
    return _placed(peers, new)


def started(fact: Fact) -> datetime:
    """When a fact began, for ordering: its `valid_from`, else when it was recorded.

    One that was over when it was recorded, and began nobody knows when, began before everything.
    """
    assert fact.recorded_at is not None, "facts are ordered after recorded_at is set"
    if fact.valid_from is not None:
        return fact.valid_from
    return EARLIEST if _was_over(fact) else fact.recorded_at


def _was_over(fact: Fact) -> bool:
    assert fact.recorded_at is not None
    return fact.valid_from is None and fact.valid_until is not None and fact.valid_until <= fact.recorded_at


def _known_start(fact: Fact) -> datetime | None:
    """The start to write down before `recorded_at` moves on: unknown only for what was over when it was told."""
    return None if _was_over(fact) else started(fact)


def _restates(new: Fact, old: Fact) -> bool:
    """Whether `new` says of a time that `old` covers what `old` says."""
    if normal_form(new.object) != normal_form(old.object):
        return False
    if _times(new) == _times(old):
        return True
    if _was_over(new):
        return old.valid_from is None or old.valid_from < (new.valid_until or EARLIEST)
    return old.is_valid_at(started(new))


def _times(fact: Fact) -> tuple[datetime | None, datetime | None]:
    return fact.valid_from, fact.valid_until


def _corrected(old: Fact, new: Fact) -> Fact:
    kept = old.valid_from if new.valid_until is None or _fits(old.valid_from, new.valid_until) else None
    return replace(
        new,
        valid_from=new.valid_from or kept,
        metadata={**old.metadata, **new.metadata},
        source_episode_id=new.source_episode_id or old.source_episode_id,
    )


def _confirmed(old: Fact, new: Fact, others: Sequence[Fact]) -> Fact:
    start, until = old.valid_from or new.valid_from, new.valid_until or old.valid_until
    if others and new.valid_until is not None and old.valid_until is not None:
        until = min(new.valid_until, old.valid_until)  # where another value has followed, the end is known
    if others and start is None and started(old) > EARLIEST and (until is None or _fits(started(old), until)):
        start = started(old)  # among other values the first start counts, not that of the confirmation
    return replace(
        old,
        valid_from=start,
        valid_until=until,
        confidence=max(old.confidence, new.confidence),
        metadata={**old.metadata, **new.metadata},
        recorded_at=new.recorded_at,
        source_episode_id=new.source_episode_id or old.source_episode_id,
    )


def _fits(start: datetime | None, end: datetime) -> bool:
    return start is None or start <= end


def _replace(old: Fact, version: Fact, peers: Sequence[Fact]) -> FactChanges:
    """Put `version` in the place of `old`, never moving recorded time backwards."""
    if version == old:
        return FactChanges()
    moment = _later(old, version)
    changes = _placed(peers, replace(version, recorded_at=moment))
    return FactChanges(retire=(replace(old, retired_at=moment), *changes.retire), add=changes.add)


def _revise(old: Fact, version: Fact) -> FactChanges:
    moment = _later(old, version)
    return FactChanges(retire=(replace(old, retired_at=moment),), add=(replace(version, recorded_at=moment),))


def _later(old: Fact, new: Fact) -> datetime:
    assert old.recorded_at is not None
    assert new.recorded_at is not None
    return max(old.recorded_at, new.recorded_at)


def _placed(peers: Sequence[Fact], new: Fact) -> FactChanges:
    """Add a fact beside the others, or, of a single-valued predicate, in its place on the time line."""
    if not is_single_valued(new.predicate) or not peers:
        return FactChanges(add=(new,))
    place = _place_in_the_past if _was_over(new) else _place_from_its_start
    new, versions = place(peers, new)
    changes = [_revise(peer, replace(version, recorded_at=new.recorded_at)) for peer, version in versions]
    retire = tuple(fact for change in changes for fact in change.retire)
    return FactChanges(retire=retire, add=(*(fact for change in changes for fact in change.add), new))


Versions = list[tuple[Fact, Fact]]


def _place_from_its_start(peers: Sequence[Fact], new: Fact) -> tuple[Fact, Versions]:
    """It ends what was true when it began, and ends when the next value begins."""
    start = started(new)
    end = min((started(peer) for peer in peers if started(peer) > start), default=None)
    until = min((moment for moment in (new.valid_until, end) if moment is not None), default=None)
    ended = [
        (peer, replace(peer, valid_from=_known_start(peer), valid_until=start))
        for peer in peers
        if started(peer) <= start and (peer.valid_until is None or peer.valid_until > start)
    ]
    begun = [
        (peer, replace(peer, valid_from=started(peer)))
        for peer in peers
        if started(peer) > start and peer.valid_from is None
    ]
    return replace(new, valid_from=start, valid_until=until), [*ended, *begun]


def _place_in_the_past(peers: Sequence[Fact], new: Fact) -> tuple[Fact, Versions]:
    """It was over when it was told, and began nobody knows when: it ends nothing, and goes before what is known."""
    end = new.valid_until
    assert end is not None
    later = [p for p in peers if p.valid_from is None and (p.valid_until is None or p.valid_until > end)]
    known = [p for p in peers if p not in later and started(p) < end]
    until = min([started(p) for p in known if p.valid_until is None or p.valid_until >= end], default=end)
    start = max((min(p.valid_until or until, until) for p in known if started(p) < until), default=None)
    moved = [(p, replace(p, valid_from=max(started(p), end))) for p in later]
    return replace(new, valid_from=start, valid_until=until), moved
