"""Export and import of a user's memory as plain JSON values: nothing is lost on the way, importing twice is once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import EllipsisType
from typing import Any, TypeVar, cast

from .bitemporal import FactChanges, SingleValued, supersede
from .checks import check_user_id
from .embedding import embed_items
from .errors import ConfigError
from .items import Episode, Fact, MemoryBlock, Source
from .ports import Embedder, Store
from .predicates import is_single_valued
from .records import FactFilter, NewEpisode, Turn
from .transactions import Rules, settling

FORMAT = "loomflow-memory"
VERSION = 1
BATCH = 512

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Imported:
    """How much of an import was new. `facts` counts versions."""

    blocks: int = 0
    facts: int = 0
    episodes: int = 0


async def export_user(store: Store, user_id: str | None) -> dict[str, Any]:
    """All of a user's memory: working blocks, every version of every fact, episodes with their runs' messages."""
    blocks = await store.blocks(user_id)
    facts = await store.facts(user_id, FactFilter(history=True))
    turns = await store.turns(user_id, None)
    return {
        "format": FORMAT,
        "version": VERSION,
        "user_id": user_id,
        "blocks": [_block_fields(block) for block in blocks],
        "facts": [_fact_fields(fact) for fact in facts],
        "episodes": [_episode_fields(turn) for turn in turns if turn.episode is not None],
    }


async def import_user(
    store: Store,
    embedder: Embedder | None,
    data: Mapping[str, Any],
    user_id: str | EllipsisType | None,
    max_block_chars: int,
    single_valued: SingleValued = is_single_valued,
) -> Imported:
    """Write an export into the memory of `user_id`, or of the exported user if it is `...`.

    Everything is checked before anything is written. Blocks replace blocks of the same name.

    Raises:
        ConfigError: the data is not an export; the message names the place.
    """
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError.of("data", "what export gave, a mapping", data)
    user = check_user_id(data.get("user_id") if isinstance(user_id, EllipsisType) else user_id)
    blocks, facts, episodes = _read(data, user)
    for block in blocks:
        if len(block.content) > max_block_chars:
            raise ConfigError(
                f"block {block.name!r} must be at most {max_block_chars} characters, got {len(block.content)}"
            )
    return Imported(
        blocks=await _write_blocks(store, user, blocks),
        facts=await _write_facts(store, embedder, user, facts, single_valued),
        episodes=await _write_episodes(store, embedder, user, episodes),
    )


async def _write_blocks(store: Store, user: str | None, blocks: Sequence[MemoryBlock]) -> int:
    before = {block.name: block.content for block in await store.blocks(user)}
    changed = [block for block in blocks if before.get(block.name) != block.content]
    for block in changed:
        await store.change_block(user, block.name, lambda _, new=block: new)
    return len(changed)


async def _write_facts(
    store: Store, embedder: Embedder | None, user: str | None, facts: Sequence[Fact], single_valued: SingleValued
) -> int:
    """Write versions as they were exported; then what is believed follows from all that either memory was told."""
    present = {(fact.id, fact.recorded_at) for fact in await store.facts(user, FactFilter(history=True))}
    new = [fact for fact in facts if fact.id is None or (fact.id, fact.recorded_at) not in present]

    def as_exported(believed: Sequence[Fact], fact: Fact) -> FactChanges:
        clashes = fact.retired_at is None and any(known.id == fact.id for known in believed)
        return supersede(believed, fact, single_valued) if clashes else FactChanges(add=(fact,))

    for start in range(0, len(new), BATCH):
        batch = new[start : start + BATCH]
        embedded = await embed_items(embedder, batch)
        await store.add_facts(user, list(zip(batch, embedded, strict=True)), as_exported)
    believed = [fact for fact in new if fact.retired_at is None]
    if present and believed:
        rules = Rules(store.clock(), single_valued)
        await store.change_facts(user, lambda: settling(believed, rules))
    return len(new)


async def _write_episodes(
    store: Store, embedder: Embedder | None, user: str | None, episodes: Sequence[NewEpisode]
) -> int:
    present = {episode.id for episode in await store.episodes(user)}
    new = [one for one in episodes if one.episode.id is None or one.episode.id not in present]
    for start in range(0, len(new), BATCH):
        batch = new[start : start + BATCH]
        embedded = await embed_items(embedder, [one.episode for one in batch])
        await store.add_episodes(
            user,
            [NewEpisode(one.episode, vector, one.messages) for one, vector in zip(batch, embedded, strict=True)],
        )
    return len(new)


def _read(data: Mapping[str, Any], user: str | None) -> tuple[list[MemoryBlock], list[Fact], list[NewEpisode]]:
    if data.get("format") != FORMAT:
        raise ConfigError.of("format", repr(FORMAT), data.get("format"))
    if data.get("version") != VERSION:
        raise ConfigError.of("version", f"{VERSION} (this version reads no other)", data.get("version"))
    blocks = _each(data, "blocks", lambda row: _read_block(row, user))
    facts = _each(data, "facts", lambda row: _read_fact(row, user))
    return blocks, facts, _each(data, "episodes", lambda row: _read_episode(row, user))


def _each(data: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any]], Item]) -> list[Item]:
    rows: object = data.get(name, [])
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise ConfigError.of(name, "a list", rows)
    items: list[Item] = []
    for place, row in enumerate(cast("Sequence[Any]", rows)):
        try:
            items.append(read(row))
        except KeyError as error:
            raise ConfigError(f"{name}[{place}] has no field {error}") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigError(f"{name}[{place}]: {error}") from error
    return items


_FACT_FIELDS = (
    "subject", "predicate", "object", "confidence", "source_episode_id", "id", "metadata", "origin", "quote",
)  # fmt: skip
_FACT_TIMES = ("valid_from", "valid_until", "recorded_at", "told_at", "retired_at")
_SOURCE_FIELDS = ("id", "episode_id", "quote", "origin", "confidence", "metadata")
_SOURCE_TIMES = ("told_at", "recorded_at", "valid_from", "valid_until")
_EPISODE_FIELDS = ("input", "output", "session_id", "id", "metadata", "user_name", "agent_name")


def _block_fields(block: MemoryBlock) -> dict[str, Any]:
    fields = {"name": block.name, "content": block.content, "version": block.version}
    return fields | {"updated_at": _iso(block.updated_at)}


def _read_block(row: Mapping[str, Any], user: str | None) -> MemoryBlock:
    version: object = row.get("version", 0)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise ConfigError.of("version", "a number of writes", version)
    updated_at = _moment(row.get("updated_at"))
    return MemoryBlock(row["name"], row["content"], user_id=user, updated_at=updated_at, version=version)


def _fact_fields(fact: Fact) -> dict[str, Any]:
    fields = {name: getattr(fact, name) for name in _FACT_FIELDS}
    fields |= {name: _iso(getattr(fact, name)) for name in _FACT_TIMES}
    return fields | {"sources": [_source_fields(source) for source in fact.sources]}


def _source_fields(source: Source) -> dict[str, Any]:
    fields = {name: getattr(source, name) for name in _SOURCE_FIELDS}
    return fields | {name: _iso(getattr(source, name)) for name in _SOURCE_TIMES}


def _read_fact(row: Mapping[str, Any], user: str | None) -> Fact:
    rest: dict[str, Any] = {name: row[name] for name in _FACT_FIELDS if name in row}
    rest |= {name: _moment(row.get(name)) for name in _FACT_TIMES}
    sources = tuple(_read_source(source) for source in row.get("sources", ()))
    return Fact(rest.pop("subject"), rest.pop("predicate"), rest.pop("object"), user_id=user, sources=sources, **rest)


def _read_source(row: Mapping[str, Any]) -> Source:
    rest: dict[str, Any] = {name: row[name] for name in _SOURCE_FIELDS if name in row}
    rest |= {name: _moment(row.get(name)) for name in _SOURCE_TIMES}
    return Source(**rest)


def _episode_fields(turn: Turn) -> dict[str, Any]:
    fields = {name: getattr(turn.episode, name) for name in _EPISODE_FIELDS}
    return fields | {"occurred_at": _iso(turn.episode and turn.episode.occurred_at), "messages": turn.messages}


def _read_episode(row: Mapping[str, Any], user: str | None) -> NewEpisode:
    rest = {name: row[name] for name in _EPISODE_FIELDS if name in row}
    episode = Episode(
        rest.pop("input"), rest.pop("output"), user_id=user, occurred_at=_moment(row.get("occurred_at")), **rest
    )
    return NewEpisode(episode, messages=row.get("messages"))


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
