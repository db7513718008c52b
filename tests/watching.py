"""A watchdog of the event loop: how long its thread works between two turns of a task."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

REFERENCE_MS = 6.5
"""What `unit` takes on the machine on which limits of turns are set."""


def unit() -> float:
    """Milliseconds of CPU that a fixed piece of work in Python takes here: the least of several tries."""

    def work() -> float:
        start = time.thread_time()
        counts: dict[str, int] = {}
        for number in range(60_000):
            word = str(number % 997)
            counts[word] = counts.get(word, 0) + 1
        return (time.thread_time() - start) * 1000

    return min(work() for _ in range(5))


def on_this_machine(limit: float) -> float:
    """A limit for the reference machine, in proportion on a slower one; a faster one gets no less."""
    return limit * max(1, unit() / REFERENCE_MS)


@asynccontextmanager
async def watched() -> AsyncGenerator[list[float]]:
    """Milliseconds of CPU that the event loop's thread works in each turn, within the block.

    Other threads and programs do not count, so that a busy machine does no harm. What the tests before left alive is
    kept from the garbage collector, whose passes over it would be counted.
    """
    turns: list[float] = []

    async def watch() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            turns.append((time.thread_time() - before) * 1000)

    gc.collect()
    gc.freeze()
    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        yield turns
    finally:
        watching.cancel()
        gc.unfreeze()
