"""Runs at the same time: in one session they follow one another, across tasks, threads, event loops and processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from loomflow import Agent, EchoModel, Memory, SessionError, Tuning
from tests.openai_server import Hang, OpenAIServer, ToolCall

if TYPE_CHECKING:
    from tests.e2e.conftest import Said, Wire

HERE: dict[str, Any] = {"user_id": "alice", "session_id": "s"}


def spoken(messages: list[ModelMessage]) -> list[Said]:
    """Model messages as (role, text)."""
    said: list[Said] = []
    for message in messages:
        for part in message.parts:
            match part:
                case UserPromptPart():
                    said.append(("user", str(part.content)))
                case TextPart():
                    said.append(("assistant", part.content))
                case ToolCallPart():
                    said.append(("assistant", f"call:{part.tool_call_id}"))
                case ToolReturnPart():
                    said.append(("tool", str(part.content)))
                case _:
                    raise AssertionError(f"unexpected part {part!r}")
    return said


class Clerk:
    """A model that first calls a tool with the prompt, then answers with what the tool gave. Keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[list[Said]] = []
        self.model = FunctionModel(self._answer)

    async def _answer(self, messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        self.sent.append(spoken(messages))
        for _turn in range(5):
            await asyncio.sleep(0)  # where others may cut in
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"answer to {last.content}")])
        assert isinstance(last, UserPromptPart)
        return ModelResponse(parts=[ToolCallPart("note", {"text": last.content}, f"of {last.content}")])


async def note(text: str) -> str:
    """Note a text."""
    await asyncio.sleep(0)
    return text


def turn(prompt: str) -> list[Said]:
    return [
        ("user", prompt),
        ("assistant", f"call:of {prompt}"),
        ("tool", prompt),
        ("assistant", f"answer to {prompt}"),
    ]


async def stored(memory: Memory, session: str = "s") -> list[str]:
    """What the user said in the finished runs of a session, in order; none may be interrupted."""
    turns = await memory.store.turns("alice", session)
    assert [turn.interrupted for turn in turns if turn.interrupted] == []
    return [turn.episode.input for turn in turns if turn.episode]


async def test_two_runs_at_once_in_one_session_follow_one_another(wire: Wire, memory: Memory) -> None:
    agent = wire.agent(memory=memory, tools=[note], tuning=Tuning(distill=False))
    wire.server.reply(
        ToolCall("note", {"text": "one"}, "c1"), "first", ToolCall("note", {"text": "two"}, "c2"), "second"
    )
    results = await asyncio.gather(wire.ask(agent, "One", **HERE), wire.ask(agent, "Two", **HERE))
    assert [result.output for result in results] == ["first", "second"]
    first: list[Said] = [("user", "One"), ("assistant", "call:note:c1"), ("tool", "one"), ("assistant", "first")]
    second: list[Said] = [("user", "Two"), ("assistant", "call:note:c2"), ("tool", "two")]
    assert [request.conversation for request in wire.server.requests] == [
        first[:1], first[:3], [*first, *second[:1]], [*first, *second],
    ]  # fmt: skip
    assert await stored(memory) == ["One", "Two"]


async def test_twenty_runs_in_five_sessions_are_each_contiguous(memory: Memory) -> None:
    clerk = Clerk()
    agent = Agent(model=clerk.model, memory=memory, tools=[note], tuning=Tuning(distill=False))
    prompts = {f"s{session}": [f"{session}.{run}" for run in range(4)] for session in range(5)}
    await asyncio.gather(*(
        agent.run(prompts[session][run], user_id="alice", session_id=session) for run in range(4) for session in prompts
    ))  # fmt: skip
    assert {session: await stored(memory, session) for session in prompts} == prompts
    whole = [[step for prompt in runs for step in turn(prompt)] for runs in prompts.values()]
    assert len(clerk.sent) == 40
    assert all(any(sent == session[: len(sent)] for session in whole) for sent in clerk.sent)
    assert len({tuple(sent) for sent in clerk.sent}) == 40
    assert len(agent.memory.session_locks) == 0


