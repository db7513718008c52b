"""A run under way and its result: the history before it, the memory block, the episode or the interruption after it."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import AsyncIterator, Collection, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from .account import ContextAccount
from .checks import scrub
from .embedding import embed_items
from .errors import ConfigError, StoreError
from .items import Episode
from .locks import Hold
from .memory import Memory
from .receipt import Injection, MemoryAction
from .records import NewEpisode, OpenRun
from .settings import Tuning

if TYPE_CHECKING:
    from .context.sessions import History

logger = logging.getLogger("loomflow")

ENGINE = "loomflow.context.engine"
MEMORY_FAILURES = (StoreError, TimeoutError)
READ_TURNS = 64
"""So many turns of a session are read at first; more if they fit the budget of the history."""

SETTLE_SECONDS = 2.0
"""How long a run that is over waits for its last note to be stored, which goes on without it."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run gave.

    Attributes:
        output: the answer: text, or the agent's `output_type`.
        user_id, session_id, run_id: whose run, in which conversation; `run_id` is also the id of its episode.
        usage: tokens and requests, as pydantic-ai counts them.
        injection: the memory block that the model saw, with its receipt.
        messages: the messages of this run, as pydantic-ai models them; the block is not among them.
        context: how the tokens of the last request were spent.
    """

    output: Any
    user_id: str | None
    session_id: str
    run_id: str
    usage: Any
    injection: Injection
    messages: list[Any] = field(repr=False)
    context: ContextAccount = field(default_factory=ContextAccount)


@dataclass(slots=True)
class Run:
    """One run under way.

    Attributes:
        memory, tuning, agent_name: whose run.
        hold: the lock of its session.
        text, is_text: the text of its prompt, and whether that is all of it.
        user_id, session_id, run_id, metadata: what its episode will carry.
        in_history, resumed: what the session gave, see `loomflow.context.sessions.History`.
        recalled: the memory block, once it is made.
        arguments: for pydantic-ai.
        captured: the messages of the model call, as far as it got.
        distill: whether facts are to be learned from it.
        limits: of its requests, see `loomflow.context.limits`; None until the model is built.
        plan: what its requests are made of, see `loomflow.context.requests`; None until memory is recalled.
        problems: what failed around the run.
        actions: what the model did with its memory tools.
        is_finished: whether there is nothing more to store.
    """

    memory: Memory
    tuning: Tuning
    agent_name: str | None
    hold: Hold
    text: str
    is_text: bool
    user_id: str | None
    session_id: str
    run_id: str
    metadata: dict[str, Any]
    distill: bool = False
    limits: Any = None
    plan: Any = None
    in_history: Collection[str] | None = None
    resumed: list[Any] = field(default_factory=list[Any])
    recalled: Injection | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    captured: list[Any] | None = None
    problems: list[str] = field(default_factory=list[str])
    actions: list[MemoryAction] = field(default_factory=list[MemoryAction])
    is_finished: bool = False

    async def begin(self) -> None:
        """Read the session and note that a run has begun; without a history where that fails (rule R16)."""
        store = self.memory.store
        history: History | None = None
        timeout = self.tuning.recall_timeout_seconds
        try:
            async with asyncio.timeout(timeout):
                text = self.text if self.is_text else None
                history = await history_of(self.memory, self.user_id, self.session_id, text, self.limits)
        except MEMORY_FAILURES as error:
            self._note("the session could not be read", error)
        opened = OpenRun(self.run_id, self.session_id, self.text, store.clock(), is_text=self.is_text)
        try:
            async with asyncio.timeout(timeout):
                await store.begin_run(self.user_id, opened)
        except MEMORY_FAILURES as error:
            self._note("the run could not be noted before it began", error)
        if history is not None:
            self.in_history, self.resumed = history.episode_ids, history.resumed
        messages = [] if history is None else [*history.messages, *history.resumed]
        self.arguments = {"message_history": messages, "run_id": self.run_id}

    def _note(self, what: str, error: Exception) -> None:
        """Note that memory failed; the run goes on without (rule R16)."""
        self.problems.append(f"{what}: {'timed out' if isinstance(error, TimeoutError) else error}")
        logger.warning("%s; the run goes on without", self.problems[-1])

    async def recall(self) -> None:
        """Make the memory block of this run."""
        self.recalled = await self.memory.inject(
            self.text,
            user_id=self.user_id,
            session_id=self.session_id,
            tuning=self.tuning,
            in_history=self.in_history,
        )

    def model(self, built: Any) -> Any:
        """The model of this run: puts its memory into each request, and keeps it within its limits."""
        injection, is_tail = self.injection, self.tuning.memory_placement == "tail"
        self.plan = engine().RequestPlan(
            run_id=self._prompted_by,
            system=injection.pinned if is_tail else injection.text,
            tail=injection.recalled if is_tail else "",
            pinned_tokens=injection.pinned_tokens,
            limits=self.limits,
            can_page=self._can_page,
        )
        return engine().RunModel(built, self.plan)

    @property
    def _prompted_by(self) -> str:
        """The id of the run whose messages begin with the prompt: this one, or the first try that it goes on with."""
        return getattr(self.resumed[0], "run_id", None) or self.run_id if self.resumed else self.run_id

    @property
    def _can_page(self) -> bool:
        return self.tuning.tool_result_paging and self.limits.result is not None

    def toolsets(self, memory_tools: Sequence[str]) -> list[Any]:
        """The tools that only this run has."""
        found = [self.memory_toolset(memory_tools)] if memory_tools and self.text.strip() else []
        if self._can_page:
            history: list[Any] = self.arguments["message_history"]
            found.append(
                engine().paging_toolset(
                    lambda: [*history, *(self.captured or ())], self.limits.result, self.limits.count
                )
            )
        return found

    def memory_toolset(self, names: Sequence[str]) -> Any:
        """The tools with which the model may use the memory of this run's user."""
        tools = importlib.import_module("loomflow.memory_tools")
        said = Episode(
            self.text, "", session_id=self.session_id, user_id=self.user_id, id=self.run_id,
            occurred_at=self.memory.store.clock(),
        )  # fmt: skip
        scope = tools.Scope(self.memory, self.user_id, said, self.tuning.distill_blocks, self.actions)
        return tools.memory_toolset(scope, names)

    @contextmanager
    def inside(self) -> Generator[None]:
        """Mark what is called in the block as part of this run, and keep the messages of the model call begun in it."""
        with self.hold.inside(), engine().capture_run_messages() as messages:
            if self.captured is None:
                self.captured = messages
            yield

    @property
    def injection(self) -> Injection:
        """The block with its receipt, and what failed around it."""
        assert self.recalled is not None
        compacting = () if self.plan is None else self.plan.compaction.problems
        problems = (*self.problems, *self.recalled.problems, *compacting)
        return replace(self.recalled, problems=problems, actions=tuple(self.actions))

    async def finish(self, result: Any) -> RunResult:
        """Store the run as an episode and make its result. A memory that fails does not take the answer away."""
        messages = [*self.resumed, *(m for m in result.new_messages() if m not in self.resumed)]
        recording = asyncio.ensure_future(self._record(_as_text(result.output), sessions().dump(messages)))
        recording.add_done_callback(_retrieve)
        try:
            await asyncio.shield(recording)
        except MEMORY_FAILURES as error:
            self._note("the run could not be remembered", error)
        self.is_finished = True
        return RunResult(
            result.output, self.user_id, self.session_id, self.run_id, result.usage, self.injection, messages,
            self.plan.account,
        )  # fmt: skip

    async def interrupt(self, error: str) -> None:
        """Note that the run ended without an answer."""
        if self.is_finished:
            return
        self.is_finished = True
        kept = sessions().dump_interrupted(self.captured or (), self.run_id, self.resumed)
        try:
            await self.memory.store.interrupt_run(self.user_id, self.session_id, self.run_id, kept, scrub(error))
        except StoreError as failure:
            logger.error("an interrupted run could not be noted: %s", failure)

    async def _record(self, output: str, messages: str) -> None:
        if not self.text.strip() and not output.strip():
            return
        memory = self.memory
        episode = Episode(
            self.text, output, session_id=self.session_id, user_id=self.user_id, id=self.run_id,
            metadata=self.metadata, agent_name=self.agent_name,
        )  # fmt: skip
        timeout = self.tuning.recall_timeout_seconds
        (embedded,) = await embed_items(memory.embedder, [episode], timeout=timeout)
        await memory.store.finish_run(
            self.user_id, self.run_id, NewEpisode(episode, embedded, messages, distill=self.distill)
        )


