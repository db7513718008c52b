"""A user's memory is a user's memory: whatever ids look like, through the facade and through runs of an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import permutations
from pathlib import Path
from typing import Any, cast

import pytest

from loomflow import Agent, ConfigError, EchoModel, Episode, Fact, Memory

# Pairs that a wildcard, a prefix, folding, trimming or truthiness would take for one another.
LOOK_ALIKE: list[tuple[str | None, str | None]] = [
    ("ana_lima", "ana-lima"), ("ana%", "ana-lima"), ("%", "ana"), ("_", "a"), ("ana", "ana2"), ("ana", "Ana"),
    ("ana", "ana "),
    ("*", "ana"), ("0", "00"), ("0", "false"), ("1", "1.0"), (None, "None"), (None, "null"), (None, "anonymous"),
    ("é", "e\u0301"),
    ("a/b", "a"), ("a:b", "a"), ("u1' OR '1'='1", "u1"), ("用户1", "用户１"), ("x" * 1024, "x" * 1023),
]  # fmt: skip
HOSTILE = [
    "0b9c1f1e-4d2a-4b53-8a55-3f7d2a61c9d4", "ida@example.org", "o'brien", '"', "用户1", "x" * 1000, "a-b:c*d^e(f)",
    "{id}", "%s",
    "NOT", "AND OR", "NEAR(a b)", "u:1", "..", "../etc", "C:\\x", "👩‍👩‍👧", "\u202e", " lead", "?",
    ":id", "$1", "-1", "0",
]  # fmt: skip
NO_IDS: list[Any] = ["", "   ", "\t", 0, 1, False, True, b"u1", ["u1"], 1.5, "a\nb", "a\0b", "x" * 1025]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    async with Memory.open(tmp_path / "memory.db", embedder="default") as memory:
        yield memory


async def fill(memory: Memory, user: str | None, secret: str, session: str = "shared") -> None:
    await memory.update_block("profile", f"block {secret}", user_id=user)
    await memory.facts.append(Fact("PIN hint", "is", f"fact {secret}", user_id=user, id="f"))
    await memory.remember(Episode(f"episode {secret}", "yes", session_id=session, user_id=user, id="e"))


async def all_that_shows(memory: Memory, user: str | None) -> str:
    """Everything that any reading method says about a user, as one text."""
    question = "PIN hint fact block episode secret"
    shown: list[object] = [
        await memory.working(user_id=user), await memory.facts.query(user_id=user),
        await memory.facts.history(user_id=user),
        await memory.recall(question, user_id=user), await memory.recall_facts(question, user_id=user),
        await memory.session_messages("shared", user_id=user), (await memory.inject(question, user_id=user)).text,
        (await memory.inject(question, user_id=user, session_id="shared")).text, await memory.export(user),
    ]  # fmt: skip
    return repr(shown)


@pytest.mark.parametrize(("mine", "other"), [*LOOK_ALIKE, *((b, a) for a, b in LOOK_ALIKE)])
async def test_ids_that_look_alike_share_nothing(memory: Memory, mine: str | None, other: str | None) -> None:
    await fill(memory, other, "azure")
    assert "azure" not in await all_that_shows(memory, mine)
    await fill(memory, mine, "crimson")
    shown = await all_that_shows(memory, mine)
    assert "azure" not in shown
    assert shown.count("crimson") > 8
    assert await memory.facts.retract("f", user_id=mine)
    assert await memory.delete_block("profile", user_id=mine)
    assert (await memory.forget(user_id=mine)).total == 2
    assert "crimson" not in await all_that_shows(memory, mine)
    shown = await all_that_shows(memory, other)
    assert shown.count("azure") > 8
    assert "crimson" not in shown


@pytest.mark.parametrize(("one", "other"), list(permutations(["s_1", "s-1", "s%", "%", "S-1", "s-1 "], 2)))
async def test_sessions_and_blocks_with_names_that_look_alike_are_apart(memory: Memory, one: str, other: str) -> None:
    await memory.remember(Episode("in one", "", session_id=one))
    await memory.remember(Episode("in other", "", session_id=other))
    await memory.update_block(one, "of one")
    await memory.update_block(other, "of other")
    assert [message.content for message in await memory.session_messages(one)] == ["in one"]
    assert [episode.input for episode in await memory.recall("in", without_session=one)] == ["in other"]
    await memory.delete_block(one)
    assert [block.content for block in await memory.working()] == ["of other"]
    await memory.forget(user_id=None, session_id=one)
    assert [message.content for message in await memory.session_messages(other)] == ["in other"]


@pytest.mark.parametrize(("first", "second"), [("ana", "bo"), (None, "bo"), ("ana", None)])
async def test_two_users_of_one_session_id_have_two_conversations(
    memory: Memory, first: str | None, second: str | None
) -> None:
    echo = EchoModel()
    agent = Agent(model=echo, memory=memory)
    await agent.run("call me Alma, I keep bees", user_id=first, session_id="shared-1")
    await agent.run("who am I?", user_id=second, session_id="shared-1")
    request = echo.requests[1]
    assert request.messages == (("user", "who am I?"),)
    assert "Alma" not in request.system
    await agent.run("And now?", user_id=first, session_id="shared-1")
    assert [text for role, text in echo.requests[2].messages if role == "user"] == [
        "call me Alma, I keep bees", "And now?",
    ]  # fmt: skip


CALLS: dict[str, Callable[[Memory, Any], Awaitable[object]]] = {
    "working": lambda memory, user: memory.working(user_id=user),
    "update_block": lambda memory, user: memory.update_block("b", "x", user_id=user),
    "append_block": lambda memory, user: memory.append_block("b", "x", user_id=user),
    "delete_block": lambda memory, user: memory.delete_block("profile", user_id=user),
    "query": lambda memory, user: memory.facts.query(user_id=user),
    "history": lambda memory, user: memory.facts.history(user_id=user),
    "retract": lambda memory, user: memory.facts.retract("f", user_id=user),
    "recall": lambda memory, user: memory.recall("secret", user_id=user),
    "recall blank": lambda memory, user: memory.recall("", user_id=user),
    "recall_facts": lambda memory, user: memory.recall_facts("secret", user_id=user),
    "inject": lambda memory, user: memory.inject("secret", user_id=user),
    "inject blank": lambda memory, user: memory.inject("", user_id=user),
    "session_messages": lambda memory, user: memory.session_messages("shared", user_id=user),
    "forget": lambda memory, user: memory.forget(user_id=user),
    "export": lambda memory, user: memory.export(user),
    "stats": lambda memory, user: memory.stats(user_id=user),
    "reembed": lambda memory, user: memory.reembed(user_id=user),
    "run": lambda memory, user: Agent(model=EchoModel(), memory=memory).run("hi", user_id=user),
    "preview": lambda memory, user: Agent(model=EchoModel(), memory=memory).preview("hi", user_id=user),
}


@pytest.mark.parametrize("call", list(CALLS))
async def test_what_is_no_id_is_refused_and_reaches_nobody(memory: Memory, call: str) -> None:
    for user in ("u1", None):
        await fill(memory, user, "azure")
    for user in NO_IDS:
        with pytest.raises(ConfigError, match="user_id"):
            await CALLS[call](memory, user)
    assert set(await memory.users()) == {"u1", None}
    for user in ("u1", None):
        stats = await memory.stats(user_id=user)
        assert (stats.blocks, stats.facts, stats.episodes) == (1, 1, 1)


@pytest.mark.parametrize("user", NO_IDS)
def test_items_of_nobody_cannot_be_made(user: Any) -> None:
    with pytest.raises(ConfigError, match="user_id"):
        Fact("s", "p", "o", user_id=user)
    with pytest.raises(ConfigError, match="user_id"):
        Episode("x", "y", session_id="s", user_id=user)


async def test_forgetting_needs_a_user_to_be_said(memory: Memory) -> None:
    forget = cast("Callable[..., Awaitable[object]]", memory.forget)
    for arguments in (dict[str, str](), {"session_id": "shared"}):
        with pytest.raises(TypeError, match="user_id"):
            await forget(**arguments)


@pytest.mark.parametrize("user", HOSTILE)
async def test_every_operation_works_for_an_id_full_of_signs(memory: Memory, user: str) -> None:
    await fill(memory, "somebody else", "azure")
    await fill(memory, user, "crimson", session=user)
    echo = EchoModel()
    result = await Agent(model=echo, memory=memory).run("PIN hint?", user_id=user, session_id=f"new {user}")
    assert result.injection.problems == ()
    assert "fact crimson" in echo.requests[0].system
    assert "azure" not in echo.requests[0].system
    assert len(await memory.session_messages(user, user_id=user)) == 2
    assert len(await memory.session_messages(f"new {user}", user_id=user)) == 2
    await memory.import_(await memory.export(user), user_id=f"copy of {user}")
    assert [fact.object for fact in await memory.facts.query(user_id=f"copy of {user}")] == ["fact crimson"]
    assert (await memory.forget(user_id=user, session_id=user)).episodes == 1
    assert (await memory.forget(user_id=user)).total == 3
    assert set(await memory.users()) == {"somebody else", f"copy of {user}"}
