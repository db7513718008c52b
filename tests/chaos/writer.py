"""Processes that write to a memory until they are killed, and say what was acknowledged.

    python -m tests.chaos.writer

is a server: it loads loomflow once and forks a writer for each line of its input, so that a writer is there in some
milliseconds. `Writers` starts it and speaks with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from loomflow import ConflictError, Episode, Fact, Memory

ROOT = Path(__file__).parents[2]
COUNTER = "count"


async def write(url: str, mark: str, seed: int) -> None:
    """Write for ever, in an order that `seed` gives, and print what was written as soon as it was acknowledged.

    A line says the kind and the id: of an episode, whose words are unlike those of others; of a fact, which ends
    the one before; of a line of a block; of the number that a block was counted up to.
    """
    dice = random.Random(seed)

    async def count(memory: Memory) -> str:
        while True:
            known = {block.name: block for block in await memory.working(user_id="counter")}
            block = known.get(COUNTER)
            number = str(int(block.content) + 1 if block else 1)
            with suppress(ConflictError):
                version = block.version if block else 0
                await memory.update_block(COUNTER, number, user_id="counter", expected_version=version)
                return number

    async with Memory.open(url) as memory:
        print("open", mark, flush=True)
        for number in range(1_000_000):
            name = f"{mark}n{number}"
            kind = dice.choice(("episode", "episodes", "fact", "line", "count"))
            if kind == "episode":
                await memory.remember(Episode(f"word{name} is said", "noted", session_id=mark, id=name))
            elif kind == "episodes":
                batch = [f"{name}p{place}" for place in range(3)]
                await memory.remember([Episode(f"word{one} is said", "", session_id=mark, id=one) for one in batch])
                name = " ".join(batch)
            elif kind == "fact":
                await memory.facts.append(Fact(mark, "lives_in", name))
            elif kind == "line":
                await memory.append_block(mark, name)
            else:
                name = await count(memory)
            print(kind, name, flush=True)


@dataclass(slots=True)
class Acknowledged:
    """What a writer was told is stored."""

    episodes: set[str] = field(default_factory=set[str])
    facts: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    counted: int = 0
    is_open: bool = False

    @classmethod
    def read(cls, path: Path) -> Acknowledged:
        """From what a writer printed; a line that was not finished counts for nothing."""
        found = cls()
        for line in path.read_text().splitlines(keepends=True):
            kind, *names = line.split()
            if not line.endswith("\n"):
                continue
            if kind in {"episode", "episodes"}:
                found.episodes.update(names)
            elif kind == "fact":
                found.facts += names
            elif kind == "line":
                found.lines += names
            elif kind == "count":
                found.counted = int(names[0])
            else:
                found.is_open = True
        return found


class Writers:
    """The server of writers, from entering to leaving."""

    def __enter__(self) -> Self:
        self._server: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.writer"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._server.communicate(timeout=60)

    def start(self, url: str, mark: str, seed: int, out: Path) -> int:
        """Fork a writer, which prints into a file; returns its process id."""
        return self._ask({"url": url, "mark": mark, "seed": seed, "out": str(out)})

    def kill(self, pid: int) -> None:
        """Kill a writer, and wait until it is gone. It must have written until then."""
        ended = self._ask({"kill": pid})
        assert ended == -signal.SIGKILL, f"the writer ended by itself: {ended}"

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


def serve() -> None:
    """Fork a writer, or kill one, for each line of the input; answer with a number."""
    for line in sys.stdin:
        request = json.loads(line)
        if (pid := request.get("kill")) is not None:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            with Path(request["out"]).open("w") as out:
                os.dup2(out.fileno(), 1)
            try:
                asyncio.run(write(request["url"], request["mark"], request["seed"]))
            finally:
                os._exit(1)
        print(pid, flush=True)


def load() -> None:
    """Load all that a writer needs, without starting a thread: those would not be there after a fork."""
    for name in ("memory", "embedders.static", "stores.sqlite", "stores.postgres", "index.search"):
        __import__(f"loomflow.{name}")
    assert Memory.open("inmemory").embedder is not None


if __name__ == "__main__":
    load()
    serve()
