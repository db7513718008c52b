"""What a memory holds: working blocks, facts, episodes, and what recall returns.

All are frozen and checked when made; datetimes are aware and in UTC from then on.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from .checks import check_id, check_metadata, check_text, check_user_id, utc_or_none
from .errors import ConfigError

Kind = Literal["block", "fact", "episode"]
Origin = Literal["user", "agent", "tool"]
ORIGINS: tuple[Origin, ...] = ("user", "agent", "tool")


def new_id() -> str:
    """A fresh random id."""
    return uuid.uuid4().hex


def _normalise(item: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(item, name, value)


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """A working block: a small named text about a user, always in front of the model in full.

    Attributes:
        name: unique for the user; one line.
        content: the text.
        user_id: whose block it is; None is the anonymous scope.
        updated_at: when it was last written; set by the store.
        version: counts the writes, from 1; give it to `update_block(expected_version=)` to refuse a lost update.

    Raises:
        ConfigError: a field is blank or of the wrong type.
    """

    name: str
    content: str
    user_id: str | None = None
    updated_at: datetime | None = None
    version: int = 0

    def __post_init__(self) -> None:
        _normalise(
            self,
            name=check_id("block name", self.name),
            content=check_text("block content", self.content),
            user_id=check_user_id(self.user_id),
            updated_at=utc_or_none("updated_at", self.updated_at),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One telling of a fact: what was said, by whom and when. A fact that was told again has several.

    Attributes:
        id: of the fact as it was told.
        episode_id: the episode that it was said in; None if a program told it.
        quote: the words that it came from.
        origin: who said it: "user" (or the program), "agent" or "tool".
        told_at: when it was said.
        recorded_at: when the memory learned it.
        valid_from, valid_until: as they were told; those of the fact take other values into account.
        confidence: 0 to 1.
        metadata: plain JSON values that came with it.
    """

    id: str
    told_at: datetime
    recorded_at: datetime
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    episode_id: str | None = None
    quote: str | None = None
    origin: Origin = "user"
    confidence: float = 1.0
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        for name in ("told_at", "recorded_at"):
            if getattr(self, name) is None:
                raise ConfigError.of(f"source {name}", "a datetime", None)
        _normalise(
            self,
            id=check_id("source id", self.id),
            told_at=utc_or_none("told_at", self.told_at),
            recorded_at=utc_or_none("recorded_at", self.recorded_at),
            valid_from=utc_or_none("valid_from", self.valid_from),
            valid_until=utc_or_none("valid_until", self.valid_until),
            episode_id=None if self.episode_id is None else check_id("episode_id", self.episode_id),
            quote=None if self.quote is None else check_text("quote", self.quote, blank=False),
            origin=_check_origin(self.origin),
            confidence=_check_confidence(self.confidence),
            metadata=check_metadata("metadata", self.metadata),
        )


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement that is true over a valid time and known over a recorded time.

    Attributes:
        subject, predicate, object: the statement, stored as given; compared without case and spacing.
        user_id: whose memory it is in; None is the anonymous scope.
        valid_from: when it began to be true; None means: not known, it holds for all time up to `valid_until`. Once
            another value of a single-valued predicate follows, the moment of its telling stands for it.
        valid_until: when it ceased to be true (exclusive); None means: still true.
        recorded_at: when the memory learned it; the store sets it if None.
        confidence: 0 to 1.
        source_episode_id: the episode that it came from; of several, the last one.
        id: identity of the fact over its versions; made if None. Appending an id again corrects that fact.
        metadata: plain JSON values of the caller's own.
        origin: who said it: "user" (or the program that told it), "agent" or "tool". What the user said comes first.
        quote: the words that it came from.
        told_at: when it was said; `recorded_at` if None. It stands for `valid_from` where that is not known and another
            value follows.
        sources: every telling of it; set by the store, and not compared. A version that is believed no more has only
            those that it was written for.
        retired_at: when the memory stopped believing this version; None for what it believes now. Set by the store.

    Raises:
        ConfigError: a field is blank, out of range or of the wrong type, or the valid time ends before it begins.
    """

    subject: str
    predicate: str
    object: str
    user_id: str | None = field(default=None, kw_only=True)
    valid_from: datetime | None = field(default=None, kw_only=True)
    valid_until: datetime | None = field(default=None, kw_only=True)
    recorded_at: datetime | None = field(default=None, kw_only=True)
    confidence: float = field(default=1.0, kw_only=True)
    source_episode_id: str | None = field(default=None, kw_only=True)
    id: str | None = field(default=None, kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any], kw_only=True)
    origin: Origin = field(default="user", kw_only=True)
    quote: str | None = field(default=None, kw_only=True)
    told_at: datetime | None = field(default=None, kw_only=True)
    sources: tuple[Source, ...] = field(default=(), kw_only=True, compare=False, repr=False)
    retired_at: datetime | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _normalise(
            self,
            subject=check_text("subject", self.subject, blank=False),
            predicate=check_text("predicate", self.predicate, blank=False),
            object=check_text("object", self.object, blank=False),
            user_id=check_user_id(self.user_id),
            valid_from=utc_or_none("valid_from", self.valid_from),
            valid_until=utc_or_none("valid_until", self.valid_until),
            recorded_at=utc_or_none("recorded_at", self.recorded_at),
            told_at=utc_or_none("told_at", self.told_at),
            retired_at=utc_or_none("retired_at", self.retired_at),
            quote=None if self.quote is None else check_text("quote", self.quote, blank=False),
            source_episode_id=None
            if self.source_episode_id is None
            else check_id("source_episode_id", self.source_episode_id),
            id=None if self.id is None else check_id("id", self.id),
            metadata=check_metadata("metadata", self.metadata),
            origin=_check_origin(self.origin),
            confidence=_check_confidence(self.confidence),
        )
        if self.valid_from and self.valid_until and self.valid_until < self.valid_from:
            raise ConfigError.of(
                "valid_until", f"at or after valid_from ({self.valid_from.isoformat()})", self.valid_until
            )

    @property
    def text(self) -> str:
        """The statement as one text: subject, predicate, object."""
        return f"{self.subject} {self.predicate} {self.object}"

    def is_valid_at(self, moment: datetime) -> bool:
        """Whether it is true at `moment` (aware): the start is inclusive, the end exclusive."""
        return (self.valid_from is None or self.valid_from <= moment) and (
            self.valid_until is None or moment < self.valid_until
        )


def _check_origin(value: object) -> Origin:
    for origin in ORIGINS:
        if value == origin:
            return origin
    raise ConfigError.of("origin", '"user", "agent" or "tool"', value)


def _check_confidence(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ConfigError.of("confidence", "a number from 0 to 1", value)
    return float(value)


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished run: what the user said and what the agent answered.

    Attributes:
        input: what the user said.
        output: what the agent answered.
        session_id: the conversation it belongs to.
        user_id: whose memory it is in; None is the anonymous scope.
        occurred_at: when; the store sets it to now if None.
        id: made if None. An id given twice is the same episode: writing it again changes nothing.
        metadata: plain JSON values of the caller's own.
        user_name, agent_name: names of the two parties, shown in the injected text where given.

    Raises:
        ConfigError: a field has the wrong type, or both texts are blank.
    """

    input: str
    output: str
    session_id: str = field(kw_only=True)
    user_id: str | None = field(default=None, kw_only=True)
    occurred_at: datetime | None = field(default=None, kw_only=True)
    id: str | None = field(default=None, kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any], kw_only=True)
    user_name: str | None = field(default=None, kw_only=True)
    agent_name: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _normalise(
            self,
            input=check_text("input", self.input),
            output=check_text("output", self.output),
            session_id=check_id("session_id", self.session_id),
            user_id=check_user_id(self.user_id),
            occurred_at=utc_or_none("occurred_at", self.occurred_at),
            id=None if self.id is None else check_id("id", self.id),
            metadata=check_metadata("metadata", self.metadata),
            user_name=None if self.user_name is None else check_text("user_name", self.user_name, blank=False),
            agent_name=None if self.agent_name is None else check_text("agent_name", self.agent_name, blank=False),
        )
        if not self.input.strip() and not self.output.strip():
            raise ConfigError("an episode must have text: input and output are both blank")

    @property
    def text(self) -> str:
        """What was said, in two lines: the text that is searched and embedded."""
        return f"{self.input}\n{self.output}"


