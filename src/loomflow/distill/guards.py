"""What may become a memory: the filter between what a model read out of a turn and what is stored.

Models make things up, take questions for answers and obey what they read. Nothing passes that the turn does not say,
and what is refused is reported with one of these codes:

    blank              subject, predicate, object or text is blank, or the quote has no word
    too long           longer than `MAX_NAME_CHARS`, `MAX_VALUE_CHARS` or `MAX_QUOTE_CHARS`
    secret             a password, PIN, key, token, card or social security number: by name, by form or as told
    vague              a subject or object that says nothing by itself: "it", "unknown", "[name]"
    block not learned  an addition to a block that is not learned
    instruction        tells the agent what to do, in its own words or in those of the turn
    not in the turn    the quote stands nowhere in the turn, is too little to tell, or leaves out a negation or doubt
    quoted             the quote stands in somebody else's words: quotation marks, code, a mail, a chat, "Bob says that"
    question           the clause of the quote asks
    hypothetical       the clause of the quote hangs on an "if", is a hope, a maybe or a game, or was taken back
    twice              said before in the same reading
    over the cap       more than the limit of a run

A quote that stands in several places passes if one of them does. Where it reaches over several clauses, those decide
that have the words of the object, or else one plain clause is enough. The tables are in
`loomflow.distill.markers`, `turn_text`, `orders`, `secret_forms` and `empty_words`.

Bank account numbers (IBAN) are given to others to be used, and are no secrets. Objects are not compared with their
quotes: a translated, inflected or normalised value ("Köln" for Cologne, "next Friday") cannot be told from a wrong one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import regex

from loomflow.items import Origin
from loomflow.predicates import predicate_key
from loomflow.words import normal_form, saying, says_something

from . import empty_words, orders, secret_forms
from .dates import moment_from
from .places import NOWHERE, Finding, where_said
from .statements import USER_NAMES, BlockAddition, Reading, Refused, Said, Statement
from .turn_text import INVISIBLE, WORD, Side, prepared, sides_of

MAX_FACTS_A_RUN = 12
"""Facts that one run may add, and lines that it may add to blocks."""

MAX_NAME_CHARS = 80
"""Longest subject and predicate."""

MAX_VALUE_CHARS = 300
"""Longest object, and longest line for a block."""

MAX_QUOTE_CHARS = 1000
"""Longest quote: more is no citation."""


_TELLING_SIGN = regex.compile(r"[\p{L}\p{N}\p{S}]")

_PLAIN_WORD = re.compile(r"\w+")

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


def worth_reading(said: Said) -> bool:
    """Whether a turn may hold something to learn: the user said more than "thanks!", or a tool returned something."""
    text = empty_words.SMALL_TALK_PARTS.sub(" ", prepared(said.user))
    left = _PLAIN_WORD.sub(lambda word: "" if word[0] in empty_words.SMALL_TALK else word[0], text)
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
    sides = sides_of(said)
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


def _checked_fact(fact: Statement, sides: Sequence[Side]) -> tuple[Origin, Finding | None]:
    """Whose words a fact is from, and what is wrong with it."""
    fault = (
        _fault_of_form((fact.subject, fact.predicate), (fact.object, fact.instead_of or fact.object), fact.quote)
        or _fault_of_secrecy((fact.subject, fact.predicate), (fact.object, fact.quote, fact.instead_of or ""))
        or (_AN_ORDER if _is_instruction(fact) else None)
        or (_TOO_VAGUE if _is_vague(fact.subject) or _is_vague(fact.object) else None)
    )
    if fault:
        return fact.said_by, fault
    is_users = normal_form(fact.subject) in USER_NAMES
    is_preference = is_users and bool(orders.PREFERENCE.search(predicate_key(fact.predicate)))
    ordered = sorted(sides, key=lambda side: side.origin != fact.said_by)
    found = where_said(fact.quote, fact.object, ordered, is_preference=is_preference, is_end=fact.change != "states")
    return found or (fact.said_by, NOWHERE)


def _checked_addition(addition: BlockAddition, sides: Sequence[Side], blocks: Collection[str]) -> Finding | None:
    fault = _fault_of_form((), (addition.text,), addition.quote) or _fault_of_secrecy(
        (), (addition.text, addition.quote)
    )
    if fault:
        return fault
    text = prepared(addition.text)
    if _reads_as_instruction(text):
        return _AN_ORDER
    if _is_vague(addition.text):
        return _TOO_VAGUE
    if addition.block not in blocks:
        return "block not learned", f"learned are: {', '.join(sorted(blocks)) or 'none'}"
    is_preference = bool(orders.PREFERENCE.search(text))
    by_user = [side for side in sides if side.origin == "user"]  # what a block says is always in front of the model
    found = where_said(addition.quote, addition.text, by_user, is_preference=is_preference)
    return found[1] if found else NOWHERE


def _fault_of_form(names: Sequence[str], values: Sequence[str], quote: str) -> Finding | None:
    if not all(part.strip() for part in (*names, *values)) or not WORD.search(quote):
        return "blank", "a part is blank, or the quote has no word"
    if any(len(name) > MAX_NAME_CHARS for name in names):
        return "too long", f"more than {MAX_NAME_CHARS} characters of subject or predicate"
    if any(len(value) > MAX_VALUE_CHARS for value in values):
        return "too long", f"more than {MAX_VALUE_CHARS} characters of object or text"
    return ("too long", f"more than {MAX_QUOTE_CHARS} characters of quote") if len(quote) > MAX_QUOTE_CHARS else None


def _fault_of_secrecy(names: Sequence[str], texts: Sequence[str]) -> Finding | None:
    if any(secret_forms.SECRET_PREDICATE.match(predicate_key(name)) for name in names):
        return "secret", "the predicate or the subject names a secret"
    return ("secret", "a secret is told") if any(_tells_secret(text) for text in (*names, *texts)) else None


def _tells_secret(text: str) -> bool:
    """Whether a text has a secret: in the published form of a key or a card, or told as one."""
    plain = unicodedata.normalize("NFKC", INVISIBLE.sub("", text))
    is_told = secret_forms.KEYS.search(plain) or secret_forms.SECRET_TOLD.search(prepared(text))
    return bool(is_told) or secret_forms.names_card(plain)


def _is_vague(text: str) -> bool:
    plain = normal_form(text)
    return (
        plain.removeprefix("the ").replace("_", " ") in empty_words.VAGUE
        or bool(empty_words.PLACEHOLDER.fullmatch(plain))
        or not _TELLING_SIGN.search(plain)
    )


def _is_instruction(fact: Statement) -> bool:
    predicate, subject = predicate_key(fact.predicate), normal_form(fact.subject)
    is_duty = subject in orders.AGENT_NAMES and bool(orders.DUTY.match(predicate))
    texts = (fact.object, fact.predicate, f"{predicate} {fact.object}", fact.instead_of or "")
    return is_duty or bool(orders.RULE.fullmatch(predicate)) or any(_reads_as_instruction(prepared(t)) for t in texts)


def _reads_as_instruction(prepared: str) -> bool:
    tables = (orders.COMMAND, orders.WHEN_ASKED, orders.ROLE_TOKEN)
    return any(table.search(prepared) for table in tables)
