"""What is handed to a store and what it hands back: filters, searches, passages, runs, the queue, plans of changes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from .bitemporal import FactChanges
from .items import Episode, Fact, MemoryBlock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of a text, and the embedder that made them. `vector` is None where there are none.

    Its shape is [d] for a question. What is stored has one vector for each of its passages, shape [p, d], in the order
    of `loomflow.index.parts.texts_of`, or one for all of them, shape [d] or [1, d].
    """

    embedder: str | None = None
    vector: NDArray[np.float32] | None = None


NOT_EMBEDDED = Embedded()


@dataclass(frozen=True, slots=True)
class FactFilter:
    """Which facts to list; every field that is set narrows the list.

    Attributes:
        id: of one fact.
        subject, predicate, object: compared in normal form.
        valid_at: true at this moment; None for any valid time.
        known_at: believed at this moment; None for what is believed now.
        history: also versions no longer believed (then `known_at` is ignored).
    """

    id: str | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    valid_at: datetime | None = None
    known_at: datetime | None = None
    history: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """One search for facts and episodes, by keyword and by vector, within one user's memory.

    Attributes:
        words: search terms, any of which may match (see `words.query_terms`).
        query: the embedded question.
        limit: how many of each search to return; filters apply before it. Of facts about whom `text` is about, some
            more may be returned.
        without_session: leave out this session's episodes, and the facts that came from them.
        without_ids: leave out these episodes, and the facts that came from them.
        at: what was there at this moment: episodes that had occurred, facts valid and known then. None is now.
        episodes, facts: whether they are searched at all; what is not is found empty.
        text: the question as it was asked, for the names in it and, in `Store.passages`, the dates.
        chars: how many characters of passages to return, at least. Used by `Store.passages` only.
        half_life_days: age at which a passage counts half; None for no decay. Used by `Store.passages` only.
    """

    words: tuple[str, ...] = ()
    query: Embedded = NOT_EMBEDDED
    limit: int = 50
    without_session: str | None = None
    without_ids: frozenset[str] = frozenset()
    at: datetime | None = None
    episodes: bool = True
    facts: bool = True
    text: str = ""
    chars: int = 0
    half_life_days: float | None = None


Item = TypeVar("Item", Episode, Fact)


@dataclass(frozen=True, slots=True)
class Found(Generic[Item]):
    """What a search found: items by key, and the two rankings over those keys, best first.

    Attributes:
        items: the facts or episodes, by a key of the store's own.
        lexical: keys in the order of the keyword search.
        vector: keys and cosines in the order of the vector search.
    """

    items: Mapping[int, Item]
    lexical: tuple[int, ...] = ()
    vector: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Passage(Generic[Item]):
    """A passage that a search found: a fact, or a piece of what one side said in an episode.

    Attributes:
        item: the fact or episode.
        is_agent: whether the agent said it; False for the user, and for facts.
        start, end: where it stands in the text of that side.
        score: weighted sum of the signals (see `loomflow.index.scoring`).
        relevance: the score on a scale from 0 to 1.
        signals: what it is made of, by name; those that are 0 are left out.
        number: its item's place in the order of writing.
        coverage: how much of the question's words stand in it or near it, by how telling they are and how near they
            stand: 0 for none of them; the BM25 score over the most that it could be, so below 1 even for all.
        similarity: its cosine with the question; None without vectors.
    """

    item: Item
    is_agent: bool
    start: int
    end: int
    number: int
    score: float
    relevance: float
    signals: Mapping[str, float] = field(default_factory=dict[str, float])
    coverage: float = 0.0
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """Who is who in a user's memory.

    Attributes:
        users: names of the user that episodes carry.
        agents: names of agents that episodes carry.
        same_as: subjects that stand for another one, see `loomflow.transactions.merging`.
    """

    users: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    same_as: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def speakers(self) -> list[str]:
        """The names of users and agents, each once."""
        return list(dict.fromkeys((*self.users, *self.agents)))


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that has begun: written before the model is called, so that a kill loses nothing.

    Attributes:
        run_id, session_id: which run, of which conversation.
        prompt: what the user said, as text.
        started_at: when.
        messages: what the run had produced when it was interrupted, as the agent layer serialises it; None while it
            is going on or when nothing is known.
        error: what interrupted it; None while it is going on.
        is_text: whether `prompt` is all that the user said; False if there were pictures or files with it.
    """

    run_id: str
    session_id: str
    prompt: str
    started_at: datetime
    messages: str | None = None
    error: str | None = None
    is_text: bool = True


@dataclass(frozen=True, slots=True)
class NewEpisode:
    """An episode to write.

    Attributes:
        embedded: its vector, if it has one.
        messages: the run's messages as the agent layer serialised them; None if it was written by hand.
        distill: whether facts are to be learned from it.
    """

    episode: Episode
    embedded: Embedded = NOT_EMBEDDED
    messages: str | None = None
    distill: bool = False


@dataclass(frozen=True, slots=True)
class Undistilled:
    """A finished run that facts are still to be learned from.

    Attributes:
        user_id: whose it is.
        episode: the run.
        messages: its messages as the agent layer serialised them; None if it was written by hand.
        attempts: how often it was tried, this time included.
    """

    user_id: str | None
    episode: Episode
    messages: str | None
    attempts: int


@dataclass(frozen=True, slots=True)
class Queue:
    """How much is still to be learned from.

    Attributes:
        waiting: runs in the queue, those that are being worked on included.
        due: of these, how many can be taken now.
        parked: runs that failed too often, and wait until somebody asks for them.
        errors: why, the most frequent first, each with how many runs it stopped.
        next_at: when the first of the waiting can be taken; None if nothing waits.
    """

    waiting: int = 0
    due: int = 0
    parked: int = 0
    errors: tuple[tuple[str, int], ...] = ()
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a session's chat history: finished (it has an episode) or interrupted (it has an open run).

    Attributes:
        episode: the finished run; None if it was interrupted.
        interrupted: the interrupted run; None if it finished.
        messages: the run's messages as the agent layer serialised them; None if the episode was written by hand.
    """

    episode: Episode | None = None
    interrupted: OpenRun | None = None
    messages: str | None = None


BlockPlan = Callable[[MemoryBlock | None], MemoryBlock | None]
"""From the block as it is (None: there is none) to the block as it shall be (None: delete it). Pure."""

Result = TypeVar("Result")

FactPlan = Callable[[Sequence[Fact], Fact], FactChanges]
"""From the facts believed and one new fact to what changes. Pure; `bitemporal.supersede` is one.

It is given the facts that the new one can change: that with its id, and those with its subject and predicate; where the
predicate gathers values, only those with its object too.
"""

FactScript = Generator[FactFilter | FactChanges, list[Fact], Result]
"""A change in steps, see `loomflow.transactions`: it yields what to read and to write, and is sent what was read."""
