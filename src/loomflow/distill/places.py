"""Where a quote stands in a turn, and what its sentence says about it: whether it asks, supposes or cites."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from loomflow.items import Origin
from loomflow.words import STOP_WORDS, terms

from . import empty_words, markers, orders, secret_forms
from .statements import Reason
from .turn_text import WORD, Side, Span, prepared

Finding = tuple[Reason, str]

MAX_GAP_CHARS = 300
"""Most that an ellipsis in a quote may leave out."""

_MAX_SENTENCE_CHARS = 600
_MAX_PLACES = 20
_MIN_STATED_WORDS = 3
_ENDS_ASKING = re.compile(r"""\?["'”’»)\]*_!.]*\s*$""")
_ELLIPSIS = re.compile(r"[\[(]?\.{3,}[\])]?")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:\w|st|dr|mr|mrs|ms|prof|jr|sr|vs|no|nr|ca|bzw|z\.b|e\.g|i\.e|sra|mme|av|tel)\.$"
)
_SENTENCE_END = re.compile(r"""(?<![.!?])[.!?]++["'”’)\]»*_]*+(?=\s)|[!?](?=[^\x00-\x7f])|。|\n\s*+""")
_CLAUSE_END = re.compile(
    r"[,;:—–](?=\s|[^\x00-\x7f])|[,;:、](?<=[^\x00-\x7f].)|\s-\s|[()]"
    r"|\s(?=(?:and|but|so|because|since|while|though|although|or) (?:i|i'm|i've|we|my|he|she|they|you|if|it)\b)"
    r"|\s(?=(?:und|aber|denn|weil) (?:ich|wir|mein|er|sie|du)\b|(?:et|mais|car) (?:je|j'|nous|mon|ma|il|elle)"
    r"|(?:y|pero|porque|e|mas|ma|perché) (?:yo|mi|me|eu|meu|minha|io|mio|mia|tengo|vivo)\b"
    r"|(?:en|maar|want) (?:ik|mijn|wij)\b"
    r"|(?:и|но) (?:я|мы|мой|моя|у)\b)"
)
_CONJUNCTION = re.compile(
    r"[\s,;]*(?:(?:and|but|so|because|since|while|though|although|und|aber|denn|weil|et|mais|car|y|pero|porque|e|mas|ma|en"
    r"|maar|want|и|но|ale)\b|但是?|不过|でも|하지만)"
)
_CONTRAST = re.compile(
    r"[\s,;]*(?:(?:but|so|because|since|though|although|aber|denn|weil|mais|car|pero|porque|mas|ma|maar|want|но|ale)\b"
    r"|但是?|不过|でも|하지만)"
)
_BREAK = re.compile(r"[;—–]|\s-\s")
NOWHERE: Finding = ("not in the turn", "the quote stands nowhere in the turn, or has no telling word")
_CUT: Finding = ("not in the turn", "the quote leaves out a negation or a doubt")
_HOPED: Finding = ("hypothetical", "it is hoped for")
_CLAIMED: Finding = ("quoted", "somebody else says so")
_SECRET_REACH_CHARS = 200
_LOOK_AHEAD_CHARS = 20


def where_said(
    quote: str, value: str, sides: Sequence[Side], *, is_preference: bool, is_end: bool = False
) -> tuple[Origin, Finding | None] | None:
    """The first side that a quote stands on, and what is wrong there; None if it stands on none."""
    plain = prepared(quote)
    pieces = [words for part in _ELLIPSIS.split(plain) if (words := " ".join(WORD.findall(part)))]
    if len(pieces) > 2 or not _tells_enough(pieces):
        return None
    for side in sides:
        first: Finding | None = None
        for place in islice(_places(side, pieces), _MAX_PLACES):
            is_cut = not is_end and markers.NEGATED.search(side.text, max(0, place[0] - 12), place[0])
            finding = (
                (_CUT if is_cut else None)
                or _fault_of_place(side, place, value, is_preference=is_preference)
                or _fault_of_surroundings(side, place, is_end=is_end)
            )
            if finding is None:
                return side.origin, None
            first = first or finding
        if first is not None:
            return side.origin, first
    return None


