"""Learning when programs end, are killed, or are several: nothing is lost, and nothing is learned twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from loomflow import Agent, EchoModel, Episode, Memory, Tuning
from tests.e2e.distilling import (
    CITIES,
    EVERY_CITY,
    believed,
    eventually,
    on_the_wire,
    triple,
    turn_sent,
    waiting,
    wired_learner,
)
from tests.openai_server import Hang, OpenAIServer

HEAD = """
import asyncio, sys, time
from loomflow import Agent, EchoModel, Tuning

base_url, path, city = sys.argv[1:4]
agent = Agent(
    model=EchoModel(), memory=path, base_url=base_url, tuning=Tuning(distill_model="openai-chat:gpt-4.1-mini")
)
"""

ONE_RUN = HEAD + 'agent.run_sync(f"I live in {city}", user_id=city, session_id="s")\n'

ONE_RUN_CUT_OFF = ONE_RUN + "import os\nos._exit(0)\n"

ONE_RUN_AND_A_WHILE = ONE_RUN + "time.sleep(float(sys.argv[4]))\n"

ONE_RUN_THEN_WAIT = ONE_RUN + 'print("done", flush=True)\ntime.sleep(600)\n'

ASYNC_RUN = (
    HEAD
    + """
async def main():
    await agent.run(f"I live in {city}", user_id=city, session_id="s")
    await asyncio.sleep(float(sys.argv[4]))

asyncio.run(main())
"""
)

ASYNC_RUN_THEN_CLOSE = (
    HEAD
    + """
async def main():
    async with agent:
        await agent.run(f"I live in {city}", user_id=city, session_id="s")

asyncio.run(main())
"""
)

DISTILL = HEAD + "print(asyncio.run(agent.distill()))\n"

RUN_UNTIL_LEARNED = (
    ONE_RUN
    + """
until = time.monotonic() + 60
while asyncio.run(agent.memory.stats()).undistilled and time.monotonic() < until:
    time.sleep(0.05)
"""
)

TWO_RUNS = (
    RUN_UNTIL_LEARNED
    + """
print(agent.run_sync("Which city do I live in?", user_id=city, session_id="t").injection.text)
"""
)

MANY_RUNS = (
    HEAD
    + """
for number in range(5):
    agent.run_sync(f"I live in {city}", user_id=f"{city} {number}", session_id="s")
