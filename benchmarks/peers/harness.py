"""What every peer's script does: read conversations, fill a store with each, ask, pack what is found, time, write.

    python benchmarks/peers/peer_X.py IN.json OUT.json
    python benchmarks/peers/peer_X.py --latency N IN.json OUT.json

IN:  {"conversations": [{"id", "episodes": [{"id", "session", "when", "user_name", "agent_name", "input", "output"}],
      "questions": [{"id", "text"}], "now"}], "budgets": [128, ...], "embedder": {"onnx_dir": path} or null,
      "variant": one of the peer's, or ""}
OUT: {"blocks": {question id: {budget: text}}, "add_cpu_s", "search_cpu_ms_median", "version", "note"}

A conversation is one user, with a fresh store. With `--latency`, the first N episodes of the first conversation are
stored, embedded as random vectors, and one search for the ten best is timed; OUT has "episodes" and "searches" then in
place of "blocks". Times are CPU of all threads of the process, without what the embedder takes: it is the same for
all, and its vectors may come from a cache.

Only the standard library is used: every peer's interpreter imports this module.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

Result = TypeVar("Result")

CHARACTERS_PER_TOKEN = 4
FOUND = 100
"""How many items are asked for: more than fit in the largest budget."""
BEST = 10
"""How many are asked for where only the time matters."""
WARM_UP = 2
LATENCY_CPU_SECONDS = 30.0
"""After this no further search is timed, if there were a few."""
FEWEST_SEARCHES = 3


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said: the user or the assistant, whose name may not be known."""

    when: datetime
    role: str
    name: str | None
    text: str

    @property
    def line(self) -> str:
        """As it is written in a block."""
        return f"{self.name or self.role}: {self.text}"

    @property
    def content(self) -> str:
        """As it is stored: with the name, by which most questions ask, if there is one."""
        return f"{self.name}: {self.text}" if self.name else self.text


@dataclass(frozen=True, slots=True)
class Episode:
    """Two turns that follow each other; the names and the output may be missing."""

    id: str
    session: str
    when: datetime
    user_name: str | None
    agent_name: str | None
    input: str
    output: str

    @property
    def turns(self) -> list[Turn]:
        """The two turns, or the one that is not empty."""
        both = (
            Turn(self.when, "user", self.user_name, self.input),
            Turn(self.when, "assistant", self.agent_name, self.output),
        )
        return [turn for turn in both if turn.text]


class Embedder(Protocol):
    """What a peer that searches vectors is given."""

    dimensions: int
    cpu_seconds: float
    """What all calls took so far."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 for each text."""
        ...


