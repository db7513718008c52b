"""Learning in the background: no run waits for it, and what it does not get done stays in the queue."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from loomflow.errors import ModelError, StoreError

logger = logging.getLogger("loomflow")

CLOSE_SECONDS = 10.0
"""So long closing waits for what is still in the queue; the rest is left for the next start."""

PAUSE_SECONDS = 0.25
"""So long it waits before it begins: a program that ends right after a run has begun nothing that it must break off."""

EXIT_SECONDS = 5.0
"""So long a program that used `run_sync` waits at its end for what is being learned; the rest is left as above."""

STOP_SECONDS = 1.0

Drain = Callable[[], Coroutine[Any, Any, Any]]


class Background:
    """Drains a queue in the background, one drain at a time.

    Args:
        drain: does what is due, and ends.
    """

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self._guard = threading.Lock()
        self._is_wanted = False
        self._worker: object | None = None  # who is at it
        self._task: asyncio.Task[None] | None = None
        self._hurry: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], None] | None = None  # ends the thread
        self._warned: set[str] = set()
        self._waits_at_exit = False

    def begin(self) -> None:
        """See that what is in the queue is done, by a task of the running event loop."""
        worker = self._claim()
        if worker is not None:
            self._hurry = asyncio.Event()
            work = self._work(worker)  # in no run's context: what is read must not count as part of one
            self._task = asyncio.get_running_loop().create_task(work, name="loomflow-distill", context=Context())

    def begin_in_thread(self) -> None:
        """See that what is in the queue is done, by a thread: for code whose event loops end with each run.

        A program that ends waits `EXIT_SECONDS` for it at most; then it gives back what it had taken.
        """
        self._wait_at_exit()
        worker = self._claim()
        if worker is not None:
            self._task = None
            self._thread = threading.Thread(
                target=self._work_in_thread, args=(worker,), name="loomflow-distill", daemon=True
            )
            self._thread.start()

    async def aclose(self) -> None:
        """Do what is in the queue, for `CLOSE_SECONDS` at most, and stop."""
        self.begin()
        task, thread = self._task, self._thread
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            assert self._hurry is not None
            self._hurry.set()
            try:
                await asyncio.wait([task], timeout=CLOSE_SECONDS)
            finally:  # also where closing is cancelled: what was taken is given back before the memory is closed
                task.cancel()
                await asyncio.wait([task])
        if thread is not None:
            await asyncio.to_thread(thread.join, CLOSE_SECONDS)
            if thread.is_alive() and self._stop is not None:
                await asyncio.to_thread(self._stop)

    def _claim(self) -> object | None:
        """Who the caller is, if it is to do the work; if not, who is at it will look again."""
        with self._guard:
            self._is_wanted = True
            if self._worker is not None and not self._was_left():
                return None
            self._worker = object()
            return self._worker

    def _was_left(self) -> bool:
        """Whether the task that was at it will not go on: it never began, or its event loop was closed over it."""
        return self._task is not None and (self._task.done() or self._task.get_loop().is_closed())

    def _goes_on(self, worker: object) -> bool:
        with self._guard:
            if self._worker is not worker or not self._is_wanted:
                self._give_up(worker)
                return False
            self._is_wanted = False
            return True

    def _give_up(self, worker: object) -> None:
        if self._worker is worker:  # else another is at it by now
            self._worker = None

    async def _work(self, worker: object) -> None:
        try:
            await self._pause()
            while self._goes_on(worker):
                await self._drain_once()
        finally:
            with self._guard:
                self._give_up(worker)

    async def _drain_once(self) -> None:
        try:
            await self._drain()
        except (ModelError, StoreError) as error:
            self._warn_once(f"nothing is learned for now, the queue is kept: {error}")
        except Exception:
            logger.exception("learning in the background failed; the queue is kept")

    async def _pause(self) -> None:
        hurry = self._hurry if self._task is asyncio.current_task() else None
        waiting = asyncio.Event() if hurry is None else hurry
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_SECONDS):
                await waiting.wait()

    def _work_in_thread(self, worker: object) -> None:
        async def watched() -> None:
            loop = asyncio.get_running_loop()
            task = asyncio.ensure_future(self._work(worker))

            def stop() -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                    loop.call_soon_threadsafe(task.cancel)
                if self._thread is not None:
                    self._thread.join(STOP_SECONDS)

            self._stop = stop
            atexit.register(stop)
            try:
                await asyncio.wait([task])
            finally:
                atexit.unregister(stop)

        try:
            asyncio.run(watched())
        except RuntimeError as error:  # the interpreter is ending: no thread can be started any more
            logger.debug("learning in the background ended with the program: %s", error)

    def _wait_at_exit(self) -> None:
        """See that the program waits a while before its threads are stopped: after that, no work can be begun."""
        register: Callable[[Callable[[], None]], None] | None = getattr(threading, "_register_atexit", None)
        if register is None or self._waits_at_exit:
            return
        with contextlib.suppress(RuntimeError):  # the program is ending already
            register(self._finish)
            self._waits_at_exit = True

    def _finish(self) -> None:
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        thread.join(EXIT_SECONDS)
        if thread.is_alive() and self._stop is not None:
            self._stop()

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(message)
