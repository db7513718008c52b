"""What the library needs from the outside, as Protocols: a store, an embedder, a token counter, a clock.

Anything that has these methods can be plugged in. `loomflow.testing` ships the conformance suite for stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import TYPE_CHECKING, Protocol

from .bitemporal import FactChanges, SingleValued
from .items import Episode, Fact, Forgotten, MemoryBlock, MemoryStats
from .predicates import is_single_valued
from .records import (
    BlockPlan,
    Embedded,
    FactFilter,
    FactPlan,
    FactScript,
    Found,
    Names,
    NewEpisode,
    OpenRun,
    Passage,
    Queue,
    Result,
    Search,
    Turn,
    Undistilled,
)

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
