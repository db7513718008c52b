"""`loomflow inject`: the block that a question would get, and its receipt. No model is called."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

import typer

from loomflow.receipt import Injection
from loomflow.settings import Tuning

from .display import injection_fields, say, say_json, say_receipt, tell
from .opening import existing_memory
from .options import AsJson, Budget, HalfLife, MemoryUrl, Session, User, read_moment


def inject(
    question: Annotated[str, typer.Argument(help="What the user asks.", show_default=False)],
    memory: MemoryUrl,
    user: User = None,
    session: Session = None,
    budget: Budget = None,
    half_life: HalfLife = None,
    at: Annotated[
        datetime | None,
        typer.Option(
            "--at", metavar="ISO", parser=read_moment, help="Build the block as of this moment; now if omitted."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the memory block that a question would get, and on stderr the receipt that says why.

    Nothing is written and no model is called.
    """
    tuning = read_tuning(budget, half_life)

    async def work() -> Injection:
        async with existing_memory(memory) as opened:
            return await opened.inject(question, user_id=user, session_id=session, tuning=tuning, at=at)

    injection = asyncio.run(work())
    if as_json:
        say_json({"block": injection.text, "receipt": injection_fields(injection)})
        return
    if injection.text:
        say(injection.text)
    say_receipt(injection, stderr=True)


def read_tuning(budget: int | None, half_life: float | None) -> Tuning:
    """The settings of a command; says so where one has no effect.

    Raises:
        ConfigError: a value is out of range.
    """
    tuning = Tuning(memory_token_budget=budget, memory_decay_half_life_days=half_life)
    if half_life is not None and budget is None:
        tell("note: --half-life has no effect without --budget")
    return tuning
