"""The commands about facts: retract, correct, merge, history, and what was known at a moment."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from loomflow import Episode, Fact, Memory
from tests.command_line import in_memory, run

PORTO = Fact(
    "Alice", "lives_in", "Porto", user_id="alice", id="porto", valid_from=datetime(2019, 3, 1, tzinfo=UTC),
    recorded_at=datetime(2020, 1, 1, tzinfo=UTC), origin="agent", quote="You live\nin Porto", source_episode_id="e-1",
    confidence=0.7,
)  # fmt: skip
LISBON = Fact(
    "Alice", "lives_in", "Lisbon", user_id="alice", id="lisbon", valid_from=datetime(2025, 6, 1, tzinfo=UTC),
    recorded_at=datetime(2025, 7, 1, 9, 30, tzinfo=UTC),
)  # fmt: skip
TEA = Fact("Alice", "likes", "tea", user_id="alice", id="tea", recorded_at=datetime(2020, 1, 2, tzinfo=UTC))


@pytest.fixture
def url(url: str) -> str:
    """Where the commands find a memory with some facts of one user."""
    in_memory(url, lambda memory: memory.facts.append([PORTO, TEA, LISBON]))
    return url


def memory(*args: str, status: int = 0) -> Any:
    command, *rest = args
    return run("memory", command, *rest, "--user", "alice", status=status)


def believed(url: str) -> set[str]:
    return {fact.text for fact in in_memory(url, lambda opened: opened.facts.query(user_id="alice"))}


def test_history_shows_when_it_was_true_and_believed_and_who_said_it(url: str) -> None:
    assert memory("history", "alice", "Lives in").stdout.splitlines() == [
        "Alice lives_in Porto",
        "  id        porto",
        "  valid     since 2019-03-01",
        "  believed  2020-01-01 until 2025-07-01 09:30:00",
        "  told      2020-01-01 by agent, in episode e-1, confidence 0.7",
        "            “You live in Porto”",
        "Alice lives_in Porto",
        "  id        porto",
        "  valid     2019-03-01 until 2025-06-01",
        "  believed  since 2025-07-01 09:30:00",
        "  told      2020-01-01 by agent, in episode e-1, confidence 0.7",
        "            “You live in Porto”",
        "Alice lives_in Lisbon",
        "  id        lisbon",
        "  valid     since 2025-06-01",
        "  believed  since 2025-07-01 09:30:00",
        "  told      2025-07-01 09:30:00 by user",
    ]
    assert "valid     at no known time" in memory("history", "Alice", "likes").stdout
    whole = json.loads(memory("history", "--json").stdout)
    assert [version["id"] for version in whole] == ["porto", "tea", "porto", "lisbon"]
    assert whole[0]["sources"][0]["quote"] == "You live\nin Porto"
    assert [version["id"] for version in json.loads(memory("history", "Alice", "likes", "--json").stdout)] == ["tea"]


def test_history_of_nothing_says_so(url: str) -> None:
    assert memory("history", "Bo", "likes").stderr == "user 'alice' has no facts about 'Bo likes'\n"
    assert run("memory", "history").stderr == "the anonymous user has no facts\n"
    assert json.loads(run("memory", "history", "--json").stdout) == []


def test_what_is_retracted_opens_what_it_had_ended(url: str) -> None:
    assert memory("retract", "lisbon").stdout.splitlines() == [
        "retracted: Alice lives_in Lisbon (since 2025-06-01)",
        "believed now: Alice lives_in Porto (since 2019-03-01, confidence 0.7)",
    ]
    assert believed(url) == {"Alice lives_in Porto", "Alice likes tea"}
    assert memory("retract", "tea").stdout == "retracted: Alice likes tea\n"
    assert "Alice likes tea" in memory("history").stdout


def test_what_is_corrected_stays_the_same_fact(url: str) -> None:
    assert memory("correct", "lisbon", "--object", "Braga", "--valid-from", "2024-02-01").stdout.splitlines() == [
        "believed until now: Alice lives_in Lisbon (since 2025-06-01)",
        "believed now: Alice lives_in Braga (since 2024-02-01)",
        "believed now: Alice lives_in Porto (since 2019-03-01, until 2024-02-01, confidence 0.7)",
    ]
    assert believed(url) == {"Alice lives_in Braga", "Alice likes tea"}
    fields = {"subject": "Bo", "predicate": "drinks", "object": "mate", "confidence": "0", "valid-until": "2030-01-01"}
    every = [word for name, value in fields.items() for word in (f"--{name}", value)]
    assert memory("correct", "tea", *every).stdout.splitlines() == [
        "believed until now: Alice likes tea",
        "believed now: Bo drinks mate (until 2030-01-01, confidence 0)",
    ]
    assert "believed now: Bo drinks mate (confidence 0)" in memory("correct", "tea", "--valid-until", "none").stdout
    found = in_memory(url, lambda opened: opened.recall_facts("Who drinks mate?", user_id="alice"))
    assert found[0].id == "tea"


def test_a_correction_to_another_subject_opens_what_was_ended(url: str) -> None:
    assert memory("correct", "lisbon", "--subject", "Bo").stdout.splitlines() == [
        "believed until now: Alice lives_in Lisbon (since 2025-06-01)",
        "believed now: Bo lives_in Lisbon (since 2025-06-01)",
        "believed now: Alice lives_in Porto (since 2019-03-01, confidence 0.7)",
    ]


def test_merged_subjects_are_one(url: str) -> None:
    memory("add-fact", "Ali", "lives_in", "Faro", "--valid-from", "2026-01-01")
    memory("add-fact", "Ali", "likes", "coffee")
    merged = memory("merge", "Ali", "Alice").stdout.splitlines()
    assert merged[0] == "merged: 'Ali' is 'Alice' now"
    assert sorted(merged[1:]) == [
        "believed now: Alice likes coffee",
        "believed now: Alice lives_in Faro (since 2026-01-01)",
        "believed now: Alice lives_in Lisbon (since 2025-06-01, until 2026-01-01)",
    ]
    assert believed(url) >= {"Alice lives_in Faro", "Alice likes coffee", "Alice likes tea", "Ali same_as Alice"}
    assert memory("add-fact", "Ali", "likes", "cake").stdout == "added: Alice likes cake\n"
    assert memory("merge", "Ali", "Alice", status=1).stderr.startswith("error: ")
    assert memory("merge", "Nobody", "Alice").stdout == "merged: 'Nobody' is 'Alice' now\n"


def test_facts_of_others_cannot_be_touched(url: str) -> None:
    for args in (("retract", "lisbon"), ("correct", "lisbon", "--object", "x"), ("retract", "no-such-id")):
        failed = run("memory", *args, "--user", "bo", status=1)
        assert failed.stderr == (
            f"error: user 'bo' has no fact with the id {args[1]!r} that is believed; `loomflow memory history` "
            "shows the ids\n"
        )
    assert believed(url) == {"Alice lives_in Lisbon", "Alice likes tea"}
    memory("retract", "lisbon")
    assert "no fact with the id 'lisbon' that is believed" in memory("retract", "lisbon", status=1).stderr


def test_bad_values_are_one_line_errors(url: str) -> None:
    for status, args, message in (
        (2, ("correct", "tea"), "give what is to be corrected: --subject, --predicate, --object"),
        (2, ("correct", "tea", "--valid-from", "soon"), "'soon' is no ISO 8601 date or time"),
        (2, ("correct", "tea", "--confidence", "2"), "less than or equal to 1"),
        (2, ("show", "--history", "--at", "2026-01-01"), "give --history or --at, not both"),
        (1, ("correct", "tea", "--object", " "), "object must be"),
        (1, ("correct", "lisbon", "--valid-until", "2000-01-01"), "valid_until must be"),
        (1, ("retract", " "), "fact_id must be"),
        (1, ("merge", "Alice", ""), "into must be"),
        (1, ("history", " "), "subject must be"),
    ):
        failed = memory(*args, status=status).stderr
        assert failed.startswith("error: "), failed
        assert failed.count("\n") == 1
        assert message in failed
    assert believed(url) == {"Alice lives_in Lisbon", "Alice likes tea"}


def test_show_at_a_moment_shows_what_was_known_then(url: str) -> None:
    async def work(opened: Memory) -> None:
        said = [
            Episode(
                f"I ran {km} km.",
                "Good.",
                user_id="alice",
                session_id="s",
                occurred_at=datetime(2025, 6, km, tzinfo=UTC),
            )
            for km in range(1, 5)
        ]
        await opened.remember(said)
        await opened.update_block("profile", "Vegan.", user_id="alice")

    in_memory(url, work)
    then = memory("show", "--at", "2025-06-03", "--limit", "2").stdout
    assert re.findall(r"I ran (\d) km", then) == ["2", "3"]
    assert "Alice lives_in Porto" in then  # that she had moved was told in July
    assert "Lisbon" not in then
    assert "Vegan." not in then
    now = json.loads(memory("show", "--at", "2099-01-01", "--json").stdout)
    assert now == json.loads(memory("show", "--json").stdout)
    assert "at that moment" in memory("show", "--at", "1999-01-01").stderr
