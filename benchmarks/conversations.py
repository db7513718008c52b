"""Conversations with questions and the turns that answer them, read from a file: LoCoMo, or one of `data/*.json`.

Two turns that follow each other in a session are one episode, as an agent stores them: what came in, and what was said
to it. Only the standard library is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

BETWEEN_TURNS = timedelta(seconds=1)
"""Sessions have a time, turns don't: this keeps their order."""
ASKED_AFTER = timedelta(days=1)
"""How long after the last turn the questions are asked."""
LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D:?(\d+):0*(\d+)")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said.

    Attributes:
        id: unique in the conversation.
        speaker: a name; None where the data has no names.
        text: what a block is searched for.
        caption: what is to be seen in a photo that was sent along; stored, but not asked for.
    """

    id: str
    speaker: str | None
    text: str
    caption: str = ""

    @property
    def content(self) -> str:
        """What a memory stores."""
        return f"{self.text} [shares a photo: {self.caption}]" if self.caption else self.text


@dataclass(frozen=True, slots=True)
class Episode:
    """Two turns that follow each other; `output` is empty after the last turn of an odd number of them."""

    id: str
    session: str
    when: datetime
    user_name: str | None
    agent_name: str | None
    input: str
    output: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the turns that one has to read to answer it: their ids and texts."""

    id: str
    text: str
    gold: tuple[str, ...]
    gold_texts: tuple[str, ...]
    category: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Everything that one user's memory holds, oldest first, and what is asked of it at the time `now`."""

    id: str
    episodes: tuple[Episode, ...]
    questions: tuple[Question, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class _Session:
    id: str
    when: datetime
    turns: tuple[Turn, ...]


def load(path: Path | str) -> list[Conversation]:
    """Read the conversations of a file.

    Args:
        path: `locomo10.json` of LoCoMo, or a data set of this project.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is neither of the two, or a question names a turn that does not exist.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(
            f"{file} does not exist. The data sets of this project are in benchmarks/data. LoCoMo is not part of it "
            "(CC BY-NC 4.0): get data/locomo10.json from the repository snap-research/LoCoMo and give its path"
        )
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
        return [_own(cast("dict[str, Any]", data))] if isinstance(data, dict) else [_locomo(item) for item in data]
    except (LookupError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file} is neither LoCoMo nor a data set of this project: {error!r}") from error


def _locomo(item: dict[str, Any]) -> Conversation:
    raw = item["conversation"]
    pair: tuple[str, str] = (raw["speaker_a"], raw["speaker_b"])
    numbers = sorted(int(found[1]) for key in raw if (found := _SESSION.fullmatch(key)))
    sessions = [
        _Session(
            id=f"s{number}",
            when=_locomo_time(raw[f"session_{number}_date_time"]),
            turns=tuple(
                Turn(turn["dia_id"], turn["speaker"], turn["text"], turn.get("blip_caption") or "")
                for turn in raw[f"session_{number}"]
            ),
        )
        for number in numbers
        if raw[f"session_{number}"]
    ]
    texts = {turn.id: turn.text for session in sessions for turn in session.turns}
    name = item["sample_id"].rpartition("-")[2]
    questions: list[Question] = []
    for number, asked in enumerate(item["qa"]):
        named = [
            f"D{found[1]}:{found[2]}" for told in asked.get("evidence") or () for found in _EVIDENCE.finditer(told)
        ]
        gold = [turn for turn in dict.fromkeys(named) if turn in texts]  # a few name turns that don't exist
        if gold:  # a few have no evidence
            category = LOCOMO_CATEGORIES[asked["category"]]
            questions.append(_question(f"{name}-q{number}", asked["question"], gold, texts, category))
    return _conversation(name, sessions, questions, pair)


def _locomo_time(text: str) -> datetime:
    return datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def _own(data: dict[str, Any]) -> Conversation:
    names: dict[str, str | None] = {"user": data["user_name"], "assistant": data["agent_name"]}
    sessions = [
        _Session(
            id=session["id"],
            when=datetime.fromisoformat(session["date"]),
            turns=tuple(Turn(turn["id"], names[turn["role"]], turn["text"]) for turn in session["turns"]),
        )
        for session in data["sessions"]
    ]
    texts = {turn.id: turn.text for session in sessions for turn in session.turns}
    questions: list[Question] = []
    for number, asked in enumerate(data["questions"]):
        gold = asked["gold"]
        if not gold or not texts.keys() >= set(gold):
            raise ValueError(f"question {number} of {data['name']} needs turns that exist, got {gold}")
        questions.append(_question(f"{data['name']}-q{number}", asked["text"], gold, texts, asked["kind"]))
    return _conversation(data["name"], sessions, questions, (names["user"], names["assistant"]))


def _question(name: str, text: str, gold: Sequence[str], texts: Mapping[str, str], category: str) -> Question:
    return Question(name, text, tuple(gold), tuple(texts[turn] for turn in gold), category)


def _conversation(
    name: str, sessions: Sequence[_Session], questions: Sequence[Question], pair: tuple[str | None, str | None]
) -> Conversation:
    last = sessions[-1]
    return Conversation(
        id=name,
        episodes=tuple(episode for session in sessions for episode in _episodes(session, pair)),
        questions=tuple(questions),
        now=last.when + (len(last.turns) - 1) * BETWEEN_TURNS + ASKED_AFTER,
    )


def _episodes(session: _Session, pair: tuple[str | None, str | None]) -> Iterator[Episode]:
    for place in range(0, len(session.turns), 2):
        first, *rest = session.turns[place : place + 2]
        other = pair[1] if first.speaker == pair[0] else pair[0]
        yield Episode(
            id=first.id,
            session=session.id,
            when=session.when + place * BETWEEN_TURNS,
            user_name=first.speaker,
            agent_name=rest[0].speaker if rest else other,
            input=first.content,
            output=rest[0].content if rest else "",
        )
