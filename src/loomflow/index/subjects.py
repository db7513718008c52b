"""Whom a question is about: which subjects of facts it names, and whether it asks about the one who asks.

A subject is named by its whole name, by its first or last word ("Bob" for "Bob Miller"), or by the part of an e-mail
address before the @. Where names overlap, the longest one counts: "Bob's wife" is not about Bob, and "my sister" is not
about the asker if there is a subject "sister" or "user's sister".

The word lists cover a few languages. Where one is not listed, the question names nobody, and the search goes by words
and vectors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import regex

from loomflow.words import STOP_WORDS, normal_form, plain_words

from .questions import TITLES

Words = tuple[str, ...]

THE_USER: Final = frozenset(
    "user|the user|me|i|myself|ich|yo|je|moi|eu|io|я|用户|用戶|我|ユーザー|私|사용자|나".split("|")
)
"""Subjects that stand for the user, in normal form."""

_POSSESSIVES = frozenset(
    """
    my our mein meine meiner meinen meinem meines unser unsere unserer unseren unserem mi mis mio mia mios mias miei mie
    nuestro nuestra nuestros nuestras meu minha meus minhas nosso nossa nossos nossas mon ma mes notre nos nostro nostra
    mijn onze mina mitt moj moja moje мои моя мое моего моей моих моему моем наш наша наше наши 我 俺 咱 私 僕
    """.split()
)
_PRONOUNS = _POSSESSIVES | frozenset(
    """
    i me mine myself we us ours ourselves ich mich mir wir uns yo conmigo nosotros eu mim comigo je j moi nous io noi ik
    mij jag jeg mig meg mnie я меня мне мной мы нас нам user
    """.split()
)
_KOREAN_PRONOUN = regex.compile(r"(?<!\w)(?:나|내|저|제)(?:는|가|의|를|도|한테|에게)?(?!\w)")

_LINKS = frozenset("s 的 の".split())
"""Between an owner and what is owned."""

_HONORIFICS = frozenset("先生 女士 小姐 老师 老師 太太 教授 医生".split())

_WORD = regex.compile(
    r"[\p{Katakana}ー]+|[\p{Han}\p{Hiragana}\p{Hangul}]"
    r"|[[\p{L}\p{N}\p{M}]--[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]]+",
    regex.VERSION1,
)
"""A word; of scripts without spaces between words, a character, or a run of katakana."""

_CHARACTER = regex.compile(r"[\p{Han}\p{Hangul}]")


@lru_cache(maxsize=10_000)
def _plain(text: str) -> Words:
    """The words of a text, folded."""
    parts = plain_words(text)
    return tuple(parts) if text.isascii() else tuple(word for part in parts for word in _WORD.findall(part))


_ASIDES = tuple(
    _plain(text)
    for text in """
        tell me, show me, give me, remind me, help me, let me, let us, ask me, do i know, did i tell, did i say,
        did i mention, have i told, i wonder, i think, i guess, i forgot, i forget, i want to know, i need to know,
        i d like to know, can i ask, may i ask, sag mir, zeig mir, gib mir, ich frage mich, dis moi, dites moi,
        je me demande, скажи мне, расскажи мне, 告诉我, 给我, 帮我, 我想知道, 自我, 我国, 私立
    """.split(",")
)
"""Where the pronoun does not say whom the question is about."""

_LONG_PRONOUNS = tuple(map(_plain, "用户 用戶 わたし ぼく ユーザー 사용자".split()))


@dataclass(frozen=True, slots=True)
class About:
    """Whom a question is about, as places in a list of subjects.

    Attributes:
        named: the subjects that it names.
        asker: those that stand for the asker, if it is about the asker.
    """

    named: frozenset[int] = frozenset()
    asker: frozenset[int] = frozenset()


NOBODY: Final = About()


class Subjects:
    """Subjects of facts, for finding those that a question is about. Finding takes no longer the more there are."""

    def __init__(self, subjects: Iterable[str] = ()) -> None:
        self._count = 0
        self._by_form: dict[str, list[int]] = defaultdict(list)
        self._by_first_word: dict[str, list[tuple[Words, int]]] = defaultdict(list)
        self._owned: dict[Words, list[tuple[Words, int]]] = defaultdict(list)
        self.extend(subjects)

    def __len__(self) -> int:
        return self._count

    def extend(self, subjects: Iterable[str]) -> None:
        """Add subjects; their places go on from those that are there."""
        for subject in subjects:
            form, ways, owner, owned = _read(subject)
            self._by_form[form].append(self._count)
            for way in ways:
                self._by_first_word[way[0]].append((way, self._count))
            for way in owned:
                self._owned[owner].append((way, self._count))
            self._count += 1

    def asked(self, question: str, own: Collection[str] = (), among: Collection[int] | None = None) -> About:
        """The subjects that a question is about.

        Args:
            question: as it was asked.
            own: names of the asker. A subject equal to one of them stands for the asker, as does "user" or "me".
            among: places of the subjects that count; None for all.
        """
        tokens = _WORD.findall(question)
        words = tuple("".join(plain_words(token)) for token in tokens)
        own = THE_USER | set(map(normal_form, own))
        named: set[int] = set()
        covered: set[int] = set()
        spans: dict[tuple[int, int], list[int]] = defaultdict(list)
        for start, end, place in (*self._named(words, tokens), *self._owned_by(own, words)):
            if among is None or place in among:
                spans[_with_possessive(words, start), end].append(place)
        for (start, end), places in sorted(spans.items(), key=lambda span: span[0][0] - span[0][1]):
            if covered.isdisjoint(range(start, end)):
                named.update(places)
                covered.update(range(start, end), _friend_of(words, start))
        asker: set[int] = set()
        if _speaks_of_asker(question, words, tokens, covered):
            places = {place for form in own for place in self._by_form.get(form, ())}
            asker.update(places if among is None else places.intersection(among))
        return About(frozenset(named), frozenset(asker))

    def are_in(self, text: str) -> bool:
        """Whether a text names any of the subjects."""
        words = _plain(text)
        return any(
            _fits(words, start, way)
            for start, word in enumerate(words)
            for way, _ in self._by_first_word.get(word, ())
            if any(map(_tells, way))
        )

    def _named(self, words: Words, tokens: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        """Where subjects are named: from which word to which, and the place of the subject."""
        for start, word in enumerate(words):
            for first in {word, word[:-1]} if len(word) > 3 and word.endswith("s") else {word}:
                for way, place in self._by_first_word.get(first, ()):
                    is_telling = any(_tells(word) for word in way) or (start > 0 and tokens[start][0].isupper())
                    if is_telling and _fits(words, start, way):
                        yield start, start + len(way), place

    def _owned_by(self, own: Collection[str], words: Words) -> Iterator[tuple[int, int, int]]:
        """The same for what the asker calls "my"."""
        if not self._owned:
            return
        owners = [owned for form in own if (owned := self._owned.get(_plain(form)))]
        for start, word in enumerate(words):
            if word in _POSSESSIVES:
                begin = start + 1 + (words[start + 1 : start + 2] in (("的",), ("の",)))
                for owned in owners:
                    for way, place in owned:
                        if _fits(words, begin, way):
                            yield start, begin + len(way), place


@lru_cache(maxsize=50_000)
def _read(subject: str) -> tuple[str, tuple[Words, ...], Words, tuple[Words, ...]]:
    """A subject's normal form and the runs of words that name it; if it is owned, its owner, and what names it then.

    >>> _read("Ana Lima")[1]
    (('ana', 'lima'), ('ana',), ('lima',))
    >>> _read("Bo's boat")[1:]
    ((('bo', 's', 'boat'),), ('bo',), (('boat',),))
    """
    form = normal_form(subject)
    words = _without_titles(_plain(subject))
    if form in THE_USER or not words:
        return form, (), (), ()
    link = next((place for place in range(1, len(words) - 1) if words[place] in _LINKS), 0)
    if link:
        owned = _ways(words[link + 1 :])
        return form, (words, *(way for way in owned[2:] if len(way) < len(words))), words[:link], owned
    local, at, _ = subject.partition("@")
    if at and " " not in form:
        return form, tuple(dict.fromkeys((words, *_ways(_plain(local))))), (), ()
    return form, _ways(words), (), ()


def _ways(words: Words) -> tuple[Words, ...]:
    """The runs of words that name somebody or something: the whole name, its first and its last word."""
    if not words:
        return ()
    if all(map(_CHARACTER.fullmatch, words)):  # of a full name, the family name comes first
        given = words[-2:] if len(words) in (3, 4) and "".join(words[-2:]) not in _HONORIFICS else words
        return tuple(dict.fromkeys((words, given, words[:2] if len(words) == 4 else words)))
    parts = [word for word in words if _tells(word)]
    return tuple(dict.fromkeys((words, *((word,) for word in (*parts[:1], *parts[-1:])))))


def _without_titles(words: Words) -> Words:
    begin = next((place for place, word in enumerate(words) if word not in TITLES), 0)
    return words[begin:]


def _tells(word: str) -> bool:
    return word not in STOP_WORDS and (len(word) > 1 or not word.isascii())


def _fits(words: Words, start: int, way: Words) -> bool:
    """Whether a run of words stands there, its last word perhaps with an s: "the Millers"."""
    there = words[start : start + len(way)]
    return there == way or (there[:-1] == way[:-1] and there[-1:] == (f"{way[-1]}s",))


def _places_of(words: Words, run: Words) -> Iterator[range]:
    for start in range(len(words) - len(run) + 1):
        if words[start : start + len(run)] == run:
            yield range(start, start + len(run))


def _with_possessive(words: Words, start: int) -> int:
    """Where a name begins with the possessive before it: "my Bob", "我的姐姐"."""
    before = start - (start > 1 and words[start - 1] in _LINKS)
    return before - 1 if before and words[before - 1] in _POSSESSIVES else start


def _friend_of(words: Words, start: int) -> tuple[int, ...]:
    """The possessive two words before a name, as in "my friend Bob"."""
    return (start - 2,) if start > 1 and words[start - 2] in _POSSESSIVES and words[start - 2].isascii() else ()


def _speaks_of_asker(question: str, words: Words, tokens: Sequence[str], covered: Collection[int]) -> bool:
    """Whether there is a pronoun of the first person, beside those in `covered`; "US" is none."""
    aside = {place for run in _ASIDES for places in _places_of(words, run) for place in places}
    is_shouted = question.isupper()
    for place, word in enumerate(words):
        is_pronoun = word in _PRONOUNS and (is_shouted or len(word) == 1 or not tokens[place].isupper())
        if is_pronoun and place not in covered and place not in aside:
            return True
    if any(places[0] not in covered for run in _LONG_PRONOUNS for places in _places_of(words, run)):
        return True
    return bool(_KOREAN_PRONOUN.search(question))
