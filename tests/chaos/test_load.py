"""Many writers and readers at once: nobody gets an error, and no update is lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from loomflow import ConflictError, Episode, Memory

from .agreement import agreement
from .ledger import Ledger, Scale, kind_of

ROOT = Path(__file__).parents[2]
PROCESSES, THREADS, CLIENTS = 8, 4, 64


async def client(memory: Memory, name: str, seconds: float, done: list[tuple[str, float]]) -> None:
    """Write and read until the time is over; note what was done, and how many seconds it took."""
    end = time.monotonic() + seconds
    number = 0

    async def count() -> None:
        while True:
            (block,) = await memory.working(user_id="counter")
            with suppress(ConflictError):
                number = str(int(block.content) + 1)
                await memory.update_block("count", number, user_id="counter", expected_version=block.version)
                return

    while time.monotonic() < end:
        for kind in ("episode", "line", "count", "inject"):
            start = perf_counter()
            if kind == "episode":
                await memory.remember(Episode(f"ferry {name} {number}", "", session_id=name, id=f"{name}.{number}"))
            elif kind == "line":
                await memory.append_block(name, str(number), user_id="lines", separator=" ")
            elif kind == "count":
                await count()
            else:
                injection = await memory.inject(f"ferry {name}", session_id="other")
                assert injection.problems == ()
            done.append((kind, perf_counter() - start))
        number += 1


def threads_of(url: str, name: str, seconds: float) -> list[tuple[str, float]]:
    """What `THREADS` clients did, each in an event loop of its own, on one memory."""
    memory = Memory.open(url)

    def work(place: int) -> list[tuple[str, float]]:
        done: list[tuple[str, float]] = []
        asyncio.run(client(memory, f"{name}t{place}", seconds, done))
        return done

    with ThreadPoolExecutor(THREADS) as threads:
        done = threads.map(work, range(THREADS))
    asyncio.run(memory.aclose())
    return [one for of_thread in done for one in of_thread]


async def check(url: str, done: list[tuple[str, float]], clients: list[str]) -> None:
    """All that was done is there, and nothing else."""
    counts = {kind: sum(1 for other, _ in done if other == kind) for kind in ("episode", "line", "count")}
    async with Memory.open(url) as memory:
        (counter,) = await memory.working(user_id="counter")
        assert (counter.content, counter.version) == (str(counts["count"]), counts["count"] + 1)
        blocks = {block.name: block.content.split() for block in await memory.working(user_id="lines")}
        assert sorted(blocks) == sorted(clients)
        assert all(lines == [str(number) for number in range(len(lines))] for lines in blocks.values())
        assert sum(map(len, blocks.values())) == counts["line"]
        stored = {episode.id for episode in await memory.store.episodes(None)}
        assert stored == {f"{name}.{number}" for name, lines in blocks.items() for number in range(len(lines))}
        assert await agreement(memory) == []


def account(ledger: Ledger, what: str, done: list[tuple[str, float]]) -> None:
    """A line of the ledger for each kind of call: the 99th percentile of what it took."""
    for kind in ("episode", "line", "count", "inject"):
        took = sorted(seconds for other, seconds in done if other == kind)
        entry = ledger.entry(f"{what}: {kind}", "99th percentile of a call")
        entry.tried = len(took)
        entry.count(took[len(took) * 99 // 100] * 1000)
        entry.survived = len(took)


async def begin(url: str) -> None:
    async with Memory.open(url) as memory:
        await memory.update_block("count", "0", user_id="counter")


@contextmanager
def process(url: str, name: str, seconds: float) -> Generator[subprocess.Popen[str]]:
    """One of the processes; it is gone when the block is left."""
    command = [sys.executable, "-W", "error", "-m", "tests.chaos.test_load", url, name, str(seconds)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.mark.slow
async def test_processes_and_threads_on_one_file_lose_nothing(tmp_path: Path, scale: Scale, ledger: Ledger) -> None:
    url = f"sqlite:{tmp_path / 'memory.db'}"
    await begin(url)
    names = [f"p{number}" for number in range(PROCESSES)]
    done: list[tuple[str, float]] = []
    with ExitStack() as stack:
        started = [stack.enter_context(process(url, name, scale.seconds)) for name in names]
        for one in started:
            assert one.stdout is not None
            assert await asyncio.to_thread(one.stdout.readline) == "ready\n"
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        for one in started:
            output, errors = await asyncio.to_thread(one.communicate, timeout=scale.seconds + 120)
            assert (one.returncode, errors) == (0, "")
            done += json.loads(output)
    account(ledger, f"{PROCESSES} processes x {THREADS} threads, {kind_of(url)}", done)
    await check(url, done, [f"{name}t{place}" for name in names for place in range(THREADS)])


@pytest.mark.slow
async def test_clients_of_one_server_lose_nothing(postgres_url: str, scale: Scale, ledger: Ledger) -> None:
    await begin(postgres_url)
    names = [f"c{number}" for number in range(CLIENTS)]
    done: list[tuple[str, float]] = []
    memories = [Memory.open(postgres_url) for _ in range(PROCESSES)]
    try:
        works: list[Any] = [
            client(memories[place % PROCESSES], name, scale.seconds, done) for place, name in enumerate(names)
        ]
        await asyncio.gather(*works)
    finally:
        for memory in memories:
            await memory.aclose()
    account(ledger, f"{CLIENTS} clients, {kind_of(postgres_url)}", done)
    await check(postgres_url, done, names)


def main() -> None:
    """One of the processes: say "ready", wait for a line, then work; print what was done."""
    url, name, seconds = sys.argv[1:]
    embedder = Memory.open(url).embedder
    assert embedder is not None
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(threads_of(url, name, float(seconds))))


if __name__ == "__main__":
    main()
