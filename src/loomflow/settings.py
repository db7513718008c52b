"""Settings of a run: `Tuning`, checked when made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real

from .errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How memory is injected. Every field is checked when the object is made (rule R15).

    Attributes:
        memory_token_budget: ceiling, in tokens, on the whole injected block. None (the default) sets no ceiling: the
            item limits alone apply.
        memory_decay_half_life_days: age, in days, at which a memory's relevance counts half. None (the default) turns
            decay off. It applies only under a budget.
        token_counter: a function from text to its number of tokens. None is the built-in estimate.
        recall_timeout_seconds: longest wait for the embedder, and for the database, before the run goes on with what
            could be read.

    Raises:
        ConfigError: a value is out of range; the message names the field and the value.

    >>> Tuning(memory_token_budget=1500).memory_token_budget
    1500
    """

    memory_token_budget: int | None = None
    memory_decay_half_life_days: float | None = None
    token_counter: Callable[[str], int] | None = None
    recall_timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        budget = self.memory_token_budget
        if budget is not None:
            if isinstance(budget, bool) or not isinstance(budget, Integral) or budget < 1:
                raise ConfigError.of("memory_token_budget", "a positive int or None", budget)
            object.__setattr__(self, "memory_token_budget", int(budget))
        if self.memory_decay_half_life_days is not None:
            self._check_positive("memory_decay_half_life_days", "a positive finite number or None")
        if self.token_counter is not None and not callable(self.token_counter):
            raise ConfigError.of("token_counter", "a function from str to int, or None", self.token_counter)
        self._check_positive("recall_timeout_seconds", "a positive finite number")

    def _check_positive(self, field: str, expected: str) -> None:
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ConfigError.of(field, expected, value)
        try:
            number = float(value)
        except OverflowError:
            raise ConfigError.of(field, expected, value) from None
        if not math.isfinite(number) or number <= 0:
            raise ConfigError.of(field, expected, value)
        object.__setattr__(self, field, number)