async def test_runs_of_other_sessions_and_users_do_not_wait(chat: Wire, memory: Memory) -> None:
    agent = chat.agent(memory=memory)
    chat.server.reply(Hang(60))
    hanging = asyncio.create_task(agent.run("Slow", **HERE))
    await asyncio.to_thread(chat.server.wait_for_requests, 1)
    for user, session in (("bob", "s"), ("alice", "t"), (None, "s")):
        assert (await agent.run("Quick", user_id=user, session_id=session)).output == "ok"
    assert not hanging.done()
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert len(agent.memory.session_locks) == 0


async def test_cancelled_waiter_does_not_block_those_behind_it(chat: Wire, memory: Memory) -> None:
    agent = chat.agent(memory=memory)
    chat.server.reply(Hang(60))
    runs = [asyncio.create_task(agent.run(prompt, **HERE)) for prompt in ("One", "Two", "Three", "Four")]
    await asyncio.to_thread(chat.server.wait_for_requests, 1)
    runs[1].cancel()
    await asyncio.wait(runs[1:2])
    runs[2].cancel()
    runs[0].cancel()  # hands the lock on in the same moment in which the next in line is cancelled
    assert (await runs[3]).output == "ok"
    assert [run.cancelled() for run in runs] == [True, True, True, False]
    assert len(agent.memory.session_locks) == 0
    assert chat.server.requests[-1].conversation == [
        ("user", "One"), ("assistant", "[interrupted before an answer was given]"), ("user", "Four"),
    ]  # fmt: skip


async def test_locks_of_finished_runs_take_no_memory(memory: Memory) -> None:
    agent = Agent(model=EchoModel(), memory=memory)
    for session in range(20):
        await agent.run("Hello", session_id=f"s{session}")
    await agent.run("Hello")
    assert len(agent.memory.session_locks) == 0


def test_one_session_from_two_threads_is_contiguous(path: Path) -> None:
    clerk = Clerk()
    agent = Agent(model=clerk.model, memory=path, tools=[note], tuning=Tuning(distill=False))
    prompts = [f"{thread}.{run}" for thread in range(2) for run in range(3)]
    start = threading.Barrier(2)

    def work(thread: int) -> list[str]:
        start.wait()
        return [agent.run_sync(prompt, **HERE).output for prompt in prompts[thread * 3 : thread * 3 + 3]]

    with ThreadPoolExecutor(2) as threads:
        outputs = [output for done in threads.map(work, range(2)) for output in done]
    assert outputs == [f"answer to {prompt}" for prompt in prompts]
    asyncio.run(agent.aclose())
    memory = Memory.open(path)
    order = asyncio.run(stored(memory))
    asyncio.run(memory.aclose())
    assert sorted(order) == prompts
    history = [step for prompt in order for step in turn(prompt)]
    assert clerk.sent == [history[: 4 * n + cut] for n in range(6) for cut in (1, 3)]
    assert len(agent.memory.session_locks) == 0


async def test_run_started_in_a_tool_for_its_own_session_is_an_error(memory: Memory) -> None:
    errors: list[str] = []
    clerk = Clerk()

    async def ask_again(text: str) -> str:
        with pytest.raises(SessionError) as raised:
            await agent.run(f"again {text}", **HERE)
        errors.append(str(raised.value))
        return text

    agent = Agent(model=clerk.model, memory=memory, tools=[renamed(ask_again)])
    async with asyncio.timeout(20):
        assert (await agent.run("One", **HERE)).output == "answer to One"
    assert errors == ["a run in session ('alice', 's') would wait for itself: it was started from within that session"]
    assert await stored(memory) == ["One"]


def renamed(tool: Any) -> Any:
    """A function as the tool that the clerk calls."""
    tool.__name__ = "note"
    return tool


def test_run_sync_started_in_a_tool_for_its_own_session_is_an_error(path: Path) -> None:
    clerk = Clerk()

    def ask_again(text: str) -> str:
        with pytest.raises(SessionError, match="would wait for itself"):
            agent.run_sync(f"again {text}", **HERE)
        return text

    agent = Agent(model=clerk.model, memory=path, tools=[renamed(ask_again)])
    assert agent.run_sync("One", **HERE).output == "answer to One"
    asyncio.run(agent.aclose())


async def test_run_started_while_reading_a_stream_of_its_own_session_is_an_error(memory: Memory) -> None:
    agent = Agent(model=EchoModel(), memory=memory)
    async with asyncio.timeout(10), agent.stream("One", **HERE) as stream:
        with pytest.raises(SessionError):
            await agent.run("Two", **HERE)
        assert [piece async for piece in stream] == ["Echo: ", "One"]
    assert await stored(memory) == ["One"]


