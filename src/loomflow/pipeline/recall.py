"""Recall: from a question to candidates, by keyword and vector search.

The only stage that does I/O, and only through ports.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar, cast

from loomflow.embedding import check_vectors
from loomflow.index.questions import without_names
from loomflow.index.subjects import Subjects
from loomflow.items import Episode, EpisodeMatch, Fact, FactMatch, MemoryBlock
from loomflow.passages import both_ends
from loomflow.ports import Embedder, Store
from loomflow.records import NOT_EMBEDDED, Embedded, Found, Names, Passage, Search
from loomflow.words import query_terms

from .fusion import distinct, fuse_episodes, fuse_facts

logger = logging.getLogger("loomflow")

DEPTH = 32
"""How far each of the two searches is read at first."""

DEEPER = 8
"""So many times as far they are read where repetitions take the places of what says something new."""

MAX_QUERY_CHARS = 20_000
"""Of a longer question, the beginning and the end are searched for."""

FAILED = object()
"""Stands for the result of a read that failed."""

Item = TypeVar("Item", Episode, Fact)


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


@dataclass(frozen=True, slots=True)
class PassageCandidates:
    """What recall found for mode "fill", each list best first, and what failed on the way."""

    blocks: tuple[MemoryBlock, ...] = ()
    facts: tuple[Passage[Fact], ...] = ()
    episodes: tuple[Passage[Episode], ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question as it is searched for.

    Attributes:
        question: with the other names of those whom it names.
        about: its text without the names of speakers.
        query: that text, embedded.
        names: who is who.
    """

    question: Question
    about: str
    query: Embedded
    names: Names


def search_for(question: Question, query: Embedded, depth: int = DEPTH) -> Search:
    """The search that a question asks for, without what is in the chat history and the facts that came from there."""
    text = _shortened(question.text)
    search = Search(words=tuple(query_terms(text)), query=query, limit=depth, at=question.at, text=text)
    if question.in_history is None:
        search = replace(search, without_session=question.session_id)
    else:
        search = replace(search, without_ids=frozenset(question.in_history))
    return search


async def embed_query(embedder: Embedder | None, text: str, timeout: float) -> tuple[Embedded, tuple[str, ...]]:
    """Embed a question; where that fails or takes longer than `timeout` seconds, say so and go on without."""
    if embedder is None or not text.strip():
        return NOT_EMBEDDED, ()
    try:
        async with asyncio.timeout(timeout):
            vectors = await embedder.embed([_shortened(text)], query=True)
        check_vectors(embedder, vectors, 1)
    except Exception as error:
        return NOT_EMBEDDED, (_logged("the embedder failed, recalled by keyword only", error),)
    return Embedded(embedder.name, vectors[0]), ()


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
    blocks, problems = await _blocks(store, question, timeout)
    if not question.text.strip():
        return Candidates(blocks, problems=problems)
    asked, failures = await _understood(store, embedder, question, timeout)
    problems += failures
    facts: tuple[FactMatch, ...] = ()
    episodes: tuple[EpisodeMatch, ...] = ()
    depth = max(DEPTH, max_facts, max_episodes)
    deepest = depth * DEEPER
    while depth <= deepest:
        search = search_for(asked.question, asked.query, depth)
        found, failures = await _guarded(store.search(question.user_id, search), "facts and episodes", timeout)
        if found is FAILED:
            return Candidates(blocks, problems=problems + failures)
        found_episodes, found_facts = _checked(found)
        fused = list(fuse_facts(found_facts, asked.question.text, own_names(question, asked.names)))
        facts, enough_facts = distinct(fused, max_facts, lambda match: match.fact.text)
        enough_facts = enough_facts and not _is_crowded(fused, max_facts)
        episodes, enough = distinct(fuse_episodes(found_episodes), max_episodes, lambda match: match.episode.text)
        if (enough_facts or _is_all(found_facts, depth)) and (enough or _is_all(found_episodes, depth)):
            break
        depth *= DEEPER  # repetitions fill the list: what is behind them is wanted too
    return Candidates(blocks, facts, episodes, problems)


async def recall_passages(
    store: Store,
    embedder: Embedder | None,
    question: Question,
    *,
    timeout: float,
    chars: int,
    half_life_days: float | None,
) -> PassageCandidates:
    """Find the blocks, and the passages and facts for a question that are worth `chars` characters; see `recall`."""
    blocks, problems = await _blocks(store, question, timeout)
    if not question.text.strip():
        return PassageCandidates(blocks, problems=problems)
    asked, failures = await _understood(store, embedder, question, timeout)
    problems += failures
    search = replace(
        search_for(asked.question, asked.query),
        words=tuple(query_terms(_shortened(asked.about))),
        half_life_days=half_life_days,
    )
    wanted = chars
    while True:
        found, failures = await _guarded(
            store.passages(question.user_id, replace(search, chars=wanted)), "facts and episodes", timeout
        )
        if found is FAILED:
            return PassageCandidates(blocks, problems=problems + failures)
        episodes, facts = _checked_passages(found)
        said = {_text_of(passage) for passage in episodes}
        is_enough = sum(map(len, said)) >= chars // 2 or _chars(episodes) < wanted
        if is_enough or wanted > chars * DEEPER:
            return PassageCandidates(blocks, facts, episodes, problems)
        wanted *= DEEPER  # repetitions fill the list: what is behind them is wanted too


