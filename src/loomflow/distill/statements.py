"""What a model reads out of a turn, and the turn that it read: plain values, checked by `loomflow.distill.guards`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loomflow.items import Origin

USER_NAMES = frozenset("user|the user|i|me|myself".split("|"))
"""Subjects by which a model means the user, in normal form."""

Change = Literal["states", "corrects", "ends"]
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
"""Why something was not let in; see `loomflow.distill.guards`."""


@dataclass(frozen=True, slots=True)
class Said:
    """What was said in one run: the only text that facts may come from.

    Attributes:
        user: what the user said.
        agent: what the agent answered.
        tools: what tools returned, without those that read the memory itself.
    """

    user: str
    agent: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that a model read out of a turn.

    Attributes:
        subject: whom or what it is about; "user" for the user.
        predicate: in a few words with underscores, as in `lives_in`.
        object: the value.
        quote: the words of the turn that say so, copied to the letter.
        said_by: whose words they are: "user", "agent" or "tool".
        change: "states" something; "corrects" what was said wrongly before (`instead_of`); "ends": no longer true.
        instead_of: the wrong value, where a correction names it.
        valid_from: since when it is true: YYYY, YYYY-MM or YYYY-MM-DD; None if that was not said.
        valid_until: until when it is or was true, in the same forms.
        confidence: from 0 to 1: how sure the speaker is.
    """

    subject: str
    predicate: str
    object: str
    quote: str
    said_by: Origin = "user"
    change: Change = "states"
    instead_of: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    confidence: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockAddition:
    """A line that a model proposes to add to a working block.

    Attributes:
        block: name of the block.
        text: the line.
        quote: the words of the turn that it comes from, copied to the letter.
    """

    block: str
    text: str
    quote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that a model read out of one turn."""

    facts: tuple[Statement, ...] = ()
    blocks: tuple[BlockAddition, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """What the guards did not let in.

    Attributes:
        item: the statement or addition.
        reason: a code, such as "question".
        detail: in words, without the refused text where that is a secret.
    """

    item: Statement | BlockAddition
    reason: Reason
    detail: str = ""
