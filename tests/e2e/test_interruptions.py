"""Runs that end without an answer: whatever stopped them, the session goes on and nothing half-done is kept."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import BinaryContent, TextOutput
from pydantic_ai.exceptions import ModelAPIError

from loomflow import Memory
from tests.openai_server import Drop, Failure, Hang, Reply, ToolCall

if TYPE_CHECKING:
    from tests.e2e.conftest import Said, Wire

HERE: dict[str, Any] = {"user_id": "alice", "session_id": "s"}
PROMPT = "Book a table for two"
INTERRUPTED = ("assistant", "[interrupted before an answer was given]")
RESERVED: list[Said] = [("assistant", "call:reserve:c1"), ("tool", "table 7 for 2")]
RESERVE = ToolCall("reserve", {"people": 2}, "c1")


class GuardError(Exception):
    pass


def guard(text: str) -> str:
    if "BLOCKED-ANSWER" in text:
        raise GuardError("this must not be said")
    return text


class Restaurant:
    """An agent with tools that work, fail and never end."""

    def __init__(self, wire: Wire, memory: Memory) -> None:
        self.wire = wire
        self.waiting = asyncio.Event()
        tools = [self.reserve, self.explode, self.wait]
        self.agent = wire.agent(memory=memory, tools=tools, output_type=TextOutput(guard))

    async def reserve(self, people: int) -> str:
        """Reserve a table."""
        return f"table 7 for {people}"

    async def explode(self, reason: str) -> str:
        """Fail."""
        raise LookupError(reason)

    async def wait(self, minutes: int) -> str:
        """Wait without an end."""
        self.waiting.set()
        await asyncio.Event().wait()
        return f"waited {minutes} minutes"

    async def ask(self, prompt: str = PROMPT) -> list[Said]:
        """Run a prompt; returns what the first request of it had below the system section."""
        before = len(self.wire.server.requests)
        await self.wire.ask(self.agent, prompt, **HERE)
        return self.wire.server.requests[before].conversation

    async def fail(self, error: type[BaseException], *script: Reply) -> None:
        """Run the prompt, with replies after which it must end in an error."""
        self.wire.server.reply(*script)
        with pytest.raises(error):
            await self.wire.ask(self.agent, PROMPT, **HERE)

    async def cancel(self, moment: Awaitable[object], *script: Reply) -> None:
        """Run the prompt and cancel it at a moment."""
        self.wire.server.reply(*script)
        run = asyncio.create_task(self.wire.ask(self.agent, PROMPT, **HERE))
        await moment
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    def requested(self, count: int) -> Awaitable[None]:
        """The moment when so many requests have reached the model."""
        return asyncio.to_thread(self.wire.server.wait_for_requests, count)


async def cancelled(here: Restaurant) -> None:
    await here.cancel(here.requested(1), Hang(60))


async def timed_out(here: Restaurant) -> None:
    here.wire.server.reply(Hang(60))

    async def ask() -> None:
        async with asyncio.timeout(None) as limit:
            moment = asyncio.ensure_future(here.requested(1))
            moment.add_done_callback(lambda _: limit.reschedule(asyncio.get_running_loop().time()))
            await here.wire.ask(here.agent, PROMPT, **HERE)

    with pytest.raises(TimeoutError):
        await ask()


async def provider_failed(here: Restaurant) -> None:
    await here.fail(ModelAPIError, Failure(500, "out of order"))


async def provider_refused(here: Restaurant) -> None:
    await here.fail(ModelAPIError, Failure(400, "not like this"))


async def tool_raised(here: Restaurant) -> None:
    await here.fail(LookupError, ToolCall("explode", {"reason": "no such table"}))


async def tool_cancelled(here: Restaurant) -> None:
    await here.cancel(here.waiting.wait(), ToolCall("wait", {"minutes": 5}))


async def answer_rejected(here: Restaurant) -> None:
    await here.fail(GuardError, "BLOCKED-ANSWER")


NOTHING_LEFT = [cancelled, timed_out, provider_failed, provider_refused, tool_raised, tool_cancelled, answer_rejected]


async def provider_failed_after_the_tool(here: Restaurant) -> None:
    await here.fail(ModelAPIError, RESERVE, Failure(500, "out of order"))


async def cancelled_after_the_tool(here: Restaurant) -> None:
    await here.cancel(here.requested(2), RESERVE, Hang(60))


async def answer_rejected_after_the_tool(here: Restaurant) -> None:
    await here.fail(GuardError, RESERVE, "BLOCKED-ANSWER")


async def second_tool_raised(here: Restaurant) -> None:
    await here.fail(LookupError, RESERVE, ToolCall("explode", {"reason": "no such table"}, "c2"))


async def tool_beside_it_cancelled(here: Restaurant) -> None:
    await here.cancel(here.waiting.wait(), [RESERVE, ToolCall("wait", {"minutes": 5}, "c2")])


BOTH_CALLED: list[Said] = [RESERVED[0], ("assistant", "call:wait:c2")]
CLOSED: list[Said] = [("tool", "interrupted: no result")]
RESULT_LEFT: list[tuple[Callable[[Restaurant], Awaitable[None]], list[Said]]] = [
    (provider_failed_after_the_tool, RESERVED),
    (cancelled_after_the_tool, RESERVED),
    (answer_rejected_after_the_tool, RESERVED),
    (second_tool_raised, [*RESERVED, ("assistant", "call:explode:c2"), *CLOSED]),
    (tool_beside_it_cancelled, [*BOTH_CALLED, RESERVED[1], *CLOSED]),
]


async def assert_only(memory: Memory, *prompts: str) -> None:
    """The finished runs are these, and nothing that was rejected or begun is kept anywhere."""
    assert [episode.input for episode in await memory.store.episodes("alice")] == list(prompts)
    kept = repr(await memory.store.turns("alice", "s"))
    assert "BLOCKED-ANSWER" not in kept
    assert "half an answer" not in kept


@pytest.mark.parametrize("interrupt", NOTHING_LEFT)
async def test_interrupted_run_leaves_what_was_said_once(
    wire: Wire, memory: Memory, interrupt: Callable[[Restaurant], Awaitable[None]]
) -> None:
    here = Restaurant(wire, memory)
    await interrupt(here)
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]
    await assert_only(memory, "Are you there?")
    assert len(here.agent.memory.session_locks) == 0


@pytest.mark.parametrize("interrupt", NOTHING_LEFT)
async def test_retry_with_the_same_words_is_said_once(
    chat: Wire, memory: Memory, interrupt: Callable[[Restaurant], Awaitable[None]]
) -> None:
    here = Restaurant(chat, memory)
    await interrupt(here)
    assert await here.ask() == [("user", PROMPT)]
    assert await here.ask("Are you there?") == [("user", PROMPT), ("assistant", "ok"), ("user", "Are you there?")]
    await assert_only(memory, PROMPT, "Are you there?")


async def test_words_that_failed_twice_are_said_once(chat: Wire, memory: Memory) -> None:
    here = Restaurant(chat, memory)
    await provider_failed(here)
    await answer_rejected(here)
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]
    said = await memory.session_messages("s", user_id="alice")
    assert [(message.role, message.content) for message in said] == [
        ("user", PROMPT), ("user", "Are you there?"), ("assistant", "ok"),
    ]  # fmt: skip


@pytest.mark.parametrize(("interrupt", "left"), RESULT_LEFT)
async def test_interrupted_run_keeps_real_tool_results(
    chat: Wire, memory: Memory, interrupt: Callable[[Restaurant], Awaitable[None]], left: list[Said]
) -> None:
    here = Restaurant(chat, memory)
    await interrupt(here)
    conversation = await here.ask("Are you there?")
    assert conversation == [("user", PROMPT), *left, INTERRUPTED, ("user", "Are you there?")]
    await assert_only(memory, "Are you there?")
    assert len(here.agent.memory.session_locks) == 0


@pytest.mark.parametrize(("interrupt", "left"), RESULT_LEFT)
async def test_retry_after_real_tool_results_keeps_them_and_is_said_once(
    chat: Wire, memory: Memory, interrupt: Callable[[Restaurant], Awaitable[None]], left: list[Said]
) -> None:
    here = Restaurant(chat, memory)
    await interrupt(here)
    assert await here.ask() == [("user", PROMPT), *left]
    told = [("user", PROMPT), *left, ("assistant", "ok")]
    assert await here.ask("Are you there?") == [*told, ("user", "Are you there?")]
    await assert_only(memory, PROMPT, "Are you there?")


async def test_retry_that_fails_too_keeps_the_tool_results_of_both(chat: Wire, memory: Memory) -> None:
    here = Restaurant(chat, memory)
    await here.fail(ModelAPIError, RESERVE, Failure(500, "out of order"))
    await here.fail(ModelAPIError, ToolCall("reserve", {"people": 3}, "c2"), Failure(500, "out of order"))
    left = [*RESERVED, ("assistant", "call:reserve:c2"), ("tool", "table 7 for 3")]
    assert await here.ask() == [("user", PROMPT), *left]
    told = [("user", PROMPT), *left, ("assistant", "ok")]
    assert await here.ask("Are you there?") == [*told, ("user", "Are you there?")]
    await assert_only(memory, PROMPT, "Are you there?")


async def test_another_picture_is_not_taken_for_a_retry(chat: Wire, memory: Memory) -> None:
    here = Restaurant(chat, memory)
    chat.server.reply(RESERVE, Failure(500, "out of order"))
    with pytest.raises(ModelAPIError):
        await here.agent.run(["Like here", BinaryContent(b"a table", media_type="image/png")], **HERE)
    other = BinaryContent(b"a chair", media_type="image/png")
    await here.agent.run(["Like here", other], **HERE)
    assert other.base64 in json.dumps(chat.server.requests[-1].body)


@pytest.fixture(params=["chat", "responses"])
def streaming(request: pytest.FixtureRequest, chat: Wire) -> Wire:
    return type(chat)(chat.server, request.param, streamed=True)


async def test_half_an_answer_is_not_kept_where_the_connection_drops(streaming: Wire, memory: Memory) -> None:
    here = Restaurant(streaming, memory)
    streaming.server.reply(Drop(2, "half an answer was sent"))
    shown = StringIO()

    async def read() -> None:
        async with here.agent.stream(PROMPT, **HERE) as stream:
            async for piece in stream:
                shown.write(piece)

    with pytest.raises(ModelAPIError):
        await read()
    assert shown.getvalue() == "half an answer "
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]
    await assert_only(memory, "Are you there?")


async def test_stream_left_early_is_an_interrupted_run(streaming: Wire, memory: Memory) -> None:
    here = Restaurant(streaming, memory)
    streaming.server.reply("half an answer, and then the other half")
    async with here.agent.stream(PROMPT, **HERE) as stream:
        async for _ in stream:
            break
    assert len(here.agent.memory.session_locks) == 0
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]
    await assert_only(memory, "Are you there?")


async def test_stream_that_is_never_read_is_an_interrupted_run(streaming: Wire, memory: Memory) -> None:
    here = Restaurant(streaming, memory)
    async with here.agent.stream(PROMPT, **HERE):
        pass
    assert streaming.server.requests == []
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]


async def test_stream_whose_reader_fails_is_an_interrupted_run(streaming: Wire, memory: Memory) -> None:
    here = Restaurant(streaming, memory)

    async def show() -> None:
        async with here.agent.stream(PROMPT, **HERE) as stream:
            async for _ in stream:
                raise BrokenPipeError("the browser is gone")

    with pytest.raises(BrokenPipeError):
        await show()
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]


async def test_stream_inside_a_generator_that_is_abandoned_does_not_block_the_session(
    streaming: Wire, memory: Memory
) -> None:
    here = Restaurant(streaming, memory)

    async def answer() -> AsyncIterator[str]:
        async with here.agent.stream(PROMPT, **HERE) as stream:
            async for piece in stream:
                yield piece

    async for _ in answer():
        break  # the generator is not closed here, but by the event loop, in a task of its own
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]
    assert len(here.agent.memory.session_locks) == 0


async def test_stream_may_be_closed_by_another_task_than_the_one_that_opened_it(
    streaming: Wire, memory: Memory
) -> None:
    here = Restaurant(streaming, memory)
    opened = here.agent.stream(PROMPT, **HERE)

    async def read() -> list[str]:
        stream = await opened.__aenter__()
        return [piece async for piece in stream]

    async def close() -> None:
        await opened.__aexit__(None, None, None)

    assert "".join(await asyncio.create_task(read())) == "ok"
    await asyncio.create_task(close())
    assert len(here.agent.memory.session_locks) == 0
    assert await here.ask("Are you there?") == [("user", PROMPT), ("assistant", "ok"), ("user", "Are you there?")]


RUN = """
import signal
import sys
from loomflow import Agent, Tuning

