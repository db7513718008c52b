"""How a new fact changes what is believed: supersession over valid time and recorded time, as pure functions.

Nothing is overwritten. What changes is a new version with its own `recorded_at`, and the version before it is retired
at that moment. The two time axes are those of Snodgrass, "Developing Time-Oriented Database Applications in SQL",
2000.

What is believed about one thing (a subject and a single-valued predicate, or one value of another predicate) is always
what follows from all that was told about it, whatever the order in which it was told:

- A value is true from its `valid_from`; where that was not told, from the moment of the telling.
- It ends when it was told to end, or when the next value begins.
- A value that was over when it was told, and began nobody knows when, goes before what is known and ends nothing.
- The same value told again is one fact with several sources, unless another value was true in between.
- The last telling of an end counts. Telling after the end that it has been true since before the end opens it again.
- What an agent or a tool said only fills the time of which the user said nothing.

Which predicates are single-valued: see `loomflow.predicates`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from .checks import EARLIEST
from .items import Fact, Source
from .predicates import fact_key, is_single_valued
from .words import normal_form

MAX_SOURCES = 1_000
"""So many tellings of a fact are kept: the one that began it, the first and the last ones."""

SingleValued = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class FactChanges:
    """What to write: versions to retire (each with `retired_at` set) and versions to add."""

    retire: tuple[Fact, ...] = ()
    add: tuple[Fact, ...] = ()


def supersede(
    believed: Iterable[Fact], new: Fact, single_valued: SingleValued = is_single_valued, *, is_whole: bool = False
) -> FactChanges:
    """Say how `new` changes the facts believed now.

    Args:
        believed: versions not retired that share the key of `new`, or its id; others are left alone. One with the id of
            `new` is corrected: what was told in its place no longer counts.
        new: the fact as told, with `id` and `recorded_at` set.
        single_valued: which predicates hold one value at a time.
        is_whole: whether `new` says all that is to be known of a fact with its id; else, what it does not say is kept.

    Returns:
        The versions to retire and to add, the one that carries what was told last; empty if it changes nothing.
    """
    believed = list(believed)
    old = next((fact for fact in believed if fact.id == new.id), None)
    told = new if old is None or is_whole else _corrected(old, new)
    concerned = [fact for fact in believed if fact is old or are_of_one_thing(fact, told, single_valued)]
    if any(fact == replace(told, id=fact.id) for fact in concerned):
        return FactChanges()  # known to the letter
    source = source_of(told)
    if old is not None and told.told_at is None:  # what is corrected now was meant when it was first told
        source = replace(source, told_at=min(claim.source.told_at for claim in _claims(old)))
    claims = [claim for fact in concerned if fact is not old for claim in _claims(fact)]
    return _changes(concerned, claims, source.recorded_at, _Claim(told, source, told))


def settle(believed: Iterable[Fact], moment: datetime, joining: Iterable[Fact] = ()) -> FactChanges:
    """Say what follows anew from the sources of facts of one thing, where some were taken away or some come to them.

    Args:
        believed: the facts, all of one thing; those without sources are retired.
        moment: when the sources were taken away or came.
        joining: facts that were about something else until now, and join these with their sources.
    """
    believed = list(believed)
    return _changes(believed, [claim for fact in (*believed, *joining) for claim in _claims(fact)], moment, None)


def without(fact: Fact, is_gone: Callable[[Source], bool]) -> Fact | None:
    """A version without some of its tellings; None if nothing is left of it. To be settled after that."""
    sources = fact.sources or (source_of(fact),)
    kept = tuple(source for source in sources if not is_gone(source))
    if not kept:
        return None
    return replace(fact, sources=kept, **_provenance(kept))


def retired(fact: Fact, moment: datetime) -> Fact:
    """A version that is believed no more.

    Of its tellings, it keeps the first one, those that it was written for and those that something in it is from: the
    others are in the versions before it, and in the next.
    """
    shown = [source for source in fact.sources if source.recorded_at == fact.recorded_at or source.metadata]
    shown += [source for source in fact.sources if source.episode_id is not None][-1:]
    shown += [source for source in fact.sources if source.quote is not None][-1:]
    chosen = {id(source) for source in (*fact.sources[:1], *shown, *fact.sources[-1:])}
    return replace(fact, retired_at=moment, sources=tuple(one for one in fact.sources if id(one) in chosen))


def told_times(fact: Fact) -> tuple[datetime | None, datetime | None]:
    """The valid time that was told, without what follows from other values."""
    claims = _claims(fact)
    first = min(claims, key=lambda claim: claim.place)
    return first.source.valid_from, _Span(claims, first.start).told_end()[0]


def are_of_one_thing(a: Fact, b: Fact, single_valued: SingleValued = is_single_valued) -> bool:
    """Whether two facts share a time line: one subject and predicate, and one value where values gather."""
    if fact_key(a) != fact_key(b):
        return False
    return single_valued(b.predicate) or normal_form(a.object) == normal_form(b.object)


def source_of(fact: Fact) -> Source:
    """The telling that a fact stands for by itself."""
    assert fact.recorded_at is not None, "facts are placed after recorded_at is set"
    assert fact.id is not None
    return Source(
        id=fact.id, told_at=fact.told_at or fact.recorded_at, recorded_at=fact.recorded_at, valid_from=fact.valid_from,
        valid_until=fact.valid_until, episode_id=fact.source_episode_id, quote=fact.quote, origin=fact.origin,
        confidence=fact.confidence, metadata=fact.metadata,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Claim:
    """One telling, with the fact that it stands in, the believed one or the new one, and that which told it now."""

    fact: Fact
    source: Source
    now: Fact | None = None

    @property
    def told(self) -> Fact:
        assert self.now is not None
        return self.now

    @property
    def value(self) -> str:
        return normal_form(self.fact.object)

    @property
    def start(self) -> datetime | None:
        """When it began to be true; None if it was over when it was told, and began nobody knows when."""
        if self.source.valid_from is not None:
            return self.source.valid_from
        end = self.source.valid_until
        return None if end is not None and end <= self.source.told_at else self.source.told_at

    @property
    def place(self) -> tuple[datetime, bool, datetime, datetime, str, str]:
        """Its order on the time line."""
        start = self.start
        return (start or self.source.valid_until or EARLIEST, start is not None, *self.telling, self.value)

    @property
    def telling(self) -> tuple[datetime, datetime, str]:
        """Its order in the order of telling."""
        return self.source.told_at, self.source.recorded_at, self.source.id

    @property
    def identity(self) -> tuple[object, ...]:
        """Tellings with equal identities are one, told again.

        One without a time says that it is true when it is told, unless it is from the same episode.
        """
        source = self.source
        told_at = source.told_at if source.valid_from is None and source.episode_id is None else None
        return self.value, source.valid_from, source.valid_until, source.episode_id, source.origin, told_at


@dataclass(slots=True)
class _Span:
    """A time for which one value holds, and the tellings that say so."""

    claims: list[_Claim]
    start: datetime | None
    end: datetime | None = None

    @property
    def value(self) -> str:
        return self.claims[0].value

    @property
    def in_order(self) -> list[_Claim]:
        """The tellings, first told first."""
        return sorted(self.claims, key=lambda claim: claim.telling)

    def add(self, claim: _Claim) -> None:
        self.claims.append(claim)
        self.end = self.told_end()[0]

    def told_end(self) -> tuple[datetime | None, _Claim | None]:
        """The end that was told last, and who told it; none if it was told later that it is not over."""
        end, by = None, None
        for claim in self.in_order:
            source = claim.source
            if source.valid_until is not None:
                end, by = source.valid_until, claim
            elif end is not None and source.valid_from is not None and source.told_at >= end:
                end, by = None, None
        return end, by

    def takes(self, claim: _Claim, *, is_last: bool) -> bool:
        """Whether a telling of a later time belongs to this span."""
        if claim.value != self.value:
            return False
        end, by = self.told_end()
        assert claim.start is not None
        if is_last and (end is None or claim.start < end):
            return True  # it goes on
        return by is not None and claim.source.valid_from is None and claim.telling < by.telling  # its end came later


def _claims(fact: Fact) -> list[_Claim]:
    return [_Claim(fact, source) for source in fact.sources or (source_of(fact),)]


def _laid_out(claims: Sequence[_Claim]) -> list[_Span]:
    """What holds when, going by these tellings alone, in no particular order."""
    begun: list[_Span] = []
    past: list[_Span] = []
    for claim in sorted(claims, key=lambda claim: claim.place):
        span = _span_of(claim, begun, past)
        if span is not None:
            span.add(claim)
        else:
            (past if claim.start is None else begun).append(_Span([claim], claim.start, claim.source.valid_until))
    for span, following in pairwise(begun):
        assert following.start is not None
        span.end = following.start if span.end is None else min(span.end, following.start)
    placed = list(begun)
    for span in sorted(past, key=lambda span: span.end or EARLIEST):
        _put_before(span, placed)
        placed.append(span)
    return placed


def _span_of(claim: _Claim, begun: list[_Span], past: list[_Span]) -> _Span | None:
    """The span that a telling, the next in order of time, belongs to; None if it begins one."""
    if claim.start is None:
        return next((span for span in (*reversed(begun), *reversed(past)) if span.value == claim.value), None)
    for span in (*reversed(begun), *reversed(past)):
        if span.takes(claim, is_last=bool(begun) and span is begun[-1]):
            return span
    return None


def _put_before(span: _Span, placed: Sequence[_Span]) -> None:
    """Place what was over when it was told: it ends before what was true at its end, and begins after what was over."""
    end = span.end
    assert end is not None
    times = [(other.start, other.end) for other in placed]
    starts = [start for start, until in times if start is not None and start < end and (until is None or until >= end)]
    span.end = min(starts, default=end)
    ends = [until for start, until in times if until is not None and until <= span.end and start != until]
    span.start = max(ends, default=None)


def _squeeze(span: _Span, taken: Sequence[_Span]) -> None:
    """Keep a span to the first time from its start on that is not taken; of no duration if there is none."""
    for other in sorted(taken, key=lambda other: other.start or EARLIEST):
        begins = other.start or EARLIEST
        if other.start is not None and other.start == other.end:
            continue
        start = span.start or EARLIEST
        if other.end is not None and other.end <= start:
            continue
        if begins > start:
            span.end = begins if span.end is None else min(span.end, begins)
            return
        if other.end is None or (span.end is not None and span.end <= other.end):
            span.start = span.end = start if span.start is not None else (span.end or other.end)
            return
        span.start = other.end


def _changes(believed: Sequence[Fact], claims: Sequence[_Claim], moment: datetime, new: _Claim | None) -> FactChanges:
    """From what was told to what is to be written."""
    told = list(claims)
    if new is not None:
        known = next(
            (one for one in claims if one.identity == new.identity and not _is_contradicted(one, claims)), None
        )
        if known is not None:
            told.remove(known)
            new = _Claim(known.fact, _confirmed(known.source, new.source), new.fact)
        told.append(new)
    by_user = _laid_out([claim for claim in told if claim.source.origin == "user"])
    others = [claim for claim in told if claim.source.origin != "user" and not _is_echo(claim, by_user)]
    if new is not None and new.source.origin != "user" and new not in others:
        return FactChanges()
    by_others = _laid_out(others)
    for span in sorted(by_others, key=lambda span: span.start or EARLIEST):
        _squeeze(span, by_user)
    return _written(believed, by_user + by_others, moment, new)


def _is_contradicted(claim: _Claim, claims: Sequence[_Claim]) -> bool:
    """Whether another end of the value, or another value with the same start, was told later.

    Then telling it once more is not the same telling again: it is the last word now.
    """
    is_by_user = claim.source.origin == "user"
    later = [one for one in claims if one.telling > claim.telling and (one.source.origin == "user") == is_by_user]
    return any(
        one.source.valid_until != claim.source.valid_until if one.value == claim.value else one.start == claim.start
        for one in later
    )


def _confirmed(known: Source, again: Source) -> Source:
    return replace(
        known, confidence=max(known.confidence, again.confidence), quote=again.quote or known.quote,
        metadata=_metadata([known, again]),
    )  # fmt: skip


def _metadata(sources: Iterable[Source]) -> dict[str, Any]:
    """What came with tellings, the last word for each name."""
    return {name: value for source in sources for name, value in source.metadata.items()}


def _provenance(sources: Sequence[Source]) -> dict[str, Any]:
    """What a version says of where it is from: the last word of its tellings, given in order."""
    episodes = [source.episode_id for source in sources if source.episode_id is not None]
    quotes = [source.quote for source in sources if source.quote is not None]
    return {
        "origin": sources[-1].origin,
        "source_episode_id": episodes[-1] if episodes else None,
        "quote": quotes[-1] if quotes else None,
        "metadata": _metadata(sources),
    }


def _is_echo(claim: _Claim, by_user: Sequence[_Span]) -> bool:
    """Whether what an agent or a tool says is only what the user has said."""
    moment = claim.start or claim.source.valid_until or EARLIEST
    return any(
        span.value == claim.value and (span.start or EARLIEST) <= moment and (span.end is None or moment <= span.end)
        for span in by_user
    )


def _written(believed: Sequence[Fact], spans: Sequence[_Span], moment: datetime, new: _Claim | None) -> FactChanges:
    """The difference between the facts believed and those that follow, never moving recorded time backwards."""
    before = {fact.id: fact for fact in believed}
    retire: list[Fact] = []
    add: list[tuple[bool, Fact]] = []
    ids = _ids(spans)
    for span, id_ in zip(spans, ids, strict=True):
        is_told = new is not None and any(claim is new for claim in span.claims)
        old = before.pop(id_, None)
        version = _version(span, id_, old, new if is_told else None, is_alone=len(spans) == 1)
        if old is None:
            recorded = new.told.recorded_at if is_told and new is not None else _latest(moment, span)
            add.append((is_told, replace(version, recorded_at=recorded)))
        elif not _is_same(old, version) or (is_told and moment > _recorded(old)):
            recorded = max(_recorded(old), moment)
            retire.append(retired(old, recorded))
            add.append((is_told, replace(version, recorded_at=recorded)))
    retire += [retired(fact, max(_recorded(fact), moment)) for fact in before.values()]
    return FactChanges(tuple(retire), tuple(fact for _, fact in sorted(add, key=lambda one: one[0])))


def _ids(spans: Sequence[_Span]) -> list[str]:
    """The identity of each span: that of the fact whose first telling is in it, else of a fact that it was part of."""
    ids: dict[int, str] = {}
    for span in spans:
        founding = [claim for claim in span.in_order if claim.source.id == claim.fact.id]
        founding.sort(key=lambda claim: claim.fact is claim.now)  # a fact that is believed keeps its identity
        id_ = next((claim.source.id for claim in founding if claim.source.id not in ids.values()), None)
        if id_ is not None:
            ids[id(span)] = id_
    for span in spans:
        if id(span) not in ids:
            first = span.in_order[0]
            made = uuid.uuid5(uuid.NAMESPACE_OID, f"{first.source.id} {first.place}").hex
            wanted = [*(claim.fact.id for claim in span.in_order), *(claim.source.id for claim in span.in_order), made]
            ids[id(span)] = next(id_ for id_ in wanted if id_ is not None and id_ not in ids.values())
    return [ids[id(span)] for span in spans]


def _version(span: _Span, id_: str, old: Fact | None, new: _Claim | None, *, is_alone: bool) -> Fact:
    ordered = span.in_order
    lead = next((claim.fact for claim in ordered if claim.fact is old), ordered[0].fact)
    first = min(ordered, key=lambda claim: claim.place)
    is_assumed = first.start is not None and first.source.valid_from is None and span.start == first.start
    return replace(
        lead,
        id=id_,
        valid_from=None if is_alone and is_assumed else span.start,
        valid_until=span.end,
        confidence=max(claim.source.confidence for claim in ordered),
        **_provenance([claim.source for claim in ordered]),
        told_at=lead.told_at if new is None else new.told.told_at or lead.told_at,
        sources=_kept(span),
        retired_at=None,
    )


def _kept(span: _Span) -> tuple[Source, ...]:
    ordered = span.in_order
    if len(ordered) > MAX_SOURCES:
        first = min(ordered, key=lambda claim: claim.place)
        latest = ordered[2 - MAX_SOURCES :]
        chosen = {id(claim) for claim in (ordered[0], first, *latest)}
        ordered = [claim for claim in ordered if id(claim) in chosen]
    return tuple(claim.source for claim in ordered)


def _is_same(a: Fact, b: Fact) -> bool:
    """Whether two versions say the same, on the same grounds; when they were recorded is not compared."""
    sources = a.sources or (source_of(a),), b.sources or (source_of(b),)
    times = {"recorded_at": None, "retired_at": None, "told_at": None}
    return sources[0] == sources[1] and replace(a, **times) == replace(b, **times)


def _recorded(fact: Fact) -> datetime:
    assert fact.recorded_at is not None
    return fact.recorded_at


def _latest(moment: datetime, span: _Span) -> datetime:
    return max(moment, *(claim.source.recorded_at for claim in span.claims))


def _corrected(old: Fact, new: Fact) -> Fact:
    """`new` in the place of `old`: what it does not say is kept."""
    start, _ = told_times(old)
    fits = start is None or new.valid_until is None or start <= new.valid_until
    return replace(
        new,
        valid_from=new.valid_from or (start if fits else None),
        metadata={**old.metadata, **new.metadata},
        source_episode_id=new.source_episode_id or old.source_episode_id,
    )