BLOCKING = """
import asyncio
from loomflow import Agent, EchoModel, SessionError, Tuning

agent = Agent(model=EchoModel())

async def notebook():
    running = asyncio.create_task(agent.run("One", session_id="s"))
    while not len(agent.memory.session_locks):
        await asyncio.sleep(0)
    try:
        agent.run_sync("Two", session_id="s")
    except SessionError:
        print((await running).output)

asyncio.run(notebook())
"""


def test_run_sync_that_blocks_the_run_it_would_wait_for_is_an_error() -> None:
    """It blocks the event loop in which a run of the session is going on. A process, since that may hang."""
    done = subprocess.run([sys.executable, "-c", BLOCKING], capture_output=True, text=True, timeout=20, check=False)
    assert (done.stdout, done.stderr) == ("Echo: One\n", "")


async def test_run_started_in_a_tool_for_another_session_works(memory: Memory) -> None:
    clerk = Clerk()

    async def delegate(text: str) -> str:
        result = await helper.run(f"part of {text}", user_id="alice", session_id="other")
        return result.output.removeprefix("Echo: part of ")

    helper = Agent(model=EchoModel(), memory=memory)
    agent = Agent(model=clerk.model, memory=memory, tools=[renamed(delegate)])
    assert (await agent.run("One", **HERE)).output == "answer to One"
    assert await stored(memory, "other") == ["part of One"]
    assert await stored(memory) == ["One"]


async def test_agent_with_a_memory_of_its_own_may_use_the_same_session_id_in_a_tool(memory: Memory) -> None:
    clerk = Clerk()

    async def delegate(text: str) -> str:
        return (await helper.run(text, **HERE)).output.removeprefix("Echo: ")

    agent = Agent(model=clerk.model, memory=memory, tools=[renamed(delegate)])
    async with Agent(model=EchoModel(), memory="inmemory") as helper:
        assert (await agent.run("One", **HERE)).output == "answer to One"
        assert await stored(helper.memory) == ["One"]
    assert await stored(memory) == ["One"]


async def test_task_started_in_a_tool_may_use_the_session_when_the_run_is_over(memory: Memory) -> None:
    clerk = Clerk()
    over = asyncio.Event()
    later: list[asyncio.Task[Any]] = []

    async def follow_up(text: str) -> str:
        await over.wait()
        return (await agent.run(f"after {text}", **HERE)).output

    async def schedule(text: str) -> str:
        later.append(asyncio.create_task(follow_up(text)))
        return text

    agent = Agent(model=clerk.model, memory=memory, tools=[renamed(schedule)])
    await agent.run("One", **HERE)
    over.set()
    async with asyncio.timeout(20):
        assert await later[0] == "answer to after One"
    assert await stored(memory) == ["One", "after One"]
    later[1].cancel()


RUNS = """
import sys
from loomflow import Agent, Tuning

def note(text: str) -> str:
    "Note a text."
    return text

url, path, name = sys.argv[1:]
agent = Agent(model="gpt-4.1-mini", base_url=url, memory=path, tools=[note], tuning=Tuning(distill=False))
for n in range(4):
    assert agent.run_sync(f"{name}.{n}", user_id="alice", session_id="s").output == "ok"
"""


@pytest.mark.slow
async def test_two_processes_in_one_session_leave_contiguous_turns(path: Path) -> None:
    with OpenAIServer() as server:
        processes = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", RUNS, server.base_url, str(path), name)
            for name in ("a", "b")
        ]
        assert [await process.wait() for process in processes] == [0, 0]
        assert [request.faults for request in server.requests] == [[]] * 8
        async with Memory.open(path) as memory:
            order = await stored(memory)
            await Agent(
                model="gpt-4.1-mini", base_url=server.base_url, memory=memory, tuning=Tuning(distill=False)
            ).run("Last", **HERE)
        assert sorted(order) == [f"{name}.{n}" for name in "ab" for n in range(4)]
        assert [text for text in order if text.startswith("a")] == [f"a.{n}" for n in range(4)]
        history = [said for text in order for said in (("user", text), ("assistant", "ok"))]
        assert server.requests[-1].conversation == [*history, ("user", "Last")]
