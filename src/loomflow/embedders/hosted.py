"""Embedding models behind an API: those of pydantic-ai, and servers that speak the OpenAI wire format.

This module imports pydantic-ai, which takes long; it is loaded with the first embedder that needs it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic_ai.embeddings import Embedder as PydanticEmbedder
from pydantic_ai.embeddings import EmbeddingModel, EmbeddingSettings, infer_embedding_model
from pydantic_ai.embeddings.result import EmbedInputType
from pydantic_ai.exceptions import UserError
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from loomflow.checks import check_limit, check_text
from loomflow.errors import ConfigError, EmbedderError
from loomflow.locations import without_password
from loomflow.ports import NOISE

from .loading import check_noise
from .loops import OnePerLoop

HostedModel: TypeAlias = str | EmbeddingModel | PydanticEmbedder

BATCH_TEXTS = 96
"""Texts in a request. Of the providers' limits the lowest is Cohere's, 96."""

BATCH_CHARS = 100_000
"""Characters in a request. Voyage takes 120,000 tokens, OpenAI 300,000; a character is rarely more than one."""

MAX_CHARS = 8_000
"""Longer texts are cut before they are sent: OpenAI takes 8,192 tokens and refuses what is longer."""

KEYLESS = "no-key-needed"
FORMS = '"PROVIDER:MODEL" as in "openai:text-embedding-3-small", or with base_url= the name of a model of that server'

_HTTP = re.compile(r"https?://[^\s/]")
_KEY = re.compile(r"[!-~]+")
_VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]*)`")
_NAME = re.compile(r"[a-z][a-z0-9/_-]*:.*\S.*", re.DOTALL)
_LOCAL_PREFIXES = ("openai:", "ollama:")
_EXTRAS = {"google": "google", "google-cloud": "google"}


class HostedEmbedder:
    """An embedding model of a provider or of a server.

    Whatever the provider raises for a request comes through as pydantic-ai raises it. Requests are made one after the
    other, and cancelling a call ends the one under way. Connections are kept for each event loop and closed when it
    ends.

    Args:
        model: "PROVIDER:MODEL", as in "openai:text-embedding-3-small", "google:gemini-embedding-001",
            "cohere:embed-v4.0" or "ollama:nomic-embed-text"; with `base_url` the name of a model of that server; or an
            `Embedder` or `EmbeddingModel` of pydantic-ai, which keeps its own connections.
        base_url: of a server that speaks the OpenAI wire format (llama.cpp, LM Studio, Ollama, vLLM).
        api_key: by default from the provider's environment variable.
        dimensions: how long the vectors are to be, for models that can shorten them.
        max_chars: where texts are cut. Local servers may take less than hosted ones.
        name: identifies the space; by default the provider's and the model's name, without the server's address.
        noise: the cosine that unrelated texts reach with this model, as far as it is known.

    Raises:
        ConfigError: an argument has the wrong form, or the provider is unknown.
        EmbedderError: a key or a package is missing; the message says what to set or install.
    """

    def __init__(
        self,
        model: HostedModel,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        max_chars: int = MAX_CHARS,
        name: str | None = None,
        noise: float = NOISE,
    ) -> None:
        if base_url is not None and not (isinstance(base_url, str) and _HTTP.match(base_url)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError.of("base_url", "an http:// or https:// URL", without_password(str(base_url)))
        if api_key is not None and not _KEY.fullmatch(str(api_key)):
            raise ConfigError("api_key must be non-blank printable ASCII; it is not shown here")
        if not isinstance(model, str) and (base_url is not None or api_key is not None):
            raise ConfigError("base_url and api_key go with the name of a model; this one has its own")
        self.noise = check_noise(noise)
        given_name = None if name is None else check_text("name", name, blank=False)
        self._max_chars = check_limit("max_chars", max_chars)
        self._settings = EmbeddingSettings()
        if isinstance(model, str):
            self._settings["truncate"] = True  # Cohere and Voyage refuse what is too long otherwise
        if dimensions is not None:
            self._settings["dimensions"] = check_limit("dimensions", dimensions)
        named, self._facade = _named_model(model, base_url)
        self._models: OnePerLoop[EmbeddingModel] | None = None
        if isinstance(named, str):
            self._models = OnePerLoop(_Building(named, base_url, api_key))
            own_name = named
        else:
            own_name = f"{named.system}:{named.model_name}"
        self.name = given_name or _with(own_name, dimensions)

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """Embed texts, each cut to `max_chars`; shape [n, d].

        Raises:
            EmbedderError: the answer has not one vector for each text.
            Exception: what pydantic-ai raises, such as a `ModelHTTPError` with the status in it.
        """
        kind: EmbedInputType = "query" if query else "document"
        rows: list[Sequence[float]] = []
        for batch in _batches([text[: self._max_chars] for text in texts]):
            answered = await self._request(batch, kind)
            if len(answered) != len(batch):
                raise EmbedderError(f"embedder {self.name} answered {len(answered)} vectors for {len(batch)} texts")
            rows += answered
        return np.asarray(rows, dtype=np.float32) if rows else np.zeros((0, 0), dtype=np.float32)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; it opens new ones on use."""
        if self._models is not None:
            await self._models.aclose()

    async def _request(self, texts: list[str], kind: EmbedInputType) -> Sequence[Sequence[float]]:
        if self._models is None:
            return (await self._facade.embed(texts, input_type=kind, settings=self._settings)).embeddings
        with self._facade.override(model=await self._models.get()):
            return (await self._facade.embed(texts, input_type=kind, settings=self._settings)).embeddings


