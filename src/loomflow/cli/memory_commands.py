"""`loomflow memory` list, show, search, stats, add-fact, set-block: looking at a memory, and writing by hand."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer

import loomflow
from loomflow.errors import LoomflowError
from loomflow.items import Episode, EpisodeMatch, Fact, MemoryBlock, MemoryStats

from .display import (
    counted,
    episode_head,
    episode_said,
    fact_line,
    heading,
    one_line,
    say,
    say_blocks,
    say_indented,
    say_json,
    say_table,
    tell,
    user_label,
)
from .failures import misuse, redacted
from .opening import KEYWORD_ONLY, existing_memory, open_memory
from .options import Anonymous, AsJson, At, EmbedderName, MemoryUrl, OneUser, User, read_moment

memory_app = typer.Typer(
    name="memory", help="Look at a memory and manage it.", no_args_is_help=True, rich_markup_mode="rich"
)


@memory_app.command("list")
def list_users(memory: MemoryUrl, user: OneUser = None, anonymous: Anonymous = False, as_json: AsJson = False) -> None:
    """List the users of a memory, with how much is known about each."""
    scopes = chosen_users(user, anonymous)

    async def work() -> list[tuple[str | None, MemoryStats]]:
        async with existing_memory(memory) as opened:
            users = sorted(await opened.users(), key=lambda one: (one is not None, one or ""))
            wanted = users if scopes is None else [one for one in users if one in scopes]
            return [(one, await opened.stats(user_id=one)) for one in wanted]

    found = asyncio.run(work())
    columns = ("sessions", "blocks", "facts", "episodes")
    if as_json:
        say_json([{"user": one} | {name: getattr(stats, name) for name in columns} for one, stats in found])
    elif not found:
        tell("nobody is in this memory" if scopes is None else f"nothing is known about {user_label(user)}")
    else:
        rows = [("(anonymous)" if one is None else one, *(getattr(st, name) for name in columns)) for one, st in found]
        say_table(("user", *columns), rows)


@memory_app.command()
def show(
    memory: MemoryUrl,
    user: User = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many of the last episodes.")] = 5,
    history: Annotated[bool, typer.Option("--history", help="Also facts that are over or no longer believed.")] = False,
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Show what is known about a user: working blocks, facts, and the last episodes."""
    if history and at is not None:
        raise misuse("give --history or --at, not both")

    async def work() -> tuple[list[MemoryBlock], list[Fact], list[Episode]]:
        async with existing_memory(memory) as opened:
            blocks = await opened.working(user_id=user, at=at)
            if history:
                facts = await opened.facts.history(user_id=user)
            else:
                facts = await opened.facts.query(user_id=user, valid_at=at, known_at=at)
            episodes = await opened.store.episodes(user, limit=limit if at is None else None)
            return blocks, facts, [one for one in episodes if at is None or _is_before(one, at)][-limit:]

    blocks, facts, episodes = asyncio.run(work())
    if as_json:
        say_json({"user": user, "blocks": _dicts(blocks), "facts": _dicts(facts), "episodes": _dicts(episodes)})
        return
    if not (blocks or facts or episodes):
        then = "" if at is None else " at that moment"
        tell(f"nothing is known about {user_label(user)}{then}; `loomflow memory list` lists the users")
        return
    heading("Working blocks")
    say_blocks(blocks)
    heading("Facts, all versions" if history else "Facts")
    for fact in facts:
        say_indented(fact_line(fact))
    heading("Last episodes")
    for episode in episodes:
        say_indented(episode_head(episode), style="bright_black")
        say_indented(episode_said(episode), by=4, max_rows=4)


@memory_app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for: a question or words.", show_default=False)],
    memory: MemoryUrl,
    user: User = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many episodes and facts.")] = 5,
    embedder: EmbedderName = "default",
    as_json: AsJson = False,
) -> None:
    """Search a user's episodes and facts, and show how each was found.

    The ranks are places in the keyword and in the vector search, from 1. The score fuses them and is no similarity.
    """

    async def work() -> tuple[list[EpisodeMatch], list[Fact]]:
        async with existing_memory(memory, embedder) as opened:
            episodes = await opened.recall_scored(query, user_id=user, limit=limit)
            return episodes, await opened.recall_facts(query, user_id=user, limit=limit)

    episodes, facts = asyncio.run(work())
    if as_json:
        say_json({"user": user, "query": query, "episodes": _dicts(episodes), "facts": _dicts(facts)})
        return
    if not (episodes or facts):
        tell(f"nothing found for {user_label(user)}")
        return
    heading("Facts")
    for fact in facts:
        say_indented(fact_line(fact))
    heading("Episodes")
    for match in episodes:
        say_indented(f"{episode_head(match.episode)}  {_found_by(match)}", style="bright_black")
        say_indented(episode_said(match.episode), by=4, max_rows=4)


def _is_before(episode: Episode, moment: datetime) -> bool:
    return episode.occurred_at is not None and episode.occurred_at <= moment


def _found_by(match: EpisodeMatch) -> str:
    ranks = (("keyword", match.lexical_rank), ("vector", match.vector_rank))
    places = ", ".join(f"{name} {'-' if rank is None else rank + 1}" for name, rank in ranks)
    similarity = "" if match.similarity is None else f", similarity {match.similarity:.2f}"
    return f"score {match.score:.4f} ({places}{similarity})"


