"""Tools in a request: results shortened on the wire, whole in the store, read in parts; definitions on a budget."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from pydantic_ai import BinaryContent, FunctionToolset

from loomflow import Memory, estimate_tokens
from tests.e2e.conftest import Wire
from tests.e2e.contexts import HERE, WIRES, conversation, served, tuned
from tests.openai_server import Failure, OpenAIServer, Reply, ToolCall

LOG = "\n".join(f"{number:04} 晴れ, all is well" for number in range(900))
PICTURE = BinaryContent(b"\x89PNG" + bytes(100_000), media_type="image/png")


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    yield from served(request.param, monkeypatch)


def log(day: str) -> str:
    """The log of a day."""
    return f"{day}\n{LOG}"


def orders(city: str) -> dict[str, Any]:
    """The orders of a city."""
    return {"city": city, "sky": "晴れ", "rows": [{"id": number, "name": f"注文 {number}"} for number in range(900)]}


def photo(place: str) -> list[Any]:
    """A photograph of a place."""
    return [f"This is {place}.", PICTURE]


def results(wire: Wire, number: int = -1) -> list[str]:
    """What tools had returned, as it stands in a request."""
    return [text for role, text in wire.server.requests[number].conversation if role == "tool"]


# Results


async def test_json_that_is_shortened_is_json_with_true_markers_and_its_letters_as_they_are(
    wire: Wire, memory: Memory
) -> None:
    """agno#9485: characters were sent as escapes, which cost several times as many tokens and were not found again."""
    agent = wire.agent(memory=memory, tools=[orders], tuning=tuned(tool_result_max_tokens=300))
    wire.server.reply(ToolCall("orders", {"city": "京都"}, "c1"), "ok")
    result = await wire.ask(agent, "What was ordered?", **HERE)
    (text,) = results(wire)
    sent = json.loads(text)
    *rows, marker = sent["rows"]
    assert (sent["city"], sent["sky"], rows) == ("京都", "晴れ", orders("")["rows"][: len(rows)])
    lost, of = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+", marker)[:2])
    assert (lost, of) == (900 - len(rows), 900)
    assert "\\u" not in text
    assert estimate_tokens(text) <= 300
    assert (result.context.shortened, result.context.transcript < 340) == (1, True)


async def test_result_is_shortened_alike_in_every_request_and_run_and_stored_whole(wire: Wire, memory: Memory) -> None:
    agent = wire.agent(memory=memory, tools=[log], tuning=tuned(tool_result_max_tokens=200, context_window_tokens=9000))
    wire.server.reply(
        ToolCall("log", {"day": "Monday"}, "c1"), ToolCall("log", {"day": "Tuesday"}, "c2"), "ok",
        "And again.", Failure(400, "out of order"), "And at last.",
    )  # fmt: skip
    first = await wire.ask(agent, "How was it?", **HERE)
    await wire.ask(agent, "And now?", **HERE)
    with pytest.raises(Exception, match="out of order"):
        await wire.ask(agent, "Well?", **HERE)
    await wire.ask(agent, "Are you there?", **HERE)
    sent = [request.conversation for request in wire.server.requests]
    for before, after in pairwise(sent[:5]):
        assert after[: len(before)] == before
    assert sent[5][: len(sent[3])] == sent[3]
    assert [results(wire, number) for number in (3, 4, 5)] == [results(wire, 2)] * 3
    assert [estimate_tokens(text) <= 200 for text in results(wire, 2)] == [True, True]
    turn, *_ = await memory.store.turns("alice", "s")
    stored = json.loads(turn.messages or "")
    whole = [part["content"] for message in stored for part in message["parts"] if part["part_kind"] == "tool-return"]
    assert whole == [log("Monday"), log("Tuesday")]
    kept = [part for message in first.messages for part in message.parts if part.part_kind == "tool-return"]
    assert [part.content for part in kept] == whole


