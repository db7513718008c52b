"""Rule R17: a memory shared with others reads exactly like a memory of one's own, whatever the users are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loomflow import Episode, Fact, Memory, Tuning
from loomflow.stores.sqlite import SQLiteStore
from tests.property.strategies import NOW

HOSTILE_IDS = (
    None, "anonymous", "None", "null", "ana_lima", "ana-lima", "ana lima", "anaXlima", "%", "_", "a%", "ana_lima%",
    "o'brien", '"', "'; DROP TABLE facts; --", '" OR u : "1', "1", "2", "10", "u", "*", "alice", "Alice", "ALICE",
    " alice", "alice ", "José", "Jose\u0301", "ａｌｉｃｅ", "аlice", "用户", "👩🏽", "\ufffd", "i" * 1024,
    "i" * 1023 + "j", "..", "/", "NaN",
)  # fmt: skip
LOOK_ALIKES = (
    (None, "anonymous"), (None, "None"), ("ana_lima", "ana-lima"), ("ana_lima", "anaXlima"), ("ana_lima", "%"),
    ("alice", "Alice"), ("alice", "alice "), ("alice", "ａｌｉｃｅ"), ("alice", "аlice"), ("José", "Jose\u0301"),
    ("1", "2"), ("1", "10"), ("i" * 1024, "i" * 1023 + "j"),
)  # fmt: skip
"""Ids that a careless query confuses: quotes, wildcards, case, width, composed and decomposed letters, row numbers."""

SESSIONS = ("s1", "s2", "%", "s_")
IDS = ("1", "2", "x")
WORDS = ("tea", "rice", "running", "茶")
Kind = Literal["block", "append", "delete", "fact", "retract", "episode", "forget", "forget_session", "forget_old"]
KINDS: tuple[Kind, ...] = (
    "block", "append", "delete", "fact", "fact", "fact", "retract", "episode", "episode", "episode", "forget",
    "forget_session", "forget_old",
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One write, by one of the users. All of them use the same ids, sessions and words."""

    kind: Kind
    who: int
    id: str
    session: str
    word: str
    days: int


STEPS = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(KINDS),
        who=st.integers(0, 2),
        id=st.sampled_from(IDS),
        session=st.sampled_from(SESSIONS),
        word=st.sampled_from(WORDS),
        days=st.integers(0, 5),
    ),
    max_size=14,
)
USERS = st.sampled_from(LOOK_ALIKES).map(list) | st.lists(
    st.sampled_from(HOSTILE_IDS), min_size=2, max_size=3, unique=True
)


def letters(texts: Sequence[str]) -> Any:
    """A vector space in which texts that share letters are near one another."""
    return np.array([[text.count(letter) + 0.1 for letter in "aeinrstu茶"] for text in texts], dtype=np.float32)


def new_memory() -> Memory:
    return Memory(SQLiteStore(None, clock=lambda: NOW), embedder=letters)


async def apply(memory: Memory, step: Step, user: str | None) -> None:
    """Do one step in the memory of `user`. Everything it writes carries a mark that only this user has."""
    mark, at = mark_of(step.who), NOW - timedelta(days=step.days)
    match step.kind:
        case "block":
            await memory.update_block(step.id, f"{step.word} {mark}", user_id=user)
        case "append":
            await memory.append_block(step.id, f"{step.word} {mark}", user_id=user)
        case "delete":
            await memory.delete_block(step.id, user_id=user)
        case "fact":
            fact = Fact("Ana", "lives_in", f"{step.word} {mark}", user_id=user, valid_from=at, recorded_at=at)
            await memory.facts.append(replace(fact, id=f"{step.id}{step.days}", source_episode_id=step.id))
        case "retract":
            await memory.facts.retract(f"{step.id}{step.days}", user_id=user)
        case "episode":
            await memory.remember(
                Episode(
                    step.word,
                    mark,
                    session_id=step.session,
                    user_id=user,
                    id=step.id,
                    occurred_at=at,
                    user_name=f"Ana {mark}",
                    agent_name="Nova",
                )
            )
        case "forget":
            await memory.forget(user_id=user)
        case "forget_session":
            await memory.forget(user_id=user, session_id=step.session)
        case "forget_old":
            await memory.forget(user_id=user, before=at)


def mark_of(who: int) -> str:
    return f"secret{who}{who}{who}"