@memory_app.command()
def stats(
    memory: MemoryUrl,
    user: OneUser = None,
    anonymous: Anonymous = False,
    embedder: EmbedderName = "default",
    as_json: AsJson = False,
) -> None:
    """Count what a memory holds, of everyone or of one user, and how much of it has no vector of an embedder."""
    scopes = chosen_users(user, anonymous)

    async def work() -> MemoryStats:
        async with existing_memory(memory, embedder) as opened:
            return await opened.stats() if scopes is None else await opened.stats(user_id=scopes[0])

    counts = asdict(asyncio.run(work()))
    errors: list[tuple[str, int]] = [(redacted(error), runs) for error, runs in counts.pop("parked_errors")]
    if as_json:
        say_json(counts | {"parked_errors": [{"error": error, "runs": runs} for error, runs in errors]})
        return
    notes = {
        "facts": "believed now",
        "fact_versions": "with all that was believed before",
        "unembedded": "facts and episodes found by keyword only; see `loomflow memory reembed`",
        "bytes": "of the whole database",
        "undistilled": "runs that facts are still to be learned from; see `loomflow memory distill`",
        "parked": "runs given up after several attempts; see `loomflow memory distill --retry-parked`",
    }
    rows = [(name, "none" if value is None else value, notes.get(name, "")) for name, value in counts.items()]
    width = max(len(f"{value:,}") for _, value, _ in rows if isinstance(value, int))
    for name, value, note in rows:
        shown = f"{value:>{width},}  {note}" if isinstance(value, int) else value
        say(f"{name:<14} {shown}".rstrip())
    for error, runs in errors:
        say(f"{'':<14} {runs:>{width},}  {one_line(error)}")


@memory_app.command("add-fact")
def add_fact(
    subject: Annotated[str, typer.Argument(help="What it is about: alice.", show_default=False)],
    predicate: Annotated[str, typer.Argument(help="What is said of it: lives_in.", show_default=False)],
    object: Annotated[str, typer.Argument(help="The value: Lisbon.", show_default=False)],
    memory: MemoryUrl,
    user: User = None,
    valid_from: Annotated[
        datetime | None,
        typer.Option("--valid-from", metavar="ISO", parser=read_moment, help="When it began to be true."),
    ] = None,
    valid_until: Annotated[
        datetime | None,
        typer.Option("--valid-until", metavar="ISO", parser=read_moment, help="When it ceased to be true."),
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="0..1", min=0, max=1, help="How sure it is.")
    ] = 1.0,
    embedder: EmbedderName = "default",
) -> None:
    """Add a fact about a user. A new value of a predicate such as lives_in ends the old one.

    The memory is created if there is none.
    """
    told = loomflow.Fact(
        subject, predicate, object, user_id=user, valid_from=valid_from, valid_until=valid_until, confidence=confidence
    )

    async def work() -> tuple[Fact, list[Fact]]:
        async with open_memory(memory, embedder) as opened:
            before = await opened.facts.query(user_id=user, subject=subject, predicate=predicate)
            written = await opened.facts.append(told)
            after = await opened.facts.query(user_id=user, subject=subject, predicate=predicate)
            kept = {fact.id for fact in after}
            return written, [fact for fact in before if fact.id not in kept]

    written, ended = asyncio.run(work())
    say(f"added: {fact_line(written)}")
    for fact in ended:
        say(f"ended: {fact_line(fact)}")


@memory_app.command("set-block")
def set_block(
    name: Annotated[str, typer.Argument(help="Name of the block: profile.", show_default=False)],
    memory: MemoryUrl,
    text: Annotated[str, typer.Argument(help="Its new text; - or nothing reads it from stdin.")] = "-",
    user: User = None,
) -> None:
    """Write a working block: text that is always in front of the model, in full.

    It replaces the block of this name. The memory is created if there is none.
    """
    content = read_stdin() if text == "-" else text
    if text == "-" and not content.strip():
        raise LoomflowError("nothing came on stdin, the block is left as it is; to empty it, give '' as TEXT")

    async def work() -> MemoryBlock:
        async with open_memory(memory, KEYWORD_ONLY) as opened:
            return await opened.update_block(name, content, user_id=user)

    block = asyncio.run(work())
    tokens = loomflow.estimate_tokens(block.content)
    say(f"block {block.name} of {user_label(user)} is at version {block.version}: {counted(tokens, 'token')}")


def chosen_users(user: str | None, anonymous: bool) -> list[str | None] | None:
    """The one user that `--user` or `--anonymous` names; None without either.

    Raises:
        Exception: typer's error of usage: both are given.
    """
    if user is not None and anonymous:
        raise misuse("give --user or --anonymous, not both")
    return [user] if user is not None or anonymous else None


def read_stdin() -> str:
    """All of stdin, without its last line break."""
    if sys.stdin.isatty():
        tell("reading from the terminal; end with Ctrl-D")
    return sys.stdin.read().removesuffix("\n")


def _dicts(items: Any) -> list[dict[str, Any]]:
    return [asdict(item) for item in items]