class Store(ABC):
    """A peer's memory of one user."""

    injects: ClassVar[bool] = False
    """Whether the peer makes the block itself, under a budget."""

    @abstractmethod
    def add(self, episodes: Sequence[Episode]) -> None:
        """Store everything, oldest first."""

    @abstractmethod
    def search(self, question: str, limit: int) -> list[list[Turn]]:
        """The best items, best first; an item is one turn, or the two of an episode."""

    def inject(self, question: str, budget: int) -> str:
        """The block, if the peer makes it itself."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """Let go of files."""


class Peer(ABC):
    """What a peer's script hands over.

    Attributes:
        version: of the peer's package.
        note: how it was set up, for the reader of the results.
    """

    version: str
    note: str

    @abstractmethod
    def open(self, embedder: Embedder | None, folder: Path) -> Store:
        """A new, empty store, with its files in an empty folder."""


class Meter:
    """CPU seconds of calls, without those of the embedder."""

    def __init__(self, embedder: Embedder | None) -> None:
        self.embedder = embedder
        self.seconds: list[float] = []

    def __call__(self, call: Callable[..., Result], *arguments: Any) -> Result:
        before = self._cpu()
        result = call(*arguments)
        self.seconds.append(self._cpu() - before)
        return result

    def _cpu(self) -> float:
        return time.process_time() - (self.embedder.cpu_seconds if self.embedder else 0.0)

    @property
    def median_ms(self) -> float:
        return round(statistics.median(self.seconds) * 1000, 3) if self.seconds else 0.0


def written(item: Sequence[Turn]) -> str:
    """An item as one would put it in a prompt: the date once, then who said what."""
    return f"[{item[0].when:%Y-%m-%d}] " + "\n".join(turn.line for turn in item)


def pack(items: Iterable[Sequence[Turn]], budget: int) -> str:
    """Whole items, best first; of an episode that does not fit, the turn that does; what does not is left out.

    This is more than the peers' users have as a rule: what differs is to be what is found, not how it is packed.
    """
    left = budget * CHARACTERS_PER_TOKEN
    chosen: list[str] = []
    for item in items:
        for part in (item, *([turn] for turn in item)):
            text = written(part)
            needed = len(text) + (1 if chosen else 0)
            if needed <= left:
                chosen.append(text)
                left -= needed
                break
    return "\n".join(chosen)


def episodes_of(conversation: dict[str, Any]) -> list[Episode]:
    """The episodes of a conversation of the input."""
    return [
        Episode(
            id=told["id"],
            session=told["session"],
            when=datetime.fromisoformat(told["when"]),
            user_name=told["user_name"],
            agent_name=told["agent_name"],
            input=told["input"],
            output=told["output"],
        )
        for told in conversation["episodes"]
    ]


def recall(peer: Peer, embedder: Embedder | None, task: dict[str, Any]) -> dict[str, Any]:
    """Blocks for every question and budget."""
    adding, searching = Meter(embedder), Meter(embedder)
    budgets: list[int] = task["budgets"]
    blocks: dict[str, dict[str, str]] = {}
    for conversation in task["conversations"]:
        with tempfile.TemporaryDirectory() as folder:
            store = peer.open(embedder, Path(folder))
            adding(store.add, episodes_of(conversation))
            for question in conversation["questions"]:
                text = question["text"]
                if store.injects:
                    made = {budget: searching(store.inject, text, budget) for budget in budgets}
                else:
                    found = searching(store.search, text, FOUND)
                    made = {budget: pack(found, budget) for budget in budgets}
                blocks[question["id"]] = {str(budget): block for budget, block in made.items()}
            store.close()
    return {
        "blocks": blocks,
        "add_cpu_s": round(sum(adding.seconds), 3),
        "search_cpu_ms_median": searching.median_ms,
    }


def latency(peer: Peer, embedder: Embedder | None, task: dict[str, Any], size: int) -> dict[str, Any]:
    """The time of one search among so many episodes."""
    conversation = task["conversations"][0]
    adding, warming, searching = Meter(embedder), Meter(embedder), Meter(embedder)
    questions: list[str] = [question["text"] for question in conversation["questions"]]
    with tempfile.TemporaryDirectory() as folder:
        store = peer.open(embedder, Path(folder))
        adding(store.add, episodes_of(conversation)[:size])
        for text in questions[:WARM_UP]:
            warming(store.search, text, BEST)
        for text in questions[WARM_UP:]:
            if not searching(store.search, text, BEST):
                raise RuntimeError(f"nothing was found for {text!r}")
            if len(searching.seconds) >= FEWEST_SEARCHES and sum(searching.seconds) > LATENCY_CPU_SECONDS:
                break
        store.close()
    return {
        "episodes": size,
        "searches": len(searching.seconds),
        "add_cpu_s": round(sum(adding.seconds), 3),
        "search_cpu_ms_median": searching.median_ms,
    }


def main(make: Callable[[str], Peer], *, vectors: bool = True) -> None:
    """The command line of a peer's script.

    Args:
        make: the peer, of the variant that the input names.
        vectors: whether the peer uses any; the packages that the embedders need may be missing if not.
    """
    made = argparse.ArgumentParser()
    made.add_argument("--latency", type=int, metavar="N", help="time a search among N episodes; write no blocks")
    made.add_argument("input", type=Path)
    made.add_argument("output", type=Path)
    options = made.parse_args()
    task = json.loads(options.input.read_text(encoding="utf-8"))
    peer = make(task.get("variant") or "")
    if options.latency is not None:
        values = latency(peer, _embedder(task, random=True) if vectors else None, task, options.latency)
    else:
        values = recall(peer, _embedder(task) if vectors else None, task)
    values |= {"version": peer.version, "note": peer.note}
    options.output.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def _embedder(task: dict[str, Any], *, random: bool = False) -> Embedder | None:
    from minilm import MiniLM, RandomVectors  # noqa: PLC0415 - not every environment has what it imports

    if random:
        return RandomVectors()
    return MiniLM(Path(task["embedder"]["onnx_dir"])) if task["embedder"] else None
