"""Fixtures of the tests of embedders."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomflow.embedders import OnnxEmbedder
from tests.minilm import lay_minilm


@pytest.fixture(scope="session")
def minilm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """all-MiniLM-L6-v2, to be read only."""
    return lay_minilm(tmp_path_factory.mktemp("models") / "all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> OnnxEmbedder:
    """An embedder with that model, loaded once for all tests."""
    return OnnxEmbedder(minilm_folder)
