"""Working blocks: order, versions, and plans that nothing interleaves."""

from __future__ import annotations

import asyncio

import pytest

from loomflow.errors import ConfigError, ConflictError
from loomflow.items import MemoryBlock
from loomflow.ports import Store
from loomflow.records import BlockPlan

from .base import ConformanceBase, ManualClock, appending, contents, writing


def writing_at(version: int, content: str) -> BlockPlan:
    """The plan that writes only on top of one version."""

    def plan(old: MemoryBlock | None) -> MemoryBlock:
        found = old.version if old else 0
        if found != version:
            raise ConflictError(f"at version {found}")
        return MemoryBlock("block", content)

    return plan


class BlockConformance(ConformanceBase):
    """`blocks` and `change_block`."""

    async def test_a_new_store_has_no_blocks(self, store: Store) -> None:
        assert await store.blocks(None) == []
        assert await store.blocks("ana") == []

    async def test_a_block_comes_back_with_name_owner_version_and_time(self, store: Store, clock: ManualClock) -> None:
        written = await store.change_block("ana", "profile", writing("likes tea"))
        assert written == MemoryBlock("profile", "likes tea", user_id="ana", updated_at=clock(), version=1)
        assert await store.blocks("ana") == [written]

    async def test_blocks_stand_in_the_order_of_their_first_writing(self, store: Store) -> None:
        for name in ("zebra", "apple", "mango"):
            await store.change_block(None, name, writing("1"))
        await store.change_block(None, "apple", writing("2"))
        assert list(await contents(store, None)) == ["zebra", "apple", "mango"]

    async def test_a_block_deleted_and_written_again_stands_last(self, store: Store) -> None:
        for name in ("first", "second"):
            await store.change_block(None, name, writing("1"))
        await store.change_block(None, "first", lambda _: None)
        await store.change_block(None, "first", writing("2"))
        assert await contents(store, None) == {"second": "1", "first": "2"}
        assert list(await contents(store, None)) == ["second", "first"]

    async def test_versions_count_the_writes(self, store: Store, clock: ManualClock) -> None:
        for number in (1, 2, 3):
            clock.advance(hours=1)
            block = await store.change_block(None, "profile", writing(f"text {number}"))
            assert block is not None
            assert (block.version, block.updated_at) == (number, clock())

    async def test_a_plan_is_given_the_block_as_it_is(self, store: Store) -> None:
        seen: list[MemoryBlock | None] = []

        def plan(old: MemoryBlock | None) -> MemoryBlock:
            seen.append(old)
            return MemoryBlock("profile", f"write {len(seen)}")

        first = await store.change_block("ana", "profile", plan)
        await store.change_block("ana", "profile", plan)
        assert seen == [None, first]

    async def test_a_plan_can_compare_and_set(self, store: Store) -> None:
        await store.change_block(None, "profile", writing_at(0, "one"))
        await store.change_block(None, "profile", writing_at(1, "two"))
        with pytest.raises(ConflictError):
            await store.change_block(None, "profile", writing_at(1, "lost"))
        assert await contents(store, None) == {"profile": "two"}

    async def test_of_concurrent_compare_and_sets_one_wins(self, store: Store) -> None:
        await store.change_block(None, "profile", writing("start"))
        tries = [store.change_block(None, "profile", writing_at(1, f"try {number}")) for number in range(8)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        won = [result for result in results if isinstance(result, MemoryBlock)]
        assert len(won) == 1
        assert sum(isinstance(result, ConflictError) for result in results) == 7
        assert await store.blocks(None) == won

    async def test_concurrent_appends_are_all_kept(self, store: Store) -> None:
        await asyncio.gather(*(store.change_block("ana", "log", appending(f"<{number}>")) for number in range(40)))
        (block,) = await store.blocks("ana")
        assert sorted(block.content.strip("<>").split("><"), key=int) == [str(number) for number in range(40)]
        assert block.version == 40

    async def test_a_plan_that_raises_writes_nothing(self, store: Store) -> None:
        class RefusedError(Exception):
            pass

        def refuse(_: MemoryBlock | None) -> MemoryBlock:
            raise RefusedError

        await store.change_block("ana", "profile", writing("kept"))
        before = await store.blocks("ana")
        for user, name in (("ana", "profile"), ("ana", "new"), ("new user", "profile")):
            with pytest.raises(RefusedError):
                await store.change_block(user, name, refuse)
        assert await store.blocks("ana") == before
        assert await store.users() == ["ana"]

    async def test_a_plan_can_delete(self, store: Store) -> None:
        await store.change_block("ana", "gone", writing("x"))
        await store.change_block("ana", "kept", writing("y"))
        assert await store.change_block("ana", "gone", lambda _: None) is None
        assert await contents(store, "ana") == {"kept": "y"}

    async def test_deleting_what_is_not_there_is_no_error(self, store: Store) -> None:
        assert await store.change_block("ana", "never there", lambda _: None) is None
        assert await store.users() == []

    async def test_names_are_told_apart_to_the_letter(self, store: Store) -> None:
        names = ["profile", "Profile", "pro_ile", "pro%", "profile ", "it's", 'a"b', "简介", "%", "_"]
        for name in names:
            await store.change_block(None, name, writing(f"text of {name}"))
        await store.change_block(None, "pro%", lambda _: None)
        names.remove("pro%")
        assert await contents(store, None) == {name: f"text of {name}" for name in names}

    @pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 1025])
    async def test_unusable_names_are_refused(self, store: Store, name: str) -> None:
        with pytest.raises(ConfigError):
            await store.change_block(None, name, writing("x"))

    @pytest.mark.parametrize(
        "text", ["", " two  spaces ", "line\r\nline\n", "naïve 简介 👩‍👩‍👧 e\u0301", "'; --\\ %s {x} \"", "x" * 200_000]
    )
    async def test_texts_come_back_unchanged(self, store: Store, text: str) -> None:
        await store.change_block(None, "profile", writing(text))
        assert await contents(store, None) == {"profile": text}
