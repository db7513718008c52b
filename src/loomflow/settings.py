"""Settings of a run: `Tuning`, checked when made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, cast

from .checks import check_id
from .errors import ConfigError

MAX_FACTS = 5
MAX_EPISODES = 3
FILL_BUDGET = 1500
"""The ceiling that applies in mode "fill" where none is set."""

AUTO: Literal["auto"] = "auto"
"""Stands for a share of the model's window."""

MEMORY_TOOLS = ("remember", "correct", "forget", "search_memory", "edit_block")
"""The tools with which a model may use its memory, where it is given them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How memory is injected. Every field is checked when the object is made (rule R15).

    Attributes:
        memory_token_budget: ceiling, in tokens, on the whole injected block. None (the default) sets no ceiling: the
            item limits alone apply.
        memory_decay_half_life_days: age, in days, at which a memory's relevance counts half. None (the default) turns
            decay off. It applies only under a budget.
        memory_mode: "top" (the default) injects the best `memory_max_facts` facts and `memory_max_episodes` episodes.
            "fill" uses the budget to the full with the passages and facts that fit the question best, in the order of
            time; without a budget, `FILL_BUDGET` tokens.
        memory_max_facts, memory_max_episodes: how many of each reach the block in mode "top".
        memory_min_relevance: from 0 to 1; what matches the question less is noise and stays out. See
            `loomflow.pipeline.rank.match` for what is measured; 0 lets everything in.
        memory_placement: where memory stands in a request. "system" (the default): all of it under the instructions.
            "tail": working blocks under the instructions, what was recalled right before the prompt, so that a
            provider's cache of instructions, blocks and history stays warm.
        history_token_budget: for earlier turns of the session: as many of the latest whole turns as fit; older ones may
            be recalled like those of other sessions. "auto" (the default): half of the model's window. None: all.
        auto_compact_at_tokens: a request that would be larger is compacted: its oldest part is replaced by a summary,
            on the wire only. "auto" (the default): 75 % of the model's window. None: never.
        tool_result_max_tokens: a longer result of a tool is shortened as it goes to the model. None: never.
        tool_result_paging: whether the model gets a tool with which to read the rest of a shortened result.
        tool_definitions_token_budget: what definitions of tools may cost; the tools beyond it are found by search.
            "auto" (the default): a quarter of the model's window. None: all are shown.
        keep_tools: names of tools whose definitions are always shown.
        trace_memory_text: whether the spans of OpenTelemetry carry the memory block and the question. By default they
            have counts and tokens only.
        context_window_tokens: what the model can take, where pydantic-ai does not know it or is to be overruled. Of an
            unknown window, 32,000 is reckoned with, and no request is refused.
        distill: whether facts are learned from what is said, after each run. None (the default): with real models, not
            with `EchoModel` and pydantic-ai's test models. See `loomflow.distill`.
        distill_model: the model that reads what was said: a name or a model, as the agent takes it; a cheaper one will
            do. None is the agent's own.
        distill_blocks: names of working blocks that lines may be added to when something is learned. None is added to
            by default.
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
    memory_mode: Literal["top", "fill"] = "top"
    memory_max_facts: int = MAX_FACTS
    memory_max_episodes: int = MAX_EPISODES
    memory_min_relevance: float = 0.05
    memory_placement: Literal["system", "tail"] = "system"
    history_token_budget: int | Literal["auto"] | None = AUTO
    auto_compact_at_tokens: int | Literal["auto"] | None = AUTO
    tool_result_max_tokens: int | None = 4_000
    tool_result_paging: bool = False
    tool_definitions_token_budget: int | Literal["auto"] | None = AUTO
    keep_tools: tuple[str, ...] = ()
    context_window_tokens: int | None = None
    trace_memory_text: bool = False
    distill: bool | None = None
    distill_model: Any = None
    distill_blocks: tuple[str, ...] = ()
    token_counter: Callable[[str], int] | None = None
    recall_timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        if self.memory_token_budget is not None:
            self._check_count("memory_token_budget", 1, "a positive int or None")
        if self.memory_decay_half_life_days is not None:
            self._check_positive("memory_decay_half_life_days", "a positive finite number or None")
        if self.memory_mode not in {"top", "fill"}:
            raise ConfigError.of("memory_mode", '"top" or "fill"', self.memory_mode)
        self._check_count("memory_max_facts", 0, "an int from 0")
        self._check_count("memory_max_episodes", 0, "an int from 0")
        self._check_share("memory_min_relevance")
        self._check_learning()
        self._check_context()
        if self.token_counter is not None and not callable(self.token_counter):
            raise ConfigError.of("token_counter", "a function from str to int, or None", self.token_counter)
        self._check_positive("recall_timeout_seconds", "a positive finite number")

    def _check_learning(self) -> None:
        if self.distill is not None and not isinstance(self.distill, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError.of("distill", "True, False or None", self.distill)
        self._check_names("distill_blocks")
        reader: object = self.distill_model
        is_name = isinstance(reader, str) and bool(reader.strip())
        if reader is not None and not is_name and type(reader).__module__ == "builtins":
            raise ConfigError.of("distill_model", "the name of a model, a model, or None", reader)

    def _check_context(self) -> None:
        self._check_names("keep_tools")
        if self.memory_placement not in {"system", "tail"}:
            raise ConfigError.of("memory_placement", '"system" or "tail"', self.memory_placement)
        for field in ("history_token_budget", "auto_compact_at_tokens", "tool_definitions_token_budget"):
            value = getattr(self, field)
            if value is not None and value != "auto":
                self._check_count(field, 1, 'a positive int, "auto" or None')
        for field in ("tool_result_max_tokens", "context_window_tokens"):
            if getattr(self, field) is not None:
                self._check_count(field, 1, "a positive int or None")
        for field in ("tool_result_paging", "trace_memory_text"):
            if not isinstance(getattr(self, field), bool):
                raise ConfigError.of(field, "True or False", getattr(self, field))

    def _check_names(self, field: str) -> None:
        value = getattr(self, field)
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ConfigError.of(field, "a list of names", value)
        object.__setattr__(self, field, tuple(check_id(field, name) for name in cast("Iterable[object]", value)))

    def _check_count(self, field: str, least: int, expected: str) -> None:
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ConfigError.of(field, expected, value)
        object.__setattr__(self, field, int(value))

    def _check_share(self, field: str) -> None:
        value = getattr(self, field)
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
            raise ConfigError.of(field, "a number from 0 to 1", value)
        object.__setattr__(self, field, float(value))

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
