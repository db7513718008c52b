"""An agent that remembers: one run, from the prompt to the stored episode."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import copy_context
from datetime import datetime
from functools import cached_property
from types import EllipsisType
from typing import Any, Self, TypeVar

from .checks import check_id, check_metadata, check_text, check_user_id, scrub
from .distill import Background, Distilled, Distiller, reader_of
from .errors import ConfigError, ModelError
from .items import new_id
from .locations import without_password
from .locks import blocking
from .memory import Memory
from .models import EchoModel, parse_model_name
from .receipt import Injection
from .runs import ENGINE, AgentStream, Run, RunResult, engine, history_of, sessions, settled
from .settings import MEMORY_TOOLS, Tuning

_KEY = re.compile(r"[!-~]+")
TEST_MODELS = ("pydantic_ai.models.test", "pydantic_ai.models.function")
"""Where pydantic-ai's models for tests are: nothing is learned with them unless it is asked for."""

_HTTP = re.compile(r"https?://[^\s/]")

Result = TypeVar("Result")


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
        memory_tools: tools with which the model itself may use the user's memory: True for all, or some of "remember",
            "correct", "forget", "search_memory" and "edit_block". None by default.
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
        memory_tools: bool | Sequence[str] = (),
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
            raise ModelError(f"model must be a name, a pydantic-ai model or EchoModel(), got {type(model).__name__}")
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
        self._memory_tools = _tool_names(memory_tools, self.tuning.distill_blocks)
        self._learns = _learns(self.tuning, model, base_url)
        self._has_begun = False

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
        self._learn_on_first_run()
        result = await self._run(prompt, user_id, session_id, metadata)
        self._learn()
        return result

    async def _run(
        self, prompt: Any, user_id: str | None, session_id: str | None, metadata: Mapping[str, Any] | None
    ) -> RunResult:
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
        result = _block_on(lambda: self._run(prompt, user_id, session_id, metadata))
        self._has_begun = True
        if self._learns and isinstance(self._distill_spec[0], str):
            self._learning.begin_in_thread()  # a model that was built elsewhere belongs to the event loop of its user
        return result

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
        self._learn_on_first_run()
        async with (
            self._running(prompt, user_id, session_id, metadata) as run,
            self._agent.run_stream_events(**run.arguments) as events,
        ):
            yield AgentStream(events, run)
        self._learn()

    async def preview(
        self, prompt: Any, *, user_id: str | None = None, session_id: str | None = None, at: datetime | None = None
    ) -> Injection:
        """The injection that a run with this prompt would get, with its receipt. No model is called or needed."""
        text = self._prompt_text(prompt)
        history: Any = None
        if session_id is not None:
            await asyncio.to_thread(engine)
            try:
                model = await self._models.get()
            except ModelError:  # a preview needs no model; of its window, 32,000 tokens are reckoned with
                model = None
            limits = engine().limits_of(model, self.tuning)
            said = text if isinstance(prompt, str) else None
            history = await history_of(self.memory, check_user_id(user_id), session_id, said, limits)
        return await self.memory.inject(
            text, user_id=user_id, session_id=session_id, tuning=self.tuning, at=at,
            in_history=history.episode_ids if history else None,
        )  # fmt: skip

    async def distill(
        self,
        *,
        user_id: str | EllipsisType | None = ...,
        limit: int | None = None,
        retry_parked: bool = False,
        progress: Callable[[Distilled], None] | None = None,
    ) -> Distilled:
        """Learn facts now from the runs that are still in the queue, of everyone or of one user.

        The agent does so by itself after each run and when it is closed; this is for programs that want to wait for it,
        or to be in charge of when it happens. It may be cancelled: what was done is stored, the rest stays queued.

        Args:
            user_id: whose runs; everyone's if not given.
            limit: how many runs at most.
            retry_parked: also those that were given up after several attempts.
            progress: called after each run with what came of it.

        Returns:
            How many runs were read, and what came of them.

        Raises:
            ConfigError: the agent has no model to learn with.
            ModelError: the model cannot be built, or is refused by its server; what was not done stays in the queue.
            StoreError: the database cannot be read or written.
        """
        if not self._can_learn:
            raise ConfigError("this agent has no model to learn with; give Tuning(distill_model=...)")
        if retry_parked:  # they stay parked if the model cannot be built
            await asyncio.to_thread(lambda: engine().build_model(*self._distill_spec))
            await self.memory.store.unpark(user_id=user_id)
        return await self._distiller.drain(user_id=user_id, limit=limit, progress=progress)

    async def __aenter__(self) -> Self:
        await self.memory.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the model's connections and, if this agent opened it, the memory.

        Facts that are still to be learned are learned before, for some seconds at most; the rest stays in the queue.
        """
        if self._learns and self._has_begun:
            await self._learning.aclose()
        if "_distiller" in self.__dict__:
            await self._distiller.aclose()
        if "_models" in self.__dict__:
            await self._models.aclose()
        if self._owns_memory:
            await self.memory.aclose()

    @asynccontextmanager
    async def _running(
        self, prompt: Any, user_id: str | None, session_id: str | None, metadata: Mapping[str, Any] | None
    ) -> AsyncGenerator[Run]:
        """What surrounds the model call: history and memory before it; the episode, or a note of the failure, after."""
        user = check_user_id(user_id)
        session = new_id() if session_id is None else check_id("session_id", session_id)
        plain = check_metadata("metadata", metadata or {})
        text = self._prompt_text(prompt)
        if ENGINE not in sys.modules:  # the import takes long, and the event loop must not wait for it
            await asyncio.to_thread(engine)
        is_text = isinstance(prompt, str)
        async with self.memory.session_locks.hold((user, session)) as hold:
            model = await self._models.get()
            run = Run(
                self.memory, self.tuning, self.name, hold, text, is_text, user, session, new_id(), plain,
                distill=self._learns,
            )  # fmt: skip
            run.limits = engine().limits_of(model, self.tuning)
            await run.begin()
            try:
                await run.recall()
                run.arguments["user_prompt"] = None if run.resumed else prompt
                run.arguments["model"] = run.model(model)
                run.arguments["toolsets"] = run.toolsets(self._memory_tools)
                yield run
            except BaseException as error:
                await settled(run.interrupt(f"{type(error).__name__}: {error}"))
                raise
            if not run.is_finished:
                await settled(run.interrupt("the stream was left before its end"))

    def _prompt_text(self, prompt: Any) -> str:
        if isinstance(prompt, str):
            return scrub(prompt)
        if not isinstance(prompt, Sequence) or isinstance(prompt, bytes | bytearray):
            raise ConfigError.of("prompt", "a string, or a list of text and pydantic-ai content", prompt)
        return scrub(sessions().prompt_text(prompt))

    def _learn_on_first_run(self) -> None:
        """What an earlier program left in the queue is learned while the first run goes on."""
        if not self._has_begun:
            self._learn()

    def _learn(self) -> None:
        self._has_begun = True
        if self._learns:
            self._learning.begin()

    @property
    def _distill_spec(self) -> tuple[Any, str | None, str | None]:
        """The model to learn with, see `loomflow.context.engine.build_model`."""
        model, base_url, api_key = self._model_spec
        reader = self.tuning.distill_model or model
        return (reader, base_url, None if _is_of_another_provider(reader, model, base_url) else api_key)

    @property
    def _can_learn(self) -> bool:
        return self.tuning.distill_model is not None or not isinstance(self._model_spec[0], EchoModel)

    @cached_property
    def _distiller(self) -> Distiller:
        blocks = self.tuning.distill_blocks
        return Distiller(self.memory, lambda: reader_of(*self._distill_spec, blocks), blocks)

    @cached_property
    def _learning(self) -> Background:
        return Background(self._distiller.drain)

    @cached_property
    def _models(self) -> Any:
        return engine().models_of(*self._model_spec)

    @cached_property
    def _agent(self) -> Any:
        tools, toolsets, output_type = self._tools
        return engine().PydanticAgent(
            instructions=self.instructions or None, toolsets=engine().budgeted(tools, toolsets, self.tuning),
            output_type=output_type, name=self.name,
        )  # fmt: skip


def _learns(tuning: Tuning, model: Any, base_url: str | None) -> bool:
    """Whether facts are learned after runs.

    Raises:
        ConfigError: they shall be, and there is no model to learn with.
        ModelError: the name of the model to learn with is of no known form.
    """
    if isinstance(tuning.distill_model, EchoModel | type) or tuning.distill_model == "echo":
        raise ConfigError.of("distill_model", "a model that can read, or None", tuning.distill_model)
    if isinstance(tuning.distill_model, str):
        parse_model_name(tuning.distill_model, base_url)
    is_real = not isinstance(model, EchoModel) and not any(
        base.__module__ in TEST_MODELS for base in type(model).__mro__
    )
    if tuning.distill is None:
        return is_real or tuning.distill_model is not None
    if tuning.distill and isinstance(model, EchoModel) and tuning.distill_model is None:
        raise ConfigError("distill=True needs distill_model=, a model that can read; EchoModel cannot")
    return tuning.distill


def _is_of_another_provider(reader: Any, model: Any, base_url: str | None) -> bool:
    """Whether the key of a model must not be shown to the provider of the model to learn with."""
    if base_url is not None or not (isinstance(reader, str) and isinstance(model, str)):
        return False  # one server has both
    kinds = {re.sub("-(chat|responses)$", "", parse_model_name(name).provider) for name in (reader, model)}
    return len(kinds) > 1


def _tool_names(wanted: bool | Sequence[str], blocks: Sequence[str]) -> tuple[str, ...]:
    if isinstance(wanted, bool):
        return tuple(name for name in MEMORY_TOOLS if wanted and (blocks or name != "edit_block"))
    expected = f"True, False or a list of {', '.join(MEMORY_TOOLS)}"
    if isinstance(wanted, str) or not isinstance(wanted, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError.of("memory_tools", expected, wanted)
    for name in wanted:
        if name not in MEMORY_TOOLS:
            raise ConfigError.of("memory_tools", expected, name)
    if "edit_block" in wanted and not blocks:
        raise ConfigError('memory_tools names "edit_block", but distill_blocks names no block that may be edited')
    return tuple(dict.fromkeys(wanted))


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
