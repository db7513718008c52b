"""Conversations that stay usable: order, interruptions, concurrency, refused answers, one memory block a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path

import pytest
from pydantic_ai import TextOutput
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from loomflow import Agent, EchoModel, Episode, Fact, Memory
from tests.openai_server import OpenAIServer

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
async def memory(path: Path) -> AsyncIterator[Memory]:
    async with Memory.open(path, embedder=None) as memory:
        yield memory


class Script:
    """A model that answers from a list of turns and keeps the messages it was sent. Out of turns, it says "ok"."""

    def __init__(self, *turns: Sequence[ModelResponsePart] | Exception) -> None:
        self.turns = list(turns)
        self.sent: list[list[ModelMessage]] = []
        self.model = FunctionModel(self.respond)

    def respond(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        self.sent.append(messages)
        turn = self.turns.pop(0) if self.turns else [TextPart("ok")]
        if isinstance(turn, Exception):
            raise turn
        return ModelResponse(parts=turn)


def user_texts(messages: Sequence[ModelMessage]) -> list[object]:
    return [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


def assert_valid(messages: Sequence[ModelMessage]) -> None:
    """Any provider takes these: results follow calls at once, one for each; no blank texts; no system prompts."""
    open_calls: set[str] = set()
    for message in messages:
        assert message.parts
        returned = {part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)}
        assert returned == open_calls
        open_calls = {part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)}
        assert not any(isinstance(part, SystemPromptPart) for part in message.parts)
        assert not any(isinstance(part, TextPart) and not part.content.strip() for part in message.parts)
    assert not open_calls
    assert isinstance(messages[-1], ModelRequest)


# Order


@pytest.mark.parametrize("step", [timedelta(0), timedelta(hours=1), timedelta(hours=-1)])
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_conversation_is_read_back_in_the_order_it_was_written(
    memory: Memory, step: timedelta, at_once: bool
) -> None:
    turns = [Episode(f"m{2 * n}", f"m{2 * n + 1}", session_id="s", occurred_at=NOW + n * step) for n in range(7)]
    if at_once:
        await memory.remember(turns)
    else:
        for turn in turns:
            await memory.remember(turn)
    for _ in range(2):
        last = await memory.session_messages("s", limit=10)
        assert [message.content for message in last] == [f"m{n}" for n in range(4, 14)]
    echo = EchoModel()
    await Agent(model=echo, memory=memory).run("next", session_id="s")
    assert [text for _, text in echo.requests[0].messages] == [*(f"m{n}" for n in range(14)), "next"]


# What is stored, and what is not


async def test_a_request_holds_one_memory_block_and_the_history_none(memory: Memory) -> None:
    marker = "prefers the window seat"
    await memory.update_block("profile", f"{marker} " * 200)
    echo = EchoModel()
    agent = Agent("Be kind.", model=echo, memory=memory)
    prompts = ["first call", "second call", "third call"]
    for number, prompt in enumerate(prompts):
        result = await agent.run(prompt, session_id="s")
        request = echo.requests[number]
        assert request.system == f"Be kind.\n\n{result.injection.text}"
        assert request.system.count("Block profile:") == 1
        assert all(marker not in text for _, text in request.messages)
        assert [text for role, text in request.messages if role == "user"] == prompts[: number + 1]
    messages = await memory.session_messages("s")
    assert [message.content for message in messages] == [
        text for prompt in prompts for text in (prompt, f"Echo: {prompt}")
    ]
    assert marker not in repr((await memory.export(None))["episodes"])
    await memory.update_block("profile", "changed")
    await agent.run("fourth call", session_id="s")
    assert marker not in repr(echo.requests[-1])


async def test_what_is_injected_is_not_learned_again(memory: Memory) -> None:
    await memory.update_block("persona", "You are Vega, who helps sailors")
    await memory.facts.append(Fact("user", "lives_in", "Trieste"))
    agent = Agent("Be kind.", model=EchoModel("glad to be of use: "), memory=memory)
    for number in range(20):
        result = await agent.run("good! and Trieste?", session_id=f"s{number % 3}")
        assert "Trieste" in result.injection.text
    assert [fact.object for fact in await memory.facts.history()] == ["Trieste"]
    assert [block.version for block in await memory.working()] == [1]
    episodes = await memory.store.episodes(None)
    assert {episode.text for episode in episodes} == {"good! and Trieste?\nglad to be of use: good! and Trieste?"}
    assert len(episodes) == 20
    assert "Vega" not in repr((await memory.export(None))["episodes"])


@pytest.mark.parametrize("rows", [0, 1, 100])
@pytest.mark.parametrize("instructions", ["Answer in capitals.", ""])
async def test_instructions_and_block_are_one_leading_section_with_any_history(
    memory: Memory, rows: int, instructions: str
) -> None:
    await memory.facts.append(Fact("user", "likes", "tea"))
    await memory.remember([Episode(f"q{n}", f"a{n}", session_id="s") for n in range(rows)])
    with OpenAIServer() as server:
        agent = Agent(instructions, model="gpt-4.1-mini", base_url=server.base_url, memory=memory)
        result = await agent.run("which tea?", session_id="s")
        (request,) = server.requests
    head = list(takewhile(lambda message: message[0] == "system", request.messages))
    roles = [role for role, _ in request.messages[len(head) :]]
    assert roles == [*["user", "assistant"] * rows, "user"]
    expected = "\n\n".join(filter(None, [instructions, result.injection.text]))
    assert "\n\n".join(text for _, text in head) == expected
    assert "user likes tea" in expected


# Empty answers


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
async def test_blank_parts_of_an_answer_are_not_replayed(memory: Memory, blank: str) -> None:
    script = Script([TextPart(blank), ToolCallPart("look", {}, "c1")], [TextPart(blank), TextPart("done")])

    def look() -> str:
        return "seen"

    agent = Agent(model=script.model, memory=memory, tools=[look])
    await agent.run("first", session_id="s")
    await agent.run("second", session_id="s")
    assert_valid(script.sent[-1])
    kinds = [type(part).__name__ for message in script.sent[-1] for part in message.parts]
    assert kinds == ["UserPromptPart", "ToolCallPart", "ToolReturnPart", "TextPart", "UserPromptPart"]


@pytest.mark.parametrize(("said", "answered"), [("hello", ""), ("hello", " \n"), ("", "welcome"), ("  ", "welcome")])
async def test_half_a_turn_is_replayed_as_a_valid_one(memory: Memory, said: str, answered: str) -> None:
    await memory.remember([Episode(said, answered, session_id="s"), Episode("and", "so", session_id="s")])
    script = Script()
    assert (await Agent(model=script.model, memory=memory).run("next", session_id="s")).output == "ok"
    (messages,) = script.sent
    assert_valid(messages)
    said_texts = [text for text in user_texts(messages) if isinstance(text, str) and text.strip()]
    assert said_texts == [*filter(str.strip, [said]), "and", "next"]
    answers = [part.content for message in messages for part in message.parts if isinstance(part, TextPart)]
    assert [text for text in answers if text in (answered, "so")] == [*filter(str.strip, [answered]), "so"]


# Interruptions


async def end_by_cancelling(agent: Agent, started: asyncio.Event) -> None:
    task = asyncio.create_task(agent.run("look it up", session_id="s"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def end_by_timeout(agent: Agent, started: asyncio.Event) -> None:
    task = asyncio.create_task(agent.run("look it up", session_id="s"))
    await started.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(task, 0.01)


async def end_by_cancelling_a_stream(agent: Agent, started: asyncio.Event) -> None:
    async def read() -> None:
        async with agent.stream("look it up", session_id="s") as stream:
            async for _ in stream:
                pass

    task = asyncio.create_task(read())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def end_by_leaving_a_stream(agent: Agent, started: asyncio.Event) -> None:
    async with agent.stream("look it up", session_id="s") as stream:
        async for event in stream.events():
            if event.event_kind == "function_tool_call":
                break


@pytest.mark.parametrize(
    "end", [end_by_cancelling, end_by_timeout, end_by_cancelling_a_stream, end_by_leaving_a_stream]
)
@pytest.mark.parametrize("again", ["hello again?", "look it up"])
async def test_a_run_that_was_cut_off_in_a_tool_leaves_the_session_usable(
    path: Path, end: Callable[[Agent, asyncio.Event], object], again: str
) -> None:
    started = asyncio.Event()

    async def look() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[dict[int, object]]:
        from pydantic_ai.models.function import DeltaToolCall  # noqa: PLC0415

        yield {0: DeltaToolCall(name="look", json_args="{}", tool_call_id="c9")}

    script = Script([ToolCallPart("look", {}, "c9")])
    model = FunctionModel(script.respond, stream_function=stream)  # pyright: ignore[reportArgumentType]
    async with Memory.open(path, embedder=None) as memory:
        await end(Agent(model=model, memory=memory, tools=[look]), started)  # pyright: ignore[reportGeneralTypeIssues]
    async with Memory.open(path, embedder=None) as memory:
        script = Script()
        result = await Agent(model=script.model, memory=memory, tools=[look]).run(again, session_id="s")
        assert result.output == "ok"
        assert_valid(script.sent[0])
        assert user_texts(script.sent[0]) == list(dict.fromkeys(["look it up", again]))
        said = [message.content for message in await memory.session_messages("s") if message.role == "user"]
        assert said == list(dict.fromkeys(["look it up", again]))


# Failures and refusals


class RefusedError(Exception):
    """Raised by the guard."""


def guard(text: str) -> str:
    if "BLOCKED" in text:
        raise RefusedError
    return text


async def test_a_refused_answer_is_neither_replayed_nor_remembered(memory: Memory) -> None:
    script = Script([TextPart("BLOCKED-ANSWER")])
    agent = Agent(model=script.model, memory=memory, output_type=TextOutput(guard))
    with pytest.raises(RefusedError):
        await agent.run("say it", session_id="s")
    await agent.run("continue", session_id="s")
    assert "BLOCKED" not in repr(script.sent[1])
    assert_valid(script.sent[1])
    assert user_texts(script.sent[1]) == ["say it", "continue"]
    assert "BLOCKED" not in repr(await memory.export(None))
    assert [episode.input for episode in await memory.recall("say it BLOCKED")] == []
    assert (await memory.stats()).episodes == 1


@pytest.mark.parametrize("failures", [1, 3])
async def test_a_prompt_tried_again_after_a_failure_is_there_once(memory: Memory, failures: int) -> None:
    script = Script()
    agent = Agent(model=script.model, memory=memory)
    await agent.run("before", session_id="other")
    script.sent.clear()
    script.turns += [RuntimeError("overloaded") for _ in range(failures)]
    for _ in range(failures):
        with pytest.raises(RuntimeError, match="overloaded"):
            await agent.run("where were we?", session_id="s")
    await agent.run("where were we?", session_id="s")
    await agent.run("next", session_id="s")
    assert user_texts(script.sent[-2]) == ["where were we?"]
    assert user_texts(script.sent[-1]) == ["where were we?", "next"]
    assert [message.content for message in await memory.session_messages("s")] == ["where were we?", "ok", "next", "ok"]


@pytest.mark.parametrize("again", ["go on", "charge the card"])
async def test_what_a_tool_did_before_a_failure_is_not_forgotten(memory: Memory, again: str) -> None:
    charged: list[int] = []

    def charge() -> str:
        charged.append(1)
        return "receipt 4711"

    script = Script([ToolCallPart("charge", {}, "c1")], RuntimeError("overloaded"))
    agent = Agent(model=script.model, memory=memory, tools=[charge])
    with pytest.raises(RuntimeError):
        await agent.run("charge the card", session_id="s")
    await agent.run(again, session_id="s")
    assert_valid(script.sent[-1])
    assert "receipt 4711" in repr(script.sent[-1])
    assert user_texts(script.sent[-1]) == list(dict.fromkeys(["charge the card", again]))
    assert charged == [1]


# Several at once


@pytest.fixture(params=["one agent", "two agents", "two memories"])
async def agents(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[tuple[Agent, Agent]]:
    """Two agents that may be one, on one memory file."""

    async def look(word: str) -> str:
        await asyncio.sleep(0)
        return f"seen {word}"

    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        assert_valid(messages)
        if isinstance(messages[-1].parts[-1], ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"told {messages[-1].parts[-1].content}")])
        (text,) = user_texts(messages[-1:])
        return ModelResponse(parts=[ToolCallPart("look", {"word": text})])

    model = FunctionModel(respond)
    async with Memory.open(path, embedder=None) as one, Memory.open(path, embedder=None) as other:
        first = Agent(model=model, memory=one, tools=[look])
        second = Agent(model=model, memory=other if request.param == "two memories" else one, tools=[look])
        yield first, first if request.param == "one agent" else second


async def test_runs_at_once_in_one_session_do_not_interleave(agents: tuple[Agent, Agent]) -> None:
    prompts = [f"p{number}" for number in range(8)]
    results = await asyncio.gather(
        *(agents[number % 2].run(prompt, session_id="s") for number, prompt in enumerate(prompts))
    )
    assert [result.output for result in results] == [f"told seen {prompt}" for prompt in prompts]
    messages = [message.content for message in await agents[0].memory.session_messages("s")]
    pairs = list(zip(messages[::2], messages[1::2], strict=True))
    assert sorted(pairs) == [(prompt, f"told seen {prompt}") for prompt in prompts]
    assert (await agents[1].run("after", session_id="s")).output == "told seen after"


# Event loops and threads


@pytest.fixture
def agent(path: Path) -> Iterator[Agent]:
    agent = Agent(model=EchoModel(), memory=path)
    yield agent
    asyncio.run(agent.aclose())


def test_one_agent_serves_one_event_loop_after_another(agent: Agent) -> None:
    assert asyncio.run(agent.run("a", session_id="s")).output == "Echo: a"
    assert asyncio.run(agent.run("b", session_id="s")).output == "Echo: b"
    assert agent.run_sync("c", session_id="s").output == "Echo: c"

    async def from_within() -> list[str]:
        in_thread = await asyncio.to_thread(agent.run_sync, "d", session_id="s")
        in_loop = agent.run_sync("e", session_id="s")
        awaited = await agent.run("f", session_id="s")
        return [in_thread.output, in_loop.output, awaited.output]

    assert asyncio.run(from_within()) == ["Echo: d", "Echo: e", "Echo: f"]
    messages = asyncio.run(agent.memory.session_messages("s"))
    assert [message.content for message in messages if message.role == "user"] == list("abcdef")


async def test_one_agent_serves_many_threads_at_once(agent: Agent) -> None:
    results = await asyncio.gather(
        *(asyncio.to_thread(agent.run_sync, f"t{n}", session_id=f"s{n % 2}") for n in range(8)),
        *(agent.run(f"l{n}", session_id=f"s{n % 2}") for n in range(8)),
    )
    assert {result.output for result in results} == {f"Echo: {kind}{n}" for kind in "tl" for n in range(8)}
    assert len(await agent.memory.session_messages("s0")) == len(await agent.memory.session_messages("s1")) == 16
