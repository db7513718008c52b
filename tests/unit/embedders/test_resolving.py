"""From what a caller gives as `embedder=` to an embedder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic_ai.embeddings import Embedder as PydanticEmbedder
from pydantic_ai.embeddings import TestEmbeddingModel

from loomflow import ConfigError, EmbedderError, LoomflowError, embedders
from loomflow.embedders import (
    EmbedderSpec,
    FastEmbedEmbedder,
    FunctionEmbedder,
    HostedEmbedder,
    OnnxEmbedder,
    StaticEmbedder,
    check_embedder,
    resolve_embedder,
)
from loomflow.ports import NOISE, Embedder
from tests.tiny_onnx import lay_tiny


class Own:
    """An embedder of somebody's own."""

    name = "own"

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        return np.ones((len(texts), 2), dtype=np.float32)


class NotAsync:
    """An object with a function that is not async, and without `query`."""

    name = "not async"
    noise = 0.25

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]


def letters(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        (None, type(None), None),
        ("default", StaticEmbedder, "wordllama:l2_supercat_256"),
        ("fastembed", FastEmbedEmbedder, "fastembed:BAAI/bge-small-en-v1.5"),
        ("fastembed:BAAI/bge-base-en-v1.5", FastEmbedEmbedder, "fastembed:BAAI/bge-base-en-v1.5"),
        ("openai:text-embedding-3-small", HostedEmbedder, "openai:text-embedding-3-small"),
        ("ollama:qwen3-embedding:0.6b", HostedEmbedder, "ollama:qwen3-embedding:0.6b"),
        (TestEmbeddingModel(), HostedEmbedder, "test:test"),
        (PydanticEmbedder(TestEmbeddingModel("tiny")), HostedEmbedder, "test:tiny"),
        (Own(), Own, "own"),
        (NotAsync(), FunctionEmbedder, "not async"),
        (letters, FunctionEmbedder, "function:letters"),
        (letters.__call__, FunctionEmbedder, None),
    ],
    ids=str,
)
async def test_every_form_becomes_an_embedder(
    spec: Any, kind: type, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:9/v1")
    check_embedder(spec)
    embedder = resolve_embedder(spec)
    assert type(embedder) is kind
    if name is not None:
        assert embedder is not None
        assert embedder.name == name


async def test_a_folder_becomes_an_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_tiny(tmp_path / "my models")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    specs: list[EmbedderSpec] = [
        f"onnx:{tmp_path}/my models", "onnx:my models", "onnx:~/my models", "onnx:my models/model.onnx",
    ]  # fmt: skip
    names: set[str] = set()
    for spec in specs:
        embedder: Embedder | None = resolve_embedder(spec)
        assert isinstance(embedder, OnnxEmbedder)
        names.add(embedder.name)
        assert (await embedder.embed(["zero two"])).tolist() == [[11]]
    assert len(names) == 1


async def test_functions_and_objects_embed() -> None:
    for spec in (NotAsync(), letters):
        embedder = resolve_embedder(spec)  # pyright: ignore[reportArgumentType]
        assert embedder is not None
        assert (await embedder.embed(["tea"], query=True)).tolist() == [[1, 3]]


def test_noise_is_known_of_what_says_it(tmp_path: Path) -> None:
    folder = lay_tiny(tmp_path)
    made: list[Any] = [
        resolve_embedder(NotAsync()),  # pyright: ignore[reportArgumentType]
        FunctionEmbedder(letters, noise=0.25),
        OnnxEmbedder(folder, noise=0.25),
        FastEmbedEmbedder(noise=0.25),
        HostedEmbedder(TestEmbeddingModel(), noise=0.25),
    ]
    assert [embedder.noise for embedder in made] == [0.25] * 5
    assert OnnxEmbedder(folder).noise == NOISE
    for wrong in (-0.1, 1, True, "0.2", float("nan")):
        with pytest.raises(ConfigError, match="noise must be a number from 0 to below 1"):
            OnnxEmbedder(folder, noise=wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "spec",
    [
        "", " ", "nonsense", "Default", "onnx", "onnx:", "onnx: ", "fastembed:", "fastembed: ", "openai", "openai:",
        ":model", "nobody:knows", "google-gla:gemini-embedding-001", "test:test", "text-embedding-3-small",
        5, [], ["default"], {}, Own, object(),
    ],
    ids=repr,
)  # fmt: skip
def test_anything_else_is_refused_with_the_forms(spec: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_embedder(spec)
    message = str(caught.value)
    assert message.startswith("embedder must be ")
    assert f"got {spec!r}" in message
    for form in ('"default"', '"onnx:DIRECTORY"', '"fastembed:MODEL"', '"openai:text-embedding-3-small"', "None"):
        assert form in message


def test_a_form_can_be_checked_before_anything_is_loaded() -> None:
    for spec in ("onnx:/nowhere", "fastembed:nobody/knows-it", "nobody:knows", "openai:x"):
        check_embedder(spec)
    for spec in ("nonsense", "onnx:", "default:x", 5, Own):
        with pytest.raises(ConfigError, match='embedder must be "default", "onnx:DIRECTORY"'):
            check_embedder(spec)


@pytest.mark.parametrize(
    ("package", "spec", "said"),
    [
        ("onnxruntime", "onnx:somewhere", r'needs the package onnxruntime: pip install "loomflow\[onnx\]"'),
        ("fastembed", "fastembed", r'needs the package fastembed: pip install "loomflow\[fastembed\]"'),
        ("google.genai", "google:gemini-embedding-001", r'pip install "loomflow\[google\]"'),
        ("cohere", "cohere:embed-v4.0", r'pip install "pydantic-ai-slim\[cohere\]"'),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_brings_it(
    package: str, spec: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # what the import system takes for "not installed"
    with pytest.raises(EmbedderError, match=said):
        resolve_embedder(spec)


def test_what_is_missing_on_this_machine_is_said_at_once() -> None:
    with pytest.raises(EmbedderError, match="no model at /nowhere/model"):
        resolve_embedder("onnx:/nowhere/model")
    assert issubclass(EmbedderError, LoomflowError)


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import loomflow", {"numpy", "tokenizers", "onnxruntime", "fastembed", "pydantic_ai"}),
        (
            "from loomflow.embedders import check_embedder as c\nc('openai:x')\nc('onnx:/x')\nc(len)",
            {"numpy", "tokenizers", "onnxruntime", "fastembed", "pydantic_ai"},
        ),
        (
            "from loomflow.embedders import resolve_embedder as r\nr('default')\nr(len)",
            {"onnxruntime", "fastembed", "pydantic_ai", "safetensors"},
        ),
        ("from loomflow.embedders import OnnxEmbedder as O\nO({folder!r}).name", {"onnxruntime", "pydantic_ai"}),
        ("from loomflow.embedders import resolve_embedder as r\nr('fastembed')", {"fastembed", "pydantic_ai"}),
    ],
)
def test_what_an_extra_needs_is_loaded_with_its_first_use(tmp_path: Path, code: str, unwanted: set[str]) -> None:
    script = f"import sys\n{code.format(folder=str(lay_tiny(tmp_path)))}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & unwanted


def test_the_package_offers_its_embedders_by_name() -> None:
    for name in embedders.__all__:
        assert getattr(embedders, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = embedders.Nothing  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