async def _blocks(store: Store, question: Question, timeout: float) -> tuple[tuple[MemoryBlock, ...], tuple[str, ...]]:
    read, problems = await _guarded(store.blocks(question.user_id, at=question.at), "working blocks", timeout)
    return () if read is FAILED else _expect_blocks(read), problems


async def _understood(
    store: Store, embedder: Embedder | None, question: Question, timeout: float
) -> tuple[_Asked, tuple[str, ...]]:
    """What is asked for. The vector search goes without the names of speakers, as nearly every line is near to them."""
    read, failures = await _guarded(store.names(question.user_id, at=question.at), "names", timeout)
    names = Names() if read is FAILED else _expect_names(read)
    question = known_otherwise(question, names)
    about = without_names(question.text, names.speakers)
    query, not_embedded = await embed_query(embedder, about, timeout)
    return _Asked(question, about, query, names), failures + not_embedded


def own_names(question: Question, names: Names) -> list[str]:
    """By which subjects of facts the asker may go: the user id, and the names of the user."""
    return [*names.users] if question.user_id is None else [question.user_id, *names.users]


def known_otherwise(question: Question, names: Names) -> Question:
    """The question with the other names of those whom it names, where subjects were merged."""
    if not names.same_as:
        return question
    text, others = question.text, list[str]()
    aliases = list(names.same_as)
    for place in sorted(Subjects(aliases).asked(text).named):
        other = names.same_as[aliases[place]]
        while other in names.same_as and other not in others:
            others.append(other)
            other = names.same_as[other]
        others.append(other)
    return replace(question, text=f"{text} ({', '.join(dict.fromkeys(others))})") if others else question


def _is_crowded(facts: Sequence[FactMatch], wanted: int) -> bool:
    """Whether what the agent and tools said leaves fewer than `wanted` facts that the user said."""
    return sum(match.fact.origin == "user" for match in facts) < min(wanted, len(facts))


def _text_of(passage: Passage[Episode]) -> str:
    text = passage.item.output if passage.is_agent else passage.item.input
    return text[passage.start : passage.end]


def _chars(passages: Iterable[Passage[Any]]) -> int:
    return sum(passage.end - passage.start for passage in passages)


def _checked_passages(found: object) -> tuple[tuple[Passage[Episode], ...], tuple[Passage[Fact], ...]]:
    """What `Store.passages` returned, if it is what its port promises.

    Raises:
        TypeError: it is not.
    """
    lists = cast("tuple[Any, ...]", found)
    if not isinstance(found, tuple) or [type(one) for one in lists] != [list, list]:
        raise TypeError(f"Store.passages must return two lists, of episodes and of facts, got {found!r:.80}")
    for passages, kind in zip(lists, (Episode, Fact), strict=True):
        for passage in passages[:1]:
            if not isinstance(passage, Passage) or not isinstance(cast("Any", passage).item, kind):
                raise TypeError(f"Store.passages must return passages of {kind.__name__} items, got {passage!r:.80}")
    return tuple(lists[0]), tuple(lists[1])


def _expect_names(names: object) -> Names:
    if not isinstance(names, Names):
        raise TypeError(f"Store.names must return Names, got {names!r:.80}")
    return names


def _is_all(found: Found[Any], depth: int) -> bool:
    return len(found.lexical) < depth and len(found.vector) < depth


def _checked(found: object) -> tuple[Found[Episode], Found[Fact]]:
    """What `Store.search` returned, if it is what its port promises.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(found, tuple) or [type(one) for one in cast("tuple[object, ...]", found)] != [Found, Found]:
        raise TypeError(f"Store.search must return two Found, of episodes and of facts, got {found!r:.80}")
    episodes, facts = cast("tuple[Found[Any], Found[Any]]", found)
    return _only(episodes, Episode), _only(facts, Fact)


async def _guarded(reading: Awaitable[object], what: str, timeout: float) -> tuple[object, tuple[str, ...]]:
    """What a read of the store gave, or FAILED and the problem."""
    try:
        async with asyncio.timeout(timeout):
            return await reading, ()
    except Exception as error:
        return FAILED, (_logged(f"{what} could not be read", error),)


def _only(found: Found[Any], kind: type[Item]) -> Found[Item]:
    for number in (*found.lexical[:1], *(number for number, _ in found.vector[:1])):
        if not isinstance(found.items[number], kind):
            raise TypeError(f"Store.search must return {kind.__name__} items, got {found.items[number]!r:.80}")
    return found


def _expect_blocks(blocks: object) -> tuple[MemoryBlock, ...]:
    if not isinstance(blocks, list) or not all(
        isinstance(block, MemoryBlock) for block in cast("list[object]", blocks)
    ):
        raise TypeError(f"Store.blocks must return MemoryBlock items in a list, got {blocks!r:.80}")
    return tuple(cast("list[MemoryBlock]", blocks))


def _logged(what: str, error: Exception) -> str:
    """The problem as the receipt names it, in one line of the log; what led to it is logged for debugging only."""
    reason = "timed out" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
    problem = f"{what}: {reason}"
    logger.warning(problem)
    logger.debug("the failure in full", exc_info=error)
    return problem


def _shortened(text: str) -> str:
    return both_ends(text, MAX_QUERY_CHARS, "\n")
