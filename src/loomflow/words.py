"""How text becomes search words: folding, CJK bigrams, stop words.

The full-text index splits on white space and punctuation, so a run of Chinese or Japanese would be one word that no
query matches. Such runs are therefore indexed as overlapping pairs of characters, and queries are cut the same way.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import regex

MAX_QUERY_WORDS = 48
"""Distinct words of a query that are searched for: from its beginning and from its end, where questions stand."""

_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*")
_CJK_RUN = re.compile(
    "[\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)

_CLAUSE_ENDS = ".,;:!\"'…。，！；：“”‘’«»"

FILLERS = frozenset("a an the very really just also so too".split())
"""Words without which a text still says the same (rule R12)."""

STOP_WORDS = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could did do does doing
    down during each few for from further had has have having he her here hers him his how i if in into is it its
    just ll me more most my no nor not now of off on once only or other our ours out over own re s same she should
    so some such t than that the their theirs them then there these they this those through to too under until up
    us ve very was we were what when where which while who whom why will with would you your yours
    """.split()
)
"""English function words. They are left out of queries, unless the query has nothing else."""


def fold(text: str) -> str:
    """Lower-case compatibility form (NFKC, case folded), in which words are compared."""
    return unicodedata.normalize("NFKC", text).casefold()


def index_text(text: str) -> str:
    """The text that the full-text index is given: folded, with CJK runs spelled as bigrams.

    The last character of a run also stands alone, so that a query of one character finds it wherever it is.
    """
    if text.isascii():
        return text
    return _CJK_RUN.sub(lambda run: f" {' '.join(_bigrams(run[0]))} {run[0][-1]} ", fold(text))


def query_words(text: str) -> list[str]:
    """The distinct words to search for, in order; at most `MAX_QUERY_WORDS`.

    A single CJK character comes back with a trailing `*`, to be matched as a prefix.
    """
    words = list(dict.fromkeys(_split(fold(text))))
    telling = [word for word in words if word not in STOP_WORDS] or words
    if len(telling) <= MAX_QUERY_WORDS:
        return telling
    half = MAX_QUERY_WORDS // 2
    return telling[:half] + telling[-half:]


def normal_form(text: str) -> str:
    """A text without what does not change its meaning: case, width, spacing, and punctuation that ends a clause.

    Signs inside or at the front of a word stay, and so do emoji and question marks: `C++` is not `C`, `-5` not `5`.
    """
    return " ".join(word.strip(_CLAUSE_ENDS) or word for word in fold(text).split())


@lru_cache(maxsize=256)
def saying(text: str) -> str:
    """What a text says, for telling repetitions: its normal form without words that carry no meaning of their own.

    Texts that differ in any other word, in a number or in a negation say different things.
    """
    return " ".join(word for word in normal_form(text.replace("_", " ")).split() if word not in FILLERS)


def _split(folded: str) -> Iterator[str]:
    for word in _WORD.findall(folded):
        position = 0
        for run in _CJK_RUN.finditer(word):
            if run.start() > position:
                yield word[position : run.start()]
            yield from _bigrams(run[0]) if len(run[0]) > 1 else [f"{run[0]}*"]
            position = run.end()
        if position < len(word):
            yield word[position:]


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)]
