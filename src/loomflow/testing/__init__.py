"""For tests of code that builds on loomflow: the conformance suite for stores, and a model that answers from a script.

Importing this package requires `pytest` and `pytest-asyncio`, which loomflow itself does not install.

A store is whatever keeps the promises of `loomflow.ports.Store`. To prove that yours does, subclass `StoreConformance`
in a test module and say how to make one:

    from pathlib import Path

    from loomflow.ports import Store
    from loomflow.testing import Capability, StoreConformance

    from my_package import MyStore


    class TestMyStore(StoreConformance):
        capabilities = frozenset({Capability.PERSISTENT, Capability.KEYWORDS})  # it has no vector search

        async def make_store(self, place: Path) -> Store:
            return MyStore(place / "memory")

`pytest` then runs every test of the suite against it, and skips those that need a capability which it does not have.

`ScriptedModel` is a model that answers from a script, for tests of agents.
"""

import importlib
from typing import TYPE_CHECKING, Any

import pytest

pytest.register_assert_rewrite("loomflow.testing.conformance")

from .conformance import Capability, ManualClock, StoreConformance  # noqa: E402  (after asserts are set to explain)

if TYPE_CHECKING:
    from .scripted import Calls, ScriptedModel

__all__ = ["Calls", "Capability", "ManualClock", "ScriptedModel", "StoreConformance"]


def __getattr__(name: str) -> Any:
    if name in {"Calls", "ScriptedModel"}:  # they load pydantic-ai, which the conformance suite does not need
        return getattr(importlib.import_module(".scripted", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
