"""One user at a time: whatever an id looks like, it is one scope, and no method reads or writes another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from loomflow.errors import ConfigError
from loomflow.items import Episode, Fact
from loomflow.ports import Store
from loomflow.records import FactFilter, NewEpisode, OpenRun, Search
from loomflow.transactions import Rules, retraction

from .base import (
    SPACE,
    Capability,
    ConformanceBase,
    add_episodes,
    add_facts,
    asking,
    at,
    by_keyword,
    by_vector,
    contents,
    embedded,
    gather,
    inputs,
    objects,
    requires,
    retract,
    told,
    writing,
)

HOSTILE_IDS: list[str | None] = [
    None, "anonymous", "None", "null", "NULL", "0", "-1", "1", "01", "1.0", "true", "*", "%", "_", "?", ".", "..", "/",
    "\\",
    "ana", "Ana", "ANA", "ana ", " ana", "an_", "an%", "ana_lima", "ana-lima", "ana lima", "ana\u00a0lima",
    "o'brien", 'o"brien', "'; DROP TABLE users; --", "' OR '1'='1", "u:7 OR text:x", '7" OR u : "8', "{user}", "%s",
    "$1", ":id",
    "0b9c1f1e-4d2a-4b53-8a55-3f7d2a61c9d4", "ida@example.org", "https://x.example/?a=b&c=d#e", "a:b", "a/b", "a\\b",
    "用户1", "用户１", "\u00e9", "e\u0301", "ﬁ", "fi", "ß", "ss", "İ", "i", "👩‍👩‍👧", "👩",
    "\u202eana", "\ufeffana", "\u200bana",
    "x" * 1023, "x" * 1024, "用" * 1024,
]  # fmt: skip
"""Ids that one layer or another may take for syntax, a pattern, a number, or for one another."""

REFUSED_IDS: list[Any] = [
    "", " ", "\t", "\u3000", "a\nb", "a\0b", "\x7f", "\ud800", "x" * 1025, 0, 1, True, False, b"ana", 1.5, ["ana"], {},
]  # fmt: skip

FACT = Fact("s", "p", "o")
EPISODE = NewEpisode(Episode("x", "y", session_id="s"))
CALLS: dict[str, Callable[[Store, Any], Awaitable[object]]] = {
    "blocks": lambda store, user: store.blocks(user),
    "blocks at a moment": lambda store, user: store.blocks(user, at=at(0)),
    "change_block": lambda store, user: store.change_block(user, "b", writing("x")),
    "add_facts": lambda store, user: add_facts(store, user, FACT),
    "facts": lambda store, user: store.facts(user, FactFilter()),
    "change_facts": lambda store, user: retract(store, user, "f"),
    "add_episodes": lambda store, user: store.add_episodes(user, [EPISODE]),
    "episodes": lambda store, user: store.episodes(user),
    "search": lambda store, user: store.search(user, asking("kayak")),
    "passages": lambda store, user: store.passages(user, asking("kayak", text="kayak", chars=100)),
    "names": lambda store, user: store.names(user),
    "turns": lambda store, user: store.turns(user, "s"),
    "begin_run": lambda store, user: store.begin_run(user, OpenRun("r", "s", "x", at(0))),
    "finish_run": lambda store, user: store.finish_run(user, "r", EPISODE),
    "interrupt_run": lambda store, user: store.interrupt_run(user, "s", "r", None, "x"),
    "unembedded": lambda store, user: store.unembedded(user, SPACE, 1),
    "set_vectors": lambda store, user: store.set_vectors(user, {"e": embedded(0)}, {}),
    "drop_vectors": lambda store, user: store.drop_vectors(user, but=SPACE),
    "forget": lambda store, user: store.forget(user),
    "claim_undistilled": lambda store, user: store.claim_undistilled("me", 1, 1, user_id=user),
    "finish_undistilled": lambda store, user: store.finish_undistilled(
        user, "e", "me", lambda: retraction("f", Rules(store.clock()))
    ),
    "postpone_undistilled": lambda store, user: store.postpone_undistilled(user, "e", "me", "x", None),
    "unpark": lambda store, user: store.unpark(user_id=user),
    "queue": lambda store, user: store.queue(user_id=user),
    "stats": lambda store, user: store.stats(user, everyone=False, embedder=None),
}
"""Every method that works within one user's memory."""


async def fill(store: Store, user: str | None, mark: str) -> None:
    """Write one of everything, with the same ids for every user and the user's own mark in each text."""
    await store.change_block(user, "profile", writing(mark))
    await store.add_facts(user, [(Fact("s", "p", f"kayak {mark}", id="f"), embedded(10))], gather)
    await store.add_episodes(user, [NewEpisode(told(f"kayak {mark}", id="e", user_name=f"N {mark}"), embedded(10))])
    await store.begin_run(user, OpenRun("r", "s", mark, at(0)))


