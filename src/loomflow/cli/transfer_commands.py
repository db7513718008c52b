"""`loomflow memory` export, import, reembed, forget: what reads, writes or deletes much at once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import loomflow
from loomflow.errors import ConfigError, LoomflowError
from loomflow.items import Forgotten

from .display import console, counted, one_line, say, tell, to_json, user_label
from .failures import misuse
from .memory_commands import chosen_users, memory_app, read_stdin
from .opening import existing_memory
from .options import Anonymous, MemoryUrl, OneUser, User, read_moment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from loomflow.ports import Embedder
    from loomflow.transfer import Imported


@memory_app.command("export")
def export(
    memory: MemoryUrl,
    user: User = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write; stdout if omitted.")
    ] = None,
) -> None:
    """Export all that is known about a user as JSON, for `loomflow memory import`."""

    async def work() -> dict[str, Any]:
        async with existing_memory(memory) as opened:
            return await opened.export(user)

    with _bar(f"exporting {user_label(user)}", None):
        data = asyncio.run(work())
        text = to_json(data)
    if output is None:
        print(text, flush=True)
    else:
        _write_whole(output, f"{text}\n")
    amounts = (counted(len(data[kind]), noun) for kind, noun in _KINDS)
    tell(f"exported {user_label(user)}: {', '.join(amounts)}")


_KINDS = (("blocks", "block"), ("facts", "fact version"), ("episodes", "episode"))


@memory_app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="File to read; - is stdin.", show_default=False)],
    memory: MemoryUrl,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="ID", help="Into whose memory; the exported user's own if omitted."),
    ] = None,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Into the memory of the anonymous user.")] = False,
) -> None:
    """Import what `loomflow memory export` wrote. Importing twice changes nothing.

    The memory is created if there is none. Everything is checked before anything is written.
    """
    scopes = chosen_users(user, anonymous)
    into: str | EllipsisType | None = ... if scopes is None else scopes[0]
    data = _read_export(file)
    total = sum(len(data[kind]) for kind in ("facts", "episodes") if isinstance(data.get(kind), list))

    async def work(advance: Callable[[int], None]) -> Imported:
        async with loomflow.Memory.open(memory, embedder=_reporting_embedder(advance)) as opened:
            return await opened.import_(data, user_id=into)

    with _bar("importing", total) as advance:
        new = asyncio.run(work(advance))
    amounts = (counted(getattr(new, kind), noun) for kind, noun in _KINDS)
    say(f"imported: {', '.join(amounts)}, not counting what was there already")


def _read_export(file: Path) -> dict[str, Any]:
    try:
        text = read_stdin() if str(file) == "-" else file.read_text(encoding="utf-8")
        data = json.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text: {error.reason}") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file} is not JSON: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{file} is not an export: it is nested too deeply") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{file} is not an export: a JSON object is expected, not {type(data).__name__}")
    return cast("dict[str, Any]", data)


@memory_app.command()
def reembed(memory: MemoryUrl, user: OneUser = None, anonymous: Anonymous = False) -> None:
    """Embed the facts and episodes that have no vector of the present embedder.

    Until then they are found by keyword only: after a failure of the embedder, or a change of it.
    """
    scopes = chosen_users(user, anonymous)

    async def count() -> tuple[list[str | None], int]:
        async with existing_memory(memory) as opened:
            users = await opened.users() if scopes is None else scopes
            return users, sum([(await opened.stats(user_id=one)).unembedded for one in users])

    async def work(users: Sequence[str | None], advance: Callable[[int], None]) -> int:
        async with loomflow.Memory.open(memory, embedder=_reporting_embedder(advance)) as opened:
            return sum([await opened.reembed(user_id=one) for one in users])

    users, missing = asyncio.run(count())
    with _bar("embedding", missing) as advance:
        done = asyncio.run(work(users, advance))
    say(f"embedded: {done:,} of {missing:,} facts and episodes without a vector")


@memory_app.command()
def forget(
    memory: MemoryUrl,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose memory.")] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="The memory of the anonymous user, whose runs have no user id.")
    ] = False,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Only this conversation, and the facts that came from it."),
    ] = None,
    before: Annotated[
        datetime | None,
        typer.Option("--before", metavar="ISO", parser=read_moment, help="Only what is older than this moment."),
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="Leave no trace in the database's files, which are rewritten for it.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a user's memory for good: all of it, one session, or what is old.

    It asks first, unless --yes is given. Working blocks go only when everything of the user goes.
    """
    scopes = chosen_users(user, anonymous)
    if scopes is None:
        raise misuse("say whose memory: --user ID or --anonymous")
    opened = existing_memory(memory)
    if not (yes or _confirmed(_what_is_forgotten(scopes[0], session, before))):
        raise LoomflowError("not confirmed, nothing was deleted")

    async def work() -> Forgotten:
        async with opened:
            return await opened.forget(user_id=scopes[0], session_id=session, before=before, secure=secure)

    gone = asyncio.run(work())
    amounts = ", ".join((counted(gone.blocks, "block"), counted(gone.facts, "fact"), counted(gone.episodes, "episode")))
    say(f"forgot of {user_label(scopes[0])}: {amounts}")


def _what_is_forgotten(user: str | None, session: str | None, before: datetime | None) -> str:
    parts = [
        f"session {session!r}" if session else "everything" if before is None else "what",
        f"of {user_label(user)}" if before is None or session else f"{user_label(user)} has",
        f"from before {before.isoformat()}" if before else "",
    ]
    return " ".join(part for part in parts if part)


def _confirmed(what: str) -> bool:
    print(f"Forget {one_line(what)} for good? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not (sys.stdin.isatty() and answer):
        print(file=sys.stderr)  # where a terminal shows the user's own line break
    return answer.strip().lower() in ("y", "yes")


def _write_whole(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def _bar(what: str, total: int | None) -> Generator[Callable[[int], None]]:
    """A progress bar on stderr, where that is a terminal. It is given what has been done since it was last told."""
    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task(one_line(what), total=total)
        yield lambda amount: progress.update(task, advance=amount)


def _reporting_embedder(advance: Callable[[int], None]) -> _ReportingEmbedder | None:
    inner = loomflow.Memory.open().embedder
    return None if inner is None else _ReportingEmbedder(inner, advance)


@dataclass
class _ReportingEmbedder:
    """The default embedder, telling how many texts it has embedded: what takes the time in an import."""

    inner: Embedder
    advance: Callable[[int], None]

    @property
    def name(self) -> str:
        return self.inner.name

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        vectors = await self.inner.embed(texts, query=query)
        self.advance(len(texts))
        return vectors
