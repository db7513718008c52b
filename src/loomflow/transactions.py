"""Changes of facts, step by step: what is read, and what is written, within one transaction of the store.

Each is a generator that yields what it wants to read (`FactFilter`, answered with facts) and what is to be written
(`FactChanges`), and returns its result; the store carries it out, whatever database it speaks to. No step does I/O.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from .bitemporal import FactChanges, SingleValued, are_of_one_thing, retired, settle, supersede, told_times
from .checks import EARLIEST
from .errors import ConfigError
from .items import Fact, new_id
from .predicates import SAME_AS, is_single_valued, predicate_key
from .records import FactFilter, FactScript
from .words import normal_form

MOST_NAMES = 16
"""So many names of one subject are followed."""

Reading = Generator[FactFilter | FactChanges, list[Fact], list[Fact]]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the changes go by.

    Attributes:
        now: the present moment.
        single_valued: which predicates hold one value at a time.
    """

    now: datetime
    single_valued: SingleValued = is_single_valued


def telling(fact: Fact, rules: Rules, *, is_whole: bool = False) -> FactScript[Fact]:
    """Add one fact as told: it ends, confirms or corrects what is believed, see `loomflow.bitemporal`.

    Args:
        fact: as told.
        rules: what it goes by.
        is_whole: whether a fact with a known id says all of it; else, what it does not say is kept.

    Returns:
        The version written, or the one that is believed if it changes nothing.
    """
    told = replace(fact, id=fact.id or new_id(), retired_at=None, sources=())
    if predicate_key(told.predicate) != predicate_key(SAME_AS):
        told = replace(told, subject=(yield from canonical(told.subject)))
    concerned = yield from about(told, rules.single_valued)
    if told.recorded_at is None:
        told = replace(told, recorded_at=_after(concerned, rules.now))
        if told.recorded_at != rules.now:  # it was recorded after what is known, and told now
            told = replace(told, told_at=told.told_at or rules.now)
    changes = supersede(concerned, told, rules.single_valued, is_whole=is_whole)
    yield changes
    yield from _settle_what_was_left(concerned, told, rules)
    return changes.add[-1] if changes.add else _known(concerned, told)


def telling_all(facts: Iterable[Fact], rules: Rules) -> FactScript[list[Fact]]:
    """Add facts in order, see `telling`."""
    versions: list[Fact] = []
    for fact in facts:
        version = yield from telling(fact, rules)
        versions.append(version)
    return versions


def retraction(fact_id: str, rules: Rules) -> FactScript[Fact | None]:
    """Stop believing a fact; what its value had ended or begun is placed anew.

    Returns:
        The version believed until now; None if there was none.
    """
    found = yield FactFilter(id=fact_id)
    if not found:
        return None
    (old,) = found
    moment = _after(found, rules.now, step=timedelta(0))
    yield FactChanges(retire=(retired(old, moment),))
    yield settle((yield from _peers(old, rules.single_valued)), moment)
    return old


def correction(fact_id: str, fields: Mapping[str, Any], rules: Rules) -> FactScript[Fact]:
    """Believe a fact with other fields than before: it was told wrongly, and is meant for the same time.

    Returns:
        The version written, or the one believed if it is the same.

    Raises:
        ConfigError: no fact with this id is believed.
    """
    found = yield FactFilter(id=fact_id)
    if not found:
        raise ConfigError.of("fact", "the id of a fact that is believed", fact_id)
    (old,) = found
    meant = as_told(old)
    corrected = replace(meant, **fields)
    if corrected == meant:
        return old
    first_told = None if old.told_at is None else min((one.told_at for one in old.sources), default=old.told_at)
    told = replace(corrected, recorded_at=None, told_at=fields.get("told_at") or first_told, sources=())
    return (yield from telling(told, rules, is_whole=True))


def as_told(fact: Fact) -> Fact:
    """A fact with the valid time that was told, without what follows from other values."""
    start, end = told_times(fact)
    return replace(fact, valid_from=start, valid_until=end)


