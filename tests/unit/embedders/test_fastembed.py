"""Models of fastembed, with a local one in the place of what it would fetch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

from loomflow import EmbedderError
from loomflow.embedders import FastEmbedEmbedder, OnnxEmbedder, resolve_embedder

LOCAL = "tests/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def embedder(minilm_folder: Path) -> FastEmbedEmbedder:
    """One whose model is a folder on this machine."""
    source = ModelSource(hf="tests/all-MiniLM-L6-v2")
    TextEmbedding.add_custom_model(LOCAL, PoolingType.MEAN, True, source, 384, model_file="model.onnx")
    return FastEmbedEmbedder(LOCAL, specific_model_path=str(minilm_folder))


async def test_vectors_have_the_direction_of_those_of_the_same_model(
    embedder: FastEmbedEmbedder, minilm: OnnxEmbedder
) -> None:
    texts = [
        "Where do we eat?",
        "We had dinner at the harbour and it was full. " * 20,
        "会议纪要",
        "tea",
        "👩‍👩‍👧 party",
    ] * 4
    for query in (False, True):
        vectors = await embedder.embed(texts, query=query)
        assert vectors.shape == (20, 384)
        assert vectors.dtype == np.float32
        expected = await minilm.embed(texts, query=query)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        assert np.einsum("nd,nd->n", vectors, expected).min() > 0.98
    assert len(await embedder.embed([])) == 0
    assert embedder.name == f"fastembed:{LOCAL}"


async def test_a_model_that_cannot_be_fetched_is_an_error_that_stands(tmp_path: Path) -> None:
    embedder = FastEmbedEmbedder(cache_dir=str(tmp_path), local_files_only=True)
    started = time.monotonic()
    for _ in range(50):
        with pytest.raises(EmbedderError, match=r"the fastembed model BAAI/bge-small-en-v1\.5 cannot be loaded: .+"):
            await embedder.embed(["tea"])
    assert time.monotonic() - started < 10


async def test_an_unknown_model_is_an_error() -> None:
    embedder: Any = resolve_embedder("fastembed:nobody/knows-it")
    assert embedder.name == "fastembed:nobody/knows-it"
    with pytest.raises(EmbedderError, match="nobody/knows-it is not supported"):
        await embedder.embed(["tea"])
