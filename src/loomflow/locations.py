"""Memory URLs: from `sqlite:./bot.db` to the place that it names. Nothing is opened here."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .errors import ConfigError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_PASSWORD = re.compile(r"(://[^/@\s:]*):.*@")
_FORMS = "inmemory, sqlite:PATH, or a path ending in .db, .sqlite or .sqlite3"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a memory is.

    Attributes:
        kind: which backend.
        path: the SQLite file; None for `inmemory` and for PostgreSQL.
        url: the database URL for PostgreSQL, as given.
    """

    kind: Literal["inmemory", "sqlite", "postgresql"]
    path: Path | None = None
    url: str = ""


def locate(memory: str | os.PathLike[str]) -> Location:
    """Read a memory URL or path.

    `sqlite:` takes a path as it is: `sqlite:./bot.db`, `sqlite:~/bot.db`, `sqlite:/abs/bot.db`, and the usual
    `sqlite:////abs/bot.db` and `sqlite:///rel/bot.db`. `~` is the home folder.

    Raises:
        ConfigError: it has none of these forms. A password in it is not shown.

    >>> locate("sqlite:./bot.db").path
    PosixPath('bot.db')
    """
    if isinstance(memory, os.PathLike):
        return Location("sqlite", Path(memory).expanduser())
    if not isinstance(memory, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError.of("memory", _FORMS, memory)
    if memory in ("inmemory", "sqlite::memory:"):
        return Location("inmemory")
    match = _SCHEME.fullmatch(memory)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", "")
    if scheme == "sqlite":
        return Location("sqlite", _sqlite_path(memory, rest))
    if scheme in ("postgresql", "postgres"):
        return Location("postgresql", url=memory)
    if not scheme and memory.endswith((".db", ".sqlite", ".sqlite3")):
        return Location("sqlite", _file(memory, memory))
    raise ConfigError.of("memory", _FORMS, without_password(memory))


def without_password(url: str) -> str:
    """The URL with its password, if it has one, replaced by stars."""
    return _PASSWORD.sub(r"\1:***@", url)


def _sqlite_path(memory: str, rest: str) -> Path:
    if rest.startswith("///"):
        rest = rest[3:]
    elif rest.startswith("//"):
        raise ConfigError.of(
            "memory", "sqlite:PATH, sqlite:///RELATIVE or sqlite:////ABSOLUTE", without_password(memory)
        )
    return _file(memory, rest)


def _file(memory: str, path: str) -> Path:
    if not path.strip() or "\0" in path or path.endswith(("/", os.sep)):
        raise ConfigError.of("memory", "sqlite: and the path of a file", memory)
    if os.name != "nt" and _DRIVE.match(path):
        raise ConfigError.of("memory", "the path of a file on this system", memory)
    return Path(path).expanduser()
