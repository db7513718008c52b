"""Whether other users in the same file cost a user anything: the same calls in a file that holds this user alone.

Started by `latency.py`: first `alone`, which writes a file for each user who is looked at, then the cases.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from corpus import TURNS_PER_SESSION, questions, statements_of, turns_of, user_name
from latency_cases import (
    BUDGET,
    default_embedder,
    each,
    episode,
    fact,
    in_batches,
    injecting,
    library,
    mode_of,
    run,
    sound,
)

WARM = 6
"""Questions to each user after the first one."""
IN_USE = 2000
"""So many other users, at most, have asked before: their memory is loaded, as in a server."""


def looked_at(options: argparse.Namespace) -> list[int]:
    """The numbers of the users who are looked at: `options.repeat` of them, from all over."""
    count = min(options.repeat, options.users)
    return [options.users * place // count for place in range(count)]


def file_of(options: argparse.Namespace, user: int) -> Path:
    return Path(f"{options.path}.{user_name(user)}.db")


async def alone(options: argparse.Namespace) -> dict[str, Any]:
    """Write a file for each user, in the pieces in which the shared file was written."""
    embedder = default_embedder()
    for user in looked_at(options):
        file_of(options, user).unlink(missing_ok=True)
        async with library("Memory").open(file_of(options, user), embedder=embedder) as memory:
            told = [episode(one) for one in turns_of(user, options.size, options.users)]
            await each(memory.remember, pieces(told, in_batches(options) // options.users))
            await each(memory.facts.append, map(fact, statements_of(user, options.size, options.users)))
    return {"users": len(looked_at(options))}


def pieces(told: list[Any], loaded: int) -> Iterator[list[Any]]:
    """A user's episodes as they come in: a session at a time; the last ones, of those that came singly, one by one."""
    first = 0
    while first < len(told):
        size = TURNS_PER_SESSION if first < loaded else 1
        yield told[first : first + size]
        first += size


async def inject(options: argparse.Namespace) -> dict[str, Any]:
    """Inject for each user from both files by turns: the first time, and again; medians of CPU over users."""
    embedder = default_embedder()
    times: dict[str, dict[str, list[float]]] = {where: {"cold": [], "warm": []} for where in ("shared", "alone")}
    users = looked_at(options)
    others = [number for number in range(options.users) if number not in set(users)][:IN_USE]
    async with library("Memory").open(options.path, embedder=embedder) as shared:
        asking = injecting(shared, BUDGET, mode_of(options))
        await each(asking, ((user_name(number), "Who plays the guitar?") for number in others))
        for turn, user in enumerate(users):
            async with library("Memory").open(file_of(options, user), embedder=embedder) as single:
                await each(injecting(single, BUDGET, mode_of(options)), [("nobody", "Open the file.")])
                where = {"shared": asking, "alone": injecting(single, BUDGET, mode_of(options))}
                order = list(where)[:: 1 if turn % 2 else -1]
                first, *rest = questions(WARM + 1, options.size, options.users, user)
                for name in order:
                    times[name]["cold"].append(await cpu_ms(where[name], first))
                for question in rest:
                    for name in order:
                        times[name]["warm"].append(await cpu_ms(where[name], question))
    medians = {
        where: {kind: round(statistics.median(values), 4) for kind, values in kinds.items()}
        for where, kinds in times.items()
    }
    return {"users": len(users), "in_use": len(others), **medians}


async def cpu_ms(call: Callable[[tuple[str, str]], Awaitable[Any]], question: tuple[str, str]) -> float:
    before = time.process_time()
    injection = await call(question)
    after = time.process_time()
    if not sound(injection):
        raise RuntimeError(f"an injection failed: {injection.problems}")
    return (after - before) * 1000


CASES: dict[str, Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]] = {
    "alone": alone,
    "inject": inject,
    "inject_fill": inject,
}

if __name__ == "__main__":
    run(CASES)
