"""The keys of memories that are encrypted: as they are given, and for the command line, from its variables."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

from .errors import ConfigError

KEY_VARIABLE = "LOOMFLOW_ENCRYPTION_KEY"


def guard_of(encryption_key: str | bytes | Sequence[str | bytes] | None) -> Any:
    """What encrypts a store with a key, or with several of which the first encrypts; None without one.

    Raises:
        ConfigError: it is no Fernet key, or a package is missing.
    """
    if encryption_key is None:
        return None
    try:
        sealing = importlib.import_module("loomflow.stores.sealing")
    except ImportError as error:
        raise ConfigError("encryption_key needs another package: pip install 'loomflow[encryption]'") from error
    keys = [encryption_key] if isinstance(encryption_key, str | bytes) else list(encryption_key)
    return sealing.Sealing(keys)


def keys_from(variable: str, *, required: bool = False) -> list[str] | None:
    """The keys in a variable, between commas; None if it is not set.

    Raises:
        ConfigError: it is required.
    """
    keys = [key.strip() for key in os.environ.get(variable, "").split(",") if key.strip()]
    if required and not keys:
        raise ConfigError(f"the variable {variable} has no encryption key in it")
    return keys or None
