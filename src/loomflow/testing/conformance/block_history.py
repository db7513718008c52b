"""Working blocks as they were at any moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from loomflow.errors import ConfigError
from loomflow.items import MemoryBlock
from loomflow.ports import Store
from loomflow.records import BlockPlan

from .base import Capability, ConformanceBase, ManualClock, add_episodes, appending, at, requires, told, writing

KEPT_VERSIONS = 100


async def shown(store: Store, user: str | None, moment: datetime) -> dict[str, str]:
    """Name and text of the blocks as they were at a moment, in order."""
    blocks = await store.blocks(user, at=moment)
    assert len({block.name for block in blocks}) == len(blocks), "one text for each name"
    return {block.name: block.content for block in blocks}


def imported(content: str, day: int, version: int = 1) -> BlockPlan:
    """The plan of an import: a block with a time and a version of its own."""
    return lambda _: MemoryBlock("block", content, updated_at=at(day), version=version)


def deleting(_: MemoryBlock | None) -> None:
    """The plan that deletes a block."""


class BlockHistoryConformance(ConformanceBase):
    """`blocks(at=)`."""

    async def write(self, store: Store, clock: ManualClock, day: int, name: str, plan: BlockPlan) -> None:
        """Change a block of Ana's on a day."""
        clock.moment = at(day)
        await store.change_block("ana", name, plan)

    async def test_every_moment_shows_the_text_of_its_time(self, store: Store, clock: ManualClock) -> None:
        for day in (1, 3, 5):
            await self.write(store, clock, day, "profile", writing(f"of day {day}"))
        texts = [await shown(store, "ana", at(day)) for day in range(8)]
        wanted = [{}, *({"profile": f"of day {day}"} for day in (1, 1, 3, 3, 5, 5, 5))]
        assert texts == wanted

    async def test_a_version_begins_at_the_moment_of_its_writing(self, store: Store, clock: ManualClock) -> None:
        await self.write(store, clock, 2, "profile", writing("one"))
        clock.moment = at(2, 12)
        await store.change_block("ana", "profile", writing("two"))
        assert [await shown(store, "ana", at(2, hour)) for hour in (0, 11, 12)] == [
            {"profile": "one"}, {"profile": "one"}, {"profile": "two"},
        ]  # fmt: skip

    async def test_blocks_come_back_with_the_version_and_time_that_they_had(
        self, store: Store, clock: ManualClock
    ) -> None:
        written: list[MemoryBlock | None] = []
        for day in (1, 2, 3):
            clock.moment = at(day)
            written.append(await store.change_block("ana", "profile", writing(f"{day}")))
        for day, block in enumerate(written, 1):
            assert await store.blocks("ana", at=at(day)) == [block]

    async def test_there_was_nothing_before_the_first_block(self, store: Store, clock: ManualClock) -> None:
        await self.write(store, clock, 1, "profile", writing("x"))
        assert await store.blocks("ana", at=at(0)) == []
        assert await store.blocks("ana", at=at(-100_000)) == []
        assert await store.blocks("nobody", at=at(1)) == []

    async def test_the_present_moment_shows_what_is_there_now(self, store: Store, clock: ManualClock) -> None:
        for day, name in enumerate(("b", "a", "c", "a", "b")):
            await self.write(store, clock, day, name, writing(f"{name} of day {day}"))
        assert await store.blocks("ana", at=clock()) == await store.blocks("ana")
        assert await store.blocks("ana", at=at(10_000)) == await store.blocks("ana")

    async def test_appends_are_taken_off_again(self, store: Store, clock: ManualClock) -> None:
        for day in range(4):
            await self.write(store, clock, day, "log", appending(f"<{day}>"))
        texts = [(await shown(store, "ana", at(day)))["log"] for day in range(4)]
        assert texts == ["<0>", "<0><1>", "<0><1><2>", "<0><1><2><3>"]

    async def test_writing_the_same_text_is_no_new_version(self, store: Store, clock: ManualClock) -> None:
        for day in (1, 2, 3):
            await self.write(store, clock, day, "profile", writing("x"))
        assert [block.version for block in await store.blocks("ana", at=at(3))] == [1]
        assert await store.blocks("ana", at=at(1)) == await store.blocks("ana")

    async def test_a_deleted_block_was_there_until_it_was_deleted(self, store: Store, clock: ManualClock) -> None:
        await self.write(store, clock, 1, "profile", writing("x"))
        await self.write(store, clock, 3, "profile", deleting)
        assert [await shown(store, "ana", at(day)) for day in (0, 1, 2, 3, 4)] == [
            {}, {"profile": "x"}, {"profile": "x"}, {}, {},
        ]  # fmt: skip

    async def test_a_block_written_again_was_not_there_in_between(self, store: Store, clock: ManualClock) -> None:
        await self.write(store, clock, 1, "profile", writing("first"))
        await self.write(store, clock, 3, "profile", deleting)
        await self.write(store, clock, 5, "profile", writing("second"))
        await self.write(store, clock, 7, "profile", deleting)
        await self.write(store, clock, 9, "profile", writing("first"))
        texts = [(await shown(store, "ana", at(day))).get("profile") for day in (1, 3, 5, 7, 9)]
        assert texts == ["first", None, "second", None, "first"]
        versions = [block.version for day in (1, 5, 9) for block in await store.blocks("ana", at=at(day))]
        assert versions == sorted(set(versions))

    async def test_two_writes_of_one_moment_leave_the_second(self, store: Store, clock: ManualClock) -> None:
        for text in ("one", "two"):
            await self.write(store, clock, 1, "profile", writing(text))
        await self.write(store, clock, 2, "profile", writing("three"))
        assert await shown(store, "ana", at(1)) == {"profile": "two"}

    async def test_a_moment_shows_the_order_of_its_time(self, store: Store, clock: ManualClock) -> None:
        for day, name in enumerate(("zebra", "apple", "mango"), 1):
            await self.write(store, clock, day, name, writing(name))
        await self.write(store, clock, 4, "zebra", deleting)
        await self.write(store, clock, 5, "zebra", writing("zebra"))
        await self.write(store, clock, 6, "apple", writing("apple 2"))
        orders = [list(await shown(store, "ana", at(day))) for day in (3, 4, 5, 6)]
        assert orders == [
            ["zebra", "apple", "mango"], ["apple", "mango"], ["apple", "mango", "zebra"], ["apple", "mango", "zebra"],
        ]  # fmt: skip

    async def test_an_import_is_there_since_the_time_that_it_brings(self, store: Store, clock: ManualClock) -> None:
        await self.write(store, clock, 20, "profile", imported("brought", day=5, version=7))
        assert [await shown(store, "ana", at(day)) for day in (4, 5)] == [{}, {"profile": "brought"}]
        (block,) = await store.blocks("ana", at=at(9))
        assert (block.version, block.updated_at) == (7, at(5))

    async def test_an_import_does_not_change_what_was_there_before(self, store: Store, clock: ManualClock) -> None:
        await self.write(store, clock, 1, "profile", writing("one"))
        await self.write(store, clock, 10, "profile", writing("two"))
        await self.write(store, clock, 20, "profile", imported("old", day=5))
        texts = [(await shown(store, "ana", at(day)))["profile"] for day in (1, 5, 10, 19, 20)]
        assert texts == ["one", "one", "two", "two", "old"]

    async def test_an_import_of_what_was_deleted_begins_with_the_import(self, store: Store, clock: ManualClock) -> None:
        await self.write(store, clock, 1, "profile", writing("one"))
        await self.write(store, clock, 10, "profile", deleting)
        await self.write(store, clock, 20, "profile", imported("one", day=1))
        texts = [(await shown(store, "ana", at(day))).get("profile") for day in (1, 9, 10, 19, 20)]
        assert texts == ["one", "one", None, None, "one"]

    async def test_a_plan_that_hands_on_the_old_time_begins_a_version_all_the_same(
        self, store: Store, clock: ManualClock
    ) -> None:
        await self.write(store, clock, 1, "profile", writing("one"))
        await self.write(store, clock, 3, "profile", lambda old: old and replace(old, content="two"))
        texts = [(await shown(store, "ana", at(day)))["profile"] for day in (1, 2, 3)]
        assert texts == ["one", "one", "two"]

    async def test_a_clock_that_was_put_back_shows_one_text_a_moment(self, store: Store, clock: ManualClock) -> None:
        for day, text in ((10, "one"), (5, "two"), (7, "three"), (12, "four")):
            await self.write(store, clock, day, "profile", writing(text))
        for day in range(5, 14):
            assert len(await shown(store, "ana", at(day))) == 1
        assert await shown(store, "ana", at(12)) == {"profile": "four"}

    async def test_the_last_hundred_versions_are_kept(self, store: Store, clock: ManualClock) -> None:
        last = KEPT_VERSIONS + 20
        for day in range(1, last + 1):
            await self.write(store, clock, day, "log", writing(f"{day}"))
            await self.write(store, clock, day, "other", writing("x"))
        kept = range(last - KEPT_VERSIONS + 1, last + 1)
        assert [(await shown(store, "ana", at(day)))["log"] for day in kept] == [f"{day}" for day in kept]
        assert (await shown(store, "ana", at(1)))["other"] == "x"
        assert await shown(store, "ana", at(last)) == {"log": f"{last}", "other": "x"}

    async def test_a_plan_that_raises_leaves_the_history_alone(self, store: Store, clock: ManualClock) -> None:
        def refuse(_: MemoryBlock | None) -> MemoryBlock:
            raise ConfigError("refused")

        await self.write(store, clock, 1, "profile", writing("one"))
        with pytest.raises(ConfigError):
            await self.write(store, clock, 2, "profile", refuse)
        await self.write(store, clock, 3, "profile", writing("two"))
        assert await shown(store, "ana", at(2)) == {"profile": "one"}

    @pytest.mark.parametrize("deleted", [False, True])
    async def test_forgetting_a_user_forgets_what_their_blocks_said(
        self, store: Store, clock: ManualClock, deleted: bool
    ) -> None:
        for user in ("ana", "bo", None):
            for day in (1, 2):
                clock.moment = at(day)
                await store.change_block(user, "profile", writing(f"{user} {day}"))
        if deleted:
            await store.change_block("ana", "profile", deleting)
        await store.forget("ana")
        for day in range(4):
            assert await store.blocks("ana", at=at(day)) == []
        assert await shown(store, "bo", at(1)) == {"profile": "bo 1"}
        assert await shown(store, None, at(1)) == {"profile": "None 1"}
        await self.write(store, clock, 5, "profile", writing("new"))
        assert await shown(store, "ana", at(4)) == {}

    async def test_forgetting_a_session_leaves_blocks_as_they_were(self, store: Store, clock: ManualClock) -> None:
        for day in (1, 2):
            await self.write(store, clock, day, "profile", writing(f"{day}"))
        await add_episodes(store, "ana", told("x", session="gone", occurred_at=at(1)))
        await store.forget("ana", session_id="gone")
        await store.forget("ana", before=at(9))
        assert [await shown(store, "ana", at(day)) for day in (1, 2)] == [{"profile": "1"}, {"profile": "2"}]

    async def test_moments_stay_within_each_user(self, store: Store, clock: ManualClock) -> None:
        for day, user in enumerate(("ana", "bo", None), 1):
            clock.moment = at(day)
            await store.change_block(user, "profile", writing(f"{user}"))
            await store.change_block(user, "profile", appending("!"))
        for day, user in enumerate(("ana", "bo", None), 1):
            assert await shown(store, user, at(day - 1)) == {}
            assert await shown(store, user, at(3)) == {"profile": f"{user}!"}
            assert {block.user_id for block in await store.blocks(user, at=at(3))} == {user}

    @requires(Capability.PERSISTENT)
    async def test_the_history_outlives_the_store(self, store: Store, clock: ManualClock, tmp_path: Path) -> None:
        for day in (1, 2, 3):
            await self.write(store, clock, day, "profile", writing(f"{day}"))
        again = await self.reopen(store, tmp_path)
        try:
            assert [await shown(again, "ana", at(day)) for day in (1, 2, 3)] == [
                {"profile": "1"}, {"profile": "2"}, {"profile": "3"},
            ]  # fmt: skip
        finally:
            await again.aclose()
