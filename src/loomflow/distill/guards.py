"""What may become a memory: the filter between what a model read out of a turn and what is stored.

Models make things up, take questions for answers and obey what they read. Nothing passes that the turn does not say,
and what is refused is reported with one of these codes:

    blank              subject, predicate, object or text is blank, or the quote has no word
    too long           longer than `MAX_NAME_CHARS`, `MAX_VALUE_CHARS` or `MAX_QUOTE_CHARS`
    secret             a password, PIN, key, token, card or social security number: by name, by form or as told
    vague              a subject or object that says nothing by itself: "it", "unknown", "[name]"
    block not learned  an addition to a block that is not learned
    instruction        tells the agent what to do, in its own words or in those of the turn
    not in the turn    the quote stands nowhere in the turn, is too little to tell, or leaves out a negation
    quoted             the quote stands in somebody else's words: in quotation marks, a block quote, code, a pasted mail
    question           the clause of the quote asks
    hypothetical       the clause of the quote hangs on an "if", is a wish or a game, or was taken back as a joke
    twice              said before in the same reading
    over the cap       more than the limit of a run

A quote that stands in several places passes if one of them does. Where it reaches over several clauses, those decide
that have the words of the object, or else one plain clause is enough. The tables are in `loomflow.distill.markers`.

Bank account numbers (IBAN) are given to others to be used, and are no secrets. Objects are not compared with their
quotes: a translated, inflected or normalised value ("Köln" for Cologne, "next Friday") cannot be told from a wrong one.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise, zip_longest
from typing import Literal, TypeVar

import regex

from loomflow.items import Origin
from loomflow.predicates import predicate_key
from loomflow.words import STOP_WORDS, normal_form, saying, says_something, terms

from . import markers
from .dates import moment_from
from .statements import BlockAddition, Reading, Refused, Said, Statement

Reason = Literal[
    "blank",
    "too long",
    "secret",
    "vague",
    "block not learned",
    "instruction",
    "not in the turn",
    "quoted",
    "question",
    "hypothetical",
    "twice",
    "over the cap",
]

MAX_FACTS_A_RUN = 12
"""Facts that one run may add, and lines that it may add to blocks."""

MAX_NAME_CHARS = 80
"""Longest subject and predicate."""

MAX_VALUE_CHARS = 300
"""Longest object, and longest line for a block."""

MAX_QUOTE_CHARS = 1000
"""Longest quote: more is no citation."""

MAX_GAP_CHARS = 300
"""Most that an ellipsis in a quote may leave out."""

_MAX_SENTENCE_CHARS = 600
_MAX_PLACES = 20
_MAX_DEPTH = 16
_MIN_QUOTED_WORDS = 3
_MIN_STATED_WORDS = 3
_ENDS_ASKING = re.compile(r"""\?["'”’»)\]*_!.]*\s*$""")

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
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_GREEK_QUESTION = re.compile(r"(?<=[\u0370-\u03ff]);")
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = regex.compile(rf"[{_SPACELESS}]\p{{M}}*|[[\p{{L}}\p{{N}}\p{{M}}]--[{_SPACELESS}]]+", regex.VERSION1)
_ELLIPSIS = re.compile(r"[\[(]?\.{3,}[\])]?")
_TELLING_SIGN = regex.compile(r"[\p{L}\p{N}\p{S}]")

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
_MARKS = re.compile("[\"'`‘“”„«»‹›「」『』]|\n[ \t]*\n|```|~~~")
_PLAIN_WORD = re.compile(r"\w+")
_CLOSED_BY = {"“": "”", "„": "“”", "‘": "'", "«": "»", "»": "«", "‹": "›", "›": "‹", "「": "」", "『": "』"}
_FENCE = re.compile(r"^[ \t]{0,8}(```|~~~)", re.MULTILINE)

Span = tuple[int, int]
Finding = tuple[Reason, str]
_NOWHERE: Finding = ("not in the turn", "the quote stands nowhere in the turn, or has no telling word")
_CUT: Finding = ("not in the turn", "the quote leaves out a negation")
_AN_ORDER: Finding = ("instruction", "it tells the agent what to do")
_TOO_VAGUE: Finding = ("vague", "the subject or the object says nothing by itself")
_Item = TypeVar("_Item", Statement, BlockAddition)


