"""Learning from conversations: after a run, a model reads what was said, and what passes the guards becomes facts.

queue -> reader (a model) -> statements -> guards -> learning -> facts
"""

from __future__ import annotations

import importlib
from typing import Any

from .background import Background
from .distiller import NOT_LEARNED, Distilled, Distiller, Reader, release_dead

__all__ = ["NOT_LEARNED", "Background", "Distilled", "Distiller", "Reader", "reader_of", "release_dead"]


def reader_of(model: Any, base_url: str | None, api_key: str | None, blocks: tuple[str, ...]) -> Reader:
    """What reads turns with a model, see `loomflow.distill.extraction`; loaded when the first is to be read."""
    return importlib.import_module("loomflow.distill.extraction").Extractor(model, base_url, api_key, blocks)
