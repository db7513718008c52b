"""Tool definitions under a budget: the rest is deferred, and the model finds it by pydantic-ai's tool search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset, PreparedToolset

from loomflow.settings import Tuning
from loomflow.tokens import TokenCounter

from .counting import definition_tokens
from .limits import limits_of


def budgeted(tools: Sequence[Any], toolsets: Sequence[Any], tuning: Tuning) -> list[AbstractToolset[Any]]:
    """The tools and toolsets of an agent, of which only as many are shown as fit `tool_definitions_token_budget`."""
    own: list[AbstractToolset[Any]] = [FunctionToolset(list(tools))] if tools else []
    combined = [*own, *toolsets]
    if not combined or tuning.tool_definitions_token_budget is None:
        return combined

    async def prepare(context: RunContext[Any], definitions: list[ToolDefinition]) -> list[ToolDefinition]:
        limits = limits_of(context.model, tuning)
        assert limits.tools is not None
        return deferred(definitions, limits.tools, tuning.keep_tools, limits.count)

    return [PreparedToolset(CombinedToolset(combined), prepare)]


def deferred(
    definitions: Sequence[ToolDefinition], budget: int, keep: Collection[str], count: TokenCounter
) -> list[ToolDefinition]:
    """The definitions in their order; those that go beyond the budget are marked to be found by search.

    Args:
        definitions: of all tools.
        budget: tokens that the definitions in front of the model may cost.
        keep: names of tools that are always in front of it; they count, and go first.
        count: counts tokens.
    """
    costs = [definition_tokens(tool, count) for tool in definitions]
    left = budget - sum(cost for tool, cost in zip(definitions, costs, strict=True) if tool.name in keep)
    shown: list[ToolDefinition] = []
    for tool, cost in zip(definitions, costs, strict=True):
        if tool.name in keep:
            shown.append(replace(tool, defer_loading=False))
        elif tool.defer_loading or cost > left:
            shown.append(replace(tool, defer_loading=True))
        else:
            left -= cost
            shown.append(tool)
    return shown