asyncio.run(agent.aclose())
"""
)


class Programs:
    """Runs programs whose model that reads is the server and whose memory is one file."""

    def __init__(self, server: OpenAIServer, path: Path) -> None:
        self.server = server
        self.path = path

    def command(self, script: str, city: str, *more: str, options: tuple[str, ...] = ()) -> list[str]:
        return [sys.executable, *options, "-c", script, self.server.base_url, str(self.path), city, *more]

    def run(self, script: str, city: str = "Turin", *more: str, options: tuple[str, ...] = ()) -> str:
        """Run a program to its end, which must be clean; what it printed."""
        command = self.command(script, city, *more, options=options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        complaints = [said for said in done.stderr.splitlines() if not said.startswith("Executing <")]
        assert complaints == []
        assert done.returncode == 0
        return done.stdout

    @contextmanager
    def running(self, script: str, city: str = "Turin") -> Generator[subprocess.Popen[str]]:
        """Run a program that is killed at the end of the block, if it still runs."""
        with subprocess.Popen(self.command(script, city), stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def requests_by_turn(self) -> Counter[str]:
        """How often each turn was sent to be read."""
        return Counter(turn_sent(request)["user"] for request in self.server.requests)


@pytest.fixture
def programs(server: OpenAIServer, path: Path) -> Programs:
    return Programs(server, path)


async def left(path: Path) -> tuple[int, list[tuple[str, str, str]]]:
    """What is still in the queue, and what is believed of the one who lives in Turin."""
    async with Memory.open(path) as memory:
        return await waiting(memory), await believed(memory, "Turin")


IN_TURIN = [("user", "lives_in", "Turin")]


# Programs that end


@pytest.mark.slow
@pytest.mark.parametrize("next_program", [RUN_UNTIL_LEARNED, DISTILL, ASYNC_RUN_THEN_CLOSE], ids=["run", "all", "with"])
async def test_what_a_program_left_is_learned_by_the_next(programs: Programs, next_program: str) -> None:
    await asyncio.to_thread(programs.run, ONE_RUN_CUT_OFF)
    assert programs.server.requests == []
    assert await left(programs.path) == (1, [])
    programs.server.reply(*[on_the_wire(EVERY_CITY)] * 2)
    await asyncio.to_thread(programs.run, next_program, "Porto")
    assert (await left(programs.path)) == (0, IN_TURIN)
    assert programs.requests_by_turn()["I live in Turin"] == 1


@pytest.mark.slow
async def test_a_short_program_learns_before_it_ends(programs: Programs) -> None:
    programs.server.reply(on_the_wire(EVERY_CITY))
    await asyncio.to_thread(programs.run, ONE_RUN)
    assert await left(programs.path) == (0, IN_TURIN)


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "answers"), [("0", 0.0), ("0.3", 0.0), ("0.8", 0.4), ("2", 0.0), ("2", 60.0)])
@pytest.mark.parametrize("script", [ONE_RUN_AND_A_WHILE, ASYNC_RUN], ids=["run_sync", "asyncio.run"])
async def test_a_program_may_end_at_any_moment(programs: Programs, script: str, delay: str, answers: float) -> None:
    programs.server.reply(*([Hang(answers)] if answers else []), on_the_wire(EVERY_CITY))
    await asyncio.to_thread(lambda: programs.run(script, "Turin", delay, options=("-X", "dev")))
    queued, facts = await left(programs.path)
    assert (queued, facts) in [(1, []), (0, IN_TURIN)]
    programs.server.clear()
    programs.server.reply(on_the_wire(EVERY_CITY))
    async with Memory.open(programs.path) as memory, wired_learner(memory, programs.server) as agent:
        await agent.distill()
        assert await waiting(memory) == 0
        (fact,) = await memory.facts.history(user_id="Turin")
    assert triple(fact) == IN_TURIN[0]
    assert len(fact.sources) <= 1


@pytest.mark.slow
async def test_a_program_that_closes_its_agent_leaves_nothing(programs: Programs) -> None:
    programs.server.reply(on_the_wire(EVERY_CITY))
    await asyncio.to_thread(lambda: programs.run(ASYNC_RUN_THEN_CLOSE, options=("-X", "dev", "-W", "error")))
    assert await left(programs.path) == (0, IN_TURIN)


@pytest.mark.slow
async def test_between_two_calls_of_run_sync_there_is_learning(programs: Programs) -> None:
    programs.server.reply(*[on_the_wire(EVERY_CITY)] * 2)
    printed = await asyncio.to_thread(lambda: programs.run(TWO_RUNS, options=("-X", "dev")))
    assert "user lives_in Turin" in printed


KEPT_OPEN = (
    HEAD
    + """
async def main():
    for number in range(3):
        await agent.run(f"I live in {city}, {number}", user_id=city)
        await asyncio.sleep(0.5)
    if sys.argv[4] == "close":
        await agent.aclose()

if sys.argv[4] == "sync":
    for number in range(3):
        agent.run_sync(f"I live in {city}, {number}", user_id=city)
        time.sleep(0.5)
else:
    asyncio.run(main())
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sync", "leave", "close"])
async def test_no_connection_of_the_reader_is_left_open(path: Path, how: str) -> None:
    with OpenAIServer(keep_alive=True) as server:
        server.reply(*[on_the_wire(EVERY_CITY)] * 3)
        programs = Programs(server, path)
        options = ("-X", "dev", "-W", "error")
        await asyncio.to_thread(lambda: programs.run(KEPT_OPEN, "Turin", how, options=options))


# Programs that are killed


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
async def test_what_a_killed_program_had_claimed_is_learned_at_once(programs: Programs) -> None:
    programs.server.reply(Hang(60))
    with programs.running(ONE_RUN_THEN_WAIT) as process:
        await asyncio.to_thread(programs.server.wait_for_requests, 1, 60)
        async with Memory.open(programs.path) as memory:
            queue = await memory.store.queue()
            assert (queue.waiting, queue.due) == (1, 0)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait, 30)
    programs.server.reply(on_the_wire(EVERY_CITY))
    printed = await asyncio.to_thread(programs.run, DISTILL)
    assert "runs=1, facts=1" in printed
    assert await left(programs.path) == (0, IN_TURIN)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
