"""Fixtures of the tests of reliability: the scale, the ledger, and a memory on each store."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from .ledger import Ledger, Scale
from .ledger import scale as chosen_scale

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "chaos.md"
LEDGER = pytest.StashKey[Ledger]()


@pytest.fixture(scope="session")
def scale() -> Scale:
    """How much is tried: LOOMFLOW_CHAOS is "short" (the default) or "long"."""
    return chosen_scale()


@pytest.fixture(scope="session")
def ledger(pytestconfig: pytest.Config) -> Ledger:
    """What was tried. A long run prints it at its end, and keeps it if all is well."""
    return pytestconfig.stash.setdefault(LEDGER, Ledger())


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new memory on each of the stores."""
    return f"sqlite:{tmp_path / 'memory.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    found = config.stash.get(LEDGER, None)
    if found is None or chosen_scale().name != "long":
        return
    found.print(Console(file=terminalreporter._tw._file, width=120))
    if exitstatus == pytest.ExitCode.OK and config.args_source == pytest.Config.ArgsSource.ARGS:
        found.write(RESULTS)
