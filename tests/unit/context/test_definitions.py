"""Which tool definitions are shown: those to be kept, and of the others as many as fit, in their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.tools import ToolDefinition

from loomflow.context.counting import DEFINITION_TOKENS, definition_tokens, definitions_tokens
from loomflow.context.definitions import deferred
from loomflow.tokens import estimate_tokens


def tool(number: int, size: int, *, is_deferred: bool = False) -> ToolDefinition:
    return ToolDefinition(name=f"tool_{number}", description="d" * size, defer_loading=is_deferred)


@given(
    sizes=st.lists(st.integers(0, 400), max_size=8), keep=st.sets(st.integers(0, 7), max_size=4),
    budget=st.integers(1, 600),
)  # fmt: skip
def test_what_is_shown_beside_the_tools_to_be_kept_fits_the_budget(
    sizes: list[int], keep: set[int], budget: int
) -> None:
    tools = [tool(number, size) for number, size in enumerate(sizes)]
    names = {f"tool_{number}" for number in keep}
    given_back = deferred(tools, budget, names, estimate_tokens)
    assert [one.name for one in given_back] == [one.name for one in tools]
    shown = [one for one in given_back if not one.defer_loading]
    assert names & {one.name for one in tools} <= {one.name for one in shown}
    kept = [one for one in tools if one.name in names]
    cost = definitions_tokens(shown, estimate_tokens)
    assert cost <= max(budget, definitions_tokens(kept, estimate_tokens))
    left = budget - cost
    assert all(definition_tokens(one, estimate_tokens) > left for one in given_back if one.defer_loading)


def test_what_fits_is_the_same_object() -> None:
    tools = [tool(1, 40), tool(2, 40)]
    assert all(new is old for new, old in zip(deferred(tools, 1000, (), estimate_tokens), tools, strict=True))


def test_a_smaller_one_behind_one_that_does_not_fit_is_still_shown() -> None:
    shown = deferred([tool(1, 40), tool(2, 4000), tool(3, 40)], 120, (), estimate_tokens)
    assert [one.defer_loading for one in shown] == [False, True, False]


def test_a_definition_costs_its_name_its_description_its_schema_and_what_is_around_them() -> None:
    one = ToolDefinition(name="look", description="Look.", parameters_json_schema={"type": "object", "title": "語"})
    text = 'look\nLook.\n{"type":"object","title":"語"}'
    assert definition_tokens(one, estimate_tokens) == DEFINITION_TOKENS + estimate_tokens(text)
