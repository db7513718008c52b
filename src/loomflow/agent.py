"""An agent that remembers: one run, from the prompt to the stored episode."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import re
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from .checks import check_id, check_metadata, check_text, check_user_id, scrub
from .embedding import embed_all
from .errors import ConfigError, StoreError
from .items import Episode, new_id
from .locations import without_password
from .locks import Hold, blocking
from .memory import Memory
from .models import EchoModel, parse_model_name
from .ports import NewEpisode, OpenRun
from .receipt import Injection
from .settings import Tuning

if TYPE_CHECKING:
    from .context.sessions import History

logger = logging.getLogger("loomflow")

ENGINE = "loomflow.context.engine"
MEMORY_FAILURES = (StoreError, TimeoutError)
SETTLE_SECONDS = 2.0
"""How long a run that is over waits for its last note to be stored, which goes on without it."""

_KEY = re.compile(r"[!-~]+")
_HTTP = re.compile(r"https?://[^\s/]")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run gave.

    Attributes:
        output: the answer: text, or the agent's `output_type`.
        user_id, session_id, run_id: whose run, in which conversation; `run_id` is also the id of its episode.
        usage: tokens and requests, as pydantic-ai counts them.
        injection: the memory block that the model saw, with its receipt.
        messages: the messages of this run, as pydantic-ai models them; the block is not among them.
    """

    output: Any
    user_id: str | None
    session_id: str
    run_id: str
    usage: Any
    injection: Injection
    messages: list[Any] = field(repr=False)


