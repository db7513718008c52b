"""The conformance suite for stores: every promise of `loomflow.ports.Store`, as tests that any backend can run."""

from __future__ import annotations

from .base import Capability, ManualClock
from .block_history import BlockHistoryConformance
from .blocks import BlockConformance
from .deletion import DeletionConformance
from .episodes import EpisodeConformance
from .facts import FactConformance
from .filters import FilterConformance
from .growth import GrowthConformance
from .isolation import IsolationConformance
from .keywords import KeywordConformance
from .lifecycle import LifecycleConformance
from .moments import MomentConformance
from .passages import PassageConformance
from .queue import QueueConformance
from .ranking import RankingConformance
from .scripts import ScriptConformance
from .sessions import SessionConformance
from .tellings import TellingConformance
from .vectors import VectorConformance


class StoreConformance(
    BlockConformance,
    BlockHistoryConformance,
    FactConformance,
    ScriptConformance,
    TellingConformance,
    EpisodeConformance,
    KeywordConformance,
    VectorConformance,
    FilterConformance,
    MomentConformance,
    PassageConformance,
    RankingConformance,
    GrowthConformance,
    SessionConformance,
    QueueConformance,
    DeletionConformance,
    IsolationConformance,
    LifecycleConformance,
):
    """All tests of a store; subclass it and write `make_store`.

        class TestMyStore(StoreConformance):
            capabilities = frozenset({Capability.KEYWORDS})  # keeps nothing, has no vectors

            async def make_store(self, place: Path) -> Store:
                return MyStore()

    What a subclass may say:

    - `capabilities`: what the store has; everything by default. Tests that need more are skipped.
    - `make_store(place)`: a store on the database at `place`, a folder of the test's own. Two calls with one place give
      two stores on one database, if the store is persistent.
    - `reopen(store, place)`: the store after the end of its process; closing it and making another by default.
    - `drop(place)`: removes what a test left outside of its folder; nothing by default.
    """


__all__ = ["Capability", "ManualClock", "StoreConformance"]
