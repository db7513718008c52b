"""The limits of a request: what is set, and shares of the window for what is not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel

from loomflow import Tuning
from loomflow.context.limits import Limits, limits_of
from loomflow.tokens import estimate_tokens

KNOWN = TestModel(profile={"context_window": 1001})
SHARES = ("history", "compact_at", "tools")


def shares(limits: Limits) -> tuple[int | None, ...]:
    return tuple(getattr(limits, name) for name in SHARES)


@pytest.mark.parametrize(
    ("model", "settings", "window", "expected"),
    [
        (None, {}, None, (16_000, 24_000, 8_000)),
        (TestModel(), {}, None, (16_000, 24_000, 8_000)),
        (KNOWN, {}, 1001, (500, 750, 250)),
        (WrapperModel(KNOWN), {}, 1001, (500, 750, 250)),
        (KNOWN, {"context_window_tokens": 400}, 400, (200, 300, 100)),
        (KNOWN, {"history_token_budget": None, "auto_compact_at_tokens": None}, 1001, (None, None, 250)),
        (KNOWN, {"history_token_budget": 7, "tool_definitions_token_budget": 9}, 1001, (7, 750, 9)),
        (TestModel(), {"auto_compact_at_tokens": 5}, None, (16_000, 5, 8_000)),
    ],
)
def test_shares_are_of_the_window_rounded_down(
    model: Any, settings: dict[str, Any], window: int | None, expected: tuple[int | None, ...]
) -> None:
    limits = limits_of(model, Tuning(**settings))
    assert (limits.window, shares(limits)) == (window, expected)


def test_results_and_the_counter_are_as_they_are_set() -> None:
    assert limits_of(None, Tuning()).result == 4_000
    assert limits_of(None, Tuning(tool_result_max_tokens=None)).result is None
    assert limits_of(None, Tuning()).count is estimate_tokens
    assert limits_of(None, Tuning(token_counter=len)).count("three") == 5


def test_a_model_whose_answers_come_from_a_function_has_no_window() -> None:
    assert limits_of(FunctionModel(lambda *_: None), Tuning()).window is None  # type: ignore[arg-type]
