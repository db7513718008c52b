"""Memory URLs and paths, and what they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loomflow import ConfigError
from loomflow.locations import Location, locate, without_password


@pytest.mark.parametrize(
    ("memory", "path"),
    [
        ("sqlite:./bot.db", "bot.db"),
        ("sqlite:bot.db", "bot.db"),
        ("sqlite:data/bot.db", "data/bot.db"),
        ("sqlite:/abs/bot.db", "/abs/bot.db"),
        ("sqlite:////abs/bot.db", "/abs/bot.db"),
        ("sqlite:///rel/bot.db", "rel/bot.db"),
        ("SQLite:bot.db", "bot.db"),
        ("sqlite:a file with spaces & ünïcode.db", "a file with spaces & ünïcode.db"),
        ("sqlite:no-suffix", "no-suffix"),
        ("bot.db", "bot.db"),
        ("./data/bot.sqlite", "data/bot.sqlite"),
        ("/abs/bot.sqlite3", "/abs/bot.sqlite3"),
        (Path("anything"), "anything"),
    ],
)
def test_paths_of_sqlite_files(memory: str | Path, path: str) -> None:
    assert locate(memory) == Location("sqlite", Path(path))


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    assert locate("sqlite:~/bot.db").path == locate("~/bot.db").path == Path("/home/alice/bot.db")


@pytest.mark.parametrize("memory", ["inmemory", "sqlite::memory:"])
def test_memory_of_the_process(memory: str) -> None:
    assert locate(memory) == Location("inmemory")


@pytest.mark.parametrize("memory", ["postgresql://u:p@host/db", "postgres://host/db"])
def test_postgresql_urls_are_kept_as_given(memory: str) -> None:
    assert locate(memory) == Location("postgresql", url=memory)


NO_MEMORIES = [
    "", " ", "bot", "bot.txt", "sqlite:", "sqlite:   ", "sqlite:folder/", "sqlite://host/x.db", "sqlite:a\0b", None, 7,
    "mysql://host/db", "http://host/bot.db", "redis:x", b"bot.db",
]  # fmt: skip


@pytest.mark.parametrize("memory", NO_MEMORIES)
def test_what_names_no_memory_is_refused(memory: Any) -> None:
    with pytest.raises(ConfigError, match=r"^memory must be "):
        locate(memory)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://alice:secret@host:5432/db", "postgresql://alice:***@host:5432/db"),
        ("postgresql://alice:p@ss:w/rd@host/db", "postgresql://alice:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("sqlite:./bot.db", "sqlite:./bot.db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_an_unknown_url_is_refused_without_showing_its_password() -> None:
    with pytest.raises(ConfigError) as raised:
        locate("mysql://alice:secret@host/db")
    assert "secret" not in str(raised.value)
    assert "mysql://alice:***@host/db" in str(raised.value)
