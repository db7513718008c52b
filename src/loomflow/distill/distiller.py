"""Learning from the runs in the queue: a model reads each, the guards filter, and what passes is written.

A run is claimed before it is read and struck off the queue in the transaction that writes what was learned, so nothing
is learned twice and nothing is lost, whenever the program stops.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, fields
from datetime import timedelta
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Protocol, cast

from loomflow.checks import check_limit
from loomflow.embedding import embed_items
from loomflow.errors import ConfigError, ModelError, StoreError
from loomflow.memory import Memory
from loomflow.ports import Store
from loomflow.records import Undistilled
from loomflow.tracing import span
from loomflow.transactions import Rules

from .claims import is_dead, new_claim
from .learning import fact_of, learning
from .statements import BlockAddition, Reading, Said

if TYPE_CHECKING:
    from datetime import datetime

logger = logging.getLogger("loomflow")

AT_ONCE = 4
"""So many runs are read at a time."""

READ_SECONDS = 60.0
"""Longest wait for a model."""

CLAIM_SECONDS = 180.0
"""After this time, a run that was claimed and not finished may be taken by others."""

MAX_ATTEMPTS = 5
"""After so many failures a run is parked."""

BACK_OFF_SECONDS = 30.0
"""Wait after the first failure; four times as long after each further one."""

MAX_ERROR_CHARS = 300

NO_RESULTS = (
    "Final result processed.",
    "Output tool not used - a final result was already processed.",
    "Tool not executed - a final result was already processed.",
)
"""What pydantic-ai notes as the result of a tool that was given the answer, or was not run."""

REFUSING = (401, 404)
"""Statuses with which a server says that the key or the name of the model is wrong, whatever the run."""

NOT_LEARNED = "nothing could be learned from episode %s (attempt %d, %s): %s"


class Reader(Protocol):
    """What reads a turn; `loomflow.distill.extraction.Extractor` is one."""

    async def read(self, said: Said, at: datetime) -> Reading:
        """What the turn says."""
        ...


@dataclass(frozen=True, slots=True)
class Distilled:
    """What has come of learning.

    Attributes:
        runs: how many were read and struck off the queue.
        facts: statements that were written: new facts, confirmations, corrections.
        lines: added to working blocks.
        refused: statements and lines that the guards did not let in.
        failed: attempts that failed and will be made again.
        parked: runs given up until they are asked for.
    """

    runs: int = 0
    facts: int = 0
    lines: int = 0
    refused: int = 0
    failed: int = 0
    parked: int = 0

    def __add__(self, other: Distilled) -> Distilled:
        return Distilled(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


Progress = Callable[[Distilled], None]


class Distiller:
    """Learns from the runs in the queue of a memory.

    Args:
        memory: where the queue is, and what is learned goes.
        make_reader: makes what reads the turns, when the first is to be read.
        blocks: the working blocks that may be added to.
    """

    def __init__(self, memory: Memory, make_reader: Callable[[], Reader], blocks: tuple[str, ...] = ()) -> None:
        self._memory = memory
        self._make_reader = make_reader
        self._reader: Reader | None = None
        self._blocks = blocks

    async def drain(
        self,
        *,
        user_id: str | EllipsisType | None = ...,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Distilled:
        """Learn from everything that is due, of one user or of all.

        It may be cancelled at any moment: what is under way is given back to the queue.

        Args:
            user_id: whose runs; everyone's if not given.
            limit: how many runs at most.
            progress: called after each run with what came of it.

        Raises:
            ConfigError: the limit is no positive int.
            ModelError: the model cannot be built, or is refused by its server; what was not done stays in the queue.
            StoreError: the database cannot be read or written.
        """
        store = self._memory.store
        await release_dead(store)
        done, left = Distilled(), None if limit is None else check_limit("limit", limit)
        while left is None or left > 0:
            claim = new_claim()
            size = AT_ONCE if left is None else min(AT_ONCE, left)
            try:
                taken = await store.claim_undistilled(claim, CLAIM_SECONDS, size, user_id=user_id)
                for result in await self._learn_all(taken, claim, progress):
                    done += result
            except BaseException:
                await _even_if_cancelled(store.release_undistilled(claim))
                raise
            if not taken:
                break
            left = None if left is None else left - len(taken)
        return done

    async def aclose(self) -> None:
        """Close what the reader holds open in the running event loop."""
        if self._reader is not None and hasattr(self._reader, "aclose"):
            await cast("Any", self._reader).aclose()

    async def _learn_all(self, taken: list[Undistilled], claim: str, progress: Progress | None) -> list[Distilled]:
        if not taken:
            return []
        if self._reader is None:
            self._reader = await asyncio.to_thread(self._load)
        reader, results = self._reader, list[Distilled]()

        async def learn(run: Undistilled) -> None:
            results.append(await self._learn(reader, run, claim))
            if progress is not None:
                progress(results[-1])

        tasks = [asyncio.ensure_future(learn(run)) for run in taken]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return results

    def _load(self) -> Reader:
        """Make the reader, with all that is needed to learn: the event loop must not wait for their imports."""
        _guards()
        getattr(self._memory.embedder, "name", None)
        return self._make_reader()

    async def _learn(self, reader: Reader, run: Undistilled, claim: str) -> Distilled:
        try:
            if run.attempts > MAX_ATTEMPTS:
                raise ProcessLookupError("the program ended while it was being read, each time")
            with span("distill", attempt=run.attempts) as learning:
                done = await self._read_and_write(reader, run, claim)
                learning.note(facts=done.facts, lines=done.lines, refused=done.refused)
            return done
        except (ModelError, StoreError):
            raise
        except Exception as error:
            refusal = _refusal(error)
            if refusal is not None:
                raise ModelError(refusal) from error
            return await self._note_failure(run, claim, error)

    async def _read_and_write(self, reader: Reader, run: Undistilled, claim: str) -> Distilled:
        memory, episode = self._memory, run.episode
        assert episode.id is not None
        assert episode.occurred_at is not None
        said = said_in(run)
        reading = Reading()
        if _guards().worth_reading(said):
            async with asyncio.timeout(READ_SECONDS):
                reading = await reader.read(said, episode.occurred_at)
        admission = _guards().admitted(reading, said, blocks=self._blocks)
        for refused in admission.refused:
            logger.debug("not learned from episode %s (%s)", episode.id, refused.reason)
        facts = [fact_of(statement, episode) for statement in admission.facts]
        embedded = await embed_items(memory.embedder, facts)
        vectors = {fact.text: vector for fact, vector in zip(facts, embedded, strict=True)}
        rules = Rules(memory.store.clock(), memory.is_single_valued)
        written = await memory.store.finish_undistilled(
            run.user_id, episode.id, claim, lambda: learning(admission.facts, episode, rules), vectors
        )
        if written is None:
            return Distilled()  # it took too long and another has done it, or it was forgotten meanwhile
        lines = await self._add_lines(run, admission.blocks)
        await memory.facts.embed_missing(run.user_id, [fact for fact in written if fact.text not in vectors])
        return Distilled(runs=1, facts=len(written), lines=lines, refused=len(admission.refused))

    async def _add_lines(self, run: Undistilled, additions: tuple[BlockAddition, ...]) -> int:
        added = 0
        for name in dict.fromkeys(addition.block for addition in additions):
            lines = [addition for addition in additions if addition.block == name]
            try:
                added += await self._memory.add_lines(name, [line.text for line in lines], user_id=run.user_id)
            except ConfigError as error:
                logger.warning("block %r was not added to: %s", name, error)
        return added

    async def _note_failure(self, run: Undistilled, claim: str, error: Exception) -> Distilled:
        store = self._memory.store
        assert run.episode.id is not None
        reason = "timed out" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        shown = " ".join(reason.split())[:MAX_ERROR_CHARS]
        is_over = run.attempts >= MAX_ATTEMPTS
        wait = timedelta(seconds=BACK_OFF_SECONDS * 4 ** (run.attempts - 1))
        due_at = None if is_over else store.clock() + wait
        await store.postpone_undistilled(run.user_id, run.episode.id, claim, shown, due_at)
        logger.warning(
            NOT_LEARNED,
            run.episode.id, run.attempts, "given up" if is_over else f"next in {wait}", shown,
        )  # fmt: skip
        return Distilled(parked=1) if is_over else Distilled(failed=1)


async def release_dead(store: Store) -> None:
    """Give back to the queue what was claimed by processes of this machine that are no more."""
    for claim in await store.undistilled_claims():
        if is_dead(claim):
            await store.release_undistilled(claim, was_tried=True)


def _refusal(error: Exception) -> str | None:
    """Why no run can be read, in words without secrets; None if the error may be one of this run only."""
    name, status = getattr(error, "model_name", ""), getattr(error, "status_code", None)
    if status in REFUSING:
        return f"the server of the model {name!r} answered with status {status}: see to its name and its key"
    if getattr(error, "phase", None) == "connect":
        return f"the server of the model {name!r} cannot be reached"
    return None


def _guards() -> Any:
    """The filter, loaded with the first turn: its tables take a while."""
    return importlib.import_module("loomflow.distill.guards")


def said_in(run: Undistilled) -> Said:
    """What was said in a run, without what tools read from the memory itself."""
    tools: tuple[str, ...] = ()
    if run.messages:
        texts = importlib.import_module("loomflow.context.sessions").tool_texts(run.messages)
        tools = tuple(text for text in texts if text not in NO_RESULTS)
    return Said(run.episode.input, run.episode.output, tools)


async def _even_if_cancelled(work: Coroutine[Any, Any, None]) -> None:
    """Do a last bit of work, also where the task was cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=5)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=5)
    if task.done() and not task.cancelled() and task.exception() is not None:
        logger.debug("a claim could not be given back; it runs out by itself", exc_info=task.exception())
