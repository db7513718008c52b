"""Where the time of a call goes: its hottest functions. Started by `latency.py --profile`."""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import importlib
import io
import pstats
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from corpus import turns
from latency_cases import BUDGET, asked, default_embedder, episode, injecting, mode_of, open_memory, run

HOTTEST = 25


class LoopExecutor:
    """Runs what it is given in the thread of the event loop, so that one profiler sees all of it.

    Not at once, but when the caller has gone on: what hands over work may hold a lock that the work takes too.
    """

    def __init__(self, *_: object) -> None: ...

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(work(*arguments))
            except BaseException as error:
                future.set_exception(error)

        asyncio.get_running_loop().call_soon(run)
        return future

    def shutdown(self, wait: bool = True) -> None: ...


async def profile(options: argparse.Namespace) -> dict[str, Any]:
    """The hottest functions of a case. Profiling slows Python down, C functions not: read it as shares."""
    connections: Any = importlib.import_module("loomflow.stores.sqlite_connections")
    connections.ThreadPoolExecutor = LoopExecutor
    embedder = default_embedder()
    memory = open_memory(options, embedder)
    inject = injecting(memory, BUDGET, mode_of(options))
    await inject(asked(options)[0])
    call, arguments = inject, asked(options)[: options.repeat]
    if options.case == "remember":
        call = memory.remember
        arguments = [episode(told) for told in turns(options.repeat, options.users, options.size)]
    if options.case.startswith("cold"):
        await memory.aclose()
        arguments = arguments[:1]
    profiler = cProfile.Profile(time.thread_time)
    profiler.enable()
    for argument in arguments:
        await call(argument)
    await asyncio.sleep(0)  # what was handed over last
    profiler.disable()
    await memory.aclose()
    return {"text": hottest(profiler, len(arguments))}


def hottest(profiler: cProfile.Profile, calls: int) -> str:
    """A table of functions by own time; C functions under the name of each Python function that calls them."""
    stats: Any = pstats.Stats(profiler, stream=io.StringIO())
    rows: list[tuple[float, float, str]] = []
    for (file, _, name), (_, count, own, _, callers) in stats.stats.items():
        if file == "~":
            rows += [(row[2], row[0] / calls, f"{name} from {caller[2]} ({Path(caller[0]).name})")
                     for caller, row in callers.items()]  # fmt: skip
        else:
            rows.append((own, count / calls, f"{name} ({Path(file).name})"))
    total = sum(row[0] for row in rows)
    lines = [f"{total / calls * 1000:.3f} ms a call under the profiler", "  share  ms a call  calls  function"]
    for own, count, name in sorted(rows, reverse=True)[:HOTTEST]:
        lines.append(f"  {own / total:5.1%}  {own / calls * 1000:9.4f}  {count:5.1f}  {name}")
    return "\n".join(lines)


CASES: dict[str, Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]] = dict.fromkeys(
    ("inject", "inject_fill", "cold", "cold_fill", "remember"), profile
)

if __name__ == "__main__":
    run(CASES)
