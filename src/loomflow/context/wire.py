"""Messages as they may go on the wire: text that UTF-8 can hold, whatever a tool returned or a model answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import ModelMessage

from loomflow.checks import scrub


def sendable(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The messages with lone surrogates, which no JSON body can hold, replaced by U+FFFD."""
    return [_message(message) for message in messages]


def scrubbed(value: Any) -> Any:
    """`value` with every string in it, at any depth of lists and mappings, made fit for UTF-8."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {scrubbed(key): scrubbed(item) for key, item in pairs}
    if isinstance(value, list | tuple):
        return [scrubbed(item) for item in cast("Sequence[Any]", value)]
    return value


def _message(message: ModelMessage) -> ModelMessage:
    parts = [_part(part) for part in message.parts]
    unchanged = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if unchanged else replace(message, parts=parts)


def _part(part: Any) -> Any:
    changes = {
        name: scrubbed(getattr(part, name)) for name in ("content", "args") if _is_broken(getattr(part, name, None))
    }
    return replace(part, **changes) if changes else part


def _is_broken(value: Any) -> bool:
    if isinstance(value, str):
        return scrub(value) is not value
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return any(_is_broken(key) or _is_broken(item) for key, item in pairs)
    return isinstance(value, list | tuple) and any(map(_is_broken, cast("Sequence[Any]", value)))
