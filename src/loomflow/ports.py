"""What the library needs from the outside, as Protocols: a store, an embedder, a token counter, a clock.

Anything that has these methods can be plugged in. `loomflow.testing` ships the conformance suite for stores.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import EllipsisType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from .bitemporal import FactChanges, SingleValued
from .items import Episode, Fact, Forgotten, MemoryBlock, MemoryStats
from .predicates import is_single_valued

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Clock = Callable[[], datetime]
"""Returns the present moment, aware."""


NOISE = 0.35


class Embedder(Protocol):
    """Turns texts into vectors of one space.

    Attributes:
        name: identifies the space; vectors of two embedders are compared only if their names are equal.

    An embedder may also have a number `noise`: cosines up to it are common between unrelated texts. A question that
    says nothing ("ok", "2+2?") finds only what is nearer than that. Without one, `NOISE` stands for it.
    """

    name: str

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """Embed `texts`.

        Args:
            texts: non-blank texts of any length; the embedder shortens what is too long for it.
            query: whether they are questions rather than stored text, for models that tell the two apart.

        Returns:
            One row per text, shape [n, d], float32. Rows need not be normalised.

        Raises:
            Exception: any; the caller goes on without vectors.
        """
        ...


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


class Store(Protocol):
    """Where memories are kept. Every method works within one user's memory (rule R17).

    `user_id` is never optional; None is the anonymous scope. What is acknowledged is durable, every write is one
    transaction, and no method blocks the event loop.
    """

    clock: Clock

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        ...

    async def open(self) -> None:
        """Open or create the database and bring its schema up to date. Idempotent; other methods call it.

        Raises:
            StoreError: it cannot be opened.
            SchemaError: it was written by a newer version.
        """
        ...

    async def aclose(self) -> None:
        """Finish what was begun and release everything. A closed store opens again on use."""
        ...

    async def blocks(self, user_id: str | None, *, at: datetime | None = None) -> list[MemoryBlock]:
        """Working blocks, in the order in which they were first written; with `at`, as they were at that moment."""
        ...

    async def change_block(self, user_id: str | None, name: str, plan: BlockPlan) -> MemoryBlock | None:
        """Read one block, ask `plan` what it shall be, and write that, as one step that nothing interleaves.

        Returns:
            The block as written; None if it was deleted or never there.
        """
        ...

    async def add_facts(
        self, user_id: str | None, facts: Sequence[tuple[Fact, Embedded]], plan: FactPlan
    ) -> list[FactChanges]:
        """Add facts in order, each changing what `plan` says, in one transaction: all or nothing."""
        ...

    async def facts(self, user_id: str | None, which: FactFilter) -> list[Fact]:
        """List facts, oldest recorded first."""
        ...

    async def change_facts(
        self,
        user_id: str | None,
        script: Callable[[], FactScript[Result]],
        embedded: Mapping[str, Embedded] | None = None,
    ) -> Result:
        """Carry out a change of facts in one transaction that nothing interleaves: all of it or nothing.

        Args:
            user_id: whose facts.
            script: makes the change; it may be made more than once.
            embedded: vectors of facts that may be written, by their text. A version whose text was believed before
                keeps the vectors that it had.

        Returns:
            What the script returned.
        """
        ...

    async def add_episodes(self, user_id: str | None, episodes: Sequence[NewEpisode]) -> list[Episode]:
        """Add finished runs, in order, in one transaction. An id that is there already is left as it is.

        Returns:
            The episodes as stored, in the order given.
        """
        ...

    async def episodes(
        self, user_id: str | None, *, session_id: str | None = None, limit: int | None = None
    ) -> list[Episode]:
        """List episodes, oldest first; with a limit, the newest ones of them."""
        ...

    async def search(self, user_id: str | None, search: Search) -> tuple[Found[Episode], Found[Fact]]:
        """Search episodes and facts in one consistent view. Without words and without a vector nothing is found."""
        ...

    async def passages(self, user_id: str | None, search: Search) -> tuple[list[Passage[Episode]], list[Passage[Fact]]]:
        """Search passages of episodes, and facts, by everything that a conversation tells; each list best first.

        Without words and without a vector nothing is found.
        """
        ...

    async def names(self, user_id: str | None, *, at: datetime | None = None) -> Names:
        """The names of users and agents that episodes carry, and which subjects are the same; as it was at `at`."""
        ...

    async def turns(self, user_id: str | None, session_id: str | None, *, newest: int | None = None) -> list[Turn]:
        """A session's chat history, in order: finished and interrupted runs. None is every session.

        With `newest`, so many of the latest turns of it.
        """
        ...

    async def begin_run(self, user_id: str | None, run: OpenRun) -> None:
        """Note that a run has begun."""
        ...

    async def finish_run(self, user_id: str | None, run_id: str, new: NewEpisode) -> None:
        """Turn an open run into its episode, in one transaction, at the place where it began."""
        ...

    async def interrupt_run(
        self, user_id: str | None, session_id: str, run_id: str, messages: str | None, error: str
    ) -> None:
        """Note that an open run ended without an answer, and what it had produced."""
        ...

    async def unembedded(
        self, user_id: str | None, embedder: str, limit: int, *, dimensions: int | None = None
    ) -> tuple[list[Episode], list[Fact]]:
        """Episodes and facts without a vector of this embedder."""
        ...

    async def set_vectors(
        self, user_id: str | None, episodes: Mapping[str, Embedded], facts: Mapping[str, Embedded]
    ) -> None:
        """Write vectors of episodes and believed facts, by id."""
        ...

    async def drop_vectors(self, user_id: str | None, *, but: str) -> None:
        """Delete the vectors of all embedders but one."""
        ...

    async def forget(
        self,
        user_id: str | None,
        *,
        session_id: str | None = None,
        before: datetime | None = None,
        secure: bool = False,
        single_valued: SingleValued = is_single_valued,
    ) -> Forgotten:
        """Delete rows, vectors and index entries: all of a user, one session, or what is older than `before`.

        A fact goes with the last of its tellings; of one that was told elsewhere too, that telling goes from every
        version, and what is believed follows from the rest. With `secure`, nothing of it is left in the files of the
        database either.
        """
        ...

    async def claim_undistilled(
        self, claim: str, seconds: float, limit: int, *, user_id: str | EllipsisType | None = ...
    ) -> list[Undistilled]:
        """Take up to `limit` finished runs that facts are to be learned from, of one user or of all, oldest first.

        Nobody else is given them for so many seconds.
        """
        ...

    async def finish_undistilled(
        self,
        user_id: str | None,
        episode_id: str,
        claim: str,
        script: Callable[[], FactScript[Result]],
        embedded: Mapping[str, Embedded] | None = None,
    ) -> Result | None:
        """Write what was learned and strike the run off the queue, in one transaction.

        Returns:
            What the script returned; None, and nothing was written, if the claim counts no more.
        """
        ...

    async def postpone_undistilled(
        self, user_id: str | None, episode_id: str, claim: str, error: str, due_at: datetime | None
    ) -> None:
        """Note that learning failed, and when to try again; None parks it until `unpark`."""
        ...

    async def release_undistilled(self, claim: str, *, was_tried: bool = False) -> None:
        """Give back what was taken and not finished, as if it had not been tried unless `was_tried`."""
        ...

    async def undistilled_claims(self) -> list[str]:
        """The claims that there are: who is at it."""
        ...

    async def unpark(self, *, user_id: str | EllipsisType | None = ...) -> int:
        """Put what was parked back into the queue; how much it was."""
        ...

    async def queue(self, *, user_id: str | EllipsisType | None = ...) -> Queue:
        """How much is still to be learned from, of one user or of all."""
        ...

    async def users(self) -> list[str | None]:
        """Every scope that holds anything, for administration."""
        ...

    async def stats(self, user_id: str | None, *, everyone: bool, embedder: str | None) -> MemoryStats:
        """Counts, of one user or of everyone."""
        ...
