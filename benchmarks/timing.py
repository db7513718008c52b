"""Timing of one asynchronous call after another: CPU of all threads of the process, wall clock, peak memory.

Only the standard library is used: a peer's interpreter imports this module too.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")

SETTLE_SECONDS = 0.25
"""How long threads may go on after a call: idle ones of a linear algebra library spin before they sleep."""


async def timed(
    call: Callable[[Argument], Awaitable[Result]],
    arguments: Sequence[Argument],
    *,
    warm_up: int,
    check: Callable[[Result], object] = bool,
) -> dict[str, Any]:
    """Time `call` on each argument.

    Args:
        call: what is timed.
        arguments: one per call.
        warm_up: how many of the first calls are not counted.
        check: must be true of every result; not timed.

    Returns:
        Count, and median, 99th percentile and highest value of CPU and wall time in milliseconds.
    """
    cpu: list[float] = []
    wall: list[float] = []
    for argument in arguments:
        wall_before, cpu_before = time.perf_counter(), time.process_time()
        result = await call(argument)
        cpu_after, wall_after = time.process_time(), time.perf_counter()
        if not check(result):
            raise RuntimeError(f"a timed call returned {result!r}")
        cpu.append((cpu_after - cpu_before) * 1000)
        wall.append((wall_after - wall_before) * 1000)
    return {"count": len(cpu) - warm_up, "cpu_ms": spread(cpu[warm_up:]), "wall_ms": spread(wall[warm_up:])}


async def alone(call: Callable[[Argument], Awaitable[object]], arguments: Sequence[Argument]) -> float:
    """Median CPU milliseconds of a call that nothing follows: with what the process's threads do until they rest."""
    cpu: list[float] = []
    for argument in arguments:
        await asyncio.sleep(SETTLE_SECONDS)
        before = time.process_time()
        await call(argument)
        await asyncio.sleep(SETTLE_SECONDS)
        cpu.append((time.process_time() - before) * 1000)
    return round(statistics.median(cpu), 4)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile (nearest rank: the highest value of fewer than 100) and highest value."""
    ordered = sorted(values)
    p99 = ordered[-(-99 * len(ordered) // 100) - 1]
    return {name: round(value, 4) for name, value in (
        ("median", statistics.median(ordered)), ("p99", p99), ("max", ordered[-1]),
    )}  # fmt: skip


def peak_mb() -> float:
    """Highest resident memory of this process so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1e6 if sys.platform == "darwin" else 1e3), 1)


def resident_mb() -> float:
    """Resident memory of this process now, in megabytes; where there is no `/proc`, its highest so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return peak_mb()
    return round(pages * resource.getpagesize() / 1e6, 1)


def yardstick() -> float:
    """CPU milliseconds of a fixed loop of Python: how fast this machine is just now."""
    before = time.process_time()
    sum(number * number for number in range(1_000_000))
    return round((time.process_time() - before) * 1000, 1)


def report(values: dict[str, Any]) -> None:
    """Hand the values of one case to the process that started this one, as the last line of the output."""
    print(json.dumps(values | {"peak_mb": peak_mb(), "yardstick_ms": yardstick()}))
