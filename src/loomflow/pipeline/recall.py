"""Recall: from a question to candidates. Keyword and vector search, fused by reciprocal rank.

The only stage that does I/O, and only through ports.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from loomflow.items import Episode, EpisodeMatch, Fact, FactMatch, MemoryBlock
from loomflow.ports import NOT_EMBEDDED, Embedded, Embedder, Found, Search, Store
from loomflow.words import query_words

logger = logging.getLogger("loomflow")

RRF_K = 60
"""The constant of reciprocal rank fusion: Cormack, Clarke and Buettcher, SIGIR 2009."""

DEPTH = 32
"""How far each of the two searches is read."""

MAX_QUERY_CHARS = 20_000
"""Of a longer question, the beginning and the end are searched for."""

Item = TypeVar("Item", Episode, Fact)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a user's memory.

    Attributes:
        text: the question; blank recalls nothing but blocks.
        user_id: whose memory.
        session_id: the conversation that it is asked in; its turns are left out of the recall (rule R9).
        in_history: ids of the turns that are in the chat history; None leaves out the whole session.
        at: the moment to look from; None is now.
    """

    text: str
    user_id: str | None
    session_id: str | None = None
    in_history: Collection[str] | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """What recall found, each list best first, and what failed on the way."""

    blocks: tuple[MemoryBlock, ...] = ()
    facts: tuple[FactMatch, ...] = ()
    episodes: tuple[EpisodeMatch, ...] = ()
    problems: tuple[str, ...] = ()


def relevance(rank: int) -> float:
    """Reciprocal rank, 1 / (60 + rank + 1), for a rank from 0."""
    return 1 / (RRF_K + rank + 1)


def search_for(question: Question, query: Embedded, depth: int = DEPTH) -> Search:
    """The search that a question asks for, without what is in the chat history and the facts that came from there."""
    text = _shortened(question.text)
    search = Search(words=tuple(query_words(text)), query=query, limit=depth, at=question.at)
    if question.in_history is None:
        search = replace(search, without_session=question.session_id)
    else:
        search = replace(search, without_ids=frozenset(question.in_history))
    return search


def fuse_episodes(found: Found[Episode], limit: int) -> tuple[EpisodeMatch, ...]:
    """Fuse the two rankings of a search for episodes."""
    return tuple(EpisodeMatch(*match) for match in _fuse(found, limit))


def fuse_facts(found: Found[Fact], limit: int) -> tuple[FactMatch, ...]:
    """Fuse the two rankings of a search for facts."""
    return tuple(FactMatch(*match) for match in _fuse(found, limit))


def _fuse(found: Found[Item], limit: int) -> list[tuple[Item, float, int | None, int | None, float | None]]:
    lexical = {number: rank for rank, number in enumerate(found.lexical)}
    vector = {number: rank for rank, (number, _) in enumerate(found.vector)}
    cosines = dict(found.vector)
    scores = {
        number: sum(relevance(ranks[number]) for ranks in (lexical, vector) if number in ranks)
        for number in lexical | vector
    }
    order = sorted(scores, key=lambda number: (-scores[number], lexical.get(number, len(scores)), -number))[:limit]
    return [(found.items[n], scores[n], lexical.get(n), vector.get(n), cosines.get(n)) for n in order]


async def embed_query(embedder: Embedder | None, text: str, timeout: float) -> tuple[Embedded, tuple[str, ...]]:
    """Embed a question; where that fails or takes longer than `timeout` seconds, say so and go on without."""
    if embedder is None or not text.strip():
        return NOT_EMBEDDED, ()
    try:
        async with asyncio.timeout(timeout):
            (vector,) = await embedder.embed([_shortened(text)], query=True)
    except Exception as error:
        problem = f"the embedder failed, recalled by keyword only: {_named(error)}"
        logger.warning(problem, exc_info=True)
        return NOT_EMBEDDED, (problem,)
    return Embedded(embedder.name, vector), ()


async def recall(
    store: Store, embedder: Embedder | None, question: Question, *, timeout: float, max_facts: int, max_episodes: int
) -> Candidates:
    """Find the blocks, and the candidate facts and episodes for a question.

    What fails is left out and named in `problems`; the caller's run goes on (rule R16).

    Args:
        store: where to look.
        embedder: for the vector search; None searches by keyword only.
        question: what is asked.
        timeout: longest wait, in seconds, for the embedder and for each read.
        max_facts, max_episodes: how many candidates of each to return.

    Raises:
        TypeError: the store returned something else than its port promises, which is a bug.
    """
    blocks, problems = await _guarded(store.blocks(question.user_id), "working blocks", timeout, [])
    _expect(blocks, MemoryBlock, "blocks")
    if not question.text.strip():
        return Candidates(tuple(blocks), problems=problems)
    query, failures = await embed_query(embedder, question.text, timeout)
    problems += failures
    search = search_for(question, query)
    nothing: tuple[Found[Episode], Found[Fact]] = (Found({}), Found({}))
    (episodes, facts), failures = await _guarded(
        store.search(question.user_id, search), "facts and episodes", timeout, nothing
    )
    best_facts, best_episodes = fuse_facts(facts, max_facts), fuse_episodes(episodes, max_episodes)
    _expect([match.fact for match in best_facts], Fact, "search")
    _expect([match.episode for match in best_episodes], Episode, "search")
    return Candidates(tuple(blocks), best_facts, best_episodes, problems + failures)


async def _guarded(
    reading: Awaitable[Result], what: str, timeout: float, otherwise: Result
) -> tuple[Result, tuple[str, ...]]:
    try:
        async with asyncio.timeout(timeout):
            return await reading, ()
    except Exception as error:
        problem = f"{what} could not be read: {_named(error)}"
        logger.warning(problem, exc_info=True)
        return otherwise, (problem,)


def _expect(items: Collection[object], kind: type, method: str) -> None:
    for item in items:
        if not isinstance(item, kind):
            raise TypeError(f"Store.{method} must return {kind.__name__} items, got {type(item).__name__}")


def _named(error: Exception) -> str:
    return "timed out" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"


def _shortened(text: str) -> str:
    if len(text) <= MAX_QUERY_CHARS:
        return text
    half = MAX_QUERY_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"
