"""What commands open: memories with the embedder of a name, and the model that answers."""

from __future__ import annotations

import os
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import loomflow
from loomflow.embedders import check_embedder
from loomflow.encryption import KEY_VARIABLE, keys_from
from loomflow.errors import ConfigError, StoreError
from loomflow.locations import locate

from .display import one_line
from .failures import misuse
from .options import EMBEDDER_VARIABLE

if TYPE_CHECKING:
    from loomflow.memory import Memory

DEFAULT_MODEL = "gpt-4.1-mini"
ECHO = "echo"
KEYWORD_ONLY = "none"


def read_embedder(name: str) -> str | None:
    """What `Memory.open` takes for an embedder's name on the command line. Nothing is loaded.

    Raises:
        Exception: typer's error of usage: no embedder has a name of this form.
    """
    spec = None if name == KEYWORD_ONLY else name
    try:
        check_embedder(spec)
    except ConfigError:
        raise misuse(
            f"--embedder or {EMBEDDER_VARIABLE} must be default, onnx:DIRECTORY, fastembed:MODEL, PROVIDER:MODEL or "
            f"{KEYWORD_ONLY}, got {one_line(name)!r}"
        ) from None
    return spec


def open_memory(url: str, embedder: str, keys: list[str] | EllipsisType | None = ...) -> Memory:
    """The memory at a URL, created if there is none, with the embedder of this name; keys are those of the variable."""
    keys = keys_from(KEY_VARIABLE) if keys is ... else keys
    return loomflow.Memory.open(url, embedder=read_embedder(embedder), encryption_key=keys)


def existing_memory(url: str, embedder: str = KEYWORD_ONLY, keys: list[str] | EllipsisType | None = ...) -> Memory:
    """The memory at a URL, which is not created. Without an embedder where no vector matters: that opens faster.

    Raises:
        StoreError: there is none.
    """
    read_embedder(embedder)
    path = locate(url).path
    if path is not None and not path.exists():
        raise StoreError(f"no memory at {path}")
    return open_memory(url, embedder, keys)


def choose_model(name: str | None, base_url: str | None = None) -> tuple[Any, str]:
    """The model to use, and a line that says which it is.

    Args:
        name: as given; None takes `DEFAULT_MODEL` where there is a key for it, else `EchoModel`.
        base_url: of the server; a name has to be given with it.

    Raises:
        Exception: typer's error of usage: a `base_url` without a name.
    """
    if name == ECHO:
        return loomflow.EchoModel(), "model: EchoModel, which repeats what it is told"
    if name is not None:
        return name, f"model: {name}"
    if base_url is not None:
        raise misuse("--base-url needs --model: the name of the model on that server")
    if os.environ.get("OPENAI_API_KEY"):
        return DEFAULT_MODEL, f"model: {DEFAULT_MODEL}"
    return loomflow.EchoModel(), "model: EchoModel, which repeats what it is told (OPENAI_API_KEY is not set)"