def _tells_enough(pieces: Sequence[str]) -> bool:
    words = [word for piece in pieces for word in piece.split()]
    return any(word not in STOP_WORDS and word not in empty_words.TINY for word in words)


def _places(side: Side, pieces: Sequence[str]) -> Iterator[Span]:
    """Where the words of a quote stand in a text, in order; two pieces with little between them."""
    first, last = f" {pieces[0]} ", f" {pieces[-1]} "
    end = 0
    while (begin := side.words.find(first, end)) >= 0:
        if len(pieces) == 1:
            end = begin + len(first) - 1
        else:
            found = side.words.find(last, begin + len(first) - 1)
            if found < 0:
                return
            begin = side.words.rfind(first, begin, found + 1)
            end = found + len(last) - 1
            gap = side.words[begin + len(first) - 1 : found + 1]
            if len(gap) > MAX_GAP_CHARS or markers.NEGATION.search(gap):
                end = found
                continue
        yield side.spans[bisect_left(side.starts, begin + 1)][0], side.spans[bisect_left(side.starts, end) - 1][1]


def _fault_of_place(side: Side, place: Span, value: str, *, is_preference: bool) -> Finding | None:
    """What is wrong with the words of a turn that a quote cites."""
    if _is_secret(side.text, place):
        return "secret", "a secret is told"
    if side.is_planted:
        return "instruction", "the tool's text speaks to the agent"
    if _is_within(place, side.foreign):
        return "quoted", "the quote stands in somebody else's words"
    if _is_within(place, side.unreal):
        return "hypothetical", "the quote stands in a story or a game"
    if markers.NOT_SERIOUS.search(_what_follows(side.text, place[1])):
        return "hypothetical", "it was taken back"
    findings = [
        (clause.text, finding)
        for span in _sentences(side.text, place)
        for clause, finding in _judged(side, span, place[1], is_preference=is_preference)
        if clause.start < place[1]
        and clause.end > place[0]
        and WORD.search(side.text, max(clause.start, place[0]), min(clause.end, place[1]))
    ]
    return _decided(findings, value)


def _is_secret(text: str, place: Span) -> bool:
    """Whether a quote has the value of a secret, also where the turn names it only before the quote."""
    near = max(0, place[0] - _SECRET_REACH_CHARS), place[1] + _SECRET_REACH_CHARS
    values = (found.span("value") for found in secret_forms.SECRET_TOLD.finditer(text, *near))
    return any(value[0] < place[1] and value[1] > place[0] for value in values)


def _fault_of_surroundings(side: Side, place: Span, *, is_end: bool) -> Finding | None:
    """What the words around a quote make of it: they deny it, hope for it, or say who claims it."""
    sentences = _sentences(side.text, place)
    before = (sentences[0][0] if sentences else place[0]), place[0]
    if not is_end and (_is_denied(side.text, before) or _is_denied_after(side.text, place)):
        return _CUT
    if _governs(markers.HOPE, side.text, before) or markers.HOPED_AFTER.match(side.text, place[1]):
        return _HOPED
    if side.origin == "user" and (
        _governs(markers.CLAIM, side.text, before)
        or markers.CLAIMED_AFTER.match(side.text, place[1])
        or markers.DOUBTED_OF_ME.search(side.text, *place)
    ):
        return _CLAIMED
    return None


def _is_denied(text: str, before: Span) -> bool:
    if _governs(markers.DENIAL, text, before):
        return True
    if markers.BEGINS_ANEW.match(text, before[1]):
        return False
    return any(
        not _is_parted(text, found.end(), before[1])
        and len(WORD.findall(text, found.end(), before[1])) <= markers.MAX_WORDS_DENIED
        for found in markers.NEGATED_BEFORE.finditer(text, *before)
    )


