"""A turn as the guards look at it: its words, and which parts are not the speaker's own or not meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest

import regex

from loomflow.items import Origin

from . import markers, orders
from .statements import Said

_MAX_DEPTH = 16
_MIN_QUOTED_WORDS = 3
_SIGNS = {
    0x37E: "?",
    0x61F: "?",
    0x60C: ",",
    0x61B: ";",
    0x55E: "?",
    0x1367: "?",
    0x2019: "'",
    0x2BC: "'",
    0x2010: "-",
    0x2011: "-",
    0x2028: "\n",
}
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_GREEK_QUESTION = re.compile(r"(?<=[\u0370-\u03ff]);")
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
WORD = regex.compile(rf"[{_SPACELESS}]\p{{M}}*|[[\p{{L}}\p{{N}}\p{{M}}]--[{_SPACELESS}]]+", regex.VERSION1)
_MARKS = re.compile("[\"'`‘“”„«»‹›「」『』]|\n[ \t]*\n|```|~~~")
_CLOSED_BY = {"“": "”", "„": "“”", "‘": "'", "«": "»", "»": "«", "‹": "›", "›": "‹", "「": "」", "『": "』"}
_FENCE = re.compile(r"^[ \t]{0,8}(```|~~~)", re.MULTILINE)
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Side:
    """One speaker's text, prepared: its words in one string, and which parts are not the speaker's own or not meant."""

    origin: Origin
    text: str
    words: str
    starts: list[int]
    spans: list[Span]
    foreign: list[Span]
    unreal: list[Span]
    is_planted: bool = False


def prepared(text: str) -> str:
    """A text in the form that is compared: lower case, compatibility forms, one sign for one purpose."""
    if text.isascii():
        return text.lower().replace("\r\n", "\n")
    plain = INVISIBLE.sub("", text.replace("\r\n", "\n").translate(_SIGNS))
    return _GREEK_QUESTION.sub("?", unicodedata.normalize("NFKC", plain).casefold())


def sides_of(said: Said) -> list[Side]:
    """The sides of a turn: first the user, then the agent, then what tools returned."""
    user, agent = _side("user", said.user), _side("agent", said.agent)
    end = len(user.text)
    is_playing = markers.PERSONA.search(user.text) or any(span[1] == end for span in user.unreal)
    if is_playing:
        agent = replace(agent, unreal=[(0, len(agent.text))])
    return [user, agent, *(_side("tool", text) for text in said.tools)]


def _side(origin: Origin, said: str) -> Side:
    text = prepared(said)
    found = [(word[0], word.span()) for word in WORD.finditer(text)]
    words = [word for word, _ in found]
    return Side(
        origin,
        text,
        f" {' '.join(words)} ",
        list(accumulate((len(word) + 1 for word in words[:-1]), initial=1)),
        [span for _, span in found],
        [] if origin == "tool" else _joined([*_pasted(text), *_quotations(text)]),
        [] if origin == "tool" else _scenes(text),
        origin == "tool" and bool(orders.PLANTED.search(text)),
    )


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _scenes(text: str) -> list[Span]:
    scenes: list[Span] = []
    for opening in markers.SCENE.finditer(text):
        if not scenes or opening.start() >= scenes[-1][1]:
            ending = markers.SCENE_END.search(text, opening.end())
            scenes.append((opening.start(), ending.start() if ending else len(text)))
    return scenes


def _pasted(text: str) -> Iterator[Span]:
    """Code, block quotes, logs and mails."""
    fences = [fence.start() for fence in _FENCE.finditer(text)]
    yield from zip_longest(fences[::2], fences[1::2], fillvalue=len(text))
    yield from (line.span() for line in markers.FOREIGN_LINE.finditer(text))
    if header := markers.FOREIGN_HEADER.search(text):
        yield header.start(), len(text)
    end = 0
    for opening in markers.FOREIGN_OPENING.finditer(text):
        if opening.end() >= end:
            line_end = text.find("\n", opening.end())
            is_whole_rest = line_end < 0 or not text[opening.end() : line_end].strip()
            end = len(text) if is_whole_rest else line_end
            yield opening.end(), end


def _quotations(text: str) -> Iterator[Span]:
    """What stands between quotation marks of any kind and has several words; deeper ones within."""
    open_marks: list[tuple[str, int]] = []
    for found in _MARKS.finditer(text):
        mark, place = found[0], found.start()
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        if len(mark) > 1:
            open_marks.clear()
            continue
        depth = next((n for n, (opened, _) in enumerate(open_marks) if mark in _CLOSED_BY.get(opened, opened)), None)
        if depth is not None and not (mark == "'" and after.isalnum()):
            start = open_marks[depth][1] + 1
            if len(WORD.findall(text, start, min(place, start + 100))) >= _MIN_QUOTED_WORDS:
                yield start, place
            del open_marks[depth:]
        elif _may_open(mark, before, after) and len(open_marks) < _MAX_DEPTH:
            open_marks.append((mark, place))


def _may_open(mark: str, before: str, after: str) -> bool:
    if mark == "'":
        return not before.isalnum() and after.isalpha()
    return mark in _CLOSED_BY or (mark in '"`' and not before.isdigit())
