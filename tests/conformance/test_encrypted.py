"""An encrypted SQLite store keeps the promises of a store. Those about ranking alone never see what is in the file."""

from __future__ import annotations

from pathlib import Path

from cryptography.fernet import Fernet

from loomflow.ports import Store
from loomflow.stores.sealing import Sealing
from loomflow.stores.sqlite import SQLiteStore
from loomflow.testing.conformance.block_history import BlockHistoryConformance
from loomflow.testing.conformance.blocks import BlockConformance
from loomflow.testing.conformance.deletion import DeletionConformance
from loomflow.testing.conformance.episodes import EpisodeConformance
from loomflow.testing.conformance.facts import FactConformance
from loomflow.testing.conformance.filters import FilterConformance
from loomflow.testing.conformance.isolation import IsolationConformance
from loomflow.testing.conformance.keywords import KeywordConformance
from loomflow.testing.conformance.lifecycle import LifecycleConformance
from loomflow.testing.conformance.moments import MomentConformance
from loomflow.testing.conformance.queue import QueueConformance
from loomflow.testing.conformance.scripts import ScriptConformance
from loomflow.testing.conformance.sessions import SessionConformance
from loomflow.testing.conformance.tellings import TellingConformance
from loomflow.testing.conformance.vectors import VectorConformance

KEY = Fernet.generate_key()


class TestEncryptedFile(
    BlockConformance, BlockHistoryConformance, FactConformance, ScriptConformance, TellingConformance,
    EpisodeConformance, KeywordConformance, VectorConformance, FilterConformance, MomentConformance,
    SessionConformance, QueueConformance, DeletionConformance, IsolationConformance, LifecycleConformance,
):  # fmt: skip
    async def make_store(self, place: Path) -> Store:
        return SQLiteStore(place / "memory.db", guard=Sealing([KEY]))