async def test_without_a_cap_results_are_sent_whole(wire: Wire, memory: Memory) -> None:
    agent = wire.agent(memory=memory, tools=[log], tuning=tuned(tool_result_max_tokens=None))
    wire.server.reply(ToolCall("log", {"day": "Monday"}, "c1"), "ok")
    result = await wire.ask(agent, "How was it?", **HERE)
    assert (results(wire), result.context.shortened) == ([log("Monday")], 0)


async def test_picture_that_a_tool_returned_counts_as_media_and_never_as_text(wire: Wire, memory: Memory) -> None:
    """langchain#34883: a picture of 100 kB looked like 33,000 tokens of text."""
    settings = {"tool_result_max_tokens": 50, "context_window_tokens": 8000}
    agent = wire.agent(memory=memory, tools=[photo], tuning=tuned(**settings))
    wire.server.reply(ToolCall("photo", {"place": "the pier"}, "c1"), "ok")
    result = await wire.ask(agent, "What does it look like?", **HERE)
    assert len(wire.server.requests) == 2
    assert 800 < result.context.transcript < 950
    assert (result.context.compactions, result.context.shortened) == (0, 0)
    assert json.dumps(wire.server.requests[1].body).count(PICTURE.base64) == 1
    assert sum(PICTURE.base64[:200] in text for _, text in wire.server.requests[1].conversation) == 0


async def test_results_with_one_id_are_each_shortened_from_their_own(chat: Wire, memory: Memory) -> None:
    """Several local servers count the ids of calls anew in each answer."""
    agent = chat.agent(memory=memory, tools=[log], tuning=tuned(tool_result_max_tokens=100))
    for day in ("Monday", "Tuesday"):
        chat.server.reply(ToolCall("log", {"day": day}, "c1"), "ok")
        result = await chat.ask(agent, f"How was {day}?", **HERE)
    assert [text.partition("\n")[0] for text in results(chat)] == ["Monday", "Tuesday"]
    assert result.context.shortened == 2


# Reading the rest


async def test_all_parts_of_a_shortened_result_can_be_read_and_are_the_whole_of_it(wire: Wire, memory: Memory) -> None:
    settings = {"tool_result_max_tokens": 1500, "tool_result_paging": True}
    agent = wire.agent(memory=memory, tools=[log], tuning=tuned(**settings))
    wire.server.reply(
        ToolCall("log", {"day": "Monday"}, "c1"), ToolCall("read_tool_result", part_of("c1", 1), "r1"), "ok"
    )
    await wire.ask(agent, "How was it?", **HERE)
    short, first = results(wire)
    assert 'read_tool_result("c1", 1)' in short
    heading = re.match(r"part 1 of (\d+):\n", first)
    assert heading is not None
    parts = range(2, int(heading[1]) + 1)
    calls: list[Reply] = [ToolCall("read_tool_result", part_of("c1", number), f"r{number}") for number in parts]
    wire.server.reply(*calls, "Well.")
    result = await wire.ask(agent, "And the rest?", **HERE)
    read = [text for text in results(wire) if text.startswith("part ")]
    assert "".join(text.partition("\n")[2] for text in read) == log("Monday")
    assert [estimate_tokens(text) <= 1500 for text in read] == [True] * len(read)
    assert (len(read) > 4, result.context.shortened) == (True, 1)


def part_of(call_id: str, number: int) -> dict[str, object]:
    return {"call_id": call_id, "part_number": number}


async def test_reading_what_is_not_there_is_answered_and_fails_nothing(chat: Wire, memory: Memory) -> None:
    settings = {"tool_result_max_tokens": 1500, "tool_result_paging": True}
    agent = chat.agent(memory=memory, tools=[log], tuning=tuned(**settings))
    wrong = [
        ToolCall("read_tool_result", part_of("c9", 1), "r1"),
        ToolCall("read_tool_result", part_of("c1", 99), "r2"),
    ]
    chat.server.reply(ToolCall("log", {"day": "Monday"}, "c1"), wrong, "ok")
    await chat.ask(agent, "How was it?", **HERE)
    nothing, far = results(chat)[1:]
    assert nothing == "there is no tool result with the id 'c9'"
    assert re.fullmatch(r"the result of 'c1' has the parts 1 to \d+", far)


