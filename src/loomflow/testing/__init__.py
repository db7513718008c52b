"""For tests of code that builds on loomflow: the conformance suite for stores.

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
"""

import pytest

pytest.register_assert_rewrite("loomflow.testing.conformance")

from .conformance import Capability, ManualClock, StoreConformance  # noqa: E402  (after asserts are set to explain)

__all__ = ["Capability", "ManualClock", "StoreConformance"]
