"""`loomflow memory distill`: learns facts from the runs that are still in the queue.

It may be stopped at any moment: what was learned is stored, and what was under way goes back to the queue.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

import loomflow
from loomflow.errors import ModelError
from loomflow.records import Queue

from .display import counted, one_line, say, say_json, tell
from .failures import EXPECTED, FAILED, INTERRUPTED, misuse, redacted
from .memory_commands import chosen_users
from .opening import DEFAULT_MODEL, ECHO, choose_model, existing_memory
from .options import Anonymous, AsJson, BaseUrl, EmbedderName, MemoryUrl, OneUser
from .progress import progress_bar
from .refusals import LogFilter, Refusals
from .stopping import Stopping

if TYPE_CHECKING:
    from loomflow.distill import Distilled
    from loomflow.memory import Memory


def distill(
    memory: MemoryUrl,
    user: OneUser = None,
    anonymous: Anonymous = False,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="The model that reads: gpt-4.1-mini, claude-sonnet-4-5, provider:name. "
            f"If omitted: {DEFAULT_MODEL}, which needs OPENAI_API_KEY.",
        ),
    ] = None,
    base_url: BaseUrl = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="How many runs at most.")] = None,
    retry_parked: Annotated[
        bool, typer.Option("--retry-parked", help="Also those that were given up after several attempts.")
    ] = False,
    block: Annotated[
        list[str] | None,
        typer.Option("--block", metavar="NAME", help="A working block that lines may be added to; several times."),
    ] = None,
    embedder: EmbedderName = "default",
    as_json: AsJson = False,
) -> None:
    """Learn facts from the runs that are still in the queue, of everyone or of one user.

    Agents do so by themselves after each run; this is for what they left, and for episodes that were imported. It may
    be stopped with Ctrl-C at any moment: what was learned is stored, and the same command goes on with the rest.
    """
    if model == ECHO:
        raise misuse(f"--model {ECHO} cannot read: give the name of a model that can")
    chosen, _ = choose_model(model, base_url)
    scopes = chosen_users(user, anonymous)
    settings = {"model": chosen, "base_url": base_url, "tuning": loomflow.Tuning(distill_blocks=tuple(block or ()))}
    scope = {} if scopes is None else {"user_id": scopes[0]}
    opened = existing_memory(memory, embedder)
    work = _Distilling(opened, settings, scope, limit=limit, retry_parked=retry_parked)
    try:
        with Refusals(), work.failures:
            Stopping().run(work.run)
    except asyncio.CancelledError:
        _tell_stopped(work)
        raise typer.Exit(INTERRUPTED) from None
    except EXPECTED:
        if work.done.runs:
            tell(f"{work.done.runs:,} of {counted(work.total, 'run')} done and stored before it failed")
        raise
    if as_json:
        say_json(_fields(work))
    else:
        _say_done(work)
    if work.done.failed or work.done.parked:
        raise typer.Exit(FAILED)


class _Failures(LogFilter):
    """While it is open, what the library logs about runs that failed is kept back, to be told at the end.

    Attributes:
        again: those that are tried again, by how long after and why.
    """

    def __init__(self) -> None:
        super().__init__()
        self.again: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is told as it is."""
        if record.msg != _library().NOT_LEARNED or not isinstance(record.args, tuple):
            return True
        _, _, following, reason = record.args
        _, is_tried_again, wait = str(following).partition("next in ")
        if is_tried_again:
            self.again[wait, redacted(one_line(str(reason)))] += 1
        return False


@dataclass
class _Distilling:
    """One run of the command, and what has come of it so far.

    Attributes:
        opened, settings, scope, limit, retry_parked: what to work on, with which agent, of whom and how much.
        failures: those that are tried again.
        total: how many runs are to be read.
        before, after: the queue when it began, and now.
        done: what has come of it.
    """

    opened: Memory
    settings: dict[str, Any]
    scope: dict[str, Any]
    limit: int | None
    retry_parked: bool
    failures: _Failures = field(default_factory=_Failures)
    total: int = 0
    before: Queue = field(default_factory=Queue)
    after: Queue = field(default_factory=Queue)
    done: Distilled = field(default_factory=lambda: _library().Distilled())

    async def run(self) -> None:
        """Learn from what is due."""
        try:
            async with self.opened:
                await _library().release_dead(self.opened.store)
                self.before = self.after = await self.opened.store.queue(**self.scope)
                due = self.before.due + (self.before.parked if self.retry_parked else 0)
                self.total = due if self.limit is None else min(due, self.limit)
                if self.total:
                    await self._learn()
                self.after = await self.opened.store.queue(**self.scope)
        except asyncio.CancelledError:
            async with self.opened:  # what was under way has been given back by now
                self.after = await self.opened.store.queue(**self.scope)
            raise

    async def _learn(self) -> None:
        if isinstance(self.settings["model"], loomflow.EchoModel):
            raise ModelError(f"no model to learn with: set OPENAI_API_KEY for {DEFAULT_MODEL}, or give --model")
        async with loomflow.Agent(memory=self.opened, **self.settings) as agent:
            tell(f"learning from {counted(self.total, 'run')} with {self.settings['model']}")
            with progress_bar("learning", self.total) as advance:

                def progress(result: Distilled) -> None:
                    self.done += result
                    advance(1)

                await agent.distill(**self.scope, limit=self.limit, retry_parked=self.retry_parked, progress=progress)


def _library() -> Any:
    """What learns, loaded when the command runs: it is heavy."""
    return importlib.import_module("loomflow.distill")


def _tell_stopped(work: _Distilling) -> None:
    struck = work.before.waiting + work.before.parked - work.after.waiting - work.after.parked
    done = max(struck, work.done.runs)
    if done:
        tell(
            f"stopped: {done:,} of {counted(work.total, 'run')} done and stored; the same command goes on with the rest"
        )
    else:
        tell("stopped before anything was learned; the same command begins again")


def _say_done(work: _Distilling) -> None:
    done, left = work.done, work.after
    if work.total:
        learned = f"{counted(done.facts, 'fact')}, {counted(done.lines, 'line')} in working blocks"
        say(f"learned from {done.runs:,} of {counted(work.total, 'run')}: {learned}; refused: {done.refused:,}")
    elif left.waiting:
        say(
            f"nothing to do now: {counted(left.waiting, 'run')} waiting for a next attempt, or taken by another program"
        )
    else:
        say("nothing to do: no run is waiting")
    for (wait, reason), number in work.failures.again.most_common():
        tell(f"{counted(number, 'run')} failed, next attempt in {wait}: {reason}")
    if left.due:
        tell(f"{left.due:,} more can be learned from now; the same command goes on")
    elif left.next_at is not None:
        tell(f"the same command goes on at {left.next_at:%Y-%m-%d %H:%M:%S} UTC or later")
    if left.parked:
        tell(f"{counted(left.parked, 'run')} given up after several attempts; --retry-parked tries again:")
        for reason, number in left.errors:
            tell(f"- {number:,}: {redacted(reason)}")


def _fields(work: _Distilling) -> dict[str, Any]:
    """All that came of it, for JSON."""
    again = work.failures.again.most_common()
    left = asdict(work.after) | {
        "errors": [{"error": redacted(error), "runs": runs} for error, runs in work.after.errors]
    }
    failures = [{"error": reason, "next_in": wait, "runs": runs} for (wait, reason), runs in again]
    return asdict(work.done) | {"failures": failures, "queue": left}
