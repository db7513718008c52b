"""Sessions: turns, and runs that begin, finish or are interrupted."""

from __future__ import annotations

import asyncio

import pytest

from loomflow.items import Episode
from loomflow.ports import Store
from loomflow.records import NewEpisode, OpenRun, Turn

from .base import Capability, ConformanceBase, add_episodes, asking, at, inputs, requires, said, told


def opened(run: str, *, session: str = "s", prompt: str | None = None) -> OpenRun:
    """A run that has just begun."""
    return OpenRun(run, session, prompt or f"prompt of {run}", at(1))


def finished(run: str, *, session: str = "s", messages: str | None = "[]") -> NewEpisode:
    """The episode of a run that came to its end."""
    return NewEpisode(
        Episode(f"prompt of {run}", "answer", session_id=session, id=run, occurred_at=at(2)), messages=messages
    )


async def order(store: Store, user: str | None = None, session: str | None = "s") -> list[str]:
    """The run ids of a session's turns, in order; those without an answer in brackets."""
    names: list[str] = []
    for turn in await store.turns(user, session):
        assert (turn.episode is None) != (turn.interrupted is None)
        names.append(f"({turn.interrupted.run_id})" if turn.interrupted else (turn.episode and turn.episode.id) or "")
    return names


class SessionConformance(ConformanceBase):
    """`turns`, `begin_run`, `finish_run` and `interrupt_run`."""

    async def test_a_new_session_has_no_turns(self, store: Store) -> None:
        assert await store.turns(None, "s") == []
        assert await store.turns("ana", None) == []

    async def test_an_open_run_is_a_turn_without_an_answer(self, store: Store) -> None:
        run = opened("r", prompt="zwei\nZeilen 会 👩‍👩‍👧")
        await store.begin_run("ana", run)
        assert await store.turns("ana", "s") == [Turn(interrupted=run)]

    async def test_an_open_run_is_no_episode(self, store: Store) -> None:
        await store.begin_run("ana", opened("r"))
        assert await store.episodes("ana") == []
        assert await store.users() == ["ana"]

    async def test_a_finished_run_becomes_its_episode(self, store: Store) -> None:
        await store.begin_run(None, opened("r"))
        await store.finish_run(None, "r", finished("r", messages='[{"k": "会"}]'))
        assert await store.turns(None, "s") == [Turn(episode=finished("r").episode, messages='[{"k": "会"}]')]
        assert await inputs(store, None) == ["prompt of r"]

    async def test_a_finished_run_stands_where_it_began(self, store: Store) -> None:
        for run in ("a", "b", "c"):
            await store.begin_run(None, opened(run))
        await add_episodes(store, None, told("d", id="d"))
        for run in ("c", "a", "b"):
            await store.finish_run(None, run, finished(run))
        assert await order(store) == ["a", "b", "c", "d"]
        assert [episode.id for episode in await store.episodes(None)] == ["a", "b", "c", "d"]

    async def test_a_run_whose_beginning_was_not_noted_can_finish(self, store: Store) -> None:
        await add_episodes(store, None, told("first", id="first"))
        await store.finish_run(None, "r", finished("r"))
        assert await order(store) == ["first", "r"]

    async def test_a_run_finished_twice_is_one_episode(self, store: Store) -> None:
        await store.begin_run(None, opened("r"))
        for _ in range(2):
            await store.finish_run(None, "r", finished("r"))
        assert await order(store) == ["r"]

    async def test_an_interrupted_run_keeps_what_it_had_produced(self, store: Store) -> None:
        await store.begin_run(None, opened("a"))
        await store.begin_run(None, opened("b"))
        await store.interrupt_run(None, "s", "a", '[{"call": 9}]', "CancelledError: stopped")
        await store.interrupt_run(None, "s", "b", None, "it's over")
        first, second = await store.turns(None, "s")
        assert first.interrupted == OpenRun(
            "a", "s", "prompt of a", at(1), messages='[{"call": 9}]', error="CancelledError: stopped"
        )
        assert first.messages == '[{"call": 9}]'
        assert second.interrupted == OpenRun("b", "s", "prompt of b", at(1), error="it's over")
        assert await store.episodes(None) == []

    async def test_interrupting_what_is_not_open_changes_nothing(self, store: Store) -> None:
        await store.begin_run("ana", opened("done"))
        await store.finish_run("ana", "done", finished("done"))
        await store.begin_run("ana", opened("open"))
        before = await store.turns("ana", None)
        await store.interrupt_run("ana", "s", "done", None, "too late")
        await store.interrupt_run("ana", "s", "never", None, "x")
        await store.interrupt_run("ana", "other", "open", None, "x")
        await store.interrupt_run("bo", "s", "open", None, "x")
        assert await store.turns("ana", None) == before
        assert await store.users() == ["ana"]

    async def test_turns_follow_the_order_of_writing_not_the_clock(self, store: Store) -> None:
        for number, day in enumerate((5, 1, 9, 1)):
            await add_episodes(store, None, told("x", id=f"e{number}", occurred_at=at(day)))
        await store.begin_run(None, opened("r"))
        assert await order(store) == ["e0", "e1", "e2", "e3", "(r)"]

    async def test_an_episode_written_by_hand_is_a_turn_without_messages(self, store: Store) -> None:
        (episode,) = await add_episodes(store, None, told("x"))
        assert await store.turns(None, "s") == [Turn(episode=episode)]

    async def test_messages_are_kept_with_the_episode(self, store: Store) -> None:
        text = '[{"text": "预算 \\u0041 👩‍👩‍👧", "n": 1}]' + " " * 100_000
        await store.add_episodes("ana", [NewEpisode(told("x", id="e"), messages=text)])
        (turn,) = await store.turns("ana", "s")
        assert turn.messages == text

    async def test_sessions_and_users_are_kept_apart(self, store: Store) -> None:
        scopes = [("ana", "s"), ("ana", "S"), ("ana", "s_"), ("ana", "s%"), ("bo", "s"), (None, "s")]
        for user, session in scopes:
            await add_episodes(store, user, told(f"{user}/{session}", session=session))
            await store.begin_run(user, opened("r", session=session, prompt=f"{user}/{session}"))
        for user, session in scopes:
            done, open_ = await store.turns(user, session)
            assert done.episode is not None
            assert open_.interrupted is not None
            assert (done.episode.input, open_.interrupted.prompt) == (f"{user}/{session}", f"{user}/{session}")
        assert len(await store.turns("ana", None)) == 8

    async def test_finishing_one_users_run_leaves_the_same_run_of_others(self, store: Store) -> None:
        for user in ("ana", "bo"):
            await store.begin_run(user, opened("r"))
        await store.finish_run("ana", "r", finished("r"))
        assert await order(store, "ana") == ["r"]
        assert await order(store, "bo") == ["(r)"]

    @requires(Capability.KEYWORDS)
    async def test_a_run_is_found_once_it_is_finished(self, store: Store) -> None:
        await store.begin_run(None, opened("kayak"))
        assert await said(store, None, asking("kayak")) == []
        await store.finish_run(None, "kayak", finished("kayak"))
        assert await said(store, None, asking("kayak")) == ["prompt of kayak"]

    @pytest.mark.parametrize("fail", [False, True])
    async def test_concurrent_runs_of_a_session_keep_their_places(self, store: Store, fail: bool) -> None:
        runs = [f"r{number}" for number in range(12)]
        for run in runs:
            await store.begin_run(None, opened(run))

        async def end(run: str) -> None:
            if fail and run in runs[::3]:
                await store.interrupt_run(None, "s", run, None, "x")
            else:
                await store.finish_run(None, run, finished(run))

        await asyncio.gather(*(end(run) for run in reversed(runs)))
        assert [name.strip("()") for name in await order(store)] == runs
