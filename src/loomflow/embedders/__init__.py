"""Embedders, and how the `embedder=` argument of a memory becomes one.

Each embedder is a module of its own, imported when it is used: what an extra needs is not loaded without it.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from loomflow.errors import ConfigError
from loomflow.ports import NOISE, Embedder

if TYPE_CHECKING:
    from .fastembed import FastEmbedEmbedder
    from .function import FunctionEmbedder
    from .hosted import HostedEmbedder, HostedModel
    from .onnx import OnnxEmbedder
    from .static import StaticEmbedder

EmbedderSpec: TypeAlias = "str | Embedder | HostedModel | Callable[..., Any] | None"

FORMS = (
    '"default", "onnx:DIRECTORY", "fastembed:MODEL", "PROVIDER:MODEL" as in "openai:text-embedding-3-small", '
    "an embedder, a function from texts to vectors, or None"
)

_HOMES = {
    "FastEmbedEmbedder": "fastembed",
    "FunctionEmbedder": "function",
    "HostedEmbedder": "hosted",
    "OnnxEmbedder": "onnx",
    "StaticEmbedder": "static",
}
_NAME = re.compile(r"(?P<kind>[a-z][a-z0-9/_-]*):.*\S.*", re.DOTALL)


def resolve_embedder(spec: EmbedderSpec) -> Embedder | None:
    """The embedder for `spec`.

    It is made and not used: files are looked for and a key has to be there, but no model is loaded, nothing is
    downloaded and no server is asked.

    Args:
        spec: one of

            - "default": static vectors that come with the package, no network and no key;
            - "onnx:DIRECTORY": a sentence-transformers model on this machine, see `OnnxEmbedder`;
            - "fastembed" or "fastembed:MODEL": a model that fastembed fetches, see `FastEmbedEmbedder`;
            - "PROVIDER:MODEL": a hosted model, as pydantic-ai names them, see `HostedEmbedder`; also an `Embedder` or
              `EmbeddingModel` of pydantic-ai;
            - an object with `name` and `embed`, or a function from a list of texts to a list of vectors;
            - None: keyword search only.

    Raises:
        ConfigError: it is something else.
        EmbedderError: a package, a key or a file that it needs is missing; the message says what to do.
    """
    check_embedder(spec)
    if spec is None:
        return None
    if isinstance(spec, str):
        return _named(spec)
    if _is_of_pydantic_ai(spec):
        return _home_of("HostedEmbedder")(spec)
    embed = getattr(spec, "embed", None)
    if not _has_name_and_embed(spec):
        return _home_of("FunctionEmbedder")(spec)
    if not inspect.iscoroutinefunction(embed):
        return _home_of("FunctionEmbedder")(
            embed, name=cast("Embedder", spec).name, noise=getattr(spec, "noise", NOISE)
        )
    return cast("Embedder", spec)


def check_embedder(spec: object) -> None:
    """See that `spec` is of a form that `resolve_embedder` takes.

    Nothing is loaded for it, so a provider may still be unknown and a file missing.

    Raises:
        ConfigError: it is not; the message lists the forms.
    """
    if isinstance(spec, str):
        match = _NAME.fullmatch(spec)
        fits = spec in ("default", "fastembed") or (match is not None and match["kind"] != "default")
    else:
        is_class_of_embedders = isinstance(spec, type) and callable(getattr(spec, "embed", None))
        fits = spec is None or _is_of_pydantic_ai(spec) or _has_name_and_embed(spec) or callable(spec)
        fits = fits and not is_class_of_embedders
    if not fits:
        raise ConfigError.of("embedder", FORMS, spec)


def _named(spec: str) -> Embedder:
    kind, _, rest = spec.partition(":")
    if kind == "default":
        return _home_of("StaticEmbedder")()
    if kind == "onnx":
        return _home_of("OnnxEmbedder")(rest)
    if kind == "fastembed":
        return _home_of("FastEmbedEmbedder")(*([rest] if rest else []))
    try:
        return _home_of("HostedEmbedder")(spec)
    except ConfigError as error:
        reason = f" ({error.__cause__})" if error.__cause__ else ""
        raise ConfigError.of("embedder", f"{FORMS}{reason}", spec) from error


def _has_name_and_embed(spec: object) -> bool:
    return callable(getattr(spec, "embed", None)) and isinstance(getattr(spec, "name", None), str)


def _is_of_pydantic_ai(spec: object) -> bool:
    """Whether it is an embedder of pydantic-ai, which is not imported to find out."""
    embeddings = sys.modules.get("pydantic_ai.embeddings")
    return embeddings is not None and isinstance(spec, embeddings.Embedder | embeddings.EmbeddingModel)


def _home_of(name: str) -> Any:
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _home_of(name)


__all__ = [
    "FORMS",
    "EmbedderSpec",
    "FastEmbedEmbedder",
    "FunctionEmbedder",
    "HostedEmbedder",
    "OnnxEmbedder",
    "StaticEmbedder",
    "check_embedder",
    "resolve_embedder",
]
