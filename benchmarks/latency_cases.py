"""What is measured of loomflow. Each case is one process, started by `latency.py`: times and peaks don't mix."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from corpus import Statement, Turn, questions, statements, turns
from timing import alone, report, resident_mb, timed

BATCH = 1000
SINGLY = 128
"""So many episodes at the end of a corpus are written one by one, as an agent does. Of 256 such, the store merges the
index: so many stand unmerged on average."""
RECALLED_EPISODES = 12
RECALLED_FACTS = 5
BUDGET = 1500
ONE_OF_MANY = 7
"""Number of the user who asks where there are many."""


def library(name: str) -> Any:
    """A public name of loomflow, imported now: the cold case times its imports."""
    return getattr(importlib.import_module("loomflow"), name)


def default_embedder() -> Any:
    return importlib.import_module("loomflow.embedders").resolve_embedder("default")


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


def mode_of(options: argparse.Namespace) -> str:
    """The mode of injection that a case measures."""
    return "fill" if options.case.endswith("_fill") else "top"


def in_batches(options: argparse.Namespace) -> int:
    """How many episodes of the corpus are written in batches."""
    return max(options.size - SINGLY, 0)


async def build(options: argparse.Namespace) -> dict[str, Any]:
    """Write the corpus in batches, which also measures bulk loading, and the end of it one by one."""
    loaded = in_batches(options)
    wall, cpu = time.perf_counter(), time.process_time()
    async with open_memory(options) as memory:
        for first in range(0, loaded, BATCH):
            await memory.remember([episode(told) for told in turns(min(BATCH, loaded - first), options.users, first)])
        facts = [fact(told) for told in statements(options.size, options.users)]
        for first in range(0, len(facts), BATCH):
            await memory.facts.append(facts[first : first + BATCH])
        values = {"wall_s": round(time.perf_counter() - wall, 2), "cpu_s": round(time.process_time() - cpu, 2)}
        for told in turns(options.size - loaded, options.users, loaded):
            await memory.remember(episode(told))
    return {"episodes": options.size, "facts": len(facts), "loaded": loaded, **values}


async def recall(options: argparse.Namespace) -> dict[str, Any]:
    async with open_memory(options) as memory:

        async def call(question: tuple[str, str]) -> Any:
            return await memory.recall_scored(question[1], user_id=question[0], limit=RECALLED_EPISODES)

        return await read_timed(memory, call, options, bool)


async def recall_facts(options: argparse.Namespace) -> dict[str, Any]:
    async with open_memory(options) as memory:

        async def call(question: tuple[str, str]) -> Any:
            return await memory.recall_facts(question[1], user_id=question[0], limit=RECALLED_FACTS)

        return await read_timed(memory, call, options, bool)


async def remember(options: argparse.Namespace) -> dict[str, Any]:
    """Write episodes one by one; then wait until the background has merged what it wants to, and count that too."""
    merged = metered_background()
    told = [episode(one) for one in turns(options.repeat + options.warm_up, options.users, options.size)]
    async with open_memory(options) as memory:
        await each(memory.remember, told[: options.warm_up])
        merged.clear()
        cpu = time.process_time()
        values = await timed(memory.remember, told[options.warm_up :], warm_up=0)
    cpu = time.process_time() - cpu
    return values | {
        "whole_cpu_ms": round(cpu * 1000 / options.repeat, 4),
        "merges": len(merged),
        "merging_cpu_ms": round(sum(merged) * 1000 / options.repeat, 4),
        "longest_merge_ms": round(max(merged, default=0.0) * 1000, 2),
    }


def metered_background() -> list[float]:
    """Have the CPU seconds of each piece of work that the store does in the background put into a list."""
    connections: Any = importlib.import_module("loomflow.stores.connections").Connections
    seconds: list[float] = []
    write_later = connections.write_later

    def later(self: Any, scope: Any, work: Callable[[Any], object]) -> None:
        def measured(db: Any) -> None:
            began = time.thread_time()
            work(db)
            seconds.append(time.thread_time() - began)

        write_later(self, scope, measured)

    connections.write_later = later
    return seconds


async def inject(options: argparse.Namespace) -> dict[str, Any]:
    async with open_memory(options) as memory:
        return await read_timed(memory, injecting(memory, BUDGET, mode_of(options)), options, sound)


async def inject_unbounded(options: argparse.Namespace) -> dict[str, Any]:
    async with open_memory(options) as memory:
        return await read_timed(memory, injecting(memory, None), options, sound)


async def read_timed(
    memory: Any,
    call: Callable[[tuple[str, str]], Awaitable[Any]],
    options: argparse.Namespace,
    check: Callable[[Any], bool],
) -> dict[str, Any]:
    """Time a reading call on all questions in a row, and on a few with nothing after; and the embedding in it."""
    values = await timed(call, asked(options), warm_up=options.warm_up, check=check)

    async def embed(question: tuple[str, str]) -> Any:
        return await memory.embedder.embed([question[1]], query=True)

    embedding = await timed(embed, asked(options), warm_up=options.warm_up, check=lambda vectors: len(vectors) == 1)
    resting = await alone(call, asked(options)[: options.alone])
    return values | {"embedding_cpu_ms": embedding["cpu_ms"]["median"], "alone_cpu_ms": resting}


def injecting(memory: Any, budget: int | None, mode: str = "top") -> Callable[[tuple[str, str]], Awaitable[Any]]:
    tuning = library("Tuning")(memory_token_budget=budget, memory_mode=mode)

    async def call(question: tuple[str, str]) -> Any:
        return await memory.inject(question[1], user_id=question[0], tuning=tuning)

    return call


def sound(injection: Any) -> bool:
    """Whether an injection holds recalled memory, and nothing failed on the way to it."""
    return bool(injection.items) and injection.problems == ()


async def each(call: Callable[[Any], Awaitable[object]], arguments: Iterable[Any]) -> None:
    for argument in arguments:
        await call(argument)


async def cold(options: argparse.Namespace) -> dict[str, Any]:
    """What a process pays once: imports, the embedder, and the first injection from a file that is there already."""
    (question,) = asked(options)[:1]
    values: dict[str, Any] = {}
    injections: list[Any] = []
    wall, cpu = time.perf_counter(), time.process_time()

    def lap(name: str) -> None:
        nonlocal wall, cpu
        values[name] = {"cpu_ms": (time.process_time() - cpu) * 1000, "wall_ms": (time.perf_counter() - wall) * 1000}
        wall, cpu = time.perf_counter(), time.process_time()

    library("Memory")
    lap("imports")
    imported = resident_mb()
    lap("")  # not counted
    embedder = default_embedder()
    await embedder.embed(["ready"])
    lap("embedder")
    memory = open_memory(options, embedder)
    injections.append(await injecting(memory, BUDGET, mode_of(options))(question))
    lap("first_inject")
    injections.append(await injecting(memory, BUDGET, mode_of(options))(question))
    lap("second_inject")
    values["resident_mb"] = {"imported": imported, "injected": resident_mb()}
    await memory.aclose()
    lap("")
    memory = open_memory(options, embedder)
    injections.append(await injecting(memory, BUDGET, mode_of(options))(question))
    lap("reopened_inject")
    await memory.aclose()
    del values[""]
    if not all(map(sound, injections)):
        raise RuntimeError(f"an injection failed: {[one.problems for one in injections]}")
    return values


CASES: dict[str, Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]] = {
    "build": build,
    "recall": recall,
    "recall_facts": recall_facts,
    "remember": remember,
    "inject": inject,
    "inject_fill": inject,
    "inject_unbounded": inject_unbounded,
    "inject_everyone": inject,
    "cold": cold,
    "cold_fill": cold,
}


def run(cases: dict[str, Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]]) -> None:
    """The command line of a script of cases."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("case", choices=list(cases))
    made.add_argument("--path", required=True)
    made.add_argument("--size", type=int, required=True)
    made.add_argument("--users", type=int, default=1)
    made.add_argument("--repeat", type=int, default=1)
    made.add_argument("--warm-up", type=int, default=0)
    made.add_argument("--alone", type=int, default=1)
    options = made.parse_args()

    async def measure() -> dict[str, Any]:
        return await cases[options.case](options)

    report(asyncio.run(measure()))


if __name__ == "__main__":
    run(CASES)
