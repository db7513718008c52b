"""Fusion: the two rankings of a search made into one, by reciprocal rank; of facts, with regard to whom they are about.

Facts about whom the question is about have a vote of their own: a third ranking. What the user did not say himself
counts half.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from loomflow.index.subjects import Subjects
from loomflow.items import Episode, EpisodeMatch, Fact, FactMatch
from loomflow.records import Found
from loomflow.words import saying

RRF_K: Final = 60
"""The constant of reciprocal rank fusion: Cormack, Clarke and Buettcher, SIGIR 2009."""

MENTION: Final = 0.9
"""What the vote counts for a fact about somebody else that mentions whom the question names: "Alice manages Bob"."""

HEARSAY: Final = 0.5
"""What the score of a fact counts that the agent or a tool said."""

Match = TypeVar("Match", FactMatch, EpisodeMatch)
Ranks = Mapping[int, int]


def relevance(rank: int) -> float:
    """Reciprocal rank, 1 / (60 + rank + 1), for a rank from 0."""
    return 1 / (RRF_K + rank + 1)


def heard(fact: Fact) -> float:
    """What the score of a fact counts: 1 if the user said it, `HEARSAY` if not."""
    return 1.0 if fact.origin == "user" else HEARSAY


def fuse_episodes(found: Found[Episode]) -> Iterator[EpisodeMatch]:
    """Fuse the two rankings of a search for episodes, best first."""
    lexical, vector, cosines = _rankings(found)
    scores = _fused(lexical, vector)
    for number in _best_first(scores, lexical):
        yield EpisodeMatch(
            found.items[number], scores[number], lexical.get(number), vector.get(number), cosines.get(number)
        )


def fuse_facts(found: Found[Fact], question: str = "", own: Collection[str] = ()) -> Iterator[FactMatch]:
    """Fuse the two rankings of a search for facts, and a third one of the facts about whom the question is about.

    The order within the third ranking is that of the other two together. In all three, what the agent or a tool said
    takes no place of what the user said, and its score counts `HEARSAY`: what matches alike comes after the user's.

    Args:
        found: the two rankings.
        question: as it was asked.
        own: names of the asker, see `loomflow.index.subjects.Subjects.asked`.
    """
    lexical, vector, cosines = _rankings(found)
    facts = {number: found.items[number] for number in lexical | vector}
    hearsay = frozenset(number for number, fact in facts.items() if fact.origin != "user")
    scores = _fused(_unobstructed(lexical, hearsay), _unobstructed(vector, hearsay))
    best_first = _best_first(scores, lexical)
    if votes := _votes(facts, question, own):
        third = {number: rank for rank, number in enumerate(one for one in best_first if one in votes)}
        for number, rank in _unobstructed(third, hearsay).items():
            scores[number] += votes[number] * relevance(rank)
    if votes or hearsay:
        scores |= {number: scores[number] * HEARSAY for number in hearsay}
        best_first = _best_first(scores, lexical)
    for number in best_first:
        yield FactMatch(facts[number], scores[number], lexical.get(number), vector.get(number), cosines.get(number))


def distinct(matches: Iterable[Match], limit: int, text: Callable[[Match], str]) -> tuple[tuple[Match, ...], bool]:
    """The matches up to the `limit`-th that says something new, and whether there were so many.

    Repetitions on the way are kept, so that the receipt can name them.
    """
    kept: list[Match] = []
    said: set[str] = set()
    for match in matches:
        said.add(saying(text(match)))
        if len(said) > limit:
            break
        kept.append(match)
    return tuple(kept), len(said) >= limit


def _rankings(found: Found[Episode] | Found[Fact]) -> tuple[dict[int, int], dict[int, int], dict[int, float]]:
    """The rank of each key in the keyword and the vector search, and its cosine."""
    lexical = {number: rank for rank, number in enumerate(found.lexical)}
    vector = {number: rank for rank, (number, _) in enumerate(found.vector)}
    return lexical, vector, dict(found.vector)


def _fused(lexical: Ranks, vector: Ranks) -> dict[int, float]:
    return {
        number: sum(relevance(ranks[number]) for ranks in (lexical, vector) if number in ranks)
        for number in {**lexical, **vector}
    }


def _best_first(scores: Mapping[int, float], lexical: Ranks) -> list[int]:
    return sorted(scores, key=lambda number: (-scores[number], lexical.get(number, len(scores)), -number))


def _unobstructed(ranks: Ranks, hearsay: Collection[int]) -> Ranks:
    """The ranks, in which hearsay takes no place of what the user said."""
    if not hearsay:
        return ranks
    ahead = 0
    found: dict[int, int] = {}
    for number, rank in ranks.items():  # in the order of rank
        found[number] = rank if number in hearsay else ahead
        ahead += number not in hearsay
    return found


def _votes(facts: Mapping[int, Fact], question: str, own: Collection[str]) -> dict[int, float]:
    """What the third ranking counts for each fact that is in it."""
    names = list(dict.fromkeys(fact.subject for fact in facts.values()))
    about = Subjects(names).asked(question, own)
    subjects = {names[place] for place in about.named | about.asker}
    if not subjects:
        return {}
    mentioned = Subjects(names[place] for place in about.named)
    votes = {
        number: float(fact.subject in subjects) + MENTION * mentioned.are_in(fact.object)
        for number, fact in facts.items()
    }
    return {number: vote for number, vote in votes.items() if vote}
