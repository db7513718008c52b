"""An agent that runs for long: memory, tasks, threads and open files level off."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import tracemalloc
from collections.abc import Mapping

import psutil
import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from loomflow import Agent, Memory

from .ledger import Ledger, Scale, kind_of

AT_ONCE = 4
BYTES_A_RUN, NOISE = 200, 100_000
"""The memory that may stay: of each run, less than one message of it takes; and what caches of a fixed size gather."""


async def held() -> Mapping[str, int]:
    """What this process holds on to."""
    await asyncio.sleep(0.05)  # tasks that are over leave in the next turns of the loop
    gc.collect()
    return {
        "bytes": tracemalloc.get_traced_memory()[0],
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "files": psutil.Process().num_fds(),
    }


async def answer(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart("ok")])


@pytest.mark.slow
async def test_what_many_runs_hold_levels_off(store_url: str, scale: Scale, ledger: Ledger) -> None:
    """The second half of the runs adds next to nothing: their users come, talk and are forgotten."""
    entry = ledger.entry(f"{scale.sessions} sessions, {kind_of(store_url)}", "bytes more, a run of the second half")
    a_session = scale.runs // scale.sessions
    async with Memory.open(store_url) as memory:
        agent = Agent(model=FunctionModel(answer), memory=memory)

        async def run(session: int) -> None:
            for number in range(a_session):
                user = f"u{session}"
                await agent.run(f"ferry {number}", user_id=user, session_id=f"s{session}")
                entry.tried += 1
            await memory.forget(user_id=f"u{session}")

        async def sessions(numbers: range) -> Mapping[str, int]:
            for start in numbers[::AT_ONCE]:
                await asyncio.gather(*(run(number) for number in range(start, min(start + AT_ONCE, numbers.stop))))
            return await held()

        reads = [memory.working() for _ in range(64)]  # so that all threads that there can be are there
        await asyncio.gather(*reads, *(asyncio.to_thread(time.sleep, 0.05) for _ in range(64)))
        await sessions(range(scale.sessions // 4))
        tracemalloc.start()
        try:
            await sessions(range(scale.sessions // 4, scale.sessions // 2))
            before = await held()
            after = await sessions(range(scale.sessions // 2, scale.sessions))
        finally:
            tracemalloc.stop()
        assert len(memory.session_locks) == 0
    more = {name: after[name] - before[name] for name in before}
    assert {name: more[name] for name in ("tasks", "threads", "files") if more[name] > 0} == {}, [
        thread.name for thread in threading.enumerate()
    ]
    assert more["bytes"] < BYTES_A_RUN * (scale.runs // 2) + NOISE
    entry.count(max(0, more["bytes"]) / (scale.runs // 2), "bytes")
    entry.survived = entry.tried
