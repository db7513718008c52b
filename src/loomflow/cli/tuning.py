"""The options that say how memory is injected, and the `Tuning` that they make."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import typer

from loomflow.settings import Tuning

from .display import tell

Mode: TypeAlias = Annotated[
    Literal["top", "fill"],
    typer.Option("--mode", help="top: the best few facts and episodes. fill: passages, as many as the budget holds."),
]
Budget: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--budget",
        metavar="N",
        min=1,
        help="Ceiling on the memory block, in tokens. If omitted: none in mode top, 1500 in mode fill.",
    ),
]
HalfLife: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--half-life",
        metavar="DAYS",
        help="Age in days at which a memory counts half; in mode top it applies only under a budget.",
    ),
]
MaxFacts: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-facts", metavar="N", min=0, help="How many facts at most, in mode top; 5 if omitted."),
]
MaxEpisodes: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-episodes", metavar="N", min=0, help="How many episodes at most, in mode top; 3 if omitted."),
]
MinRelevance: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--min-relevance",
        metavar="0..1",
        min=0,
        max=1,
        help="What matches the question less than this stays out; 0.05 if omitted, 0 keeps all.",
    ),
]


def read_tuning(
    *,
    mode: Literal["top", "fill"],
    budget: int | None,
    half_life: float | None,
    max_facts: int | None,
    max_episodes: int | None,
    min_relevance: float | None,
) -> Tuning:
    """The settings of a command; says so where one has no effect.

    Raises:
        ConfigError: a value is out of range.
    """
    given: dict[str, Any] = {
        "memory_max_facts": max_facts, "memory_max_episodes": max_episodes, "memory_min_relevance": min_relevance
    }  # fmt: skip
    tuning = Tuning(
        memory_mode=mode,
        memory_token_budget=budget,
        memory_decay_half_life_days=half_life,
        **{name: value for name, value in given.items() if value is not None},
    )
    if mode == "top" and half_life is not None and budget is None:
        tell("note: --half-life has no effect without --budget in --mode top")
    limits = (("--max-facts", max_facts), ("--max-episodes", max_episodes))
    for option in [name for name, limit in limits if mode == "fill" and limit is not None]:
        tell(f"note: {option} has no effect in --mode fill, where the budget is the limit")
    return tuning
