"""Messages as they may go on the wire: text that UTF-8 can hold, whatever a tool returned or a model answered."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelRequest,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from loomflow.checks import scrub


def sendable(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The messages with lone surrogates, which no JSON body can hold, replaced by U+FFFD."""
    return [_message(message) for message in messages]


NO_TEXT = "[no text]"
"""Stands for a prompt without text, which Anthropic refuses."""

_SENT = {
    "OpenAIChatModel": ("image/", "audio/", "application/pdf"),
    "OpenAIResponsesModel": ("image/", "application/pdf", "text/"),
    "AnthropicModel": ("image/", "application/pdf", "text/"),
}
"""What kinds of files the clients of these models can send."""

_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")


def acceptable(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The messages as Anthropic takes them: no blank texts, and ids of calls that are plain and given once."""
    ids: dict[str, str] = {}
    used: set[str] = set()
    kept: list[ModelMessage] = []
    for message in messages:
        parts = [_filled(part) for part in message.parts if not is_blank_answer(part)]
        kept.append(replace(message, parts=[_identified(part, ids, used) for part in parts]))
    return kept


def without_strange_media(messages: Sequence[ModelMessage], model: Any, prompt: int) -> list[ModelMessage]:
    """The messages, in which files of earlier turns that this model's client cannot send are named instead.

    A file in the prompt itself is left to the client, which says that it cannot be sent.
    """
    name = next((base.__name__ for base in type(_innermost(model)).__mro__ if base.__name__ in _SENT), None)
    if name is None:
        return list(messages)
    return [
        replace(message, parts=[_without_media(part, _SENT[name]) for part in message.parts])
        if place < prompt and any(isinstance(part, UserPromptPart) for part in message.parts)
        else message
        for place, message in enumerate(messages)
    ]


def is_of_chat_completions(model: Any) -> bool:
    """Whether a model is spoken to by chat completions, as local servers are."""
    return any(base.__name__ == "OpenAIChatModel" for base in type(_innermost(model)).__mro__)


def with_prompts_joined(messages: Sequence[ModelMessage], heads: tuple[str, ...]) -> list[ModelMessage]:
    """The messages, with texts of ours in the same message as the prompt after them.

    Chat templates of several local models refuse two messages of the user in a row.

    Args:
        messages: as they are sent.
        heads: how texts of ours begin: a summary, recalled memory.
    """
    joined: list[ModelMessage] = []
    waiting: list[str] = []
    for message in messages:
        if waiting and not any(isinstance(part, UserPromptPart) for part in message.parts):
            joined.append(_prompt("\n".join(waiting)))
            waiting = []
        parts: list[Any] = []
        for part in message.parts:
            if not isinstance(part, UserPromptPart):
                parts.append(part)
            elif isinstance(part.content, str) and part.content.startswith(heads):
                waiting.append(part.content)
            else:
                parts.append(_joined(part, waiting))
                waiting = []
        if parts or not message.parts:
            joined.append(replace(cast("Any", message), parts=parts))
    return [*joined, *([_prompt("\n".join(waiting))] if waiting else [])]


def _prompt(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def _joined(part: UserPromptPart, before: Sequence[str]) -> UserPromptPart:
    if not before:
        return part
    if isinstance(part.content, str):
        return replace(part, content="\n".join([*before, part.content]))
    return replace(part, content=["\n".join(before), *part.content])


def _innermost(model: Any) -> Any:
    while hasattr(model, "wrapped"):
        model = model.wrapped
    return model


def _without_media(part: Any, kinds: tuple[str, ...]) -> Any:
    if not isinstance(part, UserPromptPart) or isinstance(part.content, str):
        return part
    items = [_named(item, kinds) for item in part.content]
    is_same = all(new is old for new, old in zip(items, part.content, strict=True))
    return part if is_same else replace(part, content=items)


def _named(item: Any, kinds: tuple[str, ...]) -> Any:
    """A file that can be sent, or the name of what it is; everything else as it is."""
    if not isinstance(item, BinaryContent | FileUrl) or str(item.media_type).startswith(kinds):
        return item
    return f"[{item.media_type}]"


def is_blank_answer(part: Any) -> bool:
    """Whether a part of an answer is text without a word, which providers refuse."""
    return isinstance(part, TextPart) and not part.content.strip()


def _filled(part: Any) -> Any:
    if not isinstance(part, UserPromptPart):
        return part
    if isinstance(part.content, str):
        return part if part.content.strip() else replace(part, content=NO_TEXT)
    items = [item for item in part.content if not isinstance(item, str) or item.strip()]
    return part if len(items) == len(part.content) else replace(part, content=items or NO_TEXT)


def plain_id(given: str) -> str:
    """The id of a call in characters that Anthropic takes."""
    return _STRANGE.sub("_", given) or "call"


def _identified(part: Any, ids: dict[str, str], used: set[str]) -> Any:
    """A call with an id that is plain and new, or a result with the id that its call was given."""
    if not isinstance(part, ToolCallPart | ToolReturnPart):
        return part
    given = part.tool_call_id
    if isinstance(part, ToolCallPart):
        plain = plain_id(given)
        names = itertools.chain([plain], (f"{plain}_{n}" for n in itertools.count(2)))
        ids[given] = next(name for name in names if name not in used)
        used.add(ids[given])
    return replace(cast("Any", part), tool_call_id=ids.get(given, given))


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
