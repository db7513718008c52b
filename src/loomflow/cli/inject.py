"""`loomflow inject`: the block that a question would get, and its receipt. No model is called."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from loomflow.receipt import Injection

from .display import say, say_json
from .opening import existing_memory
from .options import AsJson, At, EmbedderName, MemoryUrl, Session, User
from .receipts import injection_fields, say_receipt
from .tuning import Budget, HalfLife, MaxEpisodes, MaxFacts, MinRelevance, Mode, read_tuning


def inject(
    question: Annotated[str, typer.Argument(help="What the user asks.", show_default=False)],
    memory: MemoryUrl,
    user: User = None,
    session: Session = None,
    mode: Mode = "top",
    budget: Budget = None,
    half_life: HalfLife = None,
    max_facts: MaxFacts = None,
    max_episodes: MaxEpisodes = None,
    min_relevance: MinRelevance = None,
    embedder: EmbedderName = "default",
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Print the memory block that a question would get, and on stderr the receipt that says why.

    Nothing is written and no model is called.
    """
    tuning = read_tuning(
        mode=mode, budget=budget, half_life=half_life, max_facts=max_facts, max_episodes=max_episodes,
        min_relevance=min_relevance,
    )  # fmt: skip

    async def work() -> Injection:
        async with existing_memory(memory, embedder) as opened:
            return await opened.inject(question, user_id=user, session_id=session, tuning=tuning, at=at)

    injection = asyncio.run(work())
    if as_json:
        say_json({"block": injection.text, "receipt": injection_fields(injection)})
        return
    if injection.text:
        say(injection.text)
    say_receipt(injection, stderr=True)