@dataclass(frozen=True, slots=True)
class EpisodeMatch:
    """An episode that recall found.

    Attributes:
        episode: the episode.
        score: reciprocal-rank-fusion score over the two searches. It encodes ranks, not similarity: do not compare
            it with a threshold.
        lexical_rank: place in the keyword search, from 0; None if it is not in it.
        vector_rank: place in the vector search, from 0; None if it is not in it.
        similarity: cosine of query and episode, -1 to 1; None without vectors.
    """

    episode: Episode
    score: float
    lexical_rank: int | None = None
    vector_rank: int | None = None
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class FactMatch:
    """A fact that recall found; the other fields are those of `EpisodeMatch`."""

    fact: Fact
    score: float
    lexical_rank: int | None = None
    vector_rank: int | None = None
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """One message of a session's chat history, as `Memory.session_messages` lists it.

    Attributes:
        role: "user" or "assistant".
        content: the text.
        at: when the run took place.
        run_id: the run that it belongs to; equal for the messages of one run.
    """

    role: Literal["user", "assistant"]
    content: str
    at: datetime
    run_id: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How much a `forget` deleted, by kind."""

    blocks: int = 0
    facts: int = 0
    episodes: int = 0

    @property
    def total(self) -> int:
        """All rows deleted."""
        return self.blocks + self.facts + self.episodes


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """What a memory holds, of one user or of all.

    Attributes:
        users, sessions, blocks, facts, episodes: counts; `facts` are those believed now, `fact_versions` all of them.
        unembedded: facts and episodes that have no vector of the current embedder, and are found by keyword only.
        bytes: size of the database.
        embedder: name of the embedder in use, None for keyword only.
        url: where the memory is, without a password.
        undistilled: finished runs that facts are still to be learned from.
        parked: runs that nothing could be learned from, after several attempts; `Agent.distill(retry_parked=True)` and
            `loomflow memory distill --retry-parked` try them again.
        parked_errors: why, the most frequent first, each with how many runs it stopped.
    """

    users: int
    sessions: int
    blocks: int
    facts: int
    fact_versions: int
    episodes: int
    unembedded: int
    bytes: int
    embedder: str | None
    url: str
    undistilled: int = 0
    parked: int = 0
    parked_errors: tuple[tuple[str, int], ...] = ()