class IsolationConformance(ConformanceBase):
    """`user_id` in every method."""

    async def test_every_id_is_a_scope_of_its_own(self, store: Store) -> None:
        marks = {user: f"m{number}" for number, user in enumerate(HOSTILE_IDS)}
        for user, mark in marks.items():
            await fill(store, user, mark)
        for user, mark in marks.items():
            assert await contents(store, user) == {"profile": mark}
            assert await objects(store, user, history=True) == [f"kayak {mark}"]
            assert await inputs(store, user) == [f"kayak {mark}"]
            assert [block.user_id for block in await store.blocks(user)] == [user]
            assert [episode.user_id for episode in await store.episodes(user)] == [user]
            episode, run = await store.turns(user, "s")
            assert (episode.episode and episode.episode.input, run.interrupted and run.interrupted.prompt) == (
                f"kayak {mark}", mark,
            )  # fmt: skip
        users = await store.users()
        assert len(users) == len(marks)
        assert set(users) == set(marks)

    @requires(Capability.KEYWORDS)
    async def test_keyword_search_stays_within_every_id(self, store: Store) -> None:
        for number, user in enumerate(HOSTILE_IDS):
            await fill(store, user, f"m{number}")
        for number, user in enumerate(HOSTILE_IDS):
            episodes, facts = await store.search(user, asking("kayak"))
            assert [episode.input for episode in by_keyword(episodes)] == [f"kayak m{number}"]
            assert [fact.object for fact in by_keyword(facts)] == [f"kayak m{number}"]
            assert {item.user_id for item in (*episodes.items.values(), *facts.items.values())} == {user}

    @requires(Capability.VECTORS)
    async def test_vector_search_stays_within_every_id(self, store: Store) -> None:
        for number, user in enumerate(HOSTILE_IDS):
            await fill(store, user, f"m{number}")
        for number, user in enumerate(HOSTILE_IDS):
            episodes, facts = await store.search(user, Search(query=embedded(0)))
            assert [episode.input for episode in by_vector(episodes)] == [f"kayak m{number}"]
            assert [fact.object for fact in by_vector(facts)] == [f"kayak m{number}"]

    @requires(Capability.KEYWORDS)
    async def test_passages_stay_within_every_id(self, store: Store) -> None:
        for number, user in enumerate(HOSTILE_IDS):
            await fill(store, user, f"m{number}")
        for number, user in enumerate(HOSTILE_IDS):
            episodes, facts = await store.passages(user, asking("kayak", text="kayak", chars=100_000))
            assert [(one.item.user_id, one.item.input) for one in episodes] == [(user, f"kayak m{number}")]
            assert [(one.item.user_id, one.item.object) for one in facts] == [(user, f"kayak m{number}")]
            assert (await store.names(user)).speakers == [f"N m{number}"]

    async def test_changes_stay_within_every_id(self, store: Store) -> None:
        left = list(HOSTILE_IDS)
        for number, user in enumerate(HOSTILE_IDS):
            await fill(store, user, f"m{number}")
        for user in HOSTILE_IDS:
            left.remove(user)
            assert await retract(store, user, "f")
            await store.change_block(user, "profile", lambda _: None)
            await store.interrupt_run(user, "s", "r", None, "x")
            assert (await store.forget(user)).total == 2
            for other in left[:2] + left[-2:]:
                assert len(await store.blocks(other)) == len(await objects(store, other)) == 1
                _, run = await store.turns(other, "s")
                assert (run.interrupted and run.interrupted.error) is None
        assert await store.users() == []

    @pytest.mark.parametrize("method", list(CALLS))
    async def test_what_is_no_id_is_refused_by_every_method(self, store: Store, method: str) -> None:
        await add_episodes(store, "ana", told("kept", id="e"))
        await add_episodes(store, None, told("kept", id="e"))
        for user in REFUSED_IDS:
            with pytest.raises(ConfigError, match="user_id"):
                await CALLS[method](store, user)
        assert (await inputs(store, "ana"), await inputs(store, None)) == (["kept"], ["kept"])
        assert set(await store.users()) == {"ana", None}

    @pytest.mark.parametrize("method", [name for name in CALLS if name not in ("change_block", "add_facts")])
    async def test_methods_that_write_nothing_new_make_no_scope(self, store: Store, method: str) -> None:
        if method not in ("add_episodes", "begin_run", "finish_run"):
            await CALLS[method](store, "nobody")
        assert await store.users() == []