async def test_of_results_with_one_id_the_latest_is_read(chat: Wire, memory: Memory) -> None:
    settings = {"tool_result_max_tokens": 200, "tool_result_paging": True}
    agent = chat.agent(memory=memory, tools=[log], tuning=tuned(**settings))
    chat.server.reply(ToolCall("log", {"day": "Monday"}, "c1"), "ok")
    await chat.ask(agent, "How was Monday?", **HERE)
    read = ToolCall("read_tool_result", part_of("c1", 1), "r1")
    chat.server.reply(ToolCall("log", {"day": "Tuesday"}, "c1"), read, "ok")
    await chat.ask(agent, "How was Tuesday?", **HERE)
    assert results(chat)[-1].split("\n")[1] == "Tuesday"


@pytest.mark.parametrize("wire", [name for name in WIRES if "anthropic" in name], indirect=True)
async def test_result_whose_id_was_put_differently_can_be_read_by_either(wire: Wire, memory: Memory) -> None:
    """Ids with other characters come from a server that the session was begun with; Anthropic refuses them."""
    settings: dict[str, Any] = {"tool_result_max_tokens": 200, "tool_result_paging": True}
    with OpenAIServer() as server:
        server.reply(ToolCall("log", {"day": "Monday"}, "call:1"), "ok")
        other = Wire(server, "chat", streamed=False)
        await other.ask(other.agent(memory=memory, tools=[log], tuning=tuned(**settings)), "How was it?", **HERE)
    reads = [ToolCall("read_tool_result", part_of(id_, 1), f"r{n}") for n, id_ in enumerate(("call_1", "call:1"))]
    wire.server.reply(reads, "ok")
    await wire.ask(wire.agent(memory=memory, tools=[log], tuning=tuned(**settings)), "And the rest?", **HERE)
    assert [text.split("\n")[1] for text in results(wire)[1:]] == ["Monday", "Monday"]


@pytest.mark.parametrize("paging", [True, False])
async def test_the_tool_that_reads_parts_is_there_only_where_it_is_asked_for(
    wire: Wire, memory: Memory, paging: bool
) -> None:
    await wire.ask(wire.agent(memory=memory, tools=[log], tuning=tuned(tool_result_paging=paging)), "Hello!", **HERE)
    assert tools_of(wire) == (["log", "read_tool_result"] if paging else ["log"])


# Definitions

NAMES = ["invoices", "parcels", "holidays", "payroll", "printers", "badges"]
ONE = 90
"""What the definition of each of `work` costs at most."""


def work(name: str) -> Callable[[str], str]:
    def handle(text: str) -> str:
        return f"{name}: {text}"

    handle.__name__, handle.__doc__ = name, f"Handles everything that has to do with {name}. " * 4
    return handle


def tools_of(wire: Wire, number: int = -1) -> list[str]:
    """Names of the tools in a request."""
    listed: list[dict[str, Any]] = wire.server.requests[number].body.get("tools") or []
    return sorted(tool.get("function", tool)["name"] for tool in listed)


async def test_definitions_beyond_the_budget_are_found_by_search_and_can_be_called(chat: Wire, memory: Memory) -> None:
    tuning = tuned(tool_definitions_token_budget=2 * ONE, keep_tools=["payroll"])
    agent = chat.agent(memory=memory, tools=[work(name) for name in NAMES], tuning=tuning)
    search = ToolCall("search_tools", {"queries": ["badges"]}, "c1")
    chat.server.reply(search, ToolCall("badges", {"text": "a new one"}, "c2"), "It is done.", "Again.")
    result = await chat.ask(agent, "I lost my badge.", **HERE)
    shown = ["invoices", "payroll", "search_tools"]
    found = sorted([*shown, "badges"])
    assert [tools_of(chat, number) for number in range(3)] == [shown, found, found]
    assert results(chat) == ['{"discovered_tools":[{"name":"badges"}]}', "badges: a new one"]
    assert (result.output, result.context.deferred) == ("It is done.", 3)
    await chat.ask(agent, "And my friend's?", **HERE)
    assert tools_of(chat) == found


