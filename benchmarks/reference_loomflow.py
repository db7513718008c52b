"""What is measured of the peer, the package `loomflow` 0.20.0 of the package index: its SQLite memory.

It shares its import name with this project and nothing else, so this runs in an interpreter of its own, of a virtual
environment, started by `latency.py`, and refuses to run in another. Corpus and questions are the same; the embedder is
the peer's default (384 dimensions, no network).
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.metadata
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from corpus import Statement, Turn, questions, statements, turns
from timing import report, timed

VERSION = "0.20.0"
RECALLED_EPISODES = 12
RECALLED_FACTS = 5
BUDGET = 1500


def peer(module: str) -> Any:
    """A module of the peer's package."""
    return importlib.import_module(f"loomflow{module}")


def check_peer() -> None:
    """Stop unless the installed package is the peer.

    Raises:
        SystemExit: it is not.
    """
    found = importlib.metadata.version("loomflow")
    home = Path(peer("").__file__).resolve()
    if found != VERSION or Path(sys.prefix).resolve() not in home.parents:
        raise SystemExit(f"this measures loomflow {VERSION} installed in {sys.prefix}, but found {found} at {home}")


def episode(told: Turn) -> Any:
    return peer(".core.types").Episode(
        id=told.id, session_id=told.session, user_id=told.user, occurred_at=told.occurred_at, input=told.input,
        output=told.output,
    )  # fmt: skip


def fact(told: Statement) -> Any:
    return peer(".core.types").Fact(
        user_id=told.user, subject=told.subject, predicate=told.predicate, object=told.object,
        valid_from=told.recorded_at, recorded_at=told.recorded_at,
    )  # fmt: skip


def open_memory(options: argparse.Namespace) -> Any:
    embedder = peer(".memory.embedder").HashEmbedder()
    return peer(".memory.sqlite").SqliteMemory(options.path, embedder=embedder)


async def build(options: argparse.Namespace) -> dict[str, Any]:
    memory = open_memory(options)
    for told in turns(options.size):
        await memory.remember(episode(told))
    for told in statements(options.size):
        await memory.facts.append(fact(told))
    return {}


async def recall(options: argparse.Namespace) -> dict[str, Any]:
    memory = open_memory(options)

    async def call(question: tuple[str, str]) -> Any:
        return await memory.recall_scored(question[1], user_id=question[0], limit=RECALLED_EPISODES)

    return await timed(call, asked(options), warm_up=options.warm_up)


async def recall_facts(options: argparse.Namespace) -> dict[str, Any]:
    memory = open_memory(options)

    async def call(question: tuple[str, str]) -> Any:
        return await memory.recall_facts(question[1], user_id=question[0], limit=RECALLED_FACTS)

    return await timed(call, asked(options), warm_up=options.warm_up)


async def remember(options: argparse.Namespace) -> dict[str, Any]:
    memory = open_memory(options)
    told = turns(options.repeat + options.warm_up, 1, options.size)
    return await timed(memory.remember, [episode(one) for one in told], warm_up=options.warm_up)


async def inject(options: argparse.Namespace) -> dict[str, Any]:
    return await timed(injecting(options, BUDGET), asked(options), warm_up=options.warm_up)


async def inject_unbounded(options: argparse.Namespace) -> dict[str, Any]:
    return await timed(injecting(options, None), asked(options), warm_up=options.warm_up)


def injecting(options: argparse.Namespace, budget: int | None) -> Callable[[tuple[str, str]], Awaitable[Any]]:
    """The peer's own way from a prompt to the messages of the first request; it has no public name there."""
    build_messages = getattr(peer(".architecture.react"), "_build_seed_messages")  # noqa: B009
    memory = open_memory(options)

    async def call(question: tuple[str, str]) -> Any:
        run = SimpleNamespace(
            memory=memory, memory_token_budget=budget, memory_decay_half_life=None,
            context=SimpleNamespace(user_id=question[0], session_id=None),
        )  # fmt: skip
        return await build_messages(run, "Answer.", question[1])

    return call


def asked(options: argparse.Namespace) -> list[tuple[str, str]]:
    return questions(options.repeat + options.warm_up, options.size)


CASES: dict[str, Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]] = {
    "build": build,
    "recall": recall,
    "recall_facts": recall_facts,
    "remember": remember,
    "inject": inject,
    "inject_unbounded": inject_unbounded,
}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    return await CASES[options.case](options)


def main() -> None:
    check_peer()
    made = argparse.ArgumentParser()
    made.add_argument("case", choices=list(CASES))
    made.add_argument("--path", required=True)
    made.add_argument("--size", type=int, required=True)
    made.add_argument("--repeat", type=int, default=1)
    made.add_argument("--warm-up", type=int, default=0)
    report(asyncio.run(measure(made.parse_args())))


if __name__ == "__main__":
    main()
