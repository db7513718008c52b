"""What a memory holds: checked when made, in one form from then on."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from loomflow import ConfigError, Episode, Fact, MemoryBlock
from loomflow.items import Forgotten, new_id

LISBON_SUMMER = timezone(timedelta(hours=1))


def episode(**fields: Any) -> Episode:
    known: dict[str, Any] = {"input": "hi", "output": "hello", "session_id": "s"}
    return Episode(**known | fields)


def fact(**fields: Any) -> Fact:
    known: dict[str, Any] = {"subject": "Alice", "predicate": "likes", "object": "tea"}
    return Fact(**known | fields)


def block(**fields: Any) -> MemoryBlock:
    known: dict[str, Any] = {"name": "profile", "content": "text"}
    return MemoryBlock(**known | fields)


@pytest.mark.parametrize(
    ("make", "fields", "message"),
    [
        (fact, {"subject": ""}, "subject must be a non-blank string, got ''"),
        (fact, {"predicate": "  "}, "predicate must be a non-blank string, got '  '"),
        (fact, {"object": None}, "object must be a string, got None"),
        (fact, {"object": 7}, "object must be a string, got 7"),
        (fact, {"confidence": 1.5}, "confidence must be a number from 0 to 1, got 1.5"),
        (fact, {"confidence": -0.1}, "confidence must be a number from 0 to 1, got -0.1"),
        (fact, {"confidence": True}, "confidence must be a number from 0 to 1, got True"),
        (fact, {"confidence": float("nan")}, "confidence must be a number from 0 to 1, got nan"),
        (fact, {"id": ""}, "id must be a non-blank string, got ''"),
        (fact, {"source_episode_id": "\n"}, "source_episode_id must be a non-blank string, got '\\n'"),
        (fact, {"valid_from": "2026-01-01"}, "valid_from must be a datetime, got '2026-01-01'"),
        (fact, {"metadata": []}, "metadata must be a mapping, got []"),
        (fact, {"metadata": {"a": {1: 2}}}, "metadata.a key must be a string, got 1"),
        (episode, {"input": b"hi"}, "input must be a string, got b'hi'"),
        (episode, {"output": None}, "output must be a string, got None"),
        (episode, {"input": " ", "output": "\n"}, "an episode must have text: input and output are both blank"),
        (episode, {"session_id": ""}, "session_id must be a non-blank string, got ''"),
        (episode, {"session_id": None}, "session_id must be a string, got None"),
        (episode, {"user_name": " "}, "user_name must be a non-blank string, got ' '"),
        (episode, {"id": "a\x00"}, "id must be free of control characters and surrogates, got 'a\\x00'"),
        (episode, {"occurred_at": 0}, "occurred_at must be a datetime, got 0"),
        (block, {"name": ""}, "block name must be a non-blank string, got ''"),
        (block, {"name": "a\nb"}, "block name must be free of control characters and surrogates, got 'a\\nb'"),
        (block, {"content": None}, "block content must be a string, got None"),
    ],
)
def test_wrong_fields_are_refused_by_name(make: Callable[..., object], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make(**fields)
    assert str(raised.value) == message


def test_an_id_of_1024_characters_is_the_longest() -> None:
    assert episode(id="x" * 1024).id == "x" * 1024
    with pytest.raises(ConfigError, match="id must be at most 1024 characters"):
        episode(id="x" * 1025)


def test_valid_time_cannot_end_before_it_begins() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert fact(valid_from=start, valid_until=start).valid_until == start
    with pytest.raises(ConfigError, match=r"valid_until must be at or after valid_from \(2026-01-01T00:00:00\+00:00\)"):
        fact(valid_from=start, valid_until=start - timedelta(microseconds=1))


def test_times_are_in_utc_and_naive_ones_are_read_as_utc() -> None:
    naive = datetime(2026, 7, 1, 12, 0)
    assert episode(occurred_at=naive).occurred_at == datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
    aware = episode(occurred_at=naive.replace(tzinfo=LISBON_SUMMER)).occurred_at
    assert (aware, aware and aware.tzinfo) == (datetime(2026, 7, 1, 11, 0, tzinfo=UTC), UTC)


def test_times_beyond_the_ends_of_utc_become_the_ends() -> None:
    early = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    late = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))
    assert episode(occurred_at=early).occurred_at == datetime.min.replace(tzinfo=UTC)
    assert episode(occurred_at=late).occurred_at == datetime.max.replace(tzinfo=UTC)


def test_valid_time_includes_its_start_and_excludes_its_end() -> None:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    one = fact(valid_from=start, valid_until=end)
    instant = timedelta(microseconds=1)
    assert [one.is_valid_at(at) for at in (start - instant, start, end - instant, end)] == [False, True, True, False]
    assert fact().is_valid_at(datetime.min.replace(tzinfo=UTC))


def test_lone_surrogates_become_replacement_characters_and_pairs_are_joined() -> None:
    assert episode(input="a\ud800b").input == "a\ufffdb"
    assert fact(object="\ud83d\ude00").object == "😀"
    assert block(content="x\udc00").content == "x\ufffd"
    assert episode(metadata={"k\ud800": ["\udfff"]}).metadata == {"k\ufffd": ["\ufffd"]}


def test_metadata_becomes_plain_json_values() -> None:
    some_id = uuid.UUID(int=7)
    given = {
        "n": np.int64(3),
        "x": np.float32(0.5),
        "t": (1, None),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "id": some_id,
    }
    stored = episode(metadata=given).metadata
    assert stored == {"n": 3, "x": 0.5, "t": [1, None], "at": "2026-01-01T00:00:00+00:00", "id": str(some_id)}
    assert [type(stored[key]) for key in ("n", "x", "t")] == [int, float, list]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}, object(), 1j], ids=repr)
def test_metadata_that_json_cannot_hold_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^metadata\.a\[1\] must be "):
        episode(metadata={"a": [1, value]})


def test_metadata_is_a_copy() -> None:
    given: dict[str, Any] = {"a": [1]}
    stored = episode(metadata=given)
    given["a"].append(2)
    assert stored.metadata == {"a": [1]}


def test_items_are_frozen() -> None:
    for item, name in ((episode(), "input"), (fact(), "object"), (block(), "content")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(item, name, "other")


def test_texts_that_are_searched() -> None:
    assert fact().text == "Alice likes tea"
    assert episode().text == "hi\nhello"


def test_ids_are_new_each_time() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000


def test_what_was_forgotten_adds_up() -> None:
    assert Forgotten(blocks=1, facts=2, episodes=3).total == 6
