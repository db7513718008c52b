"""How large a request may be: the model's window, and the shares of it that the parts of a request get by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loomflow.settings import Tuning
from loomflow.tokens import TokenCounter, counter_or_estimate

UNKNOWN_WINDOW = 32_000
"""What is reckoned with where the window of a model is not known."""

HISTORY_SHARE = 0.5
"""Of the window, for earlier turns of the session."""

COMPACT_SHARE = 0.75
"""Of the window: a larger request is compacted."""

TOOLS_SHARE = 0.25
"""Of the window, for definitions of tools; what goes beyond is deferred."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the requests of one run, in tokens; None where there is none.

    Attributes:
        count: what counts the tokens.
        window: what the model can take, None if that is not known: then nothing is refused.
        history: for earlier turns of the session.
        compact_at: a larger request is compacted.
        result: for one tool result.
        tools: for definitions of tools.
    """

    count: TokenCounter
    window: int | None
    history: int | None
    compact_at: int | None
    result: int | None
    tools: int | None


def limits_of(model: Any, tuning: Tuning) -> Limits:
    """The limits for a pydantic-ai model: those that are set, and shares of its window for the others."""
    window = tuning.context_window_tokens or getattr(model, "context_window", None)
    reckoned = window or UNKNOWN_WINDOW

    def share(value: int | str | None, of: float) -> int | None:
        return int(reckoned * of) if isinstance(value, str) else value

    compact_at = share(tuning.auto_compact_at_tokens, COMPACT_SHARE)
    return Limits(
        count=counter_or_estimate(tuning.token_counter),
        window=window,
        history=share(tuning.history_token_budget, HISTORY_SHARE),
        compact_at=compact_at if compact_at is None or window is None else min(compact_at, window),
        result=tuning.tool_result_max_tokens,
        tools=share(tuning.tool_definitions_token_budget, TOOLS_SHARE),
    )
