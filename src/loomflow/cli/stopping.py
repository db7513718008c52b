"""Work that Ctrl-C and SIGTERM stop in good order: what is under way is finished, if that does not take long."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from .display import tell

GRACE_SECONDS = 3.0
"""So long a stopped program goes on to finish what is under way."""

USUAL: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""The signals that stop, with what they do where nobody has said otherwise."""

T = TypeVar("T")


class Stopping:
    """Runs work that can be stopped.

    The first signal cancels the work; within `finishing` only where it calls `point`, or after `GRACE_SECONDS`. The
    second cancels it at once, and any after it act as usual. A signal that was ignored when the program was started
    stays ignored.
    """

    def __init__(self) -> None:
        self._signals = 0
        self._work: asyncio.Task[Any] | None = None
        self._finishing = False
        self._grace: asyncio.TimerHandle | None = None
        self._before: dict[signal.Signals, Any] = {}

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end.

        Raises:
            asyncio.CancelledError: it was stopped.
        """
        with self._listening():
            return asyncio.run(self._watched(work))

    @contextmanager
    def finishing(self) -> Generator[None]:
        """Mark work that is better stopped at its next `point` than anywhere."""
        self._finishing = True
        try:
            yield
        finally:
            self._finishing = False
            if self._grace is not None:
                self._grace.cancel()

    def point(self) -> None:
        """Cancel the work here if it is to stop: the next thing that it waits for raises."""
        if self._signals:
            self._cancel()

    async def _watched(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._signals:
            raise asyncio.CancelledError
        self._work = asyncio.current_task()
        try:
            return await work()
        finally:
            self._work = None

    @contextmanager
    def _listening(self) -> Generator[None]:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: usual for number, usual in USUAL.items() if signal.getsignal(number) == usual}
        for number in self._before:
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            self._unlisten()

    def _unlisten(self) -> None:
        for number, action in self._before.items():
            signal.signal(number, action)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Python calls this in the main thread, between any two steps of what runs there."""
        self._signals += 1
        if self._signals > 1:
            self._unlisten()
        if self._work is not None:
            self._work.get_loop().call_soon_threadsafe(self._act)

    def _act(self) -> None:
        if self._signals > 1 or not self._finishing:
            self._cancel()
        elif self._grace is None:
            tell("stopping after what is under way; Ctrl-C again stops at once")
            self._grace = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._cancel)

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()