class _Building:
    """Builds the model of a name. The first one is built at once, so that what is wrong with it shows."""

    def __init__(self, name: str, base_url: str | None, api_key: str | None) -> None:
        self._arguments = name, base_url, api_key
        self._guard = threading.Lock()
        self._first: tuple[EmbeddingModel, AbstractAsyncContextManager[Any]] | None = _build(*self._arguments)

    def __call__(self) -> tuple[EmbeddingModel, AbstractAsyncContextManager[Any]]:
        with self._guard:
            first, self._first = self._first, None
        return first or _build(*self._arguments)


def _named_model(model: object, base_url: str | None) -> tuple[str | EmbeddingModel, PydanticEmbedder]:
    """What names the space, the model itself or its name, and pydantic-ai's face of it."""
    if isinstance(model, str):
        given = check_text("embedder", model, blank=False)
        if base_url is not None and not given.startswith(_LOCAL_PREFIXES):
            given = f"openai:{given}"
        if not _NAME.fullmatch(given):
            raise ConfigError.of("embedder", FORMS, model)
        return given, PydanticEmbedder(given)
    if isinstance(model, EmbeddingModel):
        return model, PydanticEmbedder(model)
    if isinstance(model, PydanticEmbedder):
        return model.model, model
    raise ConfigError.of("embedder", f"{FORMS}, or an embedder or embedding model of pydantic-ai", model)


def _build(
    name: str, base_url: str | None, api_key: str | None
) -> tuple[EmbeddingModel, AbstractAsyncContextManager[Any]]:
    """A model, and the provider in whose context its connections are open.

    Raises:
        ConfigError: the provider is unknown.
        EmbedderError: its key or package is missing.
    """
    context: AbstractAsyncContextManager[Any] = nullcontext()

    def provider(kind: str) -> Provider[Any]:
        nonlocal context
        made = _provider(kind, base_url, api_key)
        context = made
        return made

    kind = name.partition(":")[0]
    try:
        return infer_embedding_model(name, provider_factory=provider), context
    except ImportError as error:
        package = f"loomflow[{_EXTRAS[kind]}]" if kind in _EXTRAS else f"pydantic-ai-slim[{kind}]"
        raise EmbedderError(
            f'embedder {name!r} needs a package that is not installed: pip install "{package}"'
        ) from error
    except UserError as error:
        if "Unknown embeddings model" in str(error):
            raise ConfigError.of("embedder", f"{FORMS}; {kind} has no embedding models", name) from error
        variable = _VARIABLE.search(str(error))
        reason = f"needs {variable[1]} to be set" if variable else str(error).split("\n")[0]
        raise EmbedderError(f"embedder {name!r} {reason}") from error
    except ValueError as error:
        raise ConfigError.of("embedder", f"{FORMS}; there is no provider {kind}", name) from error


def _provider(kind: str, base_url: str | None, api_key: str | None) -> Provider[Any]:
    if base_url is None and api_key is None:
        return infer_provider(kind)
    options: dict[str, Any] = {"api_key": api_key}
    if base_url is not None:
        options = {"base_url": base_url, "api_key": api_key or os.environ.get("OPENAI_API_KEY") or KEYLESS}
    try:
        return infer_provider_class(kind)(**options)
    except TypeError as error:
        raise ConfigError(f"an embedder of {kind} takes no {' and no '.join(options)}") from error


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for text in texts:
        if batch and (len(batch) == BATCH_TEXTS or sum(map(len, batch)) + len(text) > BATCH_CHARS):
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch


def _with(name: str, dimensions: int | None) -> str:
    return name if dimensions is None else f"{name}:{dimensions}"
