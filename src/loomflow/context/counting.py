"""What the parts of a request cost in tokens, by the counter that everything is measured with (rule R10)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    FileUrl,
    ModelMessage,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from loomflow.tokens import TokenCounter

MESSAGE_TOKENS = 4
"""What a message costs besides its content: its role and what separates it from the next."""

CALL_TOKENS = 8
"""What a tool call or result costs besides its content: its id and its place."""

DEFINITION_TOKENS = 8
"""What a tool definition costs besides its name, description and schema."""

MEDIA_TOKENS = 800
"""What a picture, sound or file counts. Providers charge by size and kind, from some 85 to 1,600 tokens for a picture;
their bytes are never counted as text."""


def message_tokens(message: ModelMessage, count: TokenCounter, most: int | None = None) -> int:
    """What a message costs, with all its parts; the text of a tool's result as if shortened to `most` tokens."""
    return MESSAGE_TOKENS + sum(part_tokens(part, count, most) for part in message.parts)


def messages_tokens(messages: Iterable[ModelMessage], count: TokenCounter, most: int | None = None) -> int:
    """What messages cost, see `message_tokens`."""
    return sum(message_tokens(message, count, most) for message in messages)


def part_tokens(part: Any, count: TokenCounter, most: int | None = None) -> int:
    """What a part of a message costs."""
    if isinstance(part, UserPromptPart):
        return content_tokens(part.content, count)
    if isinstance(part, ToolReturnPart):
        return CALL_TOKENS + count(part.tool_name) + result_tokens(cast("ToolReturnPart", part), count, most)
    if isinstance(part, ToolCallPart):
        return CALL_TOKENS + count(part.tool_name) + count(part.args_as_json_str())
    if isinstance(part, TextPart | ThinkingPart):
        return count(part.content)
    if isinstance(part, FilePart):
        return MEDIA_TOKENS
    content = getattr(part, "content", None)
    return count(content) if isinstance(content, str) else count(str(getattr(part, "args", "") or ""))


def content_tokens(content: object, count: TokenCounter) -> int:
    """What the content of a prompt costs: a text, or several texts, pictures and files."""
    if isinstance(content, str):
        return count(content)
    if isinstance(content, TextContent):
        return count(content.content)
    if isinstance(content, Sequence):
        return sum(content_tokens(one, count) for one in content)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return MEDIA_TOKENS


def result_tokens(part: ToolReturnPart, count: TokenCounter, most: int | None = None) -> int:
    """What a tool's result costs as the model sees it; pictures and files in it count as media."""
    text = count(part.model_response_str())
    return (text if most is None else min(text, most)) + MEDIA_TOKENS * media_in(part.content)


def media_in(content: object) -> int:
    """How many pictures, sounds and files there are in what a tool returned."""
    if isinstance(content, BinaryContent | FileUrl):
        return 1
    if isinstance(content, list | tuple):
        return sum(map(media_in, content))  # pyright: ignore[reportUnknownArgumentType]
    return 0


def definition_tokens(tool: ToolDefinition, count: TokenCounter) -> int:
    """What the definition of a tool costs."""
    schema = json.dumps(tool.parameters_json_schema, ensure_ascii=False, separators=(",", ":"))
    return DEFINITION_TOKENS + count(f"{tool.name}\n{tool.description or ''}\n{schema}")


def definitions_tokens(tools: Iterable[ToolDefinition], count: TokenCounter) -> int:
    """What the definitions of tools cost."""
    return sum(definition_tokens(tool, count) for tool in tools)