def _is_denied_after(text: str, place: Span) -> bool:
    found = markers.DENIED_AFTER.match(text, place[1])
    return bool(found) and not (found["over"] and markers.PAST.search(text, *place))


def _governs(pattern: re.Pattern[str], text: str, before: Span) -> bool:
    """Whether words such as "I doubt that" speak of what begins right after them, and a quote is part of that."""
    for found in pattern.finditer(text, before[0], before[1] + _LOOK_AHEAD_CHARS):
        if found.end() <= before[1]:
            subject = markers.SUBJECT.match(text, found.end())
            begin = min(subject.end(), before[1]) if subject else found.end()
            if not _is_parted(text, begin, before[1]):
                return True
    return False


def _is_parted(text: str, begin: int, end: int) -> bool:
    return bool(_CLAUSE_END.search(text, begin, end) or markers.BEGINS_ANEW.search(text, begin, end))


def _decided(findings: Sequence[tuple[str, Finding | None]], value: str) -> Finding | None:
    """Of the clauses that a quote reaches over, those decide that have words of the value, or else any plain one."""
    if any(finding for _, finding in findings):
        findings = [(text, finding) for text, finding in findings if finding or _states(text)]
    faults = [finding for _, finding in findings if finding]
    if not faults or len(faults) == len(findings):
        return faults[0] if faults else None
    words = frozenset(terms(value)[0])
    telling = [finding for clause, finding in findings if not words.isdisjoint(terms(clause)[0])]
    return telling[0] if telling and None not in telling else None


def _states(clause: str) -> bool:
    """Whether a clause can state something: it is more than "hey Sam" or "by the way"."""
    return len(WORD.findall(clause)) >= _MIN_STATED_WORDS and not markers.INTERJECTION.fullmatch(clause)


def _is_within(place: Span, spans: Sequence[Span]) -> bool:
    before = bisect_right(spans, (place[0], sys.maxsize)) - 1
    return before >= 0 and place[1] <= spans[before][1]


@dataclass(frozen=True, slots=True)
class _Clause:
    start: int
    end: int
    text: str


def _sentences(text: str, place: Span) -> list[Span]:
    """The sentences that a place reaches over; one without an end in sight is cut."""
    low, high = max(0, place[0] - _MAX_SENTENCE_CHARS), min(len(text), place[1] + _MAX_SENTENCE_CHARS)
    ends = [
        end.end()
        for end in _SENTENCE_END.finditer(text, low, high)
        if not _ABBREVIATION.search(text[max(low, end.end() - 8) : end.end()])
    ]
    return [(start, end) for start, end in pairwise([low, *ends, high]) if start < place[1] and end > place[0]]


def _what_follows(text: str, position: int) -> str:
    """The rest of the sentence and the next one."""
    rest = text[position : position + 120]
    ends = [end.end() for end in islice(_SENTENCE_END.finditer(rest), 2)]
    return rest[: ends[1]] if len(ends) == 2 else rest


def _clauses(text: str, sentence: Span) -> list[_Clause]:
    inner = {border.end() for border in _CLAUSE_END.finditer(text, *sentence)}
    inner |= {border.start() for border in markers.SECOND_QUESTION.finditer(text, *sentence)}
    borders = [sentence[0]]
    for border in sorted(inner - {*sentence}):
        if not orders.INTRODUCTION.fullmatch(text, borders[-1], border):
            borders.append(border)
    borders.append(sentence[1])
    pieces = [_Clause(start, end, text[start:end].strip()) for start, end in pairwise(borders)]
    return [piece for piece in pieces if WORD.search(piece.text)]


