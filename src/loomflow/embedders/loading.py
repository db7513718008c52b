"""What is heavy is made once, in a thread of its own, for everyone who waits for it."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from loomflow.errors import ConfigError, EmbedderError

RETRY_SECONDS = 60.0
"""How long a failure stands. Without this, each text of a batch would wait for the same download to fail again."""

T = TypeVar("T")


class Loading(Generic[T]):
    """Makes something on first use and keeps it. Callers of any event loop wait for the same making.

    Args:
        make: makes it, or raises.
        what: names it in errors.
    """

    def __init__(self, make: Callable[[], T], what: str) -> None:
        self._make = make
        self._what = what
        self._guard = threading.Lock()
        self._made: Future[T] | None = None
        self._failed_at = 0.0

    async def get(self) -> T:
        """What was made. A caller that gives up waiting stops it for nobody else.

        Raises:
            EmbedderError: it could not be made; a new attempt is made `RETRY_SECONDS` after the failed one.
        """
        with self._guard:
            if self._made is None or self._may_retry(self._made):
                self._made = self._start()
            made = self._made
        try:
            return made.result() if made.done() else await asyncio.wrap_future(made)
        except EmbedderError as error:
            raise EmbedderError(*error.args) from error
        except Exception as error:
            raise EmbedderError(f"{self._what} cannot be loaded: {error}") from error

    def _may_retry(self, made: Future[T]) -> bool:
        failed = made.done() and made.exception() is not None
        return failed and time.monotonic() - self._failed_at >= RETRY_SECONDS

    def _start(self) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # from here on, a caller that is cancelled does not cancel it

        def work() -> None:
            try:
                future.set_result(self._make())
            except BaseException as error:
                self._failed_at = time.monotonic()
                future.set_exception(error)

        threading.Thread(target=work, name=f"loading {self._what}").start()
        return future


def check_noise(noise: float) -> float:
    """Return a cosine that unrelated texts reach (see `loomflow.ports.Embedder`).

    Raises:
        ConfigError: it is not a number from 0 to below 1.
    """
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError.of("noise", "a number from 0 to below 1", noise)
    return float(noise)


def need_package(package: str, extra: str, what: str) -> None:
    """See that a package is installed, without importing it.

    Raises:
        EmbedderError: it is not; says which extra brings it.
    """
    if importlib.util.find_spec(package) is None:
        raise EmbedderError(f'{what} needs the package {package}: pip install "loomflow[{extra}]"')
