"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias

import typer

from loomflow.checks import utc

from .display import one_line

MEMORY_VARIABLE = "LOOMFLOW_MEMORY"
EMBEDDER_VARIABLE = "LOOMFLOW_EMBEDDER"

NO_MOMENT = "none"
"""Says that the moment at which something began or ended is not known, or never was."""


def read_moment_or_none(text: str) -> datetime | str:
    """A moment, or `NO_MOMENT`."""
    return NO_MOMENT if text.strip().lower() == NO_MOMENT else read_moment(text)


def read_moment(text: str) -> datetime:
    """A moment in ISO 8601; without a time zone it is UTC.

    Raises:
        BadParameter: it is of another form.
    """
    try:
        return utc("moment", datetime.fromisoformat(text.strip()))
    except ValueError:
        raise typer.BadParameter(
            f"{one_line(text)!r} is no ISO 8601 date or time, such as 2026-05-01 or 2026-05-01T12:00Z"
        ) from None


MemoryUrl: TypeAlias = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="URL",
        envvar=MEMORY_VARIABLE,
        help="Where the memory is: sqlite:./bot.db, or the path of the file.",
    ),
]
EmbedderName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--embedder",
        metavar="NAME",
        envvar=EMBEDDER_VARIABLE,
        help="default, onnx:DIRECTORY, fastembed:MODEL, PROVIDER:MODEL as in openai:text-embedding-3-small, "
        "or none for keyword search only.",
    ),
]
User: TypeAlias = Annotated[
    str | None,
    typer.Option("--user", metavar="ID", help="Whose memory; the anonymous user's if omitted."),
]
OneUser: TypeAlias = Annotated[
    str | None,
    typer.Option("--user", metavar="ID", help="Only this user; everyone if omitted."),
]
Anonymous: TypeAlias = Annotated[
    bool,
    typer.Option("--anonymous", help="Only the anonymous user, whose runs have no user id."),
]
Session: TypeAlias = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="The conversation; what was said in it is not recalled again."),
]
BaseUrl: TypeAlias = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="A server that speaks the OpenAI format, such as Ollama's."),
]
At: TypeAlias = Annotated[
    datetime | None,
    typer.Option("--at", metavar="ISO", parser=read_moment, help="As it was at this moment; now if omitted."),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
