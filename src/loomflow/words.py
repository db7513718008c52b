"""How text becomes search words: folding, stems, CJK bigrams, stop words.

Chinese, Japanese and Korean do not put spaces between words, so a run of such characters is searched for as its
overlapping pairs, and stands in the index as pairs and as single characters.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable
from functools import lru_cache

import regex
import Stemmer

MAX_QUERY_WORDS = 48
"""Distinct words of a query that are searched for: from its beginning and from its end, where questions stand."""

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*")
_CJK_RUN = re.compile(
    "[\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)

_QUOTES = "\"'“”‘’«»"
_CLAUSE_ENDS = f".,;:!…。，！；：{_QUOTES}"

FILLERS = frozenset("a an the very really just also so too".split())
"""Words without which a text still says the same (rule R12)."""

STOP_WORDS = frozenset(
    """
    a about after also am an and any are as at be because been before being but by bye can could d did do does doing
    each for from further goodbye had has have having he hello her hers hey hi him his how i if in into is it its just
    ll m me more most my no nor not of ok okay on or other our ours own please re s same she should so some such t than
    thank thanks that the their theirs them then there these they this those through to too until us ve very was we
    were what when where which while who whom whose why will with would yeah yes you your yours
    """.split()
)
"""English function words: left out of queries, unless the query has nothing else, and not counted as length."""

_ASKER = frozenset("i me my mine we us our ours".split())
_SUM = re.compile(r"(?<![\w.,])\d[\d.,]{0,20}(?:\s{0,3}(?:[+*×÷^=]|\s[-/x]\s)\s{0,3}[\d.,]{1,20})+")
"""A sum to work out, as in "2+2" or "17 * 23"."""

_CONTRACTION = re.compile(r"\b(?:are|ca|could|did|does|do|had|has|have|is|must|need|should|was|were|wo|would)n['’]t\b")
_ACCENTS = re.compile("[\u0300-\u036f]")
_stem: Callable[[list[str]], list[str]] = Stemmer.Stemmer("english", 0).stemWords  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_stemming = threading.Lock()


def fold(text: str) -> str:
    """Lower-case compatibility form (NFKC, case folded), in which words are compared."""
    return unicodedata.normalize("NFKC", text).casefold()


def query_terms(text: str) -> list[str]:
    """The distinct terms to search for, in order; at most `MAX_QUERY_WORDS`.

    Stop words are among them only where there is nothing else, and numbers to calculate with never.
    """
    telling, other = terms(_SUM.sub(" ", text))
    distinct = list(dict.fromkeys(telling or other))
    if len(distinct) <= MAX_QUERY_WORDS:
        return distinct
    half = MAX_QUERY_WORDS // 2
    return distinct[:half] + distinct[-half:]


def says_something(text: str) -> bool:
    """Whether there is a telling word to look for. There is none in "2+2?", "ok", "Thanks!" and "Who am I?"."""
    return bool(terms(_SUM.sub(" ", text))[0])


def is_about_asker(text: str) -> bool:
    """Whether a text speaks of the one who says it: "Who am I?"."""
    return not _ASKER.isdisjoint(_WORD.findall(fold(text)))


def terms(text: str) -> tuple[list[str], list[str]]:
    """A text as terms, in order: those that tell something, then the rest, which is searchable too.

    Words are folded, lose their accents and are reduced to their stem (Snowball's English stemmer; words of other
    alphabets stay whole). The rest are stop words, and the single characters of CJK runs.
    """
    telling: list[str] = []
    other: list[str] = []
    folded = _CONTRACTION.sub(" not ", text.lower() if text.isascii() else fold(text))
    for word in (_ASCII_WORD if text.isascii() else _WORD).findall(folded):
        plain = word if word.isascii() else _without_accents(word)
        if word in STOP_WORDS:  # as it is written: French "thé" is no "the"
            other.append(word)
        elif plain.isascii():
            telling.append(plain)
        else:
            _split_runs(plain, telling, other)
    with _stemming:
        return _stem(telling), other


def plain_words(text: str) -> list[str]:
    """The words of a text, folded and without accents."""
    return _WORD.findall(fold(text) if text.isascii() else _without_accents(fold(text)))


def _without_accents(folded: str) -> str:
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", folded)))


def _split_runs(word: str, telling: list[str], other: list[str]) -> None:
    position = 0
    for run in _CJK_RUN.finditer(word):
        if run.start() > position:
            telling.append(word[position : run.start()])
        if len(run[0]) > 1:
            telling += [run[0][i : i + 2] for i in range(len(run[0]) - 1)]
            other += run[0]
        else:
            telling.append(run[0])
        position = run.end()
    if position < len(word):
        telling.append(word[position:])


def normal_form(text: str) -> str:
    """A text without what does not change its meaning: case, width, spacing, and punctuation that ends a clause.

    Signs inside or at the front of a word stay, and so do emoji and question marks: `C++` is not `C`, `-5` not `5`.
    """
    return " ".join([word.rstrip(_CLAUSE_ENDS).lstrip(_QUOTES) or word for word in fold(text).split()])


@lru_cache(maxsize=1024)
def saying(text: str) -> str:
    """What a text says, for telling repetitions: its normal form without words that carry no meaning of their own.

    Texts that differ in any other word, in a number or in a negation say different things.
    """
    return " ".join(word for word in normal_form(text.replace("_", " ")).split() if word not in FILLERS)
