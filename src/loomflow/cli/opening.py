"""What commands open: memories that have to be there, and the model that answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import loomflow
from loomflow.errors import StoreError
from loomflow.locations import locate

from .failures import misuse

if TYPE_CHECKING:
    from loomflow.memory import Memory

DEFAULT_MODEL = "gpt-4.1-mini"


def existing_memory(url: str) -> Memory:
    """The memory at a URL, which is not created.

    Raises:
        StoreError: there is none.
    """
    path = locate(url).path
    if path is not None and not path.exists():
        raise StoreError(f"no memory at {path}")
    return loomflow.Memory.open(url)


def choose_model(name: str | None, base_url: str | None = None) -> tuple[Any, str]:
    """The model to use, and a line that says which it is.

    Args:
        name: as given; None takes `DEFAULT_MODEL` where there is a key for it, else `EchoModel`.
        base_url: of the server; a name has to be given with it.

    Raises:
        Exception: typer's error of usage: a `base_url` without a name.
    """
    if name == "echo":
        return loomflow.EchoModel(), "model: EchoModel, which repeats what it is told"
    if name is not None:
        return name, f"model: {name}"
    if base_url is not None:
        raise misuse("--base-url needs --model: the name of the model on that server")
    if os.environ.get("OPENAI_API_KEY"):
        return DEFAULT_MODEL, f"model: {DEFAULT_MODEL}"
    return loomflow.EchoModel(), "model: EchoModel, which repeats what it is told (OPENAI_API_KEY is not set)"
