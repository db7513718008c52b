"""`loomflow memory` retract, correct, merge, history: what is believed about a user, by hand, and how it came about."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from loomflow.checks import check_id
from loomflow.errors import ConfigError
from loomflow.items import Fact, Source
from loomflow.records import FactFilter

from .display import fact_line, heading, one_line, say, say_indented, say_json, tell, user_label
from .failures import misuse
from .opening import existing_memory
from .options import NO_MOMENT, AsJson, EmbedderName, MemoryUrl, User, read_moment_or_none

if TYPE_CHECKING:
    from loomflow.memory import Memory

FactId: TypeAlias = Annotated[
    str, typer.Argument(help="Id of the fact, as `loomflow memory history` shows it.", show_default=False)
]


def retract(fact_id: FactId, memory: MemoryUrl, user: User = None, embedder: EmbedderName = "default") -> None:
    """Stop believing a fact. It stays in the history; what it had ended is open again."""

    async def work() -> tuple[Fact, list[Fact]]:
        async with existing_memory(memory, embedder) as opened:
            fact = await _believed(opened, fact_id, user)
            before = await _of_one_thing(opened, fact)
            await opened.facts.retract(fact)
            return fact, _new(await _of_one_thing(opened, fact), before)

    fact, changed = asyncio.run(work())
    say(f"retracted: {fact_line(fact)}")
    for other in changed:
        say(f"believed now: {fact_line(other)}")


def correct(
    fact_id: FactId,
    memory: MemoryUrl,
    user: User = None,
    subject: Annotated[str | None, typer.Option("--subject", metavar="TEXT", help="What it is about.")] = None,
    predicate: Annotated[str | None, typer.Option("--predicate", metavar="TEXT", help="What is said of it.")] = None,
    object: Annotated[str | None, typer.Option("--object", metavar="TEXT", help="The value.")] = None,
    valid_from: Annotated[
        Any,
        typer.Option(
            "--valid-from",
            metavar="ISO|none",
            parser=read_moment_or_none,
            help="When it began to be true; none: not known.",
        ),
    ] = None,
    valid_until: Annotated[
        Any,
        typer.Option(
            "--valid-until",
            metavar="ISO|none",
            parser=read_moment_or_none,
            help="When it ceased to be true; none: it has not.",
        ),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", metavar="0..1", min=0, max=1, help="How sure it is.")
    ] = None,
    embedder: EmbedderName = "default",
) -> None:
    """Believe a fact otherwise than it was told. What is not given stays, and what was told stays in the history."""
    given: dict[str, Any] = {
        "subject": subject, "predicate": predicate, "object": object, "confidence": confidence,
        "valid_from": valid_from, "valid_until": valid_until,
    }  # fmt: skip
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        options = ", ".join("--" + name.replace("_", "-") for name in given)
        raise misuse(f"give what is to be corrected: {options}")
    for name in ("valid_from", "valid_until"):
        if fields.get(name) == NO_MOMENT:
            fields[name] = None

    async def work() -> tuple[Fact, Fact, list[Fact]]:
        async with existing_memory(memory, embedder) as opened:
            fact = await _believed(opened, fact_id, user)
            before = await _of_one_thing(opened, fact)
            version = await opened.facts.correct(fact, **fields)
            after = {one.id: one for one in (*await _of_one_thing(opened, fact), *await _of_one_thing(opened, version))}
            return fact, version, [one for one in _new(list(after.values()), before) if one.id != version.id]

    fact, version, changed = asyncio.run(work())
    say(f"believed until now: {fact_line(fact)}")
    for one in (version, *changed):
        say(f"believed now: {fact_line(one)}")


def merge(
    subject: Annotated[str, typer.Argument(help="The name that is given up: Alice.", show_default=False)],
    into: Annotated[str, typer.Argument(help="The name that stays: alice@example.com.", show_default=False)],
    memory: MemoryUrl,
    user: User = None,
    embedder: EmbedderName = "default",
) -> None:
    """Say that two subjects are one: the facts of the first become facts of the second.

    From then on, what is told or asked of the first is told or asked of the second. To part them for what is told
    later, retract the fact `same_as`.
    """

    async def work() -> list[Fact]:
        async with existing_memory(memory, embedder) as opened:
            return await opened.facts.merge(subject, into, user_id=user)

    moved = asyncio.run(work())
    say(f"merged: {one_line(subject)!r} is {one_line(into)!r} now")
    for fact in moved:
        say(f"believed now: {fact_line(fact)}")


def history(
    memory: MemoryUrl,
    subject: Annotated[str | None, typer.Argument(help="Only what is about this.", show_default=False)] = None,
    predicate: Annotated[str | None, typer.Argument(help="Only what is said so of it.", show_default=False)] = None,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Show every version of the facts about a user, oldest first: when it was true, when it was believed, who said it.

    Each has the id of its fact, for `loomflow memory retract` and `correct`.
    """

    async def work() -> list[Fact]:
        async with existing_memory(memory) as opened:
            return await opened.facts.history(subject, predicate, user_id=user)

    versions = asyncio.run(work())
    if as_json:
        say_json([asdict(version) for version in versions])
        return
    if not versions:
        about = " ".join(one_line(text) for text in (subject, predicate) if text is not None)
        tell(f"{user_label(user)} has no facts{f' about {about!r}' if about else ''}")
    for version in versions:
        _say_version(version)


def _say_version(version: Fact) -> None:
    heading(version.text)
    say_indented(f"id        {version.id}")
    say_indented(f"valid     {_period(version.valid_from, version.valid_until)}")
    say_indented(f"believed  {_period(version.recorded_at, version.retired_at)}")
    for source in version.sources:
        say_indented(f"told      {_told(source)}")
        if source.quote:
            say_indented(f"“{one_line(source.quote)}”", by=12)


def _told(source: Source) -> str:
    """A telling in one line: when, by whom, where."""
    parts = [
        f"{_moment(source.told_at)} by {source.origin}",
        f"in episode {source.episode_id}" if source.episode_id else "",
        f"confidence {source.confidence:g}" if source.confidence != 1 else "",
    ]
    return ", ".join(part for part in parts if part)


def _period(start: datetime | None, end: datetime | None) -> str:
    if end is None:
        return "at no known time" if start is None else f"since {_moment(start)}"
    return f"until {_moment(end)}" if start is None else f"{_moment(start)} until {_moment(end)}"


def _moment(moment: datetime) -> str:
    is_day = moment.hour == moment.minute == moment.second == moment.microsecond == 0
    return f"{moment:%Y-%m-%d}" if is_day else f"{moment:%Y-%m-%d %H:%M:%S}"


async def _believed(memory: Memory, fact_id: str, user: str | None) -> Fact:
    """The fact with this id.

    Raises:
        ConfigError: it is not believed.
    """
    found = await memory.store.facts(user, FactFilter(id=check_id("fact_id", fact_id)))
    if not found:
        raise ConfigError(
            f"{user_label(user)} has no fact with the id {fact_id!r} that is believed; `loomflow memory history` "
            "shows the ids"
        )
    return found[0]


async def _of_one_thing(memory: Memory, fact: Fact) -> list[Fact]:
    """What is believed, of any time, with the subject and predicate of a fact."""
    which = FactFilter(subject=fact.subject, predicate=fact.predicate)
    return await memory.store.facts(fact.user_id, which)


def _new(after: list[Fact], before: list[Fact]) -> list[Fact]:
    """Those that say what was not said before."""
    known = {(fact.id, fact_line(fact)) for fact in before}
    return [fact for fact in after if (fact.id, fact_line(fact)) not in known]
