"""Embedders, and how the `embedder=` argument of a memory becomes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from loomflow.errors import ConfigError
from loomflow.ports import Embedder

from .function import FunctionEmbedder
from .static import StaticEmbedder

EmbedderSpec = str | Embedder | Callable[..., Any] | None


def resolve_embedder(spec: EmbedderSpec) -> Embedder | None:
    """The embedder for `spec`.

    Args:
        spec: "default" (static vectors that come with the package, no network and no key), an object with `name` and
            `embed`, a function from a list of texts to a list of vectors, or None for keyword search only.

    Raises:
        ConfigError: it is something else.
    """
    if spec is None:
        return None
    if spec == "default":
        return StaticEmbedder()
    if not isinstance(spec, str):
        embed = getattr(spec, "embed", None)
        if callable(embed) and isinstance(getattr(spec, "name", None), str):
            if not inspect.iscoroutinefunction(embed):
                return FunctionEmbedder(cast("Callable[..., Any]", embed), name=cast("Embedder", spec).name)
            return cast("Embedder", spec)
        if callable(spec):
            return FunctionEmbedder(spec)
    raise ConfigError.of("embedder", '"default", an embedder, a function from texts to vectors, or None', spec)


__all__ = ["EmbedderSpec", "FunctionEmbedder", "StaticEmbedder", "resolve_embedder"]