async def test_the_first_run_after_a_kill_learns_what_was_claimed(programs: Programs) -> None:
    programs.server.reply(Hang(60))
    with programs.running(ONE_RUN_THEN_WAIT) as process:
        await asyncio.to_thread(programs.server.wait_for_requests, 1, 60)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait, 30)
    programs.server.reply(*[on_the_wire(EVERY_CITY)] * 2)
    async with wired_learner(Memory.open(programs.path), programs.server) as agent:
        await agent.run("Hello there, old friend", user_id="Turin")

        async def is_learned() -> bool:
            return await believed(agent.memory, "Turin") == IN_TURIN

        await eventually(is_learned)
    await agent.memory.aclose()


@pytest.mark.slow
async def test_what_a_living_program_has_claimed_is_left_to_it(programs: Programs) -> None:
    programs.server.reply(Hang(60))
    with programs.running(ONE_RUN_THEN_WAIT):
        await asyncio.to_thread(programs.server.wait_for_requests, 1, 60)
        async with Memory.open(programs.path) as memory, wired_learner(memory, programs.server) as agent:
            assert (await agent.distill()).runs == 0
    assert len(programs.server.requests) == 1


# Several at once


@pytest.mark.slow
async def test_two_programs_on_one_file_read_each_turn_once(programs: Programs) -> None:
    programs.server.reply(*[on_the_wire(EVERY_CITY)] * 60)
    async with Memory.open(programs.path) as memory:
        for number in range(20):
            city = CITIES[number % 10]
            told = Episode(f"I live in {city}, {number}", "", user_id=f"{number}", session_id="s")
            await memory.remember(told, distill=True)
    await asyncio.gather(*(asyncio.to_thread(programs.run, MANY_RUNS, city) for city in CITIES[10:12]))
    by_turn = programs.requests_by_turn()
    assert {text: count for text, count in by_turn.items() if ", " in text} == {
        f"I live in {CITIES[number % 10]}, {number}": 1 for number in range(20)
    }
    assert {by_turn[f"I live in {city}"] for city in CITIES[10:12]} == {5}
    async with Memory.open(programs.path) as memory:
        assert await waiting(memory) == 0
        for number in range(20):
            (fact,) = await memory.facts.history(user_id=f"{number}")
            assert fact.object == CITIES[number % 10]


def test_eight_threads_read_each_turn_once(programs: Programs) -> None:
    programs.server.reply(*[on_the_wire(EVERY_CITY)] * 80)
    memory = Memory.open(programs.path)
    agent = wired_learner(memory, programs.server)
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for city in CITIES[:5]:
            agent.run_sync(f"I live in {city}, {number}", user_id=f"{city} {number}", session_id="s")
        asyncio.run(agent.distill())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))

    async def end() -> None:
        await agent.aclose()
        assert await waiting(memory) == 0
        for number in range(8):
            for city in CITIES[:5]:
                (fact,) = await memory.facts.history(user_id=f"{city} {number}")
                assert fact.object == city
        await memory.aclose()

    asyncio.run(end())
    assert set(programs.requests_by_turn().values()) == {1}
    assert len(programs.server.requests) == 40


def test_eight_agents_in_eight_threads_read_each_turn_once(programs: Programs) -> None:
    programs.server.reply(*[on_the_wire(EVERY_CITY)] * 80)

    async def fill() -> None:
        async with Memory.open(programs.path) as memory:
            for number in range(24):
                told = Episode(f"I live in {CITIES[number % 8]}, {number}", "", user_id=f"{number}", session_id="s")
                await memory.remember(told, distill=True)

    def work(_: int) -> int:
        async def drain() -> int:
            tuning = Tuning(distill_model="openai-chat:gpt-4.1-mini")
            own = Agent(model=EchoModel(), memory=programs.path, base_url=programs.server.base_url, tuning=tuning)
            async with own:
                return (await own.distill()).runs

        return asyncio.run(drain())

    asyncio.run(fill())
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(work, range(8))) == 24
    assert set(programs.requests_by_turn().values()) == {1}
    assert asyncio.run(left(programs.path))[0] == 0
