"""The queue of runs that facts are still to be learned from: who is given which, and what becomes of it."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

import pytest

from loomflow.bitemporal import FactChanges
from loomflow.errors import ConfigError
from loomflow.items import Fact
from loomflow.ports import Store
from loomflow.records import NewEpisode, OpenRun, Queue

from .base import Capability, ConformanceBase, ManualClock, add_episodes, at, embedded, objects, requires, told
from .scripts import FactScript, RefusedError, nearest, stored, writing_facts

A_MINUTE = 60.0


async def enqueue(store: Store, user: str | None, *names: str, session: str = "s") -> None:
    """Add finished runs that facts are to be learned from."""
    episodes = [NewEpisode(told(name, id=name, session=session, occurred_at=at(1)), distill=True) for name in names]
    await store.add_episodes(user, episodes)


async def claim(store: Store, name: str, limit: int = 10, **which: str | None) -> list[str | None]:
    """Claim runs for a minute; their ids."""
    return [one.episode.id for one in await store.claim_undistilled(name, A_MINUTE, limit, **which)]


async def finish(store: Store, user: str | None, episode: str, name: str) -> int | None:
    """Write one fact for a claimed run, and strike it off."""
    fact = stored(f"Ana learned {episode}", source_episode_id=episode)
    return await store.finish_undistilled(user, episode, name, lambda: writing_facts(fact))


class QueueConformance(ConformanceBase):
    """`claim_undistilled`, `finish_undistilled`, `postpone_undistilled`, `release_undistilled`, `unpark`, `queue`."""

    # What is in it

    async def test_an_empty_queue_gives_nothing(self, store: Store) -> None:
        await add_episodes(store, "ana", told("not to be learned from"))
        assert await store.queue() == await store.queue(user_id="ana") == await store.queue(user_id="nobody") == Queue()
        assert await claim(store, "me") == []
        assert await store.unpark() == 0

    async def test_what_is_to_be_learned_from_waits(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, "ana", "a", "b")
        await add_episodes(store, "ana", told("other"))
        assert await store.queue() == Queue(waiting=2, due=2, next_at=clock())

    async def test_a_run_gives_its_user_episode_and_messages(self, store: Store) -> None:
        (episode,) = await store.add_episodes(
            "ana", [NewEpisode(told("hello", id="e", output="hi", metadata={"k": 1}), messages='["m"]', distill=True)]
        )
        (found,) = await store.claim_undistilled("me", A_MINUTE, 1)
        assert (found.user_id, found.episode, found.messages, found.attempts) == ("ana", episode, '["m"]', 1)

    async def test_a_run_of_nobody_in_particular_is_given_too(self, store: Store) -> None:
        await enqueue(store, None, "e")
        (found,) = await store.claim_undistilled("me", A_MINUTE, 1)
        assert (found.user_id, found.episode.user_id, found.messages) == (None, None, None)

    @pytest.mark.parametrize("distill", [True, False])
    async def test_a_run_that_finishes_is_put_in_if_it_is_to_be_learned_from(self, store: Store, distill: bool) -> None:
        await store.begin_run("ana", OpenRun("r", "s", "hello", at(0)))
        assert (await store.queue()).waiting == 0
        await store.finish_run("ana", "r", NewEpisode(told("hello", id="r"), messages="[]", distill=distill))
        assert await claim(store, "me") == (["r"] if distill else [])

    async def test_an_id_given_twice_is_put_in_once(self, store: Store) -> None:
        await enqueue(store, "ana", "a", "a")
        await enqueue(store, "ana", "a")
        assert (await store.queue()).waiting == 1
        assert await claim(store, "me") == ["a"]
        await enqueue(store, "ana", "a")
        assert await claim(store, "you") == []
        assert await finish(store, "ana", "a", "me") == 1
        await enqueue(store, "ana", "a")
        assert await store.queue() == Queue()

    async def test_one_id_of_two_users_is_two_runs(self, store: Store) -> None:
        for user in ("ana", "bo"):
            await enqueue(store, user, "a")
        assert [one.user_id for one in await store.claim_undistilled("me", A_MINUTE, 9)] == ["ana", "bo"]
        assert await finish(store, "ana", "a", "me") == 1
        assert (await store.queue(user_id="bo")).waiting == 1
        assert (await objects(store, "ana"), await objects(store, "bo")) == (["a"], [])

    # Claims

    async def test_the_oldest_come_first_and_none_comes_twice(self, store: Store, clock: ManualClock) -> None:
        for name in "abcde":
            await enqueue(store, "ana", name)
            clock.advance(seconds=1)
        assert [await claim(store, f"{n}", limit=2) for n in range(4)] == [["a", "b"], ["c", "d"], ["e"], []]

    async def test_what_was_written_in_one_moment_comes_in_the_order_of_writing(self, store: Store) -> None:
        names = [f"{number}" for number in range(12)]
        await enqueue(store, "ana", *names)
        assert await claim(store, "me", limit=20) == names

    async def test_one_user_or_all_can_be_asked_for(self, store: Store) -> None:
        for user, name in (("ana", "a"), ("bo", "b"), (None, "n"), ("ana", "c")):
            await enqueue(store, user, name)
        assert await claim(store, "me", user_id="nobody") == []
        assert await claim(store, "me", user_id="ana", limit=1) == ["a"]
        assert await claim(store, "me", user_id=None) == ["n"]
        assert await claim(store, "me") == ["b", "c"]

    @pytest.mark.parametrize("limit", [0, -1, True, 1.5])
    async def test_a_limit_that_is_none_is_refused(self, store: Store, limit: int) -> None:
        await enqueue(store, "ana", "a")
        with pytest.raises(ConfigError, match="limit"):
            await store.claim_undistilled("me", A_MINUTE, limit)
        assert (await store.queue()).due == 1

    async def test_a_claim_ends_with_its_time(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, "ana", "a")
        assert await claim(store, "me") == ["a"]
        clock.advance(seconds=59)
        assert await claim(store, "you") == []
        assert (await store.queue()).due == 0
        clock.advance(seconds=1)
        assert (await store.queue()).due == 1
        assert await claim(store, "you") == ["a"]
        assert await claim(store, "me") == []

    async def test_attempts_count_the_claims(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, "ana", "a")
        counts: list[int] = []
        for _ in range(4):
            (found,) = await store.claim_undistilled("me", A_MINUTE, 1)
            counts.append(found.attempts)
            clock.advance(minutes=2)
        assert counts == [1, 2, 3, 4]

    async def test_of_twenty_who_ask_at_once_none_is_given_what_another_has(self, store: Store) -> None:
        names = [f"{number}" for number in range(50)]
        await enqueue(store, "ana", *names)
        given = await asyncio.gather(*(claim(store, f"worker {number}", limit=3) for number in range(20)))
        assert sorted((name for one in given for name in one if name), key=int) == names

    @requires(Capability.PERSISTENT)
    async def test_two_stores_are_never_given_one_run(self, store: Store, clock: ManualClock, tmp_path: Path) -> None:
        other = await self.make_store(tmp_path)
        other.clock = clock
        try:
            names = [f"{number}" for number in range(40)]
            await enqueue(store, "ana", *names)
            given = await asyncio.gather(*(claim((store, other)[n % 2], f"worker {n}", limit=3) for n in range(20)))
            assert sorted((name for one in given for name in one if name), key=int) == names
            assert await finish(other, "ana", str(given[0][0]), "worker 0") == 1
            assert await finish(store, "ana", str(given[0][0]), "worker 0") is None
        finally:
            await other.aclose()

    @requires(Capability.PERSISTENT)
    async def test_the_queue_outlives_the_store(self, store: Store, clock: ManualClock, tmp_path: Path) -> None:
        await enqueue(store, "ana", "a", "b", "c", "d")
        assert await claim(store, "me", limit=3) == ["a", "b", "c"]
        await store.postpone_undistilled("ana", "b", "me", "no key", None)
        await store.postpone_undistilled("ana", "c", "me", "busy", at(90))
        before = await store.queue()
        again = await self.reopen(store, tmp_path)
        again.clock = clock
        try:
            assert await again.queue() == before
            assert before.errors == (("no key", 1),)
            assert await claim(again, "you") == ["d"]
            assert await finish(again, "ana", "a", "me") == 1
            clock.moment = at(90)
            assert [(one.episode.id, one.attempts) for one in await again.claim_undistilled("you", 1, 9)] == [
                ("c", 2), ("d", 2),
            ]  # fmt: skip
        finally:
            await again.aclose()

    # What becomes of it

    async def test_finishing_writes_the_facts_and_strikes_the_run_off(self, store: Store) -> None:
        await enqueue(store, "ana", "a", "b")
        await claim(store, "me")
        assert await finish(store, "ana", "a", "me") == 1
        assert await objects(store, "ana") == ["a"]
        assert (await store.queue()).waiting == 1
        assert await finish(store, "ana", "a", "me") is None
        assert await objects(store, "ana", history=True) == ["a"]

    @requires(Capability.VECTORS)
    async def test_what_was_learned_gets_its_vectors(self, store: Store) -> None:
        await enqueue(store, None, "a")
        await claim(store, "me")
        fact = stored("Ana likes tea")
        await store.finish_undistilled(None, "a", "me", lambda: writing_facts(fact), {fact.text: embedded(10)})
        assert await nearest(store, 0) == ["tea"]

    async def test_nothing_learned_strikes_the_run_off_too(self, store: Store) -> None:
        await enqueue(store, "ana", "a")
        await claim(store, "me")
        assert await store.finish_undistilled("ana", "a", "me", writing_facts) == 0
        assert await store.queue() == Queue()

    async def test_a_script_that_raises_leaves_the_run_claimed_and_writes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        def script() -> FactScript[None]:
            yield FactChanges(add=(stored("Ana likes tea"),))
            raise RefusedError

        await enqueue(store, "ana", "a")
        await claim(store, "me")
        before = await store.queue()
        with pytest.raises(RefusedError):
            await store.finish_undistilled("ana", "a", "me", script)
        assert (await store.queue(), await objects(store, "ana", history=True)) == (before, [])
        assert await claim(store, "you") == []
        assert await finish(store, "ana", "a", "me") == 1

    async def test_learning_a_fact_of_another_user_is_refused_and_nothing_is_written(self, store: Store) -> None:
        await enqueue(store, "ana", "a")
        await claim(store, "me")
        foreign = Fact("Bo", "likes", "tea", user_id="bo", id="f", recorded_at=at(0))
        with pytest.raises(ConfigError, match="bo"):
            await store.finish_undistilled("ana", "a", "me", lambda: writing_facts(foreign))
        assert (await store.queue()).waiting == 1
        assert await store.users() == ["ana"]

    async def test_nobody_finishes_what_another_has(self, store: Store) -> None:
        await enqueue(store, "ana", "a")
        assert await finish(store, "ana", "a", "me") is None  # nobody has it
        await claim(store, "me")
        for user, episode, name in (("ana", "a", "you"), ("bo", "a", "me"), (None, "a", "me"), ("ana", "b", "me")):
            assert await finish(store, user, episode, name) is None
            assert await objects(store, user, history=True) == []
        assert (await store.queue()).waiting == 1
        assert await store.users() == ["ana"]

    async def test_what_somebody_else_has_taken_meanwhile_is_not_finished(
        self, store: Store, clock: ManualClock
    ) -> None:
        await enqueue(store, "ana", "a")
        await claim(store, "slow")
        clock.advance(minutes=2)
        assert await claim(store, "quick") == ["a"]
        assert await finish(store, "ana", "a", "slow") is None
        await store.postpone_undistilled("ana", "a", "slow", "too late", None)
        await store.release_undistilled("slow")
        assert await objects(store, "ana") == []
        assert (await store.queue()).parked == 0
        assert await finish(store, "ana", "a", "quick") == 1
        assert await finish(store, "ana", "a", "slow") is None
        assert await objects(store, "ana") == ["a"]

    async def test_what_nobody_has_taken_meanwhile_can_be_finished_late(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, "ana", "a")
        await claim(store, "slow")
        clock.advance(minutes=2)
        assert await finish(store, "ana", "a", "slow") == 1
        assert await store.queue() == Queue()

    async def test_what_is_postponed_comes_again_when_it_is_due(self, store: Store, clock: ManualClock) -> None:
        clock.moment = at(1)
        await enqueue(store, "ana", "a", "b")
        await claim(store, "me")
        await store.postpone_undistilled("ana", "a", "me", "busy", at(3))
        await store.postpone_undistilled("ana", "b", "me", "busy", at(2))
        assert await finish(store, "ana", "a", "me") is None  # it was given back
        assert await store.queue() == Queue(waiting=2, due=0, next_at=at(2))
        given: list[list[str | None]] = []
        for moment in (at(1, 23), at(2), at(2, 23), at(3)):
            clock.moment = moment
            given.append(await claim(store, "you"))
        assert given[:3] == [[], ["b"], ["b"]]
        assert given[3] == ["a", "b"]
        assert await finish(store, "ana", "a", "you") == 1

    async def test_a_run_postponed_again_and_again_counts_every_attempt(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, "ana", "a")
        counts: list[int] = []
        for _ in range(3):
            (found,) = await store.claim_undistilled("me", A_MINUTE, 1)
            counts.append(found.attempts)
            clock.advance(seconds=1)
            await store.postpone_undistilled("ana", "a", "me", "busy", clock())
        assert counts == [1, 2, 3]

    async def test_what_is_parked_waits_until_somebody_asks_for_it(self, store: Store, clock: ManualClock) -> None:
        await enqueue(store, "ana", "a", "b")
        await claim(store, "me")
        await store.postpone_undistilled("ana", "a", "me", "no key", None)
        clock.advance(days=1000)
        assert await claim(store, "you") == ["b"]
        assert (await store.queue()).parked == 1
        assert await store.unpark() == 1
        assert await store.unpark() == 0
        queue = await store.queue()
        assert (queue.waiting, queue.due, queue.parked, queue.errors) == (2, 1, 0, ())
        (again,) = await store.claim_undistilled("you", A_MINUTE, 9)
        assert (again.episode.id, again.attempts) == ("a", 1)

    async def test_one_user_or_all_can_be_unparked(self, store: Store) -> None:
        for user in ("ana", "bo", None):
            await enqueue(store, user, "a")
            await claim(store, "me")
            await store.postpone_undistilled(user, "a", "me", "no key", None)
        assert await store.unpark(user_id="nobody") == 0
        assert await store.unpark(user_id=None) == 1
        assert await store.unpark(user_id="ana") == 1
        assert [one.user_id for one in await store.claim_undistilled("me", A_MINUTE, 9)] == ["ana", None]
        assert (await store.queue()).parked == 1

    async def test_only_who_has_it_postpones_a_run(self, store: Store) -> None:
        await enqueue(store, "ana", "a")
        for name in ("me", "you"):
            await store.postpone_undistilled("ana", "a", name, "not mine", None)
            assert (await store.queue()).parked == 0
            await claim(store, "me")
        for user in ("bo", None):
            await store.postpone_undistilled(user, "a", "me", "not mine", None)
        assert (await store.queue()).parked == 0

    async def test_what_is_given_back_was_not_tried(self, store: Store) -> None:
        await enqueue(store, "ana", "a", "b", "c")
        assert await claim(store, "me", limit=2) == ["a", "b"]
        assert await claim(store, "you") == ["c"]
        await store.release_undistilled("me")
        await store.release_undistilled("me")
        await store.release_undistilled("nobody")
        found = await store.claim_undistilled("they", A_MINUTE, 9)
        assert [(one.episode.id, one.attempts) for one in found] == [("a", 1), ("b", 1)]
        assert await finish(store, "ana", "a", "me") is None
        assert await finish(store, "ana", "c", "you") == 1

    async def test_those_who_are_at_it_are_listed(self, store: Store) -> None:
        await enqueue(store, "ana", "a", "b", "c")
        assert await store.undistilled_claims() == []
        await claim(store, "me", limit=2)
        await claim(store, "you", limit=1)
        assert sorted(await store.undistilled_claims()) == ["me", "you"]
        await store.release_undistilled("me")
        await finish(store, "ana", "c", "you")
        assert await store.undistilled_claims() == []

    # Counts

    async def test_counts_tell_waiting_due_and_parked_apart(self, store: Store, clock: ManualClock) -> None:
        clock.moment = at(1)
        await enqueue(store, "ana", *"abcdef")
        await enqueue(store, "bo", "g")
        await claim(store, "me", limit=4)
        for name, error, due in (("a", "no key", None), ("b", "no key", None), ("c", "busy", at(5))):
            await store.postpone_undistilled("ana", name, "me", error, due)
        ana = Queue(waiting=4, due=2, parked=2, errors=(("no key", 2),), next_at=at(1))
        assert await store.queue(user_id="ana") == ana
        assert await store.queue(user_id="bo") == Queue(waiting=1, due=1, next_at=at(1))
        assert await store.queue(user_id=None) == Queue()
        everyone = await store.queue()
        assert (everyone.waiting, everyone.due, everyone.parked) == (5, 3, 2)

    async def test_the_most_frequent_errors_come_first(self, store: Store) -> None:
        await enqueue(store, "ana", *"abcdef")
        await claim(store, "me")
        for name, error in zip("abcdef", ("x", "y", "y", "z", "z", "z"), strict=True):
            await store.postpone_undistilled("ana", name, "me", error, None)
        assert (await store.queue()).errors == (("z", 3), ("y", 2), ("x", 1))

    @pytest.mark.parametrize(
        ("postponed_to", "wanted"), [(at(1, 12), at(1, 0)), (at(9), at(1, 0))], ids=["soon", "later"]
    )
    async def test_the_next_is_the_first_that_can_be_taken(
        self, store: Store, clock: ManualClock, postponed_to: datetime, wanted: datetime
    ) -> None:
        clock.moment = at(1)
        await enqueue(store, "ana", "a", "b")
        await claim(store, "me", limit=1)
        assert (await store.queue()).next_at == wanted  # "b" can be taken now
        await store.postpone_undistilled("ana", "a", "me", "busy", postponed_to)
        await claim(store, "me", limit=1)
        claimed_until = at(1).replace(minute=1)
        assert (await store.queue()).next_at == min(claimed_until, postponed_to)
        await finish(store, "ana", "b", "me")
        assert (await store.queue()).next_at == postponed_to

    # Forgetting and isolation

    async def test_a_forgotten_run_is_off_the_queue(self, store: Store) -> None:
        await enqueue(store, "ana", "a", session="gone")
        await enqueue(store, "ana", "b", session="kept")
        await enqueue(store, "bo", "a", session="gone")
        await store.forget("ana", session_id="gone")
        assert await claim(store, "me", user_id="ana") == ["b"]
        await store.forget("ana")
        assert await store.queue(user_id="ana") == Queue()
        assert await finish(store, "ana", "b", "me") is None
        assert await store.users() == ["bo"]
        assert await claim(store, "me") == ["a"]

    async def test_a_run_that_is_older_than_what_is_forgotten_is_off_the_queue(self, store: Store) -> None:
        for day in range(3):
            new = NewEpisode(told(f"{day}", id=f"{day}", occurred_at=at(day)), distill=True)
            await store.add_episodes("ana", [new])
        await store.forget("ana", before=at(2))
        assert await claim(store, "me") == ["2"]

    async def test_a_parked_run_that_is_forgotten_is_parked_no_more(self, store: Store) -> None:
        await enqueue(store, "ana", "a")
        await claim(store, "me")
        await store.postpone_undistilled("ana", "a", "me", "no key", None)
        await store.forget("ana", session_id="s")
        assert await store.queue() == Queue()
        assert await store.unpark() == 0
        await enqueue(store, "ana", "a")
        (found,) = await store.claim_undistilled("me", A_MINUTE, 1)
        assert found.attempts == 1
