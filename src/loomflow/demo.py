"""The demo: a year of one user's memory, and one question asked of it under four settings. It prints nothing itself.

Everything is real: a database that is closed and opened again, recall, packing, runs of an agent. Only the model may be
an `EchoModel`, which needs no key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import loomflow

from .errors import ConfigError
from .items import Episode, Fact, MemoryStats
from .locations import locate
from .models import EchoModel
from .receipt import Injection
from .settings import Tuning

if TYPE_CHECKING:
    from .memory import Memory

USER = "alice"
QUESTION = "Which restaurant should we book for dinner on Friday?"
INSTRUCTIONS = "Answer in one sentence, using what you know about the user."
PROFILE = "Alice, product designer. Vegetarian, allergic to hazelnuts.\nLikes short answers."


@dataclass(frozen=True, slots=True)
class Scene:
    """The question asked once.

    Attributes:
        title: what is different this time.
        look_at: what to look at.
        settings: as they are written in Python.
        sent: the memory block in the request; with `EchoModel` read off the request itself.
        injection: the receipt.
        answer: of the model.
    """

    title: str
    look_at: str
    settings: str
    sent: str
    injection: Injection
    answer: str


@dataclass(frozen=True, slots=True)
class _Take:
    """A scene before it is played."""

    title: str
    look_at: str
    tuning: Tuning


TAKES = (
    _Take(
        "The question, under a budget of 300 tokens",
        "The block is in, in full. Then come the best memories, until notes of thousands of tokens are cut where the "
        "budget ends; what ranks below is dropped. That she lived in Porto is no longer true, so it is not recalled.",
        Tuning(memory_token_budget=300),
    ),
    _Take(
        "The same question, without a budget",
        "The three best episodes are sent in full, so one old text costs more than everything else together: compare "
        "the tokens.",
        Tuning(),
    ),
    _Take(
        "The same question, under a budget of 120 tokens",
        "The ceiling holds for everything in the block, headers and bullets included. Fewer memories, the best ones.",
        Tuning(memory_token_budget=120),
    ),
    _Take(
        "The same question, under 300 tokens with a half-life of 30 days",
        "The column decay: a memory 30 days old counts half. Last week's dinner moves to the top; the dinner of a year "
        "ago, the best match in scene 1, is out.",
        Tuning(memory_token_budget=300, memory_decay_half_life_days=30.0),
    ),
)


async def write(memory: Memory, now: datetime) -> MemoryStats:
    """Write the demo's memory; what it holds then.

    Raises:
        ConfigError: something of the demo's user is there already; it is left alone.
    """
    found = await memory.stats(user_id=USER)
    if found.blocks or found.fact_versions or found.episodes:
        raise ConfigError(f"{found.url} holds memories of user {USER!r} already; give the demo a file of its own")
    await memory.update_block("profile", PROFILE, user_id=USER)
    await memory.facts.append(_facts(now))
    await memory.remember(_episodes(now))
    return await memory.stats(user_id=USER)


async def play(memory: Memory, model: Any) -> AsyncIterator[Scene]:
    """Ask the question in a new session for each scene.

    Between scenes the run is forgotten, so that each begins with the same memory; that of the last one stays.

    Raises:
        Exception: whatever the model raises.
    """
    for number, take in enumerate(TAKES, start=1):
        session = f"scene-{number}"
        agent = loomflow.Agent(INSTRUCTIONS, model=model, memory=memory, tuning=take.tuning)
        result = await agent.run(QUESTION, user_id=USER, session_id=session)
        sent = result.injection.text
        if isinstance(model, EchoModel):
            sent = model.requests[-1].system.removeprefix(INSTRUCTIONS).strip()
        if number < len(TAKES):
            await memory.forget(user_id=USER, session_id=session)
        yield Scene(take.title, take.look_at, _written(take.tuning), sent, result.injection, result.output)


def check_place(url: str) -> None:
    """Check that a memory outlives its closing, as the demo needs it to.

    Raises:
        ConfigError: it does not.
    """
    if locate(url).kind == "inmemory":
        raise ConfigError("the demo closes its memory and opens it again: give a file, not inmemory")


def _written(tuning: Tuning) -> str:
    parts = [f"memory_token_budget={tuning.memory_token_budget}"]
    if tuning.memory_decay_half_life_days is not None:
        parts.append(f"memory_decay_half_life_days={tuning.memory_decay_half_life_days:g}")
    return f"Tuning({', '.join(parts)})"


def _facts(now: datetime) -> list[Fact]:
    def fact(predicate: str, value: str, known_days: float, since_days: float | None = None) -> Fact:
        since = None if since_days is None else now - timedelta(days=since_days)
        recorded = now - timedelta(days=known_days)
        return Fact("Alice", predicate, value, user_id=USER, valid_from=since, recorded_at=recorded)

    return [
        fact("lives_in", "Porto", 350, 900),
        fact("works_at", "a design studio", 300, 400),
        fact("likes", "dinner outdoors", 250),
        fact("lives_in", "Lisbon", 60, 70),
        fact("dinner_budget", "up to 40 euros a person", 45),
        fact("has_pet", "a dog called Bolota", 20),
    ]


def _episodes(now: datetime) -> list[Episode]:
    return [
        Episode(said, answered, user_id=USER, session_id=session, occurred_at=now - timedelta(days=days))
        for days, session, said, answered in (*_SHORT, (150, "guide", _LONG_INPUT, _LONG_ANSWER))
    ]


_SHORT = (
    (
        365,
        "porto",
        "Which restaurant in Porto should we book for dinner on Friday?",
        "Book the Cantina do Rio, a vegetarian restaurant by the river.",
    ),
    (300, "work", "Help me word the brief for the packaging project.", "Begin with the shelf it will stand on."),
    (210, "travel", "Is there an early train to Madrid?", "Not from here: take the night bus, or fly."),
    (68, "lisbon", "We have moved, the boxes are in Lisbon now.", "Welcome to Lisbon! Shall I look for shops nearby?"),
    (30, "work", "The packaging went to print.", "Congratulations. I have closed the project."),
    (
        6,
        "lisbon",
        "Dinner at Horta Verde in Alfama was lovely: a quiet restaurant, and the dog was welcome. We should go again.",
        "Noted: Horta Verde is a restaurant to book again.",
    ),
    (2, "travel", "Pack list for a weekend at the sea?", "Sun cream, a hat, and the dog's bowl."),
)

_STREETS = ("Alfama", "Graça", "Chiado", "Estrela", "Alvalade", "Campo de Ourique", "Belém", "Mouraria")
_KINDS = ("tavern", "wine bar", "garden", "noodle house", "bakery", "grill")
_LONG_INPUT = "Keep these notes from my restaurant guide:\n" + "\n".join(
    f"{number}. House {number} in {_STREETS[number % len(_STREETS)]}, {_KINDS[number % len(_KINDS)]}, opens at "
    f"{17 + number % 4} o'clock, closed on {'Monday' if number % 3 else 'Friday'}, around {14 + number * 7 % 40} euros."
    for number in range(1, 201)
)
_LONG_ANSWER = "I have kept your notes on 200 houses."
