"""Supersession: what a new fact does to what is believed, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from loomflow import Fact
from loomflow.bitemporal import FactChanges, supersede
from loomflow.predicates import fact_key, is_single_valued, predicate_key


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def lives(city: str, recorded: int, **fields: Any) -> Fact:
    known: dict[str, Any] = {"id": city.lower(), "recorded_at": year(recorded)}
    return Fact("Alice", "lives_in", city, **known | fields)


@pytest.mark.parametrize(
    "predicate", ["lives_in", "Lives In", "lives-in", "favorite_color", "home email", "current_job"]
)
def test_predicates_of_one_value_at_a_time(predicate: str) -> None:
    assert is_single_valued(predicate)


@pytest.mark.parametrize(
    "predicate", ["allergic_to", "likes", "speaks", "has_child", "visited", "name_of_pet", "knows"]
)
def test_other_predicates_gather_values(predicate: str) -> None:
    assert not is_single_valued(predicate)


def test_keys_leave_out_case_spacing_and_the_look_of_a_predicate() -> None:
    assert predicate_key(" Lives_In ") == predicate_key("lives-in") == "lives in"
    assert fact_key(Fact(" ALICE ", "Lives_In", "x")) == fact_key(Fact("alice", "lives in", "y"))


def test_first_fact_is_just_added() -> None:
    new = lives("Lisbon", 2020)
    assert supersede([], new) == FactChanges(add=(new,))


def test_new_value_ends_the_old_one_when_it_begins() -> None:
    old, new = lives("Lisbon", 2020, valid_from=year(2019)), lives("Porto", 2024, valid_from=year(2023))
    assert supersede([old], new) == FactChanges(
        retire=(replace(old, retired_at=year(2024)),),
        add=(replace(old, valid_until=year(2023), recorded_at=year(2024)), new),
    )


def test_values_without_a_time_begin_when_they_are_recorded_once_another_follows() -> None:
    old, new = lives("Lisbon", 2020), lives("Porto", 2024)
    changes = supersede([old], new)
    assert changes.add == (
        replace(old, valid_from=year(2020), valid_until=year(2024), recorded_at=year(2024)),
        replace(new, valid_from=year(2024)),
    )


def test_value_that_arrives_late_ends_where_the_next_began() -> None:
    current, late = lives("Porto", 2024, valid_from=year(2023)), lives("Lisbon", 2025, valid_from=year(2019))
    assert supersede([current], late) == FactChanges(add=(replace(late, valid_until=year(2023)),))


def test_future_value_leaves_the_present_one_true_until_then() -> None:
    now, later = lives("Lisbon", 2024, valid_from=year(2019)), lives("Porto", 2025, valid_from=year(2030))
    changes = supersede([now], later)
    assert [(fact.object, fact.valid_until) for fact in changes.add] == [("Lisbon", year(2030)), ("Porto", None)]


def test_value_that_had_ended_is_left_alone() -> None:
    old = lives("Lisbon", 2020, valid_from=year(2010), valid_until=year(2015))
    new = lives("Porto", 2024, valid_from=year(2023))
    assert supersede([old], new).retire == ()


def test_value_that_ended_before_it_was_told_changes_nothing_about_the_present() -> None:
    current, former = lives("Lisbon", 2020), lives("Porto", 2024, valid_until=year(2018))
    changes = supersede([current], former)
    assert changes.add[-1].object == "Porto"
    assert changes.add[-1].valid_until == year(2018)
    believed = [*(() if changes.retire else (current,)), *changes.add]
    assert [fact.object for fact in believed if fact.is_valid_at(year(2025))] == ["Lisbon"]


def test_a_third_value_can_be_put_after_one_whose_start_is_not_known() -> None:
    lisbon = lives("Lisbon", 2010)
    second = supersede([lisbon], lives("Porto", 2020, valid_from=year(2012)))
    third = supersede(second.add, lives("Faro", 2021, valid_from=year(2015)))
    believed = [fact for fact in second.add if fact.id not in {old.id for old in third.retire}] + list(third.add)
    spans = sorted((fact.object, fact.valid_from, fact.valid_until) for fact in believed if fact.object != "Lisbon")
    assert spans == [("Faro", year(2015), None), ("Porto", year(2012), year(2015))]


def test_the_same_statement_again_confirms_it() -> None:
    old = lives("Lisbon", 2020, confidence=0.4, metadata={"a": 1}, source_episode_id="e1")
    told = lives("lisbon ", 2024, id="other", confidence=0.9, metadata={"b": 2}, source_episode_id="e2")
    assert supersede([old], told) == FactChanges(
        retire=(replace(old, retired_at=year(2024)),),
        add=(replace(old, confidence=0.9, metadata={"a": 1, "b": 2}, source_episode_id="e2", recorded_at=year(2024)),),
    )


@pytest.mark.parametrize("start", [None, 2009])
def test_telling_more_of_a_value_that_has_ended_does_not_lose_when_it_was_true(start: int | None) -> None:
    ended = lives("Lisbon", 2012, valid_until=year(2012))  # Porto ended it; when it began is not known
    current = lives("Porto", 2012, valid_from=year(2012))
    told = lives("Lisbon", 2020, id="other", valid_from=start and year(start), valid_until=year(2015))
    changes = supersede([ended, current], told)
    retired = {fact.id for fact in changes.retire}
    believed = [fact for fact in (ended, current) if fact.id not in retired] + list(changes.add)
    assert [fact.object for fact in believed if fact.is_valid_at(year(2010))] == ["Lisbon"]
    assert [fact.object for fact in believed if fact.is_valid_at(year(2016))] == ["Porto"]
    assert len([fact for fact in believed if fact.is_valid_at(year(2013))]) == 1


def test_what_is_known_to_the_letter_changes_nothing() -> None:
    old = lives("Lisbon", 2020)
    assert supersede([old], replace(old, id="other")) == FactChanges()
    assert supersede([old], old) == FactChanges()


def test_a_value_that_came_back_is_a_fact_of_its_own() -> None:
    first = lives("Lisbon", 2020, valid_from=year(2010), valid_until=year(2015))
    porto = lives("Porto", 2020, valid_from=year(2015))
    again = lives("Lisbon", 2024, id="again", valid_from=year(2023))
    changes = supersede([first, porto], again)
    assert [fact.id for fact in changes.add] == ["porto", "again"]


def test_an_id_told_again_corrects_that_fact() -> None:
    old = Fact("Alice", "likes", "tee", id="f", recorded_at=year(2020), valid_from=year(2019))
    new = Fact("Alice", "likes", "tea", id="f", recorded_at=year(2021))
    assert supersede([old], new) == FactChanges(
        retire=(replace(old, retired_at=year(2021)),), add=(replace(new, valid_from=year(2019)),)
    )


def test_a_correction_of_the_past_does_not_bring_it_into_the_present() -> None:
    past = lives("Lisboa", 2020, valid_from=year(2010), valid_until=year(2015))
    present = lives("Porto", 2020, valid_from=year(2015))
    changes = supersede([past, present], replace(past, object="Lisbon", valid_until=None, recorded_at=year(2024)))
    believed = [present if not any(old.id == "porto" for old in changes.retire) else None, *changes.add]
    assert [fact.object for fact in believed if fact and fact.is_valid_at(year(2024))] == ["Porto"]


def test_recorded_time_never_runs_backwards() -> None:
    old, told = lives("Lisbon", 2024, confidence=0.4), lives("Lisbon", 2020, id="other", confidence=0.9)
    changes = supersede([old], told)
    assert changes.retire == (replace(old, retired_at=year(2024)),)
    assert changes.add[0].recorded_at == year(2024)


def test_facts_about_something_else_are_left_alone() -> None:
    others = [
        Fact("Bob", "lives_in", "Faro", id="b", recorded_at=year(2020)),
        Fact("Alice", "works_at", "Acme", id="w", recorded_at=year(2020)),
        Fact("Alice", "likes", "Faro", id="l", recorded_at=year(2020)),
    ]
    new = lives("Porto", 2024)
    assert supersede(others, new) == FactChanges(add=(new,))


def test_values_of_a_gathering_predicate_stay() -> None:
    nuts = Fact("Alice", "allergic_to", "nuts", id="n", recorded_at=year(2020))
    milk = Fact("Alice", "allergic_to", "milk", id="m", recorded_at=year(2024))
    assert supersede([nuts], milk) == FactChanges(add=(milk,))
