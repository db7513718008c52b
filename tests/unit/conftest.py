"""Fixtures of the tests of the command line: where its memory is, and a terminal that can interrupt."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the commands of a test find their memory, which is not there yet; no key is set."""
    place = f"sqlite:{tmp_path / 'bot.db'}"
    monkeypatch.setenv("LOOMFLOW_MEMORY", place)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LOOMFLOW_EMBEDDER"):
        monkeypatch.delenv(name, raising=False)
    return place


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children take SIGINT as from a terminal, even where the tests themselves run with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