def wait(minutes: int) -> str:
    "Wait without an end."
    print("waiting", flush=True)
    sys.stdin.read()

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start what runs behind it with Ctrl-C ignored
url, path = sys.argv[1:]
agent = Agent("Be brief.", model="gpt-4.1-mini", base_url=url, memory=path, tools=[wait], tuning=Tuning(distill=False))
agent.run_sync("Book a table for two", user_id="alice", session_id="s")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "reply"),
    [
        (signal.SIGKILL, Hang(60)),
        (signal.SIGKILL, ToolCall("wait", {"minutes": 5})),
        (signal.SIGINT, Hang(60)),
    ],
    ids=["kill -9 in the model", "kill -9 in a tool", "Ctrl-C in the model"],
)
async def test_session_goes_on_after_its_process_was_stopped(
    chat: Wire, path: Path, stop: signal.Signals, reply: Reply
) -> None:
    chat.server.reply(reply)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN, chat.server.base_url, str(path)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    await asyncio.to_thread(chat.server.wait_for_requests, 1)
    if isinstance(reply, ToolCall):
        assert process.stdout is not None
        assert await process.stdout.readline() == b"waiting\n"
    process.send_signal(stop)
    await process.communicate(b"")
    assert process.returncode == -stop
    async with Memory.open(path) as memory:
        here = Restaurant(chat, memory)
        assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]
        await assert_only(memory, "Are you there?")
