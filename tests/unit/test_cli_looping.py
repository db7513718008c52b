"""The event loop of the chat, which goes on while the main thread waits."""

from __future__ import annotations

import _thread
import asyncio
import threading
from typing import NoReturn

import pytest

from loomflow.cli.looping import LoopThread

PATIENCE = 30.0


def test_what_a_coroutine_returns_or_raises_comes_back() -> None:
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    async def fail() -> NoReturn:
        raise ValueError("no")

    with LoopThread() as loop:
        assert loop.run(add(1, 2)) == 3
        with pytest.raises(ValueError, match="no"):
            loop.run(fail())
        assert loop.run(add(3, 4)) == 7


def test_what_was_begun_goes_on_between_calls_and_is_cancelled_at_the_end() -> None:
    went_on, ended = threading.Event(), threading.Event()
    tasks: list[asyncio.Task[None]] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0.01)
            went_on.set()
            await asyncio.sleep(PATIENCE)
        finally:
            ended.set()

    async def begin() -> None:
        tasks.append(asyncio.create_task(work()))

    with LoopThread() as loop:
        loop.run(begin())
        assert went_on.wait(PATIENCE)
    assert ended.is_set()


def test_ctrl_c_cancels_and_waits_for_the_end(interruptible: None) -> None:
    steps: list[str] = []

    async def work() -> None:
        _thread.interrupt_main()
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            steps.append("tidied up")
            raise

    async def after() -> str:
        return "still there"

    with LoopThread() as loop:
        for _ in range(20):
            with pytest.raises(KeyboardInterrupt):
                loop.run(work())
            assert steps == ["tidied up"]
            steps.clear()
        assert loop.run(after()) == "still there"