@dataclass(frozen=True, slots=True)
class Admitted:
    """What passed, in the order given, and what did not.

    Attributes:
        facts: with `said_by` corrected to the side that the quote stands on, and without dates that cannot be read.
        blocks: additions to blocks.
        refused: the rest, each with its reason.
    """

    facts: tuple[Statement, ...] = ()
    blocks: tuple[BlockAddition, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class _Side:
    """One speaker's text, prepared: its words in one string, and which parts are not the speaker's own or not meant."""

    origin: Origin
    text: str
    words: str
    starts: list[int]
    spans: list[Span]
    foreign: list[Span]
    unreal: list[Span]
    is_planted: bool = False


def worth_reading(said: Said) -> bool:
    """Whether a turn may hold something to learn: the user said more than "thanks!", or a tool returned something."""
    text = markers.SMALL_TALK_PARTS.sub(" ", _prepared(said.user))
    left = _PLAIN_WORD.sub(lambda word: "" if word[0] in markers.SMALL_TALK else word[0], text)
    return says_something(left) or any(tool.strip() for tool in said.tools)


def admitted(reading: Reading, said: Said, *, limit: int = MAX_FACTS_A_RUN, blocks: Collection[str] = ()) -> Admitted:
    """Let in what the turn says, and refuse the rest.

    Args:
        reading: what a model read out of the turn.
        said: the turn.
        limit: most facts, and most additions to blocks, that are let in; the user's words come first.
        blocks: names of the blocks that are learned.
    """
    if not reading.facts and not reading.blocks:
        return Admitted()
    sides = _sides(said)
    facts: list[Statement] = []
    additions: list[BlockAddition] = []
    refused: list[Refused] = []
    for fact in reading.facts:
        origin, finding = _checked_fact(fact, sides)
        if finding is None:
            facts.append(_with_readable_dates(replace(fact, said_by=origin)))
        else:
            refused.append(Refused(fact, *finding))
    for addition in reading.blocks:
        finding = _checked_addition(addition, sides, blocks)
        if finding is None:
            additions.append(addition)
        else:
            refused.append(Refused(addition, *finding))
    kept_facts = _within_limit(_once(facts, refused), limit, refused)
    kept_additions = _within_limit(_once(additions, refused), limit, refused)
    return Admitted(tuple(kept_facts), tuple(kept_additions), tuple(refused))


def _with_readable_dates(fact: Statement) -> Statement:
    start, end = fact.valid_from, fact.valid_until
    return replace(
        fact,
        valid_from=start if start and moment_from(start) else None,
        valid_until=end if end and moment_from(end) else None,
    )


def _once(items: Sequence[_Item], refused: list[Refused]) -> list[_Item]:
    """Every item once, of equal ones the user's words or else the first."""
    best: dict[tuple[object, ...], int] = {}
    for place, item in enumerate(items):
        known = best.setdefault(_key(item), place)
        if _is_users(item) and not _is_users(items[known]):
            best[_key(item)] = place
    kept = frozenset(best.values())
    refused += [
        Refused(item, "twice", "another says the same") for place, item in enumerate(items) if place not in kept
    ]
    return [item for place, item in enumerate(items) if place in kept]


def _within_limit(items: Sequence[_Item], limit: int, refused: list[Refused]) -> list[_Item]:
    first = sorted(range(len(items)), key=lambda place: not _is_users(items[place]))[: max(limit, 0)]
    kept = frozenset(first)
    detail = f"a run adds at most {limit}"
    refused += [Refused(item, "over the cap", detail) for place, item in enumerate(items) if place not in kept]
    return [item for place, item in enumerate(items) if place in kept]


def _is_users(item: Statement | BlockAddition) -> bool:
    return isinstance(item, BlockAddition) or item.said_by == "user"


def _key(item: Statement | BlockAddition) -> tuple[object, ...]:
    if isinstance(item, BlockAddition):
        return item.block, saying(item.text)
    said = saying(item.subject), predicate_key(item.predicate), saying(item.object)
    return *said, item.change, item.valid_from, item.valid_until


# What an item says by itself


def _checked_fact(fact: Statement, sides: Sequence[_Side]) -> tuple[Origin, Finding | None]:
    """Whose words a fact is from, and what is wrong with it."""
    fault = (
        _fault_of_form((fact.subject, fact.predicate), (fact.object, fact.instead_of or fact.object), fact.quote)
        or _fault_of_secrecy((fact.subject, fact.predicate), (fact.object, fact.quote, fact.instead_of or ""))
        or (_AN_ORDER if _is_instruction(fact) else None)
        or (_TOO_VAGUE if _is_vague(fact.subject) or _is_vague(fact.object) else None)
    )
    if fault:
        return fact.said_by, fault
    is_users = normal_form(fact.subject) in markers.USER_NAMES
    is_preference = is_users and bool(markers.PREFERENCE.search(predicate_key(fact.predicate)))
    ordered = sorted(sides, key=lambda side: side.origin != fact.said_by)
    found = _where_said(fact.quote, fact.object, ordered, is_preference=is_preference, is_end=fact.change != "states")
    return found or (fact.said_by, _NOWHERE)


def _checked_addition(addition: BlockAddition, sides: Sequence[_Side], blocks: Collection[str]) -> Finding | None:
    fault = _fault_of_form((), (addition.text,), addition.quote) or _fault_of_secrecy(
        (), (addition.text, addition.quote)
    )
    if fault:
        return fault
    text = _prepared(addition.text)
    if _reads_as_instruction(text):
        return _AN_ORDER
    if _is_vague(addition.text):
        return _TOO_VAGUE
    if addition.block not in blocks:
        return "block not learned", f"learned are: {', '.join(sorted(blocks)) or 'none'}"
    is_preference = bool(markers.PREFERENCE.search(text))
    found = _where_said(addition.quote, addition.text, sides, is_preference=is_preference)
    return found[1] if found else _NOWHERE


def _fault_of_form(names: Sequence[str], values: Sequence[str], quote: str) -> Finding | None:
    if not all(part.strip() for part in (*names, *values)) or not _WORD.search(quote):
        return "blank", "a part is blank, or the quote has no word"
    if any(len(name) > MAX_NAME_CHARS for name in names):
        return "too long", f"more than {MAX_NAME_CHARS} characters of subject or predicate"
    if any(len(value) > MAX_VALUE_CHARS for value in values):
        return "too long", f"more than {MAX_VALUE_CHARS} characters of object or text"
    return ("too long", f"more than {MAX_QUOTE_CHARS} characters of quote") if len(quote) > MAX_QUOTE_CHARS else None


def _fault_of_secrecy(names: Sequence[str], texts: Sequence[str]) -> Finding | None:
    if any(markers.SECRET_PREDICATE.match(predicate_key(name)) for name in names):
        return "secret", "the predicate or the subject names a secret"
    return ("secret", "a secret is told") if any(_tells_secret(text) for text in (*names, *texts)) else None


def _tells_secret(text: str) -> bool:
    """Whether a text has a secret: in the published form of a key or a card, or told as one."""
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    return bool(markers.KEYS.search(plain) or markers.SECRET_TOLD.search(_prepared(text))) or markers.names_card(plain)


def _is_vague(text: str) -> bool:
    plain = normal_form(text)
    return (
        plain.removeprefix("the ").replace("_", " ") in markers.VAGUE
        or bool(markers.PLACEHOLDER.fullmatch(plain))
        or not _TELLING_SIGN.search(plain)
    )


def _is_instruction(fact: Statement) -> bool:
    predicate, subject = predicate_key(fact.predicate), normal_form(fact.subject)
    is_duty = subject in markers.AGENT_NAMES and bool(markers.DUTY.match(predicate))
    texts = (fact.object, fact.predicate, f"{predicate} {fact.object}", fact.instead_of or "")
    return is_duty or bool(markers.RULE.fullmatch(predicate)) or any(_reads_as_instruction(_prepared(t)) for t in texts)


def _reads_as_instruction(prepared: str) -> bool:
    tables = (markers.COMMAND, markers.WHEN_ASKED, markers.ROLE_TOKEN)
    return any(table.search(prepared) for table in tables)


# Where a quote stands


def _where_said(
    quote: str, value: str, sides: Sequence[_Side], *, is_preference: bool, is_end: bool = False
) -> tuple[Origin, Finding | None] | None:
    """The first side that a quote stands on, and what is wrong there; None if it stands on none."""
    prepared = _prepared(quote)
    pieces = [words for part in _ELLIPSIS.split(prepared) if (words := " ".join(_WORD.findall(part)))]
    if len(pieces) > 2 or not _tells_enough(pieces):
        return None
    for side in sides:
        first: Finding | None = None
        for place in islice(_places(side, pieces), _MAX_PLACES):
            is_cut = not is_end and markers.NEGATED.search(side.text, max(0, place[0] - 12), place[0])
            finding = _CUT if is_cut else _fault_of_place(side, place, value, is_preference=is_preference)
            if finding is None:
                return side.origin, None
            first = first or finding
        if first is not None:
            return side.origin, first
    return None


def _tells_enough(pieces: Sequence[str]) -> bool:
    words = [word for piece in pieces for word in piece.split()]
    return any(word not in STOP_WORDS and word not in markers.TINY for word in words)


def _places(side: _Side, pieces: Sequence[str]) -> Iterator[Span]:
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


def _fault_of_place(side: _Side, place: Span, value: str, *, is_preference: bool) -> Finding | None:
    """What is wrong with the words of a turn that a quote cites."""
    if side.is_planted:
        return "instruction", "the tool's text speaks to the agent"
    if _is_within(place, side.foreign):
        return "quoted", "the quote stands in somebody else's words"
    if _is_within(place, side.unreal):
        return "hypothetical", "the quote stands in a story or a game"
    if markers.NOT_SERIOUS.search(_what_follows(side.text, place[1])):
        return "hypothetical", "it was taken back as a joke"
    findings = [
        (clause.text, finding)
        for span in _sentences(side.text, place)
        for clause, finding in _judged(side, span, place[1], is_preference=is_preference)
        if clause.start < place[1]
        and clause.end > place[0]
        and _WORD.search(side.text, max(clause.start, place[0]), min(clause.end, place[1]))
    ]
    return _decided(findings, value)


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
    return len(_WORD.findall(clause)) >= _MIN_STATED_WORDS and not markers.INTERJECTION.fullmatch(clause)


def _is_within(place: Span, spans: Sequence[Span]) -> bool:
    before = bisect_right(spans, (place[0], sys.maxsize)) - 1
    return before >= 0 and place[1] <= spans[before][1]


# What its sentence says about it


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
        if not markers.INTRODUCTION.fullmatch(text, borders[-1], border):
            borders.append(border)
    borders.append(sentence[1])
    pieces = [_Clause(start, end, text[start:end].strip()) for start, end in pairwise(borders)]
    return [piece for piece in pieces if _WORD.search(piece.text)]


def _judged(
    side: _Side, sentence: Span, until: int, *, is_preference: bool
) -> Iterator[tuple[_Clause, Finding | None]]:
    """Every clause of a sentence, with what keeps it from being a statement."""
    clauses = _clauses(side.text, sentence)
    whole = side.text[slice(*sentence)].strip()
    asked = _asked(whole, clauses)
    unreal = _unreal(clauses)
    commanded = bool(markers.WHEN_ASKED.search(whole))
    for number, clause in enumerate(clauses):
        if number in asked or markers.INDIRECT_QUESTION.search(side.text, clause.start, min(clause.end, until)):
            yield clause, ("question", "its clause asks")
        elif number in unreal:
            yield clause, ("hypothetical", "its clause is a condition, a wish or a game")
        elif commanded or markers.COMMAND.search(clause.text) or markers.ROLE_TOKEN.search(clause.text):
            yield clause, ("instruction", "its clause tells the agent what to do")
        elif not (is_preference and side.origin != "tool") and markers.REQUEST.match(clause.text):
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


def _unreal(clauses: Sequence[_Clause]) -> frozenset[int]:
    """Which clauses are not so: a condition takes those with it that hang on it."""
    unreal: set[int] = set()
    for number, clause in enumerate(clauses):
        if markers.UNREAL.search(markers.MEANT.sub("", clause.text)):
            unreal.add(number)
        text = markers.POLITE_CONDITION.sub("", clause.text)
        if markers.MAKE_BELIEVE.match(text):
            unreal |= _following(clauses, number)
        elif markers.CONDITION.search(text) or markers.CONDITION_OPENING.match(text):
            unreal |= _following(clauses, number) | _leading(clauses, number)
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


# The turn


def _prepared(text: str) -> str:
    """A text in the form that is compared: lower case, compatibility forms, one sign for one purpose."""
    if text.isascii():
        return text.lower().replace("\r\n", "\n")
    plain = _INVISIBLE.sub("", text.replace("\r\n", "\n").translate(_SIGNS))
    return _GREEK_QUESTION.sub("?", unicodedata.normalize("NFKC", plain).casefold())


def _sides(said: Said) -> list[_Side]:
    """The sides of a turn: first the user, then the agent, then what tools returned."""
    user, agent = _side("user", said.user), _side("agent", said.agent)
    end = len(user.text)
    is_playing = markers.PERSONA.search(user.text) or any(span[1] == end for span in user.unreal)
    if is_playing:
        agent = replace(agent, unreal=[(0, len(agent.text))])
    return [user, agent, *(_side("tool", text) for text in said.tools)]


def _side(origin: Origin, said: str) -> _Side:
    text = _prepared(said)
    found = [(word[0], word.span()) for word in _WORD.finditer(text)]
    words = [word for word, _ in found]
    return _Side(
        origin,
        text,
        f" {' '.join(words)} ",
        list(accumulate((len(word) + 1 for word in words[:-1]), initial=1)),
        [span for _, span in found],
        [] if origin == "tool" else _joined([*_pasted(text), *_quotations(text)]),
        [] if origin == "tool" else _scenes(text),
        origin == "tool" and bool(markers.PLANTED.search(text)),
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
            if len(_WORD.findall(text, start, min(place, start + 100))) >= _MIN_QUOTED_WORDS:
                yield start, place
            del open_marks[depth:]
        elif _may_open(mark, before, after) and len(open_marks) < _MAX_DEPTH:
            open_marks.append((mark, place))


def _may_open(mark: str, before: str, after: str) -> bool:
    if mark == "'":
        return not before.isalnum() and after.isalpha()
    return mark in _CLOSED_BY or (mark in '"`' and not before.isdigit())
