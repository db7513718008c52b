"""What `recall_quality.py` measures: what is injected for a question, what a signal is worth, what the floor costs.

Everything goes through `Memory.inject`, as a caller would use it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from conversations import Conversation, Question
from numpy.typing import NDArray
from scoring import CHARACTERS_PER_TOKEN, Score, score

from loomflow import Episode, Injection, Memory, Tuning
from loomflow.index import search
from loomflow.ports import NOISE, Embedder
from loomflow.tokens import estimate_tokens


@dataclass(frozen=True, slots=True)
class How:
    """How a block is made.

    Attributes:
        name: for the results.
        mode: `memory_mode`.
        counter: of tokens; None for loomflow's own.
    """

    name: str
    mode: Literal["top", "fill"]
    counter: Callable[[str], int] | None = None


def by_characters(text: str) -> int:
    """Tokens as the scoring and the peers count them, whatever the characters."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


MODES = (How("fill", "fill"), How("top", "top"))
BY_CHARACTERS = How("fill by characters", "fill", by_characters)
"""For text of wide characters: loomflow counts each of them as a token, so that its own budget holds less of them."""
WIDE = 1.2
"""Text is wide if loomflow counts so many times the tokens that `by_characters` does."""
BUDGETS = (128, 256, 512, 1000, 1500, 3000)
NOT_MAIN = "adversarial"
"""The category of LoCoMo whose questions have no answer. It is reported on its own."""
SIGNALS = tuple(search.WEIGHTS)
OF_VECTORS = {"vector", "context"}
"""Signals that there are only with an embedder."""
THRESHOLDS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Values of `memory_min_relevance`."""
FLOOR_BUDGET = 1500
STORED_AT_ONCE = 100
"""Episodes a call: the embedder has a time limit for each."""

CONTENTLESS = (
    "2+2?", "ok", "Thanks!", "hi", "Good morning!", "yes", "No.", "lol", "go on", "?", "Why not?", "👍",
)  # fmt: skip
"""There is nothing to look for in these."""
OFF_TOPIC = (
    "What is the capital of France?",
    "Translate 'good evening' into Portuguese.",
    "How many moons does Jupiter have?",
    "Write a haiku about rust.",
    "Explain the Krebs cycle.",
    "What is the boiling point of ethanol?",
    "Convert 37 miles to kilometres.",
    "Who wrote Moby-Dick?",
    "Solve x^2 - 5x + 6 = 0.",
    "What does HTTP 418 mean?",
    "Name the noble gases.",
    "Give me a regular expression for a postcode.",
)
"""The answers to these are in nobody's memory."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """The conversations of a file."""

    name: str
    conversations: tuple[Conversation, ...]

    @property
    def questions(self) -> list[tuple[Conversation, Question]]:
        """All questions, each with the conversation that it is asked of."""
        return [(one, question) for one in self.conversations for question in one.questions]

    @property
    def main(self) -> list[tuple[Conversation, Question]]:
        """Those of the main categories."""
        return [(one, question) for one, question in self.questions if question.category != NOT_MAIN]

    @property
    def is_wide(self) -> bool:
        """Whether much of the text is of wide characters, such as Chinese."""
        said = "".join(told.input + told.output for one in self.conversations for told in one.episodes)
        return estimate_tokens(said) > WIDE * by_characters(said)


class Vectors(Protocol):
    """Where vectors are kept, by text."""

    def get(self, text: str) -> NDArray[np.float32] | None: ...

    def put(self, text: str, vector: NDArray[np.float32]) -> None: ...


class Memo:
    """An embedder that embeds a text once and on its own, whatever it is asked with.

    It is for embedders that treat questions as stored text. CPU time spent here is told apart, as it would not be the
    same when a text comes again.
    """

    def __init__(self, embedder: Embedder, kept: Vectors | None = None) -> None:
        self._embedder = embedder
        self._kept = kept
        self._made: dict[str, NDArray[np.float32]] = {}
        self.name = embedder.name
        self.noise: float = getattr(embedder, "noise", NOISE)
        self.cpu_seconds = 0.0

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        before = time.process_time()
        rows = np.stack([await self._vector(text, query) for text in texts])
        self.cpu_seconds += time.process_time() - before
        return rows

    async def _vector(self, text: str, query: bool) -> NDArray[np.float32]:
        if text not in self._made:
            vector = self._kept.get(text) if self._kept else None
            if vector is None:
                vector = (await self._embedder.embed([text], query=query))[0]
                if self._kept:
                    self._kept.put(text, vector)
            self._made[text] = vector
        return self._made[text]


