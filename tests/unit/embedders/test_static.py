"""The default embedder: mean of static vectors."""

from __future__ import annotations

import numpy as np
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]

from loomflow.embedders import StaticEmbedder, static


async def test_a_vector_is_the_mean_of_the_vectors_of_its_tokens() -> None:
    together = await StaticEmbedder().embed(["Where do we eat?", "tea", " "])
    alone = await StaticEmbedder().embed(["Where do we eat?"], query=True)
    weights, tokenizer = static._model()
    tokens = weights[tokenizer.encode("Where do we eat?", add_special_tokens=False).ids]
    assert together.shape == (3, 256)
    np.testing.assert_allclose(together[0], tokens.mean(axis=0, dtype=np.float32))
    np.testing.assert_array_equal(together[0], alone[0])
    assert len(await StaticEmbedder().embed([])) == 0


async def test_the_mapped_weights_are_those_of_the_file() -> None:
    await StaticEmbedder().embed(["load"])
    package = static.importlib.util.find_spec("wordllama")
    assert package is not None
    assert package.submodule_search_locations
    weights, _ = static._model()
    assert type(weights) is np.ndarray
    np.testing.assert_array_equal(
        weights, load_file(f"{package.submodule_search_locations[0]}/{static.WEIGHTS}")["embedding.weight"]
    )