def merging(subject: str, into: str, rules: Rules) -> FactScript[list[Fact]]:
    """Note that two subjects are one, and give the facts of the first to the second.

    Returns:
        The versions written: the facts that were given on, and those of the second subject that they changed.

    Raises:
        ConfigError: they are one already.
    """
    source = yield from canonical(subject)
    target = yield from canonical(into)
    if normal_form(source) == normal_form(target):
        raise ConfigError(f"subject {subject!r} is the same as {into!r} already: both stand for {target!r}")
    believed = yield FactFilter(subject=source)
    moved = [fact for fact in believed if predicate_key(fact.predicate) != predicate_key(SAME_AS)]
    moment = _after(believed, rules.now)
    yield FactChanges(retire=tuple(retired(fact, moment) for fact in moved))
    written: list[Fact] = []
    for fact in moved:
        renamed = replace(fact, subject=target)
        peers = yield from _peers(renamed, rules.single_valued)
        changes = settle(peers, moment, joining=[renamed])
        yield changes
        written += changes.add
    yield from telling(Fact(source, SAME_AS, target), replace(rules, now=moment))
    return written


def settling(touched: Iterable[Fact], rules: Rules) -> FactScript[None]:
    """Place anew what is believed of the same things as facts that lost some of their tellings."""
    done: list[Fact] = []
    for fact in touched:
        if not any(are_of_one_thing(fact, other, rules.single_valued) for other in done):
            done.append(fact)
            peers = yield from _peers(fact, rules.single_valued)
            yield settle(peers, _after(peers, rules.now, step=timedelta(0)))


def canonical(subject: str) -> Generator[FactFilter | FactChanges, list[Fact], str]:
    """The subject that a name stands for, see `merging`; the name itself if it stands for no other."""
    for _ in range(MOST_NAMES):
        found = yield FactFilter(subject=subject, predicate=SAME_AS)
        merged = [fact for fact in found if is_merge(fact)]
        following = max(merged, key=lambda fact: fact.recorded_at or EARLIEST, default=None)
        if following is None or following.valid_until is not None:
            return subject
        subject = following.object
    return subject


def is_merge(fact: Fact) -> bool:
    """Whether a fact gives a subject's name to another: a program told it, not the words of a conversation."""
    return predicate_key(fact.predicate) == predicate_key(SAME_AS) and fact.origin == "user" and fact.quote is None


def about(fact: Fact, single_valued: SingleValued) -> Reading:
    """The facts that a new one can change: that with its id, and those of the same thing."""
    peers = yield from _peers(fact, single_valued)
    if fact.id is not None and all(peer.id != fact.id for peer in peers):
        peers = [*(yield FactFilter(id=fact.id)), *peers]
    return peers


def _peers(fact: Fact, single_valued: SingleValued) -> Reading:
    value = None if single_valued(fact.predicate) else fact.object
    return (yield FactFilter(subject=fact.subject, predicate=fact.predicate, object=value))


def _settle_what_was_left(concerned: list[Fact], told: Fact, rules: Rules) -> FactScript[None]:
    """Where a fact was corrected into one about something else, place anew what it had ended."""
    old = next((fact for fact in concerned if fact.id == told.id), None)
    if old is not None:
        assert told.recorded_at is not None
        peers = yield from _peers(old, rules.single_valued)
        if all(fact.id != told.id for fact in peers):
            yield settle(peers, told.recorded_at)


def _known(concerned: Sequence[Fact], told: Fact) -> Fact:
    """Of the facts believed, the one that says what was told; the last, if it was true at several times."""
    same = [fact for fact in concerned if normal_form(fact.object) == normal_form(told.object)]
    return max(same, key=lambda fact: fact.valid_from or EARLIEST, default=told)


def _after(facts: list[Fact], moment: datetime, step: timedelta = timedelta(microseconds=1)) -> datetime:
    """The moment, or just after the last of the facts was recorded: what is told later is recorded later."""
    last = max((fact.recorded_at for fact in facts if fact.recorded_at is not None), default=None)
    return moment if last is None or last < moment else last + step