class Agent:
    """A model with instructions, tools and a memory of each user.

    Args:
        instructions: what the model is told in every run; the memory block stands directly under it.
        model: a name (`gpt-4.1-mini`, `claude-sonnet-4-5`, `gemini-2.5-flash`, any `provider:name` of pydantic-ai), a
            pydantic-ai model, or `EchoModel()`.
        memory: a memory URL, the path of an SQLite file, or a `Memory`.
        tuning: how memory is injected; see `Tuning`.
        tools: functions and pydantic-ai tools that the model may call.
        toolsets: pydantic-ai toolsets, MCP servers among them.
        output_type: what a run returns; text by default.
        name: of the agent, used in tracing and as the speaker in recalled episodes.
        base_url: of a local or other server that speaks the OpenAI wire format (llama.cpp, LM Studio, Ollama, vLLM).
        api_key: for the model; by default from the provider's environment variable.

    Raises:
        ConfigError: an argument has the wrong form.
        ModelError: the model name is of no known form. A missing key shows when the model is first needed.
    """

    def __init__(
        self,
        instructions: str = "",
        *,
        model: Any,
        memory: Any = "inmemory",
        tuning: Tuning | None = None,
        tools: Sequence[Any] = (),
        toolsets: Sequence[Any] = (),
        output_type: Any = str,
        name: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        if not isinstance(instructions, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError.of("instructions", "a string", instructions)
        if tuning is not None and not isinstance(tuning, Tuning):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError.of("tuning", "a Tuning", tuning)
        if isinstance(model, str):
            model = EchoModel() if model == "echo" else model
        if model is None or isinstance(model, type):
            raise ConfigError.of("model", "a name, a pydantic-ai model or EchoModel()", model)
        if base_url is not None and not (isinstance(base_url, str) and _HTTP.match(base_url)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError.of("base_url", "an http:// or https:// URL", without_password(str(base_url)))
        if api_key is not None and not _KEY.fullmatch(str(api_key)):
            raise ConfigError("api_key must be non-blank printable ASCII; it is not shown here")
        if isinstance(model, str):
            parse_model_name(model, base_url)
        for argument, value in (("tools", tools), ("toolsets", toolsets)):
            if isinstance(value, str) or not isinstance(value, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError.of(argument, "a list", value)
        self.instructions = scrub(instructions)
        self.tuning = tuning or Tuning()
        self.name = None if name is None else check_text("name", name, blank=False)
        self._owns_memory = not isinstance(memory, Memory)
        self.memory: Memory = Memory.open(memory) if self._owns_memory else memory
        self._model_spec = (model, base_url, api_key)
        self._tools = (tools, toolsets, output_type)

    async def run(
        self,
        prompt: Any,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Answer a prompt with what is known about the user, and remember the run.

        Args:
            prompt: what the user says: text, or a list of text and pydantic-ai content (pictures, files).
            user_id: whose memory; None is the anonymous scope.
            session_id: the conversation; a new one if None.
            metadata: plain JSON values, stored with the episode.

        Raises:
            ConfigError: an argument has the wrong form.
            ModelError: the model cannot be built; says what to set or install.
            Exception: whatever the model or a tool raises; the session stays usable.
        """
        async with self._running(prompt, user_id, session_id, metadata) as run:
            with run.inside():
                result = await self._agent.run(**run.arguments)
            return await run.finish(result)

    def run_sync(
        self,
        prompt: Any,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Like `run`, for code that is not async. Inside a running event loop (a notebook) it uses a thread."""
        return _block_on(lambda: self.run(prompt, user_id=user_id, session_id=session_id, metadata=metadata))

    @asynccontextmanager
    async def stream(
        self,
        prompt: Any,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[AgentStream]:
        """Like `run`, with the answer as it comes.

            async with agent.stream("Where should we eat?", user_id="alice") as stream:
                async for text in stream:
                    print(text, end="")
                print(stream.result.usage)

        The run is remembered when the stream has been read to its end; leaving it before interrupts the run.
        """
        async with (
            self._running(prompt, user_id, session_id, metadata) as run,
            self._agent.run_stream_events(**run.arguments) as events,
        ):
            yield AgentStream(events, run)

    async def preview(
        self, prompt: Any, *, user_id: str | None = None, session_id: str | None = None, at: datetime | None = None
    ) -> Injection:
        """The injection that a run with this prompt would get, with its receipt. No model is called or needed."""
        text = self._prompt_text(prompt)
        history = await self.history(check_user_id(user_id), session_id, None) if session_id else None
        return await self.memory.inject(
            text, user_id=user_id, session_id=session_id, tuning=self.tuning, at=at,
            in_history=history.episode_ids if history else None,
        )  # fmt: skip

    async def __aenter__(self) -> Self:
        await self.memory.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the model's connections and, if this agent opened it, the memory."""
        if "_models" in self.__dict__:
            await self._models.aclose()
        if self._owns_memory:
            await self.memory.aclose()

    @asynccontextmanager
    async def _running(
        self, prompt: Any, user_id: str | None, session_id: str | None, metadata: Mapping[str, Any] | None
    ) -> AsyncGenerator[_Run]:
        """What surrounds the model call: history and memory before it; the episode, or a note of the failure, after."""
        user = check_user_id(user_id)
        session = new_id() if session_id is None else check_id("session_id", session_id)
        plain = check_metadata("metadata", metadata or {})
        text = self._prompt_text(prompt)
        if ENGINE not in sys.modules:  # the import takes a second, which the event loop must not wait for
            await asyncio.to_thread(_engine)
        is_text = isinstance(prompt, str)
        async with self.memory.session_locks.hold((user, session)) as hold:
            model = await self._models.get()
            run = _Run(self, hold, text, is_text, user, session, new_id(), plain)
            await run.begin()
            try:
                await run.recall()
                run.arguments["user_prompt"] = None if run.resumed else prompt
                run.arguments["model"] = _engine().InjectingModel(model, run.injection.text)
                yield run
            except BaseException as error:
                await _settled(run.interrupt(f"{type(error).__name__}: {error}"))
                raise
            if not run.is_finished:
                await _settled(run.interrupt("the stream was left before its end"))

    async def history(self, user: str | None, session: str, text: str | None) -> History:
        """The chat history that a run would be sent; `text` is its prompt, None if that is more than text."""
        turns = await self.memory.store.turns(user, session)
        return cast("History", _sessions().rehydrate(turns, text))

    def _prompt_text(self, prompt: Any) -> str:
        if isinstance(prompt, str):
            return scrub(prompt)
        if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
            raise ConfigError.of("prompt", "a string, or a list of text and pydantic-ai content", prompt)
        return scrub(_sessions().prompt_text(prompt))

    @cached_property
    def _models(self) -> Any:
        return _engine().models_of(*self._model_spec)

    @cached_property
    def _agent(self) -> Any:
        tools, toolsets, output_type = self._tools
        return _engine().PydanticAgent(
            instructions=self.instructions or None, tools=tools, toolsets=list(toolsets), output_type=output_type,
            name=self.name,
        )  # fmt: skip


@dataclass(slots=True)
class _Run:
    """One run under way."""

    agent: Agent
    hold: Hold
    text: str
    is_text: bool
    user_id: str | None
    session_id: str
    run_id: str
    metadata: dict[str, Any]
    in_history: Collection[str] | None = None
    resumed: list[Any] = field(default_factory=list[Any])
    recalled: Injection | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    captured: list[Any] | None = None
    problems: list[str] = field(default_factory=list[str])
    is_finished: bool = False

    async def begin(self) -> None:
        """Read the session and note that a run has begun; without a history where that fails (rule R16)."""
        store = self.agent.memory.store
        history: History | None = None
        timeout = self.agent.tuning.recall_timeout_seconds
        try:
            async with asyncio.timeout(timeout):
                history = await self.agent.history(self.user_id, self.session_id, self.text if self.is_text else None)
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
        self.recalled = await self.agent.memory.inject(
            self.text,
            user_id=self.user_id,
            session_id=self.session_id,
            tuning=self.agent.tuning,
            in_history=self.in_history,
        )

    @contextmanager
    def inside(self) -> Generator[None]:
        """Mark what is called in the block as part of this run, and keep the messages of the model call begun in it."""
        with self.hold.inside(), _engine().capture_run_messages() as messages:
            if self.captured is None:
                self.captured = messages
            yield

    @property
    def injection(self) -> Injection:
        """The block with its receipt, and what failed around it."""
        assert self.recalled is not None
        return replace(self.recalled, problems=(*self.problems, *self.recalled.problems))

    async def finish(self, result: Any) -> RunResult:
        """Store the run as an episode and make its result. A memory that fails does not take the answer away."""
        messages = [*self.resumed, *(m for m in result.new_messages() if m not in self.resumed)]
        recording = asyncio.ensure_future(self._record(_as_text(result.output), _sessions().dump(messages)))
        recording.add_done_callback(_retrieve)
        try:
            await asyncio.shield(recording)
        except MEMORY_FAILURES as error:
            self._note("the run could not be remembered", error)
        self.is_finished = True
        return RunResult(
            result.output, self.user_id, self.session_id, self.run_id, result.usage, self.injection, messages
        )

    async def interrupt(self, error: str) -> None:
        """Note that the run ended without an answer."""
        if self.is_finished:
            return
        self.is_finished = True
        kept = _sessions().dump_interrupted(self.captured or (), self.run_id, self.resumed)
        try:
            await self.agent.memory.store.interrupt_run(self.user_id, self.session_id, self.run_id, kept, scrub(error))
        except StoreError as failure:
            logger.error("an interrupted run could not be noted: %s", failure)

    async def _record(self, output: str, messages: str) -> None:
        if not self.text.strip() and not output.strip():
            return
        memory = self.agent.memory
        episode = Episode(
            self.text, output, session_id=self.session_id, user_id=self.user_id, id=self.run_id,
            metadata=self.metadata, agent_name=self.agent.name,
        )  # fmt: skip
        timeout = self.agent.tuning.recall_timeout_seconds
        (embedded,) = await embed_all(memory.embedder, [episode.text], timeout=timeout)
        await memory.store.finish_run(self.user_id, self.run_id, NewEpisode(episode, embedded, messages))


class AgentStream:
    """A run that is being streamed. Iterate over it for the text as it comes, or over `events()` for everything."""

    def __init__(self, events: Any, run: _Run) -> None:
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
            text = _sessions().text_delta(event)
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


async def _settled(work: Coroutine[Any, Any, None]) -> None:
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
    return scrub(_sessions().as_json(output))


def _engine() -> Any:
    """The pydantic-ai side, loaded with the first run, without the notice that it prints to terminals."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    return importlib.import_module(ENGINE)


def _sessions() -> Any:
    return importlib.import_module("loomflow.context.sessions")


def _block_on(start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine to its end, in this thread if no event loop runs in it, else in another."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    outcome: list[Result] = []
    failure: list[BaseException] = []
    with blocking(loop):
        context = copy_context()

    def work() -> None:
        try:
            outcome.append(context.run(asyncio.run, start()))
        except BaseException as error:  # handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=work, name="loomflow-run-sync")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