def _judged(side: Side, sentence: Span, until: int, *, is_preference: bool) -> Iterator[tuple[_Clause, Finding | None]]:
    """Every clause of a sentence, with what keeps it from being a statement."""
    clauses = _clauses(side.text, sentence)
    whole = side.text[slice(*sentence)].strip()
    asked = _asked(whole, clauses) - _noted(clauses)
    unreal = _unreal(clauses)
    commanded = bool(orders.WHEN_ASKED.search(whole))
    for number, clause in enumerate(clauses):
        if number in asked or markers.INDIRECT_QUESTION.search(side.text, clause.start, min(clause.end, until)):
            yield clause, ("question", "its clause asks")
        elif number in unreal:
            yield clause, ("hypothetical", "its clause is a condition, a wish or a game")
        elif commanded or orders.COMMAND.search(clause.text) or orders.ROLE_TOKEN.search(clause.text):
            yield clause, ("instruction", "its clause tells the agent what to do")
        elif not (is_preference and side.origin != "tool") and orders.REQUEST.match(clause.text):
            yield clause, ("instruction", "its clause asks the agent for something")
        else:
            yield clause, None


def _asked(sentence: str, clauses: Sequence[_Clause]) -> frozenset[int]:
    """Which clauses of a sentence ask."""
    texts = [clause.text for clause in clauses]
    relative = {n for n, text in enumerate(texts) if n and markers.RELATIVE.match(text)}
    asking = {n for n, text in enumerate(texts) if markers.QUESTION_OPENING.match(text)} - relative
    asking |= {n for n, text in enumerate(texts) if markers.QUESTION_ENDING.search(text)}
    if not texts or not _ENDS_ASKING.search(sentence[-16:]):
        return frozenset(asking)
    last = len(texts) - 1
    while last and markers.TAG.fullmatch(texts[last]):
        last -= 1
    asking |= {n for n, text in enumerate(texts[: last + 1]) if markers.MARKED_OPENING.match(text)} - (
        relative - {last}
    )
    first = min(asking, default=last)
    if markers.ALTERNATIVE.match(texts[last]) and first == last:
        return frozenset(range(len(texts)))
    if not asking and (last + 1 < len(texts) or markers.TAG_ENDING.search(sentence)):
        return frozenset()
    return frozenset(range(first, len(texts)))


def _noted(clauses: Sequence[_Clause]) -> frozenset[int]:
    """Which clauses the agent is asked to note: up to the next one that asks for something else."""
    noted: set[int] = set()
    for number, clause in enumerate(clauses):
        if markers.NOTING.search(clause.text) or (number - 1 in noted and not _begins_asking(clause.text)):
            noted.add(number)
    return frozenset(noted)


def _begins_asking(clause: str) -> bool:
    tables = (markers.QUESTION_OPENING, markers.MARKED_OPENING, markers.ALTERNATIVE)
    return not markers.COMPLEMENT.match(clause) and any(table.match(clause) for table in tables)


def _unreal(clauses: Sequence[_Clause]) -> frozenset[int]:
    """Which clauses are not so: a condition takes those with it that hang on it."""
    unreal: set[int] = set()
    for number, clause in enumerate(clauses):
        if markers.UNREAL.search(markers.MEANT.sub("", clause.text)):
            is_all = markers.UNREAL.fullmatch(clause.text.strip(" ,"))  # "Perhaps, ..."
            unreal |= _following(clauses, number) if is_all else {number}
        text = markers.POLITE_CONDITION.sub("", clause.text)
        if markers.MAKE_BELIEVE.match(text):
            unreal |= _following(clauses, number)
        elif markers.CONDITION.search(text) or markers.CONDITION_OPENING.match(text):
            unreal |= _following(clauses, number)
            if not markers.WHAT_IF.match(text):
                unreal |= _leading(clauses, number)
    return frozenset(unreal)


def _following(clauses: Sequence[_Clause], number: int) -> set[int]:
    last = number
    while (
        last + 1 < len(clauses)
        and not _CONTRAST.match(clauses[last + 1].text)
        and not _BREAK.search(clauses[last].text)
    ):
        last += 1
    return set(range(number, last + 1))


def _leading(clauses: Sequence[_Clause], number: int) -> set[int]:
    first = number
    while first > 0 and not _CONJUNCTION.match(clauses[first].text) and not _BREAK.search(clauses[first - 1].text):
        first -= 1
    return set(range(first, number + 1))
