"""`loomflow memory` export, import, forget: what reads, writes or deletes much at once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import loomflow
from loomflow.embedders import resolve_embedder
from loomflow.embedding import MAX_PASSAGES
from loomflow.encryption import KEY_VARIABLE, keys_from
from loomflow.errors import ConfigError, LoomflowError
from loomflow.items import Forgotten
from loomflow.passages import passages

from .display import counted, one_line, say, tell, to_json, user_label
from .failures import misuse
from .memory_commands import chosen_users, memory_app, read_stdin
from .opening import existing_memory, read_embedder
from .options import EmbedderName, MemoryUrl, User, read_moment
from .progress import progress_bar
from .refusals import Refusals

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

    with progress_bar(f"exporting {user_label(user)}", None):
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
    embedder: EmbedderName = "default",
) -> None:
    """Import what `loomflow memory export` wrote. Importing twice changes nothing.

    The memory is created if there is none. Everything is checked before anything is written.
    """
    scopes = chosen_users(user, anonymous)
    into: str | EllipsisType | None = ... if scopes is None else scopes[0]
    spec = read_embedder(embedder)
    data = _read_export(file)

    async def work(advance: Callable[[int], None]) -> Imported:
        inner = resolve_embedder(spec)
        reporting = None if inner is None else _ReportingEmbedder(inner, advance)
        keys = keys_from(KEY_VARIABLE)
        into_memory = loomflow.Memory.open(memory, embedder=reporting, encryption_key=keys)
        async with into_memory as opened, _closing(inner):
            return await opened.import_(data, user_id=into)

    with progress_bar("importing", _count_texts(data)) as advance, Refusals() as refusals:
        new = asyncio.run(work(advance))
    amounts = (counted(getattr(new, kind), noun) for kind, noun in _KINDS)
    say(f"imported: {', '.join(amounts)}, not counting what was there already")
    if refusals.count:
        tell(f"the embedder failed for {counted(refusals.count, 'text')}; `loomflow memory reembed` makes up for it")


def _count_texts(data: Mapping[str, Any]) -> int:
    """How many texts of an export are embedded: facts, and passages of episodes. What is no export counts nothing."""

    def rows(kind: str) -> list[Any]:
        return data[kind] if isinstance(data.get(kind), list) else []

    def size(row: Any) -> int:
        said = [cast("dict[str, Any]", row).get(side) for side in ("input", "output")] if isinstance(row, dict) else []
        return min(sum(len(passages(text)) for text in said if isinstance(text, str)), MAX_PASSAGES)

    return len(rows("facts")) + sum(map(size, rows("episodes")))


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


@dataclass
class _ReportingEmbedder:
    """An embedder, telling how many texts it has embedded: what takes the time in an import."""

    inner: Embedder
    advance: Callable[[int], None]

    @property
    def name(self) -> str:
        return self.inner.name

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        vectors = await self.inner.embed(texts, query=query)
        self.advance(len(texts))
        return vectors


@asynccontextmanager
async def _closing(embedder: Any) -> AsyncGenerator[None]:
    """Close what an embedder has open in the end; a memory does that only for those that it has made itself."""
    try:
        yield
    finally:
        if hasattr(embedder, "aclose"):
            await embedder.aclose()