async def everything_read(memory: Memory, user: str | None) -> dict[str, Any]:
    """What each kind of read gives, in both modes, with the order and the scores of every search."""
    query = " ".join([*WORDS, *map(mark_of, range(3))])
    injections = [
        await memory.inject(query, user_id=user, session_id=session, tuning=tuning, at=at)
        for session, tuning, at in (
            (None, Tuning(), None), ("s1", Tuning(memory_token_budget=5000), None),
            ("s2", Tuning(), NOW - timedelta(days=2)), (None, Tuning(memory_mode="fill"), None),
            ("s1", Tuning(memory_mode="fill", memory_token_budget=60, memory_decay_half_life_days=2), None),
            ("s2", Tuning(memory_mode="fill"), NOW - timedelta(days=2)),
        )
    ]  # fmt: skip
    assert {injection.problems for injection in injections} == {()}
    stats = await memory.stats(user_id=user)
    found: dict[str, Any] = {
        "working": await memory.working(user_id=user),
        "facts": await memory.facts.query(user_id=user),
        "history": await memory.facts.history(user_id=user),
        "known before": await memory.facts.query(user_id=user, known_at=NOW - timedelta(days=2)),
        "recall": await memory.recall_scored(query, user_id=user, limit=50),
        "recall_facts": await memory.recall_facts(query, user_id=user, limit=50),
        "injected": [injection.items for injection in injections],
        "text": [injection.text for injection in injections],
        "names": (await memory.store.names(user)).speakers,
        "sessions": [await memory.session_messages(session, user_id=user) for session in SESSIONS],
        "export": await memory.export(user),
        "stats": replace(stats, bytes=0),
        "unembedded": await memory.store.unembedded(user, "other", 100),
    }
    return found


@given(users=USERS, steps=STEPS)
@settings(max_examples=60)
async def test_r17_shared_memory_reads_like_a_memory_of_ones_own(users: list[str | None], steps: list[Step]) -> None:
    async with new_memory() as shared:
        for step in steps:
            await apply(shared, step, users[step.who % len(users)])
        for who, user in enumerate(users):
            async with new_memory() as own:
                for step in steps:
                    if step.who % len(users) == who:
                        await apply(own, step, user)
                wanted = await everything_read(own, user)
            got = await everything_read(shared, user)
            assert got == wanted


@given(users=USERS, steps=STEPS)
@settings(max_examples=60)
async def test_r17_no_read_shows_the_mark_of_another(users: list[str | None], steps: list[Step]) -> None:
    own_steps = [replace(step, who=step.who % len(users)) for step in steps]
    async with new_memory() as memory:
        for step in own_steps:
            await apply(memory, step, users[step.who])
        for who, user in enumerate(users):
            shown = str(await everything_read(memory, user)).replace(str([mark_of(n) for n in range(3)]), "")
            for other in set(range(len(users))) - {who}:
                assert mark_of(other) not in shown


@given(users=USERS, steps=STEPS, before=st.none() | st.integers(0, 5), session=st.none() | st.sampled_from(SESSIONS))
@settings(max_examples=60)
async def test_r17_forgetting_one_leaves_the_others_as_they_are(
    users: list[str | None], steps: list[Step], before: int | None, session: str | None
) -> None:
    async with new_memory() as memory:
        for step in steps:
            await apply(memory, step, users[step.who % len(users)])
        others = {user: (await memory.export(user), await memory.working(user_id=user)) for user in users[1:]}
        await memory.forget(
            user_id=users[0], session_id=session, before=None if before is None else NOW - timedelta(days=before)
        )
        for user, held in others.items():
            assert (await memory.export(user), await memory.working(user_id=user)) == held
        if before is None and session is None:
            assert users[0] not in await memory.users()
            left = await memory.export(users[0])
            assert (left["blocks"], left["facts"], left["episodes"]) == ([], [], [])


@given(users=USERS, steps=STEPS)
@settings(max_examples=40)
async def test_r17_users_that_hold_something_are_listed_once(users: list[str | None], steps: list[Step]) -> None:
    async with new_memory() as memory:
        for step in steps:
            await apply(memory, step, users[step.who % len(users)])
        exports = {user: await memory.export(user) for user in users}
        holding = [user for user, held in exports.items() if held["blocks"] or held["facts"] or held["episodes"]]
        listed = await memory.users()
        assert sorted(map(str, listed)) == sorted(map(str, holding))
        assert (await memory.stats()).users == len(holding)
