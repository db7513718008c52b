"""An event loop in a thread of its own, which goes on while the main thread waits for a line of the terminal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any, Self, TypeVar

T = TypeVar("T")

LISTENING_SECONDS = 0.1
"""How often a waiting main thread listens for Ctrl-C, where the system does not wake it."""


class LoopThread:
    """Runs coroutines for code that is not async; what they leave running goes on between them."""

    def __init__(self) -> None:
        self._begun: Future[asyncio.AbstractEventLoop] = Future()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="loomflow-loop")

    def __enter__(self) -> Self:
        self._thread.start()
        self._begun.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._begun.result().call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end.

        Raises:
            KeyboardInterrupt: Ctrl-C; the coroutine has been cancelled and has ended. A second Ctrl-C does not wait.
            Exception: what the coroutine raises.
        """
        loop = self._begun.result()
        outcome: Future[T] = Future()
        begun: list[asyncio.Task[T]] = []

        def begin() -> None:
            begun.append(loop.create_task(work))
            begun[0].add_done_callback(lambda task: _hand_over(task, outcome))

        def cancel() -> None:
            if begun:
                begun[0].cancel()
            else:
                work.close()
                outcome.cancel()

        try:
            loop.call_soon_threadsafe(begin)
            _wait_for(outcome)
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(cancel)
            _wait_for(outcome)
            raise
        return outcome.result()

    async def _serve(self) -> None:
        self._begun.set_result(asyncio.get_running_loop())
        await self._ending.wait()


def _wait_for(outcome: Future[Any]) -> None:
    while not wait([outcome], LISTENING_SECONDS).done:
        pass


def _hand_over(task: asyncio.Task[T], outcome: Future[T]) -> None:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is None:
        outcome.set_result(task.result())
    else:
        outcome.set_exception(error)
