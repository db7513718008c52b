"""Spans for OpenTelemetry: recall, pack, distill and store, with counts and tokens.

They carry no text of a memory and no ids, unless `Tuning(trace_memory_text=True)` lets the block and the question in.
Nothing is imported here: where a program has not loaded OpenTelemetry, a span costs nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

NAME = "loomflow"

Method = TypeVar("Method", bound=Callable[..., Any])


class Span:
    """A span under way; without OpenTelemetry it notes nothing."""

    def __init__(self, real: Any = None) -> None:
        self._real = real

    def note(self, **attributes: str | int | float | bool | None) -> None:
        """Note attributes, as `loomflow.NAME`; those that are None are left out."""
        if self._real is not None:
            for name, value in attributes.items():
                if value is not None:
                    self._real.set_attribute(f"{NAME}.{name}", value)


NO_SPAN = Span()


@contextmanager
def span(name: str, **attributes: str | int | float | bool | None) -> Generator[Span]:
    """A span `loomflow.NAME` around what is done in it; an error that leaves it is noted in it."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield NO_SPAN
        return
    with trace.get_tracer(NAME).start_as_current_span(f"{NAME}.{name}") as real:
        current = Span(real)
        current.note(**attributes)
        yield current


def traced(method: Method) -> Method:
    """A method of a store with a span `loomflow.store` around each call, which names it."""
    operation = method.__name__

    @functools.wraps(method)
    async def within(*args: Any, **kwargs: Any) -> Any:
        with span("store", operation=operation):
            return await method(*args, **kwargs)

    return cast("Method", within)
