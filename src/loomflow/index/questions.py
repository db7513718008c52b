"""What a question says beside its words: whom it names, whether it asks for a time, which dates it names.

The word lists are short and cover a few languages. Where a language is not listed, the signal is simply absent, and
the search goes by words and vectors.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache

import regex

from loomflow.words import STOP_WORDS, fold, plain_words

TITLES = frozenset("mr mrs ms miss dr prof sir herr frau señor señora monsieur madame the".split())
"""Words of a name that do not tell whose it is; nor do stop words, as in the name "Will"."""

_MONTHS = {
    name: number
    for names in (
        "january february march april may june july august september october november december",
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "januar februar marz april mai juni juli august september oktober november dezember",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    )
    for number, name in enumerate(names.split(), 1)
} | {"sept": 9}
_AMBIGUOUS = frozenset(["may", "mar", "mars", "march", "dec", "sep", "jan"])
"""Months that are other words too: they count only beside a number or after a preposition."""

_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE = re.compile(
    rf"(?P<lead>\b(?:in|of|on|during|late|early|mid|by|since|until|before|after|im|am|en|de|du|le|last|this)\s+)?"
    rf"(?:\b(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+|de\s+)?)?"
    rf"\b(?P<month>{_MONTH})\b\.?"
    rf"(?:\s+(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))?"
    rf"(?:,?\s+(?:de\s+)?(?P<year>(?:19|20)\d\d)\b)?"
)
_NUMERIC_DATE = re.compile(
    r"(?<!\d)(?P<year>(?:19|20)\d\d)(?:-|/|\.|年)(?P<month>\d{1,2})(?:(?:-|/|\.|月)(?P<day>\d{1,2}))?(?!\d)"
    r"|(?<!\d)(?P<month2>\d{1,2})月(?:(?P<day2>\d{1,2})[日号])?"
)
_YEAR = re.compile(r"(?<![\d-])(?:19|20)\d\d(?![\d-])")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_AGO = re.compile(rf"\b(?P<n>\d{{1,3}}|{'|'.join(_NUMBERS)}) (?P<unit>day|week|month|year)s? ago\b")
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
_RELATIVE = (
    (re.compile(r"\b(?:today|tonight|this morning|heute|hoy|aujourd'hui)\b|今天"), 0, 0),
    (re.compile(r"\b(?:yesterday|last night|gestern|ayer|hier soir)\b|昨天"), 1, 1),
    (re.compile(r"\b(?:last|past|letzte|vergangene) (?:week|woche)\b|上周|上个星期"), 13, 1),
    (re.compile(r"\b(?:last|past|letzten|vergangenen) (?:month|monat)\b|上个月"), 61, 1),
)
_ASKS_TIME = re.compile(
    r"\bwhen\b|\bhow long\b|\b(?:what|which) (?:\w+ )?(?:date|day|month|year|time|week)\b"
    r"|\bwann\b|\bwie lange\b|\bwelche[ms]? (?:tag|monat|jahr|datum)\b|\bcuando\b|\bquand\b"
    r"|什么时候|何时|几月|几号|哪天|哪年|哪个月|多久|いつ"
)
_NAMES_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|recently|gestern|heute|morgen|ayer|hoy|hier|demain)\b|\bsince \w+"
    r"|\b(?:last|next|this|past|letzte[nrs]?|nachste[nrs]?|diese[nrs]?)"
    r" (?:night|week|weekend|month|year|mon|tue|wed|thu"
    r"|fri|sat|sun|spring|summer|fall|autumn|winter|morning|afternoon|evening|woche|monat|jahr)\w*"
    r"|\b(?:a|an|one|two|three|four|five|six|few|couple|\d+)(?: of)? (?:days?|weeks?|weekends?|months?|years?|hours?)"
    r" (?:ago|back|before|later)\b|\bvor \w+ (?:tag|woche|monat|jahr)"
    rf"|\b(?:{'|'.join(name for name in _MONTHS if len(name) > 3 and name not in _AMBIGUOUS)})\b"
    r"|(?<!\d)(?:19|20)\d\d(?!\d)|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b\d{1,2}\.\d{1,2}\."
    r"|\b(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)\b"
    r"|昨天|今天|明天|前天|后天|上周|下周|上个月|下个月|去年|今年|明年|周[一二三四五六日末]|星期|\d月|\d[日号]"
)
_WORD_WITH_S = regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*(?:['’]s\b)?")
_ENDS_ASKING = re.compile(r"""[?？؟]["'”’)\]」』）》】]*\s*$""")


