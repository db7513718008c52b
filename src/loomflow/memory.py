"""The facade: a memory of working blocks, facts and episodes, and the injection made from it.

This is the one module that chains the stages: recall, rank, pack, render.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from itertools import islice
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Self, overload

from .blocks import MAX_BLOCK_CHARS, Blocks
from .checks import check_id, check_limit, check_text, check_user_id, utc_or_none
from .embedders import check_embedder, resolve_embedder
from .embedding import embed_items
from .encryption import guard_of
from .errors import ConfigError
from .facts import Facts
from .index.questions import without_names
from .items import Episode, EpisodeMatch, Fact, Forgotten, MemoryStats, SessionMessage
from .locations import Location, locate
from .locks import SessionLocks
from .pipeline.fill import pack_fill
from .pipeline.pack import Packed, pack_all, pack_budget
from .pipeline.rank import rank, rank_passages
from .pipeline.recall import (
    DEPTH,
    Candidates,
    PassageCandidates,
    Question,
    embed_query,
    fuse_episodes,
    fuse_facts,
    known_otherwise,
    own_names,
    recall,
    recall_passages,
    search_for,
)
from .ports import NOISE, Embedder, Store
from .predicates import Predicates
from .receipt import Injection
from .records import Found, Names, NewEpisode
from .reembedding import REEMBED_BATCH, reembed_user
from .settings import FILL_BUDGET, MAX_FACTS, Tuning
from .tokens import GuardedCounter, TokenCounter, counter_or_estimate
from .tracing import span
from .transfer import Imported, export_user, import_user
from .turns import messages_of, without_retries
from .words import is_about_asker, says_something

if TYPE_CHECKING:
    from .stores.checking import CheckReport

logger = logging.getLogger("loomflow")

RECALL_LIMIT = 12
MOST_ITEMS = 10_000
LOOKED_AT = 8
"""So many candidates beyond the limits of mode "top" stand in the receipt."""

FILL_CHARS_A_TOKEN, FILL_CHARS = 4, 4_000
"""How much text mode "fill" looks at: what the budget would hold in English, and so much more to choose from."""


class Memory(Blocks):
    """What an agent knows about its users. Safe to use from several threads and event loops.

    Open one with `Memory.open`; the constructor takes a store and an embedder that are made already.

    Args:
        store: where memories are kept, or a function that makes it on first use.
        embedder: what `Memory.open` takes.
        max_block_chars: longest working block that may be written.
        single_valued, multi_valued: as in `Memory.open`.
    """

    def __init__(
        self,
        store: Store | Callable[[], Store],
        *,
        embedder: Any = "default",
        max_block_chars: int = MAX_BLOCK_CHARS,
        single_valued: Iterable[str] = (),
        multi_valued: Iterable[str] = (),
    ) -> None:
        check_embedder(embedder)
        self._store = store
        self._making = threading.Lock()
        self._embedder_spec = embedder
        self._max_block_chars = check_limit("max_block_chars", max_block_chars)
        self._warned: set[str] = set()
        self._dimensions: dict[str, int] = {}
        self.session_locks = SessionLocks()
        self._predicates = Predicates.of(single_valued, multi_valued)
        self.facts = Facts(lambda: self.store, lambda: self.embedder, self._predicates)

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str] = "inmemory",
        *,
        embedder: Any = "default",
        max_block_chars: int = MAX_BLOCK_CHARS,
        single_valued: Iterable[str] = (),
        multi_valued: Iterable[str] = (),
        encryption_key: str | bytes | Sequence[str | bytes] | None = None,
    ) -> Memory:
        """Make a memory at a URL or path. It opens on first use and creates the database if there is none.

        Args:
            url: `inmemory`, `sqlite:./bot.db`, `sqlite:////abs/path.db`, or the path of a file.
            embedder: "default" (static vectors that come with the package: no network, no key), "onnx:DIRECTORY",
                "fastembed:MODEL", a hosted model as in "openai:text-embedding-3-small", an object with `name` and
                `async embed(texts, *, query)`, a function from a list of texts to a list of vectors, or None for
                keyword search only.
            max_block_chars: longest working block that may be written.
            single_valued, multi_valued: predicates that hold one value at a time, or gather values, where the list of
                `loomflow.predicates` says otherwise or nothing.
            encryption_key: a Fernet key, or several of which the first encrypts and all decrypt; text is plain if None.

        Raises:
            ConfigError: the URL or the embedder is of no known form, or a predicate stands in both lists.
        """
        location = locate(url)
        return cls(
            partial(_store_at, location, guard_of(encryption_key)), embedder=embedder, max_block_chars=max_block_chars,
            single_valued=single_valued, multi_valued=multi_valued,
        )  # fmt: skip

    @property
    def store(self) -> Store:
        """The store behind this memory."""
        with self._making:
            if callable(self._store):
                self._store = self._store()
            return self._store

    @cached_property
    def embedder(self) -> Embedder | None:
        """The embedder in use; None for keyword search only."""
        if self._embedder_spec is None:
            return None
        return resolve_embedder(self._embedder_spec)

    async def _load(self) -> None:
        """Make the store and the embedder in a thread, with all that they import: the event loop must not wait."""
        if callable(self._store) or "embedder" not in self.__dict__:
            await asyncio.to_thread(lambda: (self.store, self.embedder and self.embedder.name))

    async def __aenter__(self) -> Self:
        await self._load()
        await self.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Finish and release everything. A closed memory opens again on use; one `inmemory` is then empty."""
        await self.store.aclose()
        own: Any = self.__dict__.get("embedder")
        if own is not self._embedder_spec and hasattr(own, "aclose"):
            await own.aclose()

    # Episodes and recall

    @overload
    async def remember(self, episodes: Episode, *, distill: bool = False) -> Episode: ...

    @overload
    async def remember(self, episodes: Iterable[Episode], *, distill: bool = False) -> list[Episode]: ...

    async def remember(
        self, episodes: Episode | Iterable[Episode], *, distill: bool = False
    ) -> Episode | list[Episode]:
        """Store one or several finished runs. An id that is there already is the same episode and is left as it is.

        They become part of the chat history of their session, at its end.

        Args:
            episodes: what to store.
            distill: put them into the queue that facts are learned from, see `Agent.distill`.

        Returns:
            The episode as stored, with id and time; for several, a list in the order given.
        """
        if not isinstance(episodes, Episode | Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError.of("episodes", "an Episode or a list of them", episodes)
        told = [episodes] if isinstance(episodes, Episode) else list(episodes)
        for episode in told:
            if not isinstance(episode, Episode):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError.of("episodes", "an Episode or a list of them", episode)
        await self._load()
        embedded = await embed_items(self.embedder, told)
        stored = list(told)
        for user_id in dict.fromkeys(episode.user_id for episode in told):
            places = [place for place, episode in enumerate(told) if episode.user_id == user_id]
            batch = [NewEpisode(told[place], embedded[place], distill=distill) for place in places]
            for place, episode in zip(places, await self.store.add_episodes(user_id, batch), strict=True):
                stored[place] = episode
        return stored[0] if isinstance(episodes, Episode) else stored

    def is_single_valued(self, predicate: str) -> bool:
        """Whether a subject has one value at a time for this predicate, by the list and the settings."""
        return self._predicates.is_single_valued(predicate)

    async def recall(
        self,
        query: str,
        *,
        user_id: str | None = None,
        limit: int = RECALL_LIMIT,
        without_session: str | None = None,
    ) -> list[Episode]:
        """Find the episodes that fit a question, best first; see `recall_scored`."""
        matches = await self.recall_scored(query, user_id=user_id, limit=limit, without_session=without_session)
        return [match.episode for match in matches]

    async def recall_scored(
        self,
        query: str,
        *,
        user_id: str | None = None,
        limit: int = RECALL_LIMIT,
        without_session: str | None = None,
    ) -> list[EpisodeMatch]:
        """Find the episodes that fit a question, best first, with their ranks in the two searches.

        Args:
            query: the question; a blank one finds nothing.
            user_id: whose episodes.
            limit: how many at most.
            without_session: leave out the episodes of this session.
        """
        question = Question(check_text("query", query), check_user_id(user_id), without_session)
        wanted = check_limit("limit", limit)
        names = await self.store.names(question.user_id)
        episodes, _ = await self._search(known_otherwise(question, names), wanted, names, facts=False)
        return list(islice(fuse_episodes(episodes), wanted))

    async def recall_facts(
        self,
        query: str,
        *,
        user_id: str | None = None,
        limit: int = MAX_FACTS,
        at: datetime | None = None,
    ) -> list[Fact]:
        """Find the facts that fit a question, best first. Only what is true and believed (now, or `at`) is found."""
        question = Question(check_text("query", query), check_user_id(user_id), at=utc_or_none("at", at))
        wanted = check_limit("limit", limit)
        names = await self.store.names(question.user_id, at=question.at)
        question = known_otherwise(question, names)
        _, facts = await self._search(question, wanted, names, episodes=False)
        own = own_names(question, names)
        return [match.fact for match in islice(fuse_facts(facts, question.text, own), wanted)]

    async def _search(
        self, question: Question, limit: int, names: Names, *, episodes: bool = True, facts: bool = True
    ) -> tuple[Found[Episode], Found[Fact]]:
        if not question.text.strip():
            return Found({}), Found({})
        about = without_names(question.text, names.speakers)
        query, _ = await embed_query(self.embedder, about, Tuning().recall_timeout_seconds)
        search = search_for(question, query, max(limit, DEPTH))
        return await self.store.search(question.user_id, replace(search, episodes=episodes, facts=facts))

    # Injection

    async def inject(
        self,
        query: str,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        tuning: Tuning | None = None,
        at: datetime | None = None,
        in_history: Collection[str] | None = None,
    ) -> Injection:
        """Make the block to put in front of a model, with its receipt. Reads only.

        Args:
            query: what the user asks; blank recalls nothing but the working blocks.
            user_id: whose memory; None is the anonymous scope.
            session_id: the running conversation; what is in its chat history is not repeated.
            tuning: budget, half-life and more; the defaults if None.
            at: build the block as it would have been at this moment; now if None.
            in_history: ids of the episodes that the chat history holds; all of the session's if None.

        Raises:
            ConfigError: an argument has the wrong form.
        """
        await self._load()
        tuning = tuning or Tuning()
        question = Question(
            check_text("query", query),
            check_user_id(user_id),
            None if session_id is None else check_id("session_id", session_id),
            in_history,
            utc_or_none("at", at),
        )
        now = question.at or self.store.clock()
        budget = tuning.memory_token_budget
        has_ceiling = budget is not None or tuning.memory_mode == "fill"
        half_life = tuning.memory_decay_half_life_days if has_ceiling else None
        count = counter_or_estimate(tuning.token_counter)
        how: dict[str, Any] = {"now": now, "half_life_days": half_life}
        how |= self._floor(question.text, tuning.memory_min_relevance)
        if tuning.memory_mode == "fill":
            budget = budget or FILL_BUDGET
        shown = question.text if tuning.trace_memory_text else None
        with span("recall", mode=tuning.memory_mode, question=shown) as recalling:
            found = await self._recalled(question, tuning, budget, half_life)
            problems = found.problems
            recalling.note(facts=len(found.facts), episodes=len(found.episodes), problems=len(problems))
        with span("pack", budget=budget) as packing:
            packed = _packed(found, tuning, budget, count, how)
            packing.note(
                tokens=packed.tokens, items=len(packed.items), over_budget=bool(packed.over_budget),
                injected=sum(item.status != "dropped" for item in packed.items),
                block=packed.text if tuning.trace_memory_text else None,
            )  # fmt: skip
        if isinstance(count, GuardedCounter) and count.failure:
            problems += (f"token_counter failed, the estimate was used where it did: {count.failure}",)
            self._warn_once(problems[-1])
        for reason in packed.over_budget:
            self._warn_once(f"the memory block is over memory_token_budget={budget}: {reason}")
        return Injection(
            text=packed.text, tokens=packed.tokens, budget=budget, items=packed.items, query=question.text,
            user_id=question.user_id, session_id=question.session_id, at=now, half_life_days=half_life,
            pinned_tokens=packed.pinned_tokens, pinned=packed.pinned, over_budget=packed.over_budget, problems=problems,
        )  # fmt: skip

    async def _recalled(
        self, question: Question, tuning: Tuning, budget: int | None, half_life: float | None
    ) -> Candidates | PassageCandidates:
        if tuning.memory_mode == "fill":
            assert budget is not None
            return await recall_passages(
                self.store, self.embedder, question, timeout=tuning.recall_timeout_seconds,
                chars=budget * FILL_CHARS_A_TOKEN + FILL_CHARS, half_life_days=half_life,
            )  # fmt: skip
        limits = {"max_facts": tuning.memory_max_facts, "max_episodes": tuning.memory_max_episodes}
        return await recall(
            self.store, self.embedder, question, timeout=tuning.recall_timeout_seconds,
            **{name: min(limit, MOST_ITEMS) + LOOKED_AT for name, limit in limits.items()},
        )  # fmt: skip

    def _floor(self, question: str, min_relevance: float) -> dict[str, float]:
        """What is too little to count, see `loomflow.pipeline.rank.match`.

        A question that says nothing to look for finds what stands out from the noise only. If it is about the asker
        ("Who am I?"), there is no telling what fits: nothing is left out.
        """
        if says_something(question):
            return {"min_relevance": min_relevance, "noise": 0.0}
        if is_about_asker(question):
            return {"min_relevance": 0.0, "noise": 0.0}
        return {"min_relevance": min_relevance, "noise": float(getattr(self.embedder, "noise", NOISE))}

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(message)

    # Sessions and everything else

    async def session_messages(
        self, session_id: str, *, user_id: str | None = None, limit: int | None = None
    ) -> list[SessionMessage]:
        """List what was said in a session, oldest first; with a limit, the newest messages of it."""
        wanted = None if limit is None else check_limit("limit", limit)
        turns = await self.store.turns(user_id, check_id("session_id", session_id))
        messages = [message for turn in without_retries(turns) for message in messages_of(turn)]
        return messages if wanted is None else messages[-wanted:]

    async def forget(
        self,
        *,
        user_id: str | None,
        session_id: str | None = None,
        before: datetime | None = None,
        secure: bool = False,
    ) -> Forgotten:
        """Delete for good: rows, vectors and index entries.

        Args:
            user_id: whose memory; has to be said, None is the anonymous scope.
            session_id: only the episodes of this session, and the facts that came from them alone. What they had ended
                or begun follows from what else was told.
            before: only episodes older than this moment, and facts that were told before it alone.
            secure: leave no trace in the database's files. This rewrites them, which takes time and space in proportion
                to their size.

        Returns:
            How much was deleted. Working blocks go only when everything of the user goes.
        """
        return await self.store.forget(
            user_id, session_id=session_id, before=before, secure=secure,
            single_valued=self._predicates.is_single_valued,
        )  # fmt: skip

    async def export(self, user_id: str | None) -> dict[str, Any]:
        """All of a user's memory as plain JSON values, for `import_`: blocks, all versions of facts, episodes."""
        return await export_user(self.store, check_user_id(user_id))

    async def import_(self, data: Mapping[str, Any], *, user_id: str | EllipsisType | None = ...) -> Imported:
        """Write what `export` gave. Doing it twice changes nothing.

        Args:
            data: an export.
            user_id: into whose memory; the exported user's own if not given.

        Returns:
            How much was new.

        Raises:
            ConfigError: the data is not an export; names the place. Nothing was written.
        """
        return await import_user(self.store, self.embedder, data, user_id, self._max_block_chars, self.is_single_valued)

    async def users(self) -> list[str | None]:
        """Every scope that holds anything; None is the anonymous one. For administration."""
        return await self.store.users()

    async def stats(self, *, user_id: str | EllipsisType | None = ...) -> MemoryStats:
        """Counts, of one user, or of everyone if no user is given."""
        everyone = isinstance(user_id, EllipsisType)
        name = self.embedder.name if self.embedder else None
        stats = await self.store.stats(None if everyone else user_id, everyone=everyone, embedder=name)
        queue = await self.store.queue(user_id=user_id)
        return replace(stats, undistilled=queue.waiting, parked=queue.parked, parked_errors=queue.errors)

    async def reembed(
        self, *, user_id: str | None, batch: int = REEMBED_BATCH, progress: Callable[[int], None] | None = None
    ) -> int:
        """Embed what has no vector of the current embedder: after its failure, or after a change of embedder.

        What is made is stored batch by batch, so a call that is stopped loses nothing and the next one goes on from
        there. Vectors of other embedders are kept until every item has one of this.

        Args:
            user_id: whose memory.
            batch: how many facts and episodes are embedded and stored at a time.
            progress: called after each batch with how many more items were tried.

        Returns:
            How many facts and episodes got a vector. What fails again, or embeds to nothing, is left for the next call.
        """
        check_user_id(user_id)
        await self._load()
        size = check_limit("batch", batch)
        return await reembed_user(self.store, self.embedder, user_id, size, progress, self._dimensions)

    async def check(self, *, repair: bool = False) -> CheckReport:
        """Look for damage, and with `repair` make indexes anew from the rows; see `loomflow.stores.checking`."""
        await self._load()
        return await importlib.import_module("loomflow.stores.checking").check_store(self.store, repair=repair)


def _packed(
    found: Candidates | PassageCandidates, tuning: Tuning, budget: int | None, count: TokenCounter, how: dict[str, Any]
) -> Packed:
    if isinstance(found, PassageCandidates):
        assert budget is not None
        return pack_fill(found.blocks, rank_passages(found, **how), budget, count)
    ranked = rank(found, max_facts=tuning.memory_max_facts, max_episodes=tuning.memory_max_episodes, **how)
    return pack_all(found.blocks, ranked, count) if budget is None else pack_budget(found.blocks, ranked, budget, count)


def _store_at(location: Location, guard: Any) -> Store:
    """The store at a place; its module is loaded here, with all that it needs."""
    if location.kind != "postgresql":
        return importlib.import_module("loomflow.stores.sqlite").SQLiteStore(location.path, guard=guard)
    try:
        postgres = importlib.import_module("loomflow.stores.postgres")
    except ImportError as error:
        raise ConfigError("memory postgresql://... needs another package: pip install 'loomflow[postgres]'") from error
    return postgres.PostgresStore(location.url, guard=guard)
