"""`loomflow memory copy`: moves a memory to another database, of the same kind or another."""

from __future__ import annotations

import asyncio
import importlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from loomflow.encryption import keys_from
from loomflow.locations import without_password

from .display import counted, one_line, say, say_json, tell
from .failures import INTERRUPTED
from .opening import KEYWORD_ONLY, existing_memory, open_memory
from .options import AsJson
from .progress import counting_bar
from .stopping import Stopping

if TYPE_CHECKING:
    from loomflow.stores.copying import Copied


def copy(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The memory to copy.", show_default=False)],
    destination: Annotated[
        str, typer.Argument(metavar="DESTINATION", help="Where to: an empty database, or none yet.", show_default=False)
    ],
    src_key_env: Annotated[
        str | None, typer.Option("--src-key-env", metavar="NAME", help="Variable with the source's encryption key.")
    ] = None,
    dst_key_env: Annotated[
        str | None,
        typer.Option("--dst-key-env", metavar="NAME", help="Variable with the key to encrypt the copy with."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a whole memory to another database: SQLite or PostgreSQL, either way. Nothing is embedded again.

    Nothing may write to either meanwhile. It may be stopped at any moment, and the same command goes on. In the end
    both sides are read and compared.
    """
    source_keys, copy_keys = (
        None if name is None else keys_from(name, required=True) for name in (src_key_env, dst_key_env)
    )
    opened = existing_memory(source, keys=source_keys)
    stopping = Stopping()

    async def work() -> Copied:
        copy_memory = importlib.import_module("loomflow.stores.copying").copy_memory  # it needs much to load
        async with opened, open_memory(destination, KEYWORD_ONLY, copy_keys) as into:
            with counting_bar("copying") as progress:
                return await copy_memory(opened.store, into.store, progress=progress)

    try:
        copied = stopping.run(work)
    except asyncio.CancelledError:
        tell("stopped; the same command goes on with the rest")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        say_json(asdict(copied))
        return
    rows = copied.rows
    amounts = ", ".join((
        counted(copied.users, "user"), counted(rows.get("episodes", 0), "episode"),
        counted(rows.get("facts", 0), "fact version"), counted(rows.get("blocks", 0), "block"),
    ))  # fmt: skip
    say(f"copied to {one_line(without_password(destination))}, and compared: {amounts}")
