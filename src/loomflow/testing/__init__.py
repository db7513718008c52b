"""For tests of code that builds on loomflow: the conformance suite for stores, and a model that answers from a script.

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
The suite requires `pytest` and `pytest-asyncio`, which loomflow itself does not install.

`ScriptedModel` is a model that answers from a script, for tests of agents; `ManualClock` is a clock for a store.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if "pytest" in sys.modules:  # asserts of the suite explain themselves
    sys.modules["pytest"].register_assert_rewrite("loomflow.testing.conformance")

if TYPE_CHECKING:
    from .clock import ManualClock
    from .conformance import Capability, StoreConformance
    from .scripted import Calls, ScriptedModel

_HOMES = {
    "Calls": ".scripted",
    "Capability": ".conformance",
    "ManualClock": ".clock",
    "ScriptedModel": ".scripted",
    "StoreConformance": ".conformance",
}

__all__ = ["Calls", "Capability", "ManualClock", "ScriptedModel", "StoreConformance"]


def __getattr__(name: str) -> Any:
    """Load a name on first use: the models load pydantic-ai, and the suite pytest."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name], __name__), name)
