"""Sessions: the history that a later run sends, rebuilt from what is stored, whole or broken."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pydantic import BaseModel
from pydantic_ai import BinaryContent, ModelRetry, TextOutput

from loomflow import Episode, Fact, Memory
from tests.openai_server import ToolCall

if TYPE_CHECKING:
    from tests.e2e.conftest import Said, Wire

IMAGE = BinaryContent(b"\x89PNG-of-a-bike", media_type="image/png")
HERE: dict[str, Any] = {"user_id": "alice", "session_id": "s"}
DATES = (("said first", datetime(2026, 2, 2, tzinfo=UTC)), ("said second", datetime(2026, 1, 1, tzinfo=UTC)))


def weather(city: str) -> dict[str, str]:
    """The weather in a city."""
    return {"city": city, "sky": "晴れ"}


async def next_conversation(wire: Wire, memory: Memory, prompt: str = "And now?", **settings: Any) -> list[Said]:
    """What is sent under the system section when the session goes on; there must be no system role below it."""
    await wire.ask(wire.agent(memory=memory, **settings), prompt, **HERE)
    request = wire.server.requests[-1]
    assert [role for role, _ in request.conversation if role == "system"] == []
    return request.conversation


async def test_history_keeps_its_order_when_all_times_are_equal(wire: Wire, memory: Memory) -> None:
    expected: list[Said] = []
    for batch in (range(6), range(6, 13)):
        await memory.remember([Episode(f"question {n}", f"answer {n}", **HERE) for n in batch])
    for n in range(13):
        expected += [("user", f"question {n}"), ("assistant", f"answer {n}")]
    assert await next_conversation(wire, memory) == [*expected, ("user", "And now?")]
    assert [message.content for message in await memory.session_messages("s", user_id="alice", limit=3)] == [
        "answer 12", "And now?", "ok",
    ]  # fmt: skip


async def test_order_is_that_of_the_runs_even_if_the_clock_goes_backwards(chat: Wire, memory: Memory) -> None:
    later, earlier = (Episode(text, "yes", occurred_at=at, **HERE) for text, at in DATES)
    await memory.remember(later)
    await memory.remember(earlier)
    assert await next_conversation(chat, memory) == [
        *[("user", "said first"), ("assistant", "yes"), ("user", "said second"), ("assistant", "yes")],
        ("user", "And now?"),
    ]


async def test_tool_calls_and_results_come_back_in_pairs(wire: Wire, memory: Memory) -> None:
    agent = wire.agent(memory=memory, tools=[weather])
    both = [ToolCall("weather", {"city": "Porto"}, "c1"), ToolCall("weather", {"city": "Faro"}, "c2")]
    wire.server.reply(both, ToolCall("weather", {"city": "Évora"}, "c3"), "All dry.")
    await wire.ask(agent, "Will it rain?", **HERE)
    assert await next_conversation(wire, memory) == [
        ("user", "Will it rain?"),
        ("assistant", "call:weather:c1"),
        ("assistant", "call:weather:c2"),
        ("tool", '{"city":"Porto","sky":"晴れ"}'),
        ("tool", '{"city":"Faro","sky":"晴れ"}'),
        ("assistant", "call:weather:c3"),
        ("tool", '{"city":"Évora","sky":"晴れ"}'),
        ("assistant", "All dry."),
        ("user", "And now?"),
    ]


async def test_r17_one_session_id_of_two_users_is_two_conversations(chat: Wire, memory: Memory) -> None:
    agent = chat.agent(memory=memory)
    await chat.ask(agent, "My name is Alma and I love pizza", user_id="alma", session_id="shared-1")
    await chat.ask(agent, "What is my name?", user_id="bo", session_id="shared-1")
    await chat.ask(agent, "Still there?", user_id="alma", session_id="shared-1")
    assert chat.sent[1] == [*chat.head("Be brief."), ("user", "What is my name?")]
    history = [("user", "My name is Alma and I love pizza"), ("assistant", "ok")]
    assert chat.sent[2] == [*chat.head("Be brief."), *history, ("user", "Still there?")]


async def test_text_of_a_prompt_with_a_picture_is_recalled_and_stored(wire: Wire, memory: Memory) -> None:
    await memory.facts.append(Fact("Alice's bike", "is", "a green Kestrel", user_id="alice"))
    wire.server.reply("Yes, the Kestrel.")
    asked = "Is this the same bike as before?"
    result = await wire.ask(wire.agent(memory=memory), [asked, IMAGE], **HERE)
    assert result.injection.query == asked
    assert result.injection.text.splitlines()[1:] == ["Known facts:", "- Alice's bike is a green Kestrel"]
    picture = "image_url" if wire.endpoint == "chat" else "input_image"
    assert wire.server.requests[0].conversation == [("user", f"{asked}\n[{picture}]")]
    (episode,) = await memory.store.episodes("alice")
    assert (episode.input, episode.output) == (asked, "Yes, the Kestrel.")
    assert (await next_conversation(wire, memory))[0] == ("user", f"{asked}\n[{picture}]")
    assert wire.server.requests[0].body != wire.server.requests[1].body
    assert IMAGE.base64 in json.dumps(wire.server.requests[1].body)


async def test_prompt_of_a_picture_alone_recalls_only_blocks(chat: Wire, memory: Memory) -> None:
    await memory.update_block("profile", "Rides a bike.", user_id="alice")
    await memory.facts.append(Fact("Alice's bike", "is", "a green Kestrel", user_id="alice"))
    chat.server.reply("A bike.")
    result = await chat.ask(chat.agent(memory=memory), [IMAGE], **HERE)
    assert (result.injection.query, result.injection.problems) == ("", ())
    assert result.injection.text.splitlines()[1:] == ["Block profile:", "> Rides a bike."]
    (episode,) = await memory.store.episodes("alice")
    assert (episode.input, episode.output) == ("", "A bike.")
    history = [("user", "[image_url]"), ("assistant", "A bike.")]
    assert await next_conversation(chat, memory) == [*history, ("user", "And now?")]


@pytest.mark.parametrize("prompt", ["", " \n"])
async def test_blank_prompt_runs_and_recalls_only_blocks(chat: Wire, memory: Memory, prompt: str) -> None:
    await memory.facts.append(Fact("Alice", "likes", "tea", user_id="alice"))
    result = await chat.ask(chat.agent(memory=memory), prompt, **HERE)
    assert (result.output, result.injection.text, result.injection.problems) == ("ok", "", ())
    conversation = await next_conversation(chat, memory)
    assert conversation == [("user", prompt), ("assistant", "ok"), ("user", "And now?")]


class City(BaseModel):
    name: str
    size: int


async def test_structured_output_is_stored_as_json_and_its_call_is_answered(wire: Wire, memory: Memory) -> None:
    wire.server.reply(ToolCall("final_result", {"name": "Zürich", "size": 3}, "c1"))
    result = await wire.ask(wire.agent(memory=memory, output_type=City), "Which city?", **HERE)
    assert result.output == City(name="Zürich", size=3)
    (episode,) = await memory.store.episodes("alice")
    assert episode.output == '{"name":"Zürich","size":3}'
    conversation = await next_conversation(wire, memory)
    assert conversation[:2] == [("user", "Which city?"), ("assistant", "call:final_result:c1")]
    assert conversation[-1] == ("user", "And now?")
    assert "interrupted" not in json.dumps(conversation)


async def test_metadata_comes_back_as_plain_values(chat: Wire, memory: Memory) -> None:
    metadata = {"score": np.float32(0.5), "n": np.int64(3), "ok": np.bool_(True), "tags": ("a", "ü"), "none": None}
    await chat.ask(chat.agent(memory=memory), "Hello", metadata=metadata, **HERE)
    (episode,) = await memory.store.episodes("alice")
    assert episode.metadata == {"score": 0.5, "n": 3, "ok": True, "tags": ["a", "ü"], "none": None}
    assert [type(value) for value in episode.metadata.values()] == [float, int, bool, list, type(None)]


async def test_lone_surrogate_in_a_prompt_is_sent_and_stored_as_replacement(wire: Wire, memory: Memory) -> None:
    agent = wire.agent(memory=memory)
    await wire.ask(agent, "a cut emoji: \ud83d", **HERE)
    await wire.ask(agent, ["cut again: \ud83d"], **HERE)
    assert [episode.input for episode in await memory.store.episodes("alice")] == ["a cut emoji: �", "cut again: �"]
    assert [request.conversation[-1] for request in wire.server.requests] == [
        ("user", "a cut emoji: �"), ("user", "cut again: �"),
    ]  # fmt: skip


async def test_lone_surrogate_in_a_reply_loses_nothing_of_the_run(wire: Wire, memory: Memory) -> None:
    agent = wire.agent(memory=memory, tools=[weather])
    wire.server.reply(ToolCall("weather", {"city": "Porto"}, "c1"), "dry \ud83d")
    await wire.ask(agent, "Will it rain?", **HERE)
    (episode,) = await memory.store.episodes("alice")
    assert episode.output == "dry �"
    assert await next_conversation(wire, memory) == [
        ("user", "Will it rain?"),
        ("assistant", "call:weather:c1"),
        ("tool", '{"city":"Porto","sky":"晴れ"}'),
        ("assistant", "dry �"),
        ("user", "And now?"),
    ]


async def test_empty_answer_that_was_asked_for_again_is_not_replayed(wire: Wire, memory: Memory) -> None:
    wire.server.reply("", "Hello!")
    await wire.ask(wire.agent(memory=memory), "Hi", **HERE)
    assert await next_conversation(wire, memory) == [("user", "Hi"), ("assistant", "Hello!"), ("user", "And now?")]


def without_blocked(text: str) -> str:
    if "BLOCKED" in text:
        raise ModelRetry("say it politely")
    return text


async def test_rejected_answer_that_was_mended_is_not_replayed(wire: Wire, memory: Memory) -> None:
    wire.server.reply("BLOCKED-ANSWER", "Hello!")
    await wire.ask(wire.agent(memory=memory, output_type=TextOutput(without_blocked)), "Hi", **HERE)
    assert await next_conversation(wire, memory) == [("user", "Hi"), ("assistant", "Hello!"), ("user", "And now?")]


async def test_session_of_a_hundred_turns_is_sent_whole_and_in_order(chat: Wire, memory: Memory) -> None:
    await memory.remember([Episode(f"question {n}", f"answer {n}", **HERE) for n in range(100)])
    conversation = await next_conversation(chat, memory)
    assert [text for role, text in conversation if role == "user"] == [
        *(f"question {n}" for n in range(100)),
        "And now?",
    ]
    assert [text for role, text in conversation if role == "assistant"] == [f"answer {n}" for n in range(100)]


def request(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "request", "parts": list(parts)}


def response(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "response", "parts": list(parts)}


USER = {"part_kind": "user-prompt", "content": "Will it rain?"}
SYSTEM = {"part_kind": "system-prompt", "content": "You are an old prompt."}
CALL = {"part_kind": "tool-call", "tool_name": "weather", "args": {"city": "Porto"}, "tool_call_id": "c1"}
RESULT = {"part_kind": "tool-return", "tool_name": "weather", "content": "dry", "tool_call_id": "c1"}
ORPHAN = {"part_kind": "tool-return", "tool_name": "weather", "content": "wet", "tool_call_id": "c9"}
ANSWER = {"part_kind": "text", "content": "It stays dry."}
EMPTY = {"part_kind": "text", "content": " \n"}
LEGACY = {"part_kind": "retry-prompt", "tool_name": "weather", "content": "try again", "tool_call_id": "c1"}

ASKED, TOLD = ("user", "Will it rain?"), ("assistant", "It stays dry.")
CALLED, PAIRED = ("assistant", "call:weather:c1"), ("tool", "dry")
CLOSED, REFUSED = ("tool", "interrupted: no result"), ("tool", '{"error":"try again"}')

BROKEN: dict[str, tuple[object, list[Said]]] = {
    "dangling call": ([request(USER), response(CALL)], [ASKED, CALLED, CLOSED]),
    "dangling call before the answer": (
        [request(USER), response(CALL), response(ANSWER)], [ASKED, CALLED, CLOSED, TOLD],
    ),
    "orphan result": ([request(USER), response(ANSWER), request(ORPHAN)], [ASKED, TOLD]),
    "orphan result beside a real one": (
        [request(USER), response(CALL), request(ORPHAN, RESULT), response(ANSWER)], [ASKED, CALLED, PAIRED, TOLD],
    ),
    "result given twice": (
        [request(USER), response(CALL), request(RESULT, RESULT), response(ANSWER)], [ASKED, CALLED, PAIRED, TOLD],
    ),
    "result before its call": (
        [request(USER, RESULT), response(CALL), response(ANSWER)], [ASKED, CALLED, CLOSED, TOLD],
    ),
    "retry as an old version wrote it": (
        [request(USER), response(CALL), request(LEGACY), response(ANSWER)], [ASKED, CALLED, REFUSED, TOLD],
    ),
    "empty text beside a call": (
        [request(USER), response(EMPTY, CALL), request(RESULT), response(ANSWER)], [ASKED, CALLED, PAIRED, TOLD],
    ),
    "empty answer in the middle": ([request(USER), response(EMPTY), response(ANSWER)], [ASKED, TOLD]),
    "system prompt on top and in the middle": (
        [request(SYSTEM, USER), response(CALL), request(SYSTEM, RESULT), request(SYSTEM), response(ANSWER)],
        [ASKED, CALLED, PAIRED, TOLD],
    ),
    "no user message": ([response(ANSWER)], [ASKED, TOLD]),
    "no messages": ([], [ASKED, TOLD]),
    "not a list": ({"role": "user"}, [ASKED, TOLD]),
    "unknown part": ([request({"part_kind": "from-the-future", "content": 1})], [ASKED, TOLD]),
}  # fmt: skip
UNREADABLE = {"cut JSON": '[{"parts": [{"cont', "no JSON": "\x00 nothing", "empty": "", "null": "null"}


@pytest.mark.parametrize("kind", [*BROKEN, *UNREADABLE])
async def test_broken_stored_messages_do_not_break_the_next_run(
    chat: Wire, memory: Memory, path: Path, kind: str
) -> None:
    await memory.remember(Episode("Will it rain?", "It stays dry.", id="old", **HERE))
    stored, expected = BROKEN[kind] if kind in BROKEN else (UNREADABLE[kind], [ASKED, TOLD])
    await memory.aclose()
    with sqlite3.connect(path) as db:
        text = stored if isinstance(stored, str) else json.dumps(stored)
        db.execute("INSERT INTO episode_messages SELECT no, ? FROM episodes WHERE id = 'old'", (text,))
    db.close()
    conversation = await next_conversation(chat, memory)
    assert conversation[: len(expected)] == expected
    assert conversation[-1] == ("user", "And now?")
    assert len(conversation) - len(expected) - 1 == (kind == "dangling call")  # whose turn has no answer of its own
    assert chat.server.requests[-1].faults == []
