"""What every request must be, whatever was left out of it: calls of tools with their results."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart


def assert_paired(messages: Sequence[ModelMessage]) -> None:
    """Both sides of every call are there, in order, with nothing between them."""
    open_calls: set[str] = set()
    for message in messages:
        if isinstance(message, ModelResponse):
            assert not open_calls
            open_calls = {part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)}
        else:
            returned = {part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)}
            assert returned == open_calls
            open_calls = set()
    assert not open_calls
