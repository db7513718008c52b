"""The tool with which a model reads the rest of a tool result that was shortened; opt-in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pydantic_ai import FunctionToolset
from pydantic_ai.messages import ModelMessage, ToolReturnPart

from loomflow.tokens import TokenCounter

from .results import part, parts_of
from .wire import plain_id

PAGING_TOOL = "read_tool_result"
ROOM = 40
"""Of the tokens of a result, what the line above a part may cost."""


def paging_toolset(
    messages: Callable[[], Iterable[ModelMessage]], limit: int, count: TokenCounter
) -> FunctionToolset[Any]:
    """The tool, for one run.

    Args:
        messages: gives the messages of the run and of the history before it.
        limit: tokens that a part may have.
        count: counts tokens.
    """
    size = max(limit - ROOM, limit // 2, 1)

    def read_tool_result(call_id: str, part_number: int = 2) -> str:
        """Read one part of a tool result that was too long to be shown whole.

        Args:
            call_id: the id that the shortened result names.
            part_number: which part, from 1.
        """
        for message in reversed(list(messages())):  # an id may be given twice: the latest is meant
            for one in message.parts:
                if not isinstance(one, ToolReturnPart) or one.tool_name == PAGING_TOOL:
                    continue
                if call_id in {one.tool_call_id, plain_id(one.tool_call_id)}:
                    total = parts_of(one.content, size, count)
                    if not 1 <= part_number <= total:
                        return f"the result of {call_id!r} has the parts 1 to {total}"
                    return f"part {part_number} of {total}:\n{part(one.content, part_number, size, count)}"
        return f"there is no tool result with the id {call_id!r}"

    return FunctionToolset([read_tool_result])
