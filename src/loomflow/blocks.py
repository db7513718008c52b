"""The working blocks of a memory: list, write, append, delete."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from .checks import check_text, utc_or_none
from .errors import ConfigError, ConflictError
from .items import MemoryBlock
from .ports import Store
from .words import normal_form

MAX_BLOCK_CHARS = 50_000


class Blocks:
    """The part of `Memory` that is about working blocks."""

    _max_block_chars: int

    @property
    def store(self) -> Store:
        """Where they are kept."""
        raise NotImplementedError

    async def working(self, *, user_id: str | None = None, at: datetime | None = None) -> list[MemoryBlock]:
        """List the working blocks, in the order in which they were first written.

        Args:
            user_id: whose blocks.
            at: as they were at this moment; now if None. Of each block, the last 100 versions are kept.
        """
        return await self.store.blocks(user_id, at=utc_or_none("at", at))

    async def update_block(
        self, name: str, content: str, *, user_id: str | None = None, expected_version: int | None = None
    ) -> MemoryBlock:
        """Write a block.

        Args:
            name: of the block; one line.
            content: its new text.
            user_id: whose block.
            expected_version: refuse the write unless the block still has this version (0: does not exist).

        Raises:
            ConflictError: the block has another version by now, and nothing was written.
            ConfigError: the text is too long.
        """
        new = MemoryBlock(name, self._checked_content(content), user_id=user_id)

        def plan(old: MemoryBlock | None) -> MemoryBlock:
            version = old.version if old else 0
            if expected_version is not None and expected_version != version:
                raise ConflictError(f"block {name!r} is at version {version}, not {expected_version}; read it again")
            return new

        return await self._change_block(user_id, name, plan)

    async def append_block(
        self, name: str, text: str, *, user_id: str | None = None, separator: str = "\n"
    ) -> MemoryBlock:
        """Add text at the end of a block, in one step that no other writer interleaves; creates the block if need be.

        Raises:
            ConfigError: the block would become too long; nothing was written.
        """
        added = check_text("text", text)

        def plan(old: MemoryBlock | None) -> MemoryBlock:
            content = f"{old.content}{separator}{added}" if old and old.content else added
            return MemoryBlock(name, self._checked_content(content), user_id=user_id)

        return await self._change_block(user_id, name, plan)

    async def add_lines(self, name: str, lines: Iterable[str], *, user_id: str | None = None) -> int:
        """Add those lines to a block that it does not have yet; creates the block if need be.

        Returns:
            How many were added.

        Raises:
            ConfigError: the block would become too long; nothing was written.
        """
        wanted = [" ".join(check_text("line", line, blank=False).split()) for line in lines]
        added: list[int] = []

        def plan(old: MemoryBlock | None) -> MemoryBlock | None:
            content = old.content if old else ""
            known = {normal_form(line) for line in content.splitlines()}
            new = list({normal_form(line): line for line in wanted if normal_form(line) not in known}.values())
            added.append(len(new))
            if not new:
                return old
            return MemoryBlock(name, self._checked_content("\n".join([content, *new] if content else new)))

        await self.store.change_block(user_id, name, plan)
        return added[-1]

    async def replace_in_block(self, name: str, old: str, new: str, *, user_id: str | None = None) -> bool:
        """Replace a text that stands once in a block, in one step; whether it did.

        Raises:
            ConfigError: the block would become too long; nothing was written.
        """
        wanted, text = check_text("old", old, blank=False), check_text("new", new)
        done: list[bool] = []

        def plan(block: MemoryBlock | None) -> MemoryBlock | None:
            done.append(block is not None and block.content.count(wanted) == 1)
            if block is None or not done[-1]:
                return block
            return replace(block, content=self._checked_content(block.content.replace(wanted, text).strip()))

        await self.store.change_block(user_id, name, plan)
        return done[-1]

    async def delete_block(self, name: str, *, user_id: str | None = None) -> bool:
        """Delete a block; whether there was one. What it said stays in the record until the user is forgotten."""
        found: list[MemoryBlock] = []

        def plan(old: MemoryBlock | None) -> None:
            found.extend([old] if old else [])

        await self.store.change_block(user_id, name, plan)
        return bool(found)

    async def _change_block(self, user_id: str | None, name: str, plan: Any) -> MemoryBlock:
        block = await self.store.change_block(user_id, name, plan)
        assert block is not None
        return block

    def _checked_content(self, content: str) -> str:
        text = check_text("block content", content)
        if len(text) > self._max_block_chars:
            raise ConfigError(
                f"block content must be at most {self._max_block_chars} characters (max_block_chars), got {len(text)}"
            )
        return text
