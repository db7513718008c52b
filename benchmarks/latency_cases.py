"""What is measured of loomflow. Each case is one process, started by `latency.py`: times and peaks don't mix."""

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

from corpus import Statement, Turn, questions, statements, turn, turns
from timing import alone, report, timed

BATCH = 1000
RECALLED_EPISODES = 12
RECALLED_FACTS = 5
BUDGET = 1500
ONE_OF_MANY = 7
"""Number of the user who asks where there are many."""
HOTTEST = 25


def library(name: str) -> Any:
    """A public name of loomflow, imported now: the cold case times its imports."""
    return getattr(importlib.import_module("loomflow"), name)


def episode(told: Turn) -> Any:
    return library("Episode")(
        told.input, told.output, user_id=told.user, session_id=told.session, occurred_at=told.occurred_at, id=told.id
    )


def fact(told: Statement) -> Any:
    return library("Fact")(
        told.subject, told.predicate, told.object, user_id=told.user, valid_from=told.recorded_at,
        recorded_at=told.recorded_at,
    )  # fmt: skip


def open_memory(options: argparse.Namespace, embedder: Any = "default") -> Any:
    return library("Memory").open(options.path, embedder=embedder)


def asked(options: argparse.Namespace) -> list[tuple[str, str]]:
    """The questions of a case: of one user, or of everyone in turn."""
    user = None if options.case == "inject_everyone" else min(ONE_OF_MANY, options.users - 1)
    return questions(options.repeat + options.warm_up, options.size, options.users, user)


async def build(options: argparse.Namespace) -> dict[str, Any]:
    """Write the corpus in batches; also measures bulk loading."""
    wall, cpu = time.perf_counter(), time.process_time()
    async with open_memory(options) as memory:
        for first in range(0, options.size, BATCH):
            count = min(BATCH, options.size - first)
            await memory.remember([episode(told) for told in turns(count, options.users, first)])
        facts = [fact(told) for told in statements(options.size, options.users)]
        for first in range(0, len(facts), BATCH):
            await memory.facts.append(facts[first : first + BATCH])
    return {
        "episodes": options.size,
        "facts": len(facts),
        "wall_s": round(time.perf_counter() - wall, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
    }


async def recall(options: argparse.Namespace) -> dict[str, Any]:
    async with open_memory(options) as memory:

        async def call(question: tuple[str, str]) -> Any:
            return await memory.recall_scored(question[1], user_id=question[0], limit=RECALLED_EPISODES)

        return await read_timed(call, options, bool)


async def recall_facts(options: argparse.Namespace) -> dict[str, Any]:
    async with open_memory(options) as memory:

        async def call(question: tuple[str, str]) -> Any:
            return await memory.recall_facts(question[1], user_id=question[0], limit=RECALLED_FACTS)

        return await read_timed(call, options, bool)


async def remember(options: argparse.Namespace) -> dict[str, Any]:
    async with open_memory(options) as memory:
        told = turns(options.repeat + options.warm_up, options.users, options.size)
        return await timed(memory.remember, [episode(one) for one in told], warm_up=options.warm_up)


async def inject(options: argparse.Namespace) -> dict[str, Any]:
    async with open_memory(options) as memory:
        return await read_timed(injecting(memory, BUDGET), options, sound)


async def inject_unbounded(options: argparse.Namespace) -> dict[str, Any]:
    async with open_memory(options) as memory:
        return await read_timed(injecting(memory, None), options, sound)


async def read_timed(
    call: Callable[[tuple[str, str]], Awaitable[Any]], options: argparse.Namespace, check: Callable[[Any], bool]
) -> dict[str, Any]:
    """Time a reading call on all questions in a row, and on a few of them with nothing after."""
    values = await timed(call, asked(options), warm_up=options.warm_up, check=check)
    return values | {"alone_cpu_ms": await alone(call, asked(options)[: options.alone])}


def injecting(memory: Any, budget: int | None) -> Callable[[tuple[str, str]], Awaitable[Any]]:
    tuning = library("Tuning")(memory_token_budget=budget)

    async def call(question: tuple[str, str]) -> Any:
        return await memory.inject(question[1], user_id=question[0], tuning=tuning)

    return call


def sound(injection: Any) -> bool:
    """Whether an injection holds recalled memory, and nothing failed on the way to it."""
    return bool(injection.items) and injection.problems == ()


async def cold(options: argparse.Namespace) -> dict[str, Any]:
    """What a process pays once: imports, the embedder, and the first injection from a file that is there already."""
    (question,) = asked(options)[:1]
    values: dict[str, Any] = {}
    wall, cpu = time.perf_counter(), time.process_time()

    def lap(name: str) -> None:
        nonlocal wall, cpu
        values[name] = {"cpu_ms": (time.process_time() - cpu) * 1000, "wall_ms": (time.perf_counter() - wall) * 1000}
        wall, cpu = time.perf_counter(), time.process_time()

    library("Memory")
    lap("imports")
    embedder = importlib.import_module("loomflow.embedders").resolve_embedder("default")
    await embedder.embed(["ready"])
    lap("embedder")
    memory = open_memory(options, embedder)
    first = await injecting(memory, BUDGET)(question)
    lap("first_inject")
    second = await injecting(memory, BUDGET)(question)
    lap("second_inject")
    await memory.aclose()
    if not (sound(first) and sound(second)):
        raise RuntimeError(f"an injection failed: {first.problems + second.problems}")
    return values


class InlineExecutor:
    """Runs what it is given at once, in the caller's thread, so that one profiler sees all of it."""

    def __init__(self, *_: object) -> None: ...

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments))
        except BaseException as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True) -> None: ...


async def profile(options: argparse.Namespace) -> dict[str, Any]:
    """The hottest functions of `options.profiled`. Profiling slows Python down, C functions not: read it as shares."""
    connections: Any = importlib.import_module("loomflow.stores.connections")
    connections.ThreadPoolExecutor = InlineExecutor
    memory = open_memory(options)
    await injecting(memory, BUDGET)(asked(options)[0])
    if options.profiled == "remember":
        call: Callable[[Any], Awaitable[Any]] = memory.remember
        arguments: list[Any] = [episode(turn(options.size + number, options.users)) for number in range(options.repeat)]
    else:
        call, arguments = injecting(memory, BUDGET), asked(options)[: options.repeat]
    profiler = cProfile.Profile(time.thread_time)
    if options.profiled == "cold":
        await memory.aclose()
        arguments = arguments[:1]
    for argument in arguments:
        profiler.enable()
        await call(argument)
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


CASES: dict[str, Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]] = {
    "build": build,
    "recall": recall,
    "recall_facts": recall_facts,
    "remember": remember,
    "inject": inject,
    "inject_unbounded": inject_unbounded,
    "inject_everyone": inject,
    "cold": cold,
    "profile": profile,
}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    return await CASES[options.case](options)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("case", choices=list(CASES))
    made.add_argument("--path", required=True)
    made.add_argument("--size", type=int, required=True)
    made.add_argument("--users", type=int, default=1)
    made.add_argument("--repeat", type=int, default=1)
    made.add_argument("--warm-up", type=int, default=0)
    made.add_argument("--alone", type=int, default=1)
    made.add_argument("--profiled", default="inject")
    report(asyncio.run(measure(made.parse_args())))


if __name__ == "__main__":
    main()
