"""Facts over two time axes: order of arrival does not matter, values of one kind never overlap, history only grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from loomflow import Fact, Memory
from loomflow.bitemporal import FactChanges, settle, supersede
from loomflow.items import ORIGINS, Origin
from loomflow.stores.sqlite import SQLiteStore
from tests.property.strategies import FIRST, LAST, NOW, moments

Interval = tuple[str, datetime | None, datetime | None]


@dataclass
class Ledger:
    """The least that can keep facts: every version, in the order in which it was written."""

    versions: list[Fact] = field(default_factory=list[Fact])

    def tell(self, fact: Fact) -> FactChanges:
        changes = supersede(self.believed, fact)
        self.apply(changes)
        return changes

    def apply(self, changes: FactChanges, without: Sequence[Fact] | None = None) -> None:
        """Write changes; `without`: in place of what is believed, of which sources were erased."""
        if without is not None:
            self.versions = [fact for fact in without if fact.sources]
        for old in changes.retire:
            place = next(n for n, one in enumerate(self.versions) if one.id == old.id and one.retired_at is None)
            assert replace(old, retired_at=None) == self.versions[place], "retiring changes nothing else"
            assert old.retired_at is not None
            self.versions[place] = old
        self.versions += changes.add

    @property
    def believed(self) -> list[Fact]:
        return [fact for fact in self.versions if fact.retired_at is None]


def day(number: int) -> datetime:
    return NOW + timedelta(days=number)


def state(facts: Sequence[Fact]) -> list[Interval]:
    return sorted(((fact.object, fact.valid_from, fact.valid_until) for fact in facts), key=str)


def grounds(facts: Sequence[Fact]) -> list[tuple[str, ...]]:
    return sorted(tuple(sorted(source.id for source in fact.sources)) for fact in facts)


def assert_no_overlap(facts: Sequence[Fact]) -> None:
    for place, one in enumerate(facts):
        assert not any(overlap(one, other) for other in facts[place + 1 :])


def overlap(a: Fact, b: Fact) -> bool:
    """Whether two facts are true at one moment; a fact of no duration never is."""
    start = max(a.valid_from or FIRST, b.valid_from or FIRST)
    end = min(a.valid_until or LAST, b.valid_until or LAST)
    return start < end


@st.composite
def told(draw: st.DrawFn) -> list[tuple[int, int | None]]:
    """Distinct starts, in days, with the length of the time in which it was true, or None."""
    starts = draw(st.lists(st.integers(-50, 50), min_size=1, max_size=6, unique=True))
    return [(start, draw(st.none() | st.integers(0, 60))) for start in starts]


def fact_of(number: int, start: int, length: int | None, *, predicate: str = "lives_in") -> Fact:
    until = None if length is None else day(start + length)
    return Fact("Alice", predicate, f"city {start}", id=f"f{start}", valid_from=day(start), valid_until=until,
                recorded_at=day(60 + number))  # fmt: skip


@given(facts=told(), order=st.randoms(use_true_random=False))
def test_order_of_arrival_does_not_matter(facts: list[tuple[int, int | None]], order: object) -> None:
    shuffled = sorted(facts, key=lambda _: order.random())  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownLambdaType]
    in_order, out_of_order = Ledger(), Ledger()
    for number, (start, length) in enumerate(sorted(facts)):
        in_order.tell(fact_of(number, start, length))
    for number, (start, length) in enumerate(shuffled):
        out_of_order.tell(fact_of(number, start, length))
    assert state(out_of_order.believed) == state(in_order.believed)
    starts = sorted(start for start, _ in facts)
    lengths = dict(facts)
    wanted: list[Interval] = []
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        length = lengths[start]
        ends = [end for end in (following, None if length is None else start + length) if end is not None]
        wanted.append((f"city {start}", day(start), day(min(ends)) if ends else None))
    assert state(in_order.believed) == sorted(wanted, key=str)


@st.composite
def tellings(draw: st.DrawFn, origins: Sequence[Origin] = ("user",)) -> list[Fact]:
    """What was said about one thing at any time, with and without times."""
    facts: list[Fact] = []
    for number in range(draw(st.integers(1, 6))):
        start, end = draw(st.none() | st.integers(0, 8)), draw(st.none() | st.integers(0, 8))
        if start is not None and end is not None and end < start:
            start, end = end, start
        facts.append(
            Fact(
                "Alice", "lives_in", draw(st.sampled_from(["Lisbon", "Porto", "Faro"])), id=f"f{number}",
                told_at=day(draw(st.integers(0, 9))), recorded_at=day(20), origin=draw(st.sampled_from(origins)),
                valid_from=None if start is None else day(start), valid_until=None if end is None else day(end),
                source_episode_id=f"e{number}",
            )
        )  # fmt: skip
    return facts


@given(facts=tellings(), data=st.data())
@settings(max_examples=500)
def test_any_order_of_arrival_gives_the_same_state_from_the_same_sources(
    facts: list[Fact], data: st.DataObject
) -> None:
    told, shuffled = Ledger(), Ledger()
    for fact in facts:
        told.tell(fact)
    for fact in data.draw(st.permutations(facts)):
        shuffled.tell(fact)
    assert state(shuffled.believed) == state(told.believed)
    assert grounds(shuffled.believed) == grounds(told.believed)
    assert_no_overlap(told.believed)


@given(facts=tellings(origins=ORIGINS))
@settings(max_examples=500)
def test_what_others_say_never_changes_what_the_user_said(facts: list[Fact]) -> None:
    with_others, user_alone = Ledger(), Ledger()
    for fact in facts:
        with_others.tell(fact)
        if fact.origin == "user":
            user_alone.tell(fact)
    assert_no_overlap(with_others.believed)
    for fact in user_alone.believed:
        if fact.valid_from == fact.valid_until is not None:
            continue
        is_dated = fact.valid_from is not None
        moments = [fact.valid_from or day(9), (fact.valid_until or day(100)) - timedelta(seconds=1)]
        for moment in moments if is_dated or fact.valid_until is None else []:
            assert [one.object for one in with_others.believed if one.is_valid_at(moment)] == [fact.object]


@given(facts=tellings(), data=st.data())
@settings(max_examples=300)
def test_what_is_taken_back_leaves_what_the_rest_would_give(facts: list[Fact], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(facts))
    told, never_told = Ledger(), Ledger()
    for fact in facts:
        told.tell(fact)
        if fact is not gone:
            never_told.tell(fact)
    without = [
        replace(fact, sources=tuple(source for source in fact.sources if source.id != gone.id))
        for fact in told.believed
    ]
    told.apply(settle([fact for fact in without if fact.sources], day(30)), without=without)
    assert state(told.believed) == state(never_told.believed)


@st.composite
def any_facts(draw: st.DrawFn) -> list[Fact]:
    """Facts about one thing with and without times, told again, corrected by id, recorded in any order."""
    count = draw(st.integers(1, 7))
    facts: list[Fact] = []
    for number in range(count):
        start, end = draw(st.none() | st.integers(0, 12)), draw(st.none() | st.integers(0, 12))
        if start is not None and end is not None and end < start:
            start, end = end, start
        id_ = draw(st.sampled_from([f"f{number}", "f0"]))
        if id_ == "f0" and start is None:
            end = None  # a correction keeps the start that it does not give, which the end must not contradict
        facts.append(
            Fact(
                "Alice", "lives_in", draw(st.sampled_from(["Lisbon", "Porto", "Faro"])),
                id=id_, recorded_at=day(draw(st.integers(0, 20))),
                valid_from=None if start is None else day(start), valid_until=None if end is None else day(end),
            )
        )  # fmt: skip
    return facts


@given(facts=any_facts())
@settings(max_examples=200)
def test_believed_values_of_a_single_valued_predicate_never_overlap(facts: list[Fact]) -> None:
    ledger = Ledger()
    for number, fact in enumerate(facts):
        ledger.tell(replace(fact, id=f"f{number}"))
        assert_no_overlap(ledger.believed)


@given(facts=any_facts())
@settings(max_examples=200)
def test_a_correction_by_id_does_not_make_values_overlap(facts: list[Fact]) -> None:
    ledger = Ledger()
    for fact in facts:
        ledger.tell(fact)
        assert_no_overlap(ledger.believed)


@given(facts=any_facts())
@settings(max_examples=200)
def test_history_is_only_added_to(facts: list[Fact]) -> None:
    ledger = Ledger()
    for fact in facts:
        before = list(ledger.versions)
        ledger.tell(fact)
        assert len(ledger.versions) >= len(before)
        for old, now in zip(before, ledger.versions, strict=False):
            assert now == old or (old.retired_at is None and replace(now, retired_at=None) == old)
        for one in ledger.versions:
            assert one.recorded_at is not None
            assert one.retired_at is None or one.retired_at >= one.recorded_at
        assert len({one.id for one in ledger.believed}) == len(ledger.believed)


@given(facts=any_facts())
def test_what_was_told_last_is_believed(facts: list[Fact]) -> None:
    ledger = Ledger()
    for number, fact in enumerate(sorted(facts, key=lambda fact: fact.recorded_at or NOW)):
        recorded = (fact.recorded_at or NOW) + timedelta(microseconds=number)
        ledger.tell(replace(fact, id=f"f{number}", recorded_at=recorded))
        start = fact.valid_from or recorded
        if fact.valid_until is None or fact.valid_until > start:
            assert any(one.object == fact.object and one.is_valid_at(start) for one in ledger.believed)


@given(objects=st.lists(st.sampled_from(["nuts", "milk", "eggs", "soy"]), min_size=1, max_size=8), days=st.data())
def test_values_of_other_predicates_never_retire_one_another(objects: list[str], days: st.DataObject) -> None:
    ledger = Ledger()
    for number, value in enumerate(objects):
        start = days.draw(st.none() | st.integers(0, 12).map(day))
        fact = Fact("Alice", "allergic_to", value, id=f"f{number}", valid_from=start, recorded_at=day(number))
        changes = ledger.tell(fact)
        assert all(old.object == value for old in changes.retire)
        assert {one.object for one in ledger.believed} == set(objects[: number + 1])
    assert all(one.valid_until is None for one in ledger.believed)


@given(facts=any_facts(), again=st.integers(0, 6))
def test_telling_the_same_thing_twice_changes_nothing(facts: list[Fact], again: int) -> None:
    ledger = Ledger()
    for number, fact in enumerate(facts):
        ledger.tell(replace(fact, id=f"f{number}"))
    latest = ledger.believed[again % len(ledger.believed)]
    assert ledger.tell(replace(latest, id="another")) == FactChanges()
    assert ledger.tell(latest) == FactChanges()


@given(facts=told(), order=st.permutations(range(6)), at=moments())
@settings(max_examples=50)
async def test_a_memory_keeps_the_same_rules(
    facts: list[tuple[int, int | None]], order: list[int], at: datetime
) -> None:
    ticks = iter(range(1000))
    async with Memory(
        SQLiteStore(None, clock=lambda: day(100) + timedelta(seconds=next(ticks))), embedder=None
    ) as memory:
        for number in order:
            if number < len(facts):
                start, length = facts[number]
                await memory.facts.append(replace(fact_of(0, start, length), recorded_at=None))
        history = await memory.facts.history("alice", "Lives In")
        believed = [fact for fact in history if fact.retired_at is None]
        ledger = Ledger()
        for number, (start, length) in enumerate(sorted(facts)):
            ledger.tell(fact_of(number, start, length))
        assert state(believed) == state(ledger.believed)
        assert await memory.facts.query(valid_at=at) == [fact for fact in believed if fact.is_valid_at(at)]
        assert len(await memory.facts.query(valid_at=at)) <= 1
        for version in history:
            assert version.recorded_at is not None
            known = await memory.facts.query(known_at=version.recorded_at, valid_at=version.valid_from)
            if version.retired_at != version.recorded_at and version.valid_until != version.valid_from:
                assert version.id in {fact.id for fact in known}
