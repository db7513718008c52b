"""loomflow: memory for LLM agents that fits. The right memories, under a hard token ceiling, with a receipt.

Names are loaded on first use, so that `import loomflow` costs milliseconds.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .account import ContextAccount
    from .agent import Agent
    from .errors import (
        ConfigError,
        ConflictError,
        ContextError,
        EmbedderError,
        LoomflowError,
        ModelError,
        SchemaError,
        SessionError,
        StoreError,
    )
    from .items import Episode, EpisodeMatch, Fact, MemoryBlock, SessionMessage
    from .memory import Memory
    from .models import EchoModel
    from .receipt import InjectedItem, Injection
    from .runs import AgentStream, RunResult
    from .settings import Tuning
    from .tokens import estimate_tokens

__version__ = "0.1.0"

_HOMES = {
    "account": ("ContextAccount",),
    "agent": ("Agent",),
    "errors": (
        "ConfigError",
        "ConflictError",
        "ContextError",
        "EmbedderError",
        "LoomflowError",
        "ModelError",
        "SchemaError",
        "SessionError",
        "StoreError",
    ),
    "items": ("Episode", "EpisodeMatch", "Fact", "MemoryBlock", "SessionMessage"),
    "memory": ("Memory",),
    "models": ("EchoModel",),
    "receipt": ("InjectedItem", "Injection"),
    "runs": ("AgentStream", "RunResult"),
    "settings": ("Tuning",),
    "tokens": ("estimate_tokens",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Agent",
    "AgentStream",
    "ConfigError",
    "ConflictError",
    "ContextAccount",
    "ContextError",
    "EchoModel",
    "EmbedderError",
    "Episode",
    "EpisodeMatch",
    "Fact",
    "InjectedItem",
    "Injection",
    "LoomflowError",
    "Memory",
    "MemoryBlock",
    "ModelError",
    "RunResult",
    "SchemaError",
    "SessionError",
    "SessionMessage",
    "StoreError",
    "Tuning",
    "estimate_tokens",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