@pytest.mark.parametrize("budget", [1, 2 * ONE, "auto", None])
async def test_tools_that_are_to_be_kept_are_always_there_whatever_the_budget(
    chat: Wire, memory: Memory, budget: Any
) -> None:
    kept = ["badges", "payroll"]
    tuning = tuned(tool_definitions_token_budget=budget, keep_tools=kept)
    agent = chat.agent(memory=memory, tools=[work(name) for name in NAMES], tuning=tuning)
    result = await chat.ask(agent, "Hello!", **HERE)
    is_large = isinstance(budget, int)
    assert tools_of(chat) == (sorted([*kept, "search_tools"]) if is_large else sorted(NAMES))
    assert result.context.deferred == (4 if is_large else 0)


async def test_a_small_agent_sees_no_change(wire: Wire, memory: Memory) -> None:
    tools = [work(name) for name in NAMES]
    await wire.ask(wire.agent(memory=memory, tools=tools), "Hello!", **HERE)
    await wire.ask(wire.agent(memory=memory, tools=tools, tuning=tuned(tool_definitions_token_budget=None)), "Hello!")
    bounded, unbounded = (request.body.get("tools") for request in wire.server.requests)
    assert bounded == unbounded
    assert tools_of(wire, 0) == sorted(NAMES)


async def test_tools_of_toolsets_are_on_the_same_budget(chat: Wire, memory: Memory) -> None:
    toolset: FunctionToolset[Any] = FunctionToolset([work(name) for name in NAMES[2:]])
    tuning = tuned(tool_definitions_token_budget=3 * ONE)
    agent = chat.agent(memory=memory, tools=[work(name) for name in NAMES[:2]], toolsets=[toolset], tuning=tuning)
    chat.server.reply(
        ToolCall("search_tools", {"queries": ["printers"]}, "c1"), ToolCall("printers", {"text": "jam"}), "ok"
    )
    await chat.ask(agent, "The printer!", **HERE)
    assert tools_of(chat, 0) == ["holidays", "invoices", "parcels", "search_tools"]
    assert results(chat)[-1] == "printers: jam"


async def test_tools_of_the_memory_and_for_parts_are_never_put_off(chat: Wire, memory: Memory) -> None:
    tuning = tuned(tool_definitions_token_budget=1, tool_result_paging=True)
    agent = chat.agent(memory=memory, tools=[work(name) for name in NAMES], memory_tools=["remember"], tuning=tuning)
    await chat.ask(agent, "Hello!", **HERE)
    assert tools_of(chat) == ["read_tool_result", "remember", "search_tools"]


async def test_what_a_search_for_tools_returns_is_never_shortened(chat: Wire, memory: Memory) -> None:
    names = [f"department_{number}" for number in range(60)]
    tuning = tuned(tool_definitions_token_budget=1, tool_result_max_tokens=8)
    agent = chat.agent(memory=memory, tools=[work(name) for name in names], tuning=tuning)
    chat.server.reply(ToolCall("search_tools", {"queries": ["department"]}, "c1"), "ok")
    result = await chat.ask(agent, "Which departments are there?", **HERE)
    (text,) = results(chat)
    assert len(json.loads(text)["discovered_tools"]) > 1
    assert estimate_tokens(text) > 8
    assert result.context.shortened == 0


async def test_account_counts_definitions_as_they_are_sent(chat: Wire, memory: Memory) -> None:
    tools = [work(name) for name in NAMES]
    costs: list[int] = []
    for budget in (2 * ONE, None):
        tuning = tuned(tool_definitions_token_budget=budget)
        result = await chat.ask(chat.agent(memory=memory, tools=tools, tuning=tuning), "Hello!", **HERE)
        sent = json.dumps(chat.server.requests[-1].body["tools"], separators=(",", ":"))
        costs.append(result.context.tools)
        assert abs(result.context.tools - estimate_tokens(sent)) <= 16 * len(tools_of(chat))
    assert costs[0] < costs[1] - ONE
    assert conversation(chat.server.requests[-1])[-1] == ("user", "Hello!")
