"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias

import typer

from loomflow.checks import utc

from .display import one_line

MEMORY_VARIABLE = "LOOMFLOW_MEMORY"


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
Budget: TypeAlias = Annotated[
    int | None,
    typer.Option("--budget", metavar="N", min=1, help="Ceiling on the memory block, in tokens; none if omitted."),
]
HalfLife: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--half-life",
        metavar="DAYS",
        help="Age in days at which a memory counts half; it applies only under a budget.",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