class AgentStream:
    """A run that is being streamed. Iterate over it for the text as it comes, or over `events()` for everything."""

    def __init__(self, events: Any, run: Run) -> None:
        self._events = events
        self._run = run
        self._result: RunResult | None = None

    @property
    def injection(self) -> Injection:
        """The memory block that the model sees, with its receipt."""
        return self._run.injection

    @property
    def result(self) -> RunResult:
        """The result of the run, once the stream has been read to its end.

        Raises:
            ConfigError: it has not.
        """
        if self._result is None:
            raise ConfigError("the stream has no result yet: read it to its end first")
        return self._result

    async def __aiter__(self) -> AsyncIterator[str]:
        async for event in self.events():
            text = sessions().text_delta(event)
            if text:
                yield text

    async def events(self) -> AsyncIterator[Any]:
        """Every event of pydantic-ai: parts, deltas, tool calls and results."""
        while True:
            with self._run.inside():
                event = await anext(self._events, None)
            if event is None:
                return
            result = getattr(event, "result", None)
            if event.event_kind == "agent_run_result" and result is not None:
                self._result = await self._run.finish(result)
            yield event


async def history_of(memory: Memory, user: str | None, session: str, text: str | None, limits: Any) -> History:
    """The chat history that a run would be sent.

    Args:
        memory: where the session is.
        user, session: whose, and which.
        text: the prompt, None if that is more than text.
        limits: of the request, see `loomflow.context.limits`.
    """
    newest = READ_TURNS
    while True:
        wanted = None if limits.history is None else newest
        turns = await memory.store.turns(user, session, newest=wanted)
        found = sessions().rehydrate(turns, text, limits.history, limits.count, limits.result)
        history = cast("History", found)
        if wanted is None or history.is_cut or len(turns) < wanted:
            return history
        newest *= READ_TURNS


async def settled(work: Coroutine[Any, Any, None]) -> None:
    """Do some work for a run that is over, whatever is cancelled meanwhile; wait for it a moment only."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    await asyncio.wait([task], timeout=SETTLE_SECONDS)


def _retrieve(task: asyncio.Future[Any]) -> None:
    """Take the outcome of a task that may have nobody left to wait for it."""
    if not task.cancelled():
        task.exception()


def _as_text(output: object) -> str:
    if isinstance(output, str):
        return scrub(output)
    return scrub(sessions().as_json(output))


def engine() -> Any:
    """The pydantic-ai side, loaded with the first run, without the notice that it prints to terminals."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    return importlib.import_module(ENGINE)


def sessions() -> Any:
    return importlib.import_module("loomflow.context.sessions")
