"""Evidence recall: how much of what one has to read to answer a question is in the block that a memory injects.

No model judges. Texts are compared as words: letters and digits of lower case with one space between them, so that
quotes, escapes and punctuation around a turn make no difference. Only the standard library is used.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

CHARACTERS_PER_TOKEN = 4
"""By which a budget is measured, for every system alike."""

_WORD = re.compile(r"[^\W_]+")
_ESCAPED_BREAK = re.compile(r"\\[nrt]")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*(?=\S)")


@dataclass(frozen=True, slots=True)
class Score:
    """What a block is worth for one question; each from 0 to 1.

    Attributes:
        evidence: share of the gold turns that are in the block as a whole.
        complete: 1 if all of them are.
        partial: share of their characters, sentence by sentence: for the right sentence of a long turn.
        used: share of the budget that the block takes.
        over: 1 if the block is longer than the budget. It is cut there before anything is looked for.
    """

    evidence: float
    complete: float
    partial: float
    used: float
    over: float


def score(block: str, gold_texts: Sequence[str], budget: int) -> Score:
    """Score one block.

    Args:
        block: what was injected.
        gold_texts: the turns that hold the answer; at least one.
        budget: in tokens of four characters; at least 1.
    """
    room = budget * CHARACTERS_PER_TOKEN
    words = f" {_words(_ESCAPED_BREAK.sub(' ', block[:room]))} "
    found = sum(_holds(words, _turn_words(text)) for text in gold_texts)
    sentences = [sentence for text in gold_texts for sentence in _sentences(text)]
    length = sum(map(len, sentences))
    length_found = sum(len(sentence) for sentence in sentences if _holds(words, sentence))
    return Score(
        evidence=found / len(gold_texts),
        complete=float(found == len(gold_texts)),
        partial=length_found / length if length else 0.0,
        used=min(-(-len(block) // CHARACTERS_PER_TOKEN) / budget, 1.0),
        over=float(len(block) > room),
    )


def mean(scores: Sequence[Score]) -> Score:
    """The average over questions; at least one."""
    names = [field.name for field in fields(Score)]
    return Score(**{name: sum(getattr(one, name) for one in scores) / len(scores) for name in names})


def _holds(words: str, sought: str) -> bool:
    return sought != "" and f" {sought} " in words


def _words(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).replace("’", "'").lower()
    return " ".join(_WORD.findall(plain))


@lru_cache(maxsize=10_000)
def _turn_words(text: str) -> str:
    return _words(text)


@lru_cache(maxsize=10_000)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(words for part in _SENTENCE_END.split(text) if (words := _words(part)))