@dataclass(frozen=True, slots=True)
class DateAsked:
    """A date that a question names: a day, month or year (None: not said), or a span of days with its last day."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    span: tuple[date, date] | None = None


def is_question(text: str) -> bool:
    """Whether a text ends with a question mark."""
    return bool(_ENDS_ASKING.search(text[-16:]))


def names_time(text: str) -> bool:
    """Whether a text says when: a date, a weekday, "last week", "two years ago"."""
    return bool(_NAMES_TIME.search(_plain(text)))


def asks_time(question: str) -> bool:
    """Whether a question asks when or how long."""
    return bool(_ASKS_TIME.search(_plain(question)))


def dates_in(question: str, now: datetime) -> list[DateAsked]:
    """The dates that a question names; relative ones are counted back from `now`."""
    text = _plain(question)
    asked: list[DateAsked] = []
    years = {int(year) for year in _YEAR.findall(text)}
    for found in _DATE.finditer(text):
        day, year = found["day"] or found["day2"], found["year"]
        lead = (found["lead"] or "").strip()
        is_verb = not lead or (found["month"], lead) == ("may", "this")
        if found["month"] in _AMBIGUOUS and is_verb and not (day or year):
            continue
        if not 1 <= int(day or 1) <= 31:
            day = None
        only_year = years.copy().pop() if len(years) == 1 else None
        asked.append(DateAsked(int(year) if year else only_year, _MONTHS[found["month"]], int(day) if day else None))
    for found in _NUMERIC_DATE.finditer(text):
        month, day = found["month"] or found["month2"], found["day"] or found["day2"]
        if 1 <= int(month) <= 12 and 1 <= int(day or 1) <= 31:
            asked.append(DateAsked(_int(found["year"]), int(month), _int(day)))
    today = now.date()
    for pattern, first, last in _RELATIVE:
        if pattern.search(text):
            asked.append(DateAsked(span=(_back(today, first), _back(today, last))))
    for found in _AGO.finditer(text):
        count = _NUMBERS.get(found["n"]) or int(found["n"])
        days, slack = count * _UNITS[found["unit"]], _UNITS[found["unit"]] // 2
        asked.append(DateAsked(span=(_back(today, days + slack), _back(today, days - slack))))
    return asked or [DateAsked(year=year) for year in sorted(years)]


def named(question: str, names: Sequence[str]) -> list[int]:
    """Which of `names` a question names, by first or last word: "When did Ana call?" names "Ana Souza"."""
    asked = set(plain_words(question))
    folded = fold(question)
    return [place for place, name in enumerate(names) if _is_named(name, asked, folded)]


def without_names(question: str, names: Sequence[str]) -> str:
    """The question without the names in it, for comparing what it is about: who said it is a signal of its own."""
    words = {word for name in names for word in _telling_words(name)}
    kept = " ".join(_WORD_WITH_S.sub(lambda part: "" if _is_of(part[0], words) else part[0], question).split())
    return kept if any(character.isalnum() for character in kept) else question


def _is_of(part: str, words: set[str]) -> bool:
    """Whether a word of a question, with or without its "'s", is one of `words`."""
    first, *rest = plain_words(part) or [""]
    return first in words and rest in ([], ["s"])


def _is_named(name: str, asked: set[str], folded: str) -> bool:
    words = _telling_words(name)
    if not words:
        return False
    if words[0] in asked or words[-1] in asked:
        return True
    return not name.isascii() and any("\u3040" <= letter <= "\ud7af" for letter in name) and fold(name) in folded


@lru_cache(maxsize=100_000)
def _telling_words(name: str) -> list[str]:
    return [word for word in plain_words(name) if len(word) > 1 and word not in TITLES and word not in STOP_WORDS]


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    return re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", fold(text)))


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def _back(today: date, days: int) -> date:
    return today - timedelta(days=min(days, today.toordinal() - 1))
