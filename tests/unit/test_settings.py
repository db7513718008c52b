"""Rule R15: settings are checked when they are made."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from loomflow import ConfigError, LoomflowError, Tuning

NAN, INFINITY = float("nan"), float("inf")
BAD_BUDGETS: list[Any] = [
    True, False, 0, -3, 1500.0, 0.5, "1500", "", NAN, INFINITY, -INFINITY, [], {}, np.True_, np.int64(-1), 1j, object,
    np.float64(1500), Decimal(1500), Fraction(1500),
]  # fmt: skip
BAD_NUMBERS: list[Any] = [
    True, False, 0, 0.0, -0.0, -3, -1e-300, "30", "", NAN, INFINITY, -INFINITY, [], np.True_, np.float64("nan"), 1j,
    np.float32(-1), 10**400, Decimal(30), np.array([1.0]),
]  # fmt: skip


@pytest.mark.parametrize("value", BAD_BUDGETS, ids=repr)
def test_r15_a_budget_is_a_positive_int(value: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        Tuning(memory_token_budget=value)
    assert str(raised.value) == f"memory_token_budget must be a positive int or None, got {value!r}"


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=lambda value: repr(value)[:20])
def test_r15_a_half_life_is_a_positive_finite_number(value: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"^memory_decay_half_life_days must be a positive finite number or None, got "
    ):
        Tuning(memory_decay_half_life_days=value)


@pytest.mark.parametrize("value", [*BAD_NUMBERS, None], ids=lambda value: repr(value)[:20])
def test_r15_a_timeout_is_a_positive_finite_number(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^recall_timeout_seconds must be a positive finite number, got "):
        Tuning(recall_timeout_seconds=value)


@pytest.mark.parametrize("value", ["Top", "FILL", "", "full", None, True, 1, b"top"], ids=repr)
def test_r15_a_mode_is_one_of_two(value: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        Tuning(memory_mode=value)
    assert str(raised.value) == f'memory_mode must be "top" or "fill", got {value!r}'


@pytest.mark.parametrize("field", ["memory_max_facts", "memory_max_episodes"])
@pytest.mark.parametrize("value", [*(value for value in BAD_BUDGETS if value != 0), None], ids=repr)
def test_r15_a_limit_is_an_int_from_zero(field: str, value: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        Tuning(**{field: value})
    assert str(raised.value) == f"{field} must be an int from 0, got {value!r}"


@pytest.mark.parametrize(
    "value",
    [True, False, -0.01, -1, 1.01, 2, "0.5", "", NAN, INFINITY, -INFINITY, None, [], 1j, Decimal("0.5")],
    ids=repr,
)
def test_r15_a_least_relevance_is_a_share(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^memory_min_relevance must be a number from 0 to 1, got "):
        Tuning(memory_min_relevance=value)


@pytest.mark.parametrize("value", [4, "tiktoken", True, object()], ids=repr)
def test_r15_a_token_counter_can_be_called(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^token_counter must be a function from str to int, or None, got "):
        Tuning(token_counter=value)


@pytest.mark.parametrize("value", [1, 1500, 10**30, np.int64(1500), np.uint8(7), np.int32(1)], ids=repr)
def test_a_budget_becomes_a_plain_int(value: Any) -> None:
    budget = Tuning(memory_token_budget=value).memory_token_budget
    assert type(budget) is int
    assert budget == value


@pytest.mark.parametrize(
    "value", [1, 30, 0.5, 1e-300, 1e300, 5e-324, np.float32(2), np.int64(3), Fraction(1, 2)], ids=repr
)
def test_a_half_life_becomes_a_plain_float(value: Any) -> None:
    half_life = Tuning(memory_decay_half_life_days=value).memory_decay_half_life_days
    assert type(half_life) is float
    assert half_life == value


@pytest.mark.parametrize("field", ["memory_max_facts", "memory_max_episodes"])
@pytest.mark.parametrize("value", [0, 1, 10**30, np.int64(7), np.uint8(0)], ids=repr)
def test_a_limit_becomes_a_plain_int(field: str, value: Any) -> None:
    limit = getattr(Tuning(**{field: value}), field)
    assert type(limit) is int
    assert limit == value


@pytest.mark.parametrize("value", [0, 1, 0.0, -0.0, 1.0, 5e-324, np.float32(0.5), Fraction(1, 3)], ids=repr)
def test_a_least_relevance_becomes_a_plain_float(value: Any) -> None:
    share = Tuning(memory_min_relevance=value).memory_min_relevance
    assert type(share) is float
    assert share == float(value)


def test_by_default_the_best_five_facts_and_three_episodes_are_injected() -> None:
    tuning = Tuning()
    assert (tuning.memory_mode, tuning.memory_max_facts, tuning.memory_max_episodes) == ("top", 5, 3)
    assert tuning.memory_min_relevance == 0.05


def test_everything_is_off_by_default() -> None:
    tuning = Tuning()
    assert (tuning.memory_token_budget, tuning.memory_decay_half_life_days, tuning.token_counter) == (None, None, None)
    assert tuning.recall_timeout_seconds == 10.0


def test_settings_are_frozen_and_keyword_only() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Tuning().memory_token_budget = 5  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        Tuning(1500)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ConfigError):
        dataclasses.replace(Tuning(), memory_token_budget=-1)


def test_a_config_error_is_a_value_error_and_shows_long_values_shortened() -> None:
    with pytest.raises(ConfigError) as raised:
        Tuning(memory_token_budget="x" * 1000)  # pyright: ignore[reportArgumentType]
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, LoomflowError)
    assert str(raised.value) == f"memory_token_budget must be a positive int or None, got '{'x' * 76}..."