class Filled:
    """A data set in a memory, each conversation as a user."""

    def __init__(self, memory: Memory, embedder: Memo | None, data: DataSet) -> None:
        self.data = data
        self._memory = memory
        self._embedder = embedder

    @classmethod
    async def of(cls, memory: Memory, embedder: Memo | None, data: DataSet) -> Filled:
        """Store the conversations.

        Raises:
            RuntimeError: something was stored without its vector.
        """
        filled = cls(memory, embedder, data)
        for conversation in data.conversations:
            for first in range(0, len(conversation.episodes), STORED_AT_ONCE):
                await memory.remember(
                    Episode(
                        told.input, told.output, session_id=told.session, user_id=filled.user(conversation),
                        occurred_at=told.when, user_name=told.user_name, agent_name=told.agent_name,
                    )
                    for told in conversation.episodes[first : first + STORED_AT_ONCE]
                )  # fmt: skip
        if embedder and (await memory.stats()).unembedded:
            raise RuntimeError(f"not everything of {data.name} could be embedded")
        return filled

    def user(self, conversation: Conversation) -> str:
        return f"{self.data.name}/{conversation.id}"

    async def inject(self, conversation: Conversation, text: str, how: How, budget: int, **more: Any) -> Injection:
        """One injection, at the end of a conversation.

        Raises:
            RuntimeError: the block is over its budget, or was made from less than there is.
        """
        tuning = Tuning(memory_mode=how.mode, memory_token_budget=budget, token_counter=how.counter, **more)
        made = await self._memory.inject(text, user_id=self.user(conversation), tuning=tuning, at=conversation.now)
        over = made.tokens > budget or len(made.text) > CHARACTERS_PER_TOKEN * budget
        if over or made.over_budget or made.problems:
            raise RuntimeError(
                f"mode {how.name} with a budget of {budget}: {made.tokens} tokens, {len(made.text)} characters, "
                f"{made.over_budget}, {made.problems} for {text!r} of {self.user(conversation)}"
            )
        return made

    async def timed(self, conversation: Conversation, text: str, how: How, budget: int) -> tuple[str, float]:
        """A block, and the CPU milliseconds that it took beside the embedding of the question."""
        before = self._cpu()
        made = await self.inject(conversation, text, how, budget)
        return made.text, (self._cpu() - before) * 1000

    def _cpu(self) -> float:
        return time.process_time() - (self._embedder.cpu_seconds if self._embedder else 0.0)


@dataclass(frozen=True, slots=True)
class Recalled:
    """The scores of every question by its id and the budget, and the median CPU time of an injection."""

    scores: Mapping[str, Mapping[int, Score]]
    cpu_ms: float


async def recalled(filled: Filled, how: How, budgets: Sequence[int]) -> Recalled:
    """Ask every question under every budget."""
    scores: dict[str, dict[int, Score]] = {}
    times: list[float] = []
    for conversation, question in filled.data.questions:
        of_budget = scores[question.id] = {}
        for budget in budgets:
            block, cpu_ms = await filled.timed(conversation, question.text, how, budget)
            of_budget[budget] = score(block, question.gold_texts, budget)
            times.append(cpu_ms)
    return Recalled(scores, statistics.median(times))


async def evidence(filled: Filled, budget: int) -> float:
    """The mean evidence of the main categories in mode "fill"."""
    found: list[float] = []
    for conversation, question in filled.data.main:
        made = await filled.inject(conversation, question.text, MODES[0], budget)
        found.append(score(made.text, question.gold_texts, budget).evidence)
    return statistics.mean(found)


async def ablation(filled: Filled, budgets: Sequence[int], signals: Iterable[str]) -> dict[str, dict[int, float]]:
    """The evidence with all signals, under "", and without each of them in turn."""
    found = {"": {budget: await evidence(filled, budget) for budget in budgets}}
    for signal in signals:
        with without(signal):
            found[signal] = {budget: await evidence(filled, budget) for budget in budgets}
    return found


@contextmanager
def without(signal: str) -> Iterator[None]:
    """For this while, a signal of the search for passages has no weight."""
    weights = search.WEIGHTS
    setattr(search, "WEIGHTS", {**weights, signal: 0.0})  # noqa: B010 - it is final for everyone else
    try:
        yield
    finally:
        setattr(search, "WEIGHTS", weights)  # noqa: B010


async def floor(filled: Filled, how: How, thresholds: Sequence[float]) -> dict[float, dict[str, float]]:
    """What each threshold of relevance does to the main questions, and to prompts that memory has nothing for.

    Returns:
        For each threshold: "empty", the share of the questions for which nothing is injected; "evidence", their mean
        evidence; "contentless" and "off_topic", how many items are injected for such prompts.
    """
    found: dict[float, dict[str, float]] = {}
    for threshold in thresholds:
        empty, scores = 0, list[float]()
        for conversation, question in filled.data.main:
            made = await _over(filled, conversation, question.text, how, threshold)
            empty += not made.text
            scores.append(score(made.text, question.gold_texts, FLOOR_BUDGET).evidence)
        found[threshold] = {"empty": empty / len(scores), "evidence": statistics.mean(scores)}
        for name, prompts in (("contentless", CONTENTLESS), ("off_topic", OFF_TOPIC)):
            found[threshold][name] = sum(
                [
                    _items(await _over(filled, conversation, prompt, how, threshold))
                    for conversation in filled.data.conversations
                    for prompt in prompts
                ]
            )
    return found


async def _over(filled: Filled, conversation: Conversation, text: str, how: How, threshold: float) -> Injection:
    return await filled.inject(conversation, text, how, FLOOR_BUDGET, memory_min_relevance=threshold)


def _items(made: Injection) -> int:
    return sum(item.status != "dropped" for item in made.items)
