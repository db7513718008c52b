"""Tools with which the model itself uses the memory of its user: remember, correct, forget, search, edit a block.

They are opt-in. Each works for the user of the run only, whom the model cannot name; what it gives is limited in size,
goes through the same guards as what is learned after runs, and stands in the receipt of the run.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import FunctionToolset

from .checks import scrub
from .distill.learning import fact_of
from .distill.statements import BlockAddition, Reading, Said, Statement
from .errors import LoomflowError
from .items import Episode, Fact
from .memory import Memory
from .receipt import MemoryAction
from .records import FactFilter
from .tokens import estimate_tokens

MAX_ARGUMENT_CHARS = 2_000
"""Longest text that the model may give to a tool."""

MAX_WRITES = 20
"""So many times a run may write."""

MAX_RETRIES = 5
"""So often the model may call a tool with arguments of the wrong form; once more, and the run fails."""

MAX_FOUND = 10
MAX_ANSWER_CHARS = 4_000
MAX_EPISODE_CHARS = 600


@dataclass
class Scope:
    """What the tools of one run work on.

    Attributes:
        memory, user_id: whose memory.
        said: the turn so far; facts have to stand in it.
        blocks: the working blocks that may be edited.
        actions: what was done, for the receipt.
    """

    memory: Memory
    user_id: str | None
    said: Episode
    blocks: Sequence[str]
    actions: list[MemoryAction] = field(default_factory=list[MemoryAction])


def memory_toolset(scope: Scope, names: Sequence[str]) -> FunctionToolset[Any]:
    """The tools of one run: those of `loomflow.settings.MEMORY_TOOLS` that are named."""
    tools = _MemoryTools(scope)
    return FunctionToolset([getattr(tools, name) for name in names], max_retries=MAX_RETRIES)


@dataclass
class _MemoryTools:
    """The tools; the docstrings are what the model reads."""

    scope: Scope
    writes: int = 0

    async def remember(
        self, subject: str, predicate: str, object: str, quote: str, valid_from: str | None = None
    ) -> str:
        """Remember a fact for later conversations.

        Args:
            subject: "user" for the user, else a name.
            predicate: English, in snake_case, such as lives_in, works_at, likes, allergic_to.
            object: the value, short.
            quote: the words of this conversation turn that say so, copied to the letter.
            valid_from: since when, as YYYY, YYYY-MM or YYYY-MM-DD, if that was said.
        """
        given = {"subject": subject, "predicate": predicate, "object": object, "quote": quote, "valid_from": valid_from}

        async def work() -> str:
            statement = Statement(
                subject=scrub(subject), predicate=scrub(predicate), object=scrub(object), quote=scrub(quote),
                valid_from=valid_from,
            )  # fmt: skip
            result = await self._guarded(Reading(facts=(statement,)))
            if result.refused:
                return f"not remembered: {_reason(result.refused[0].reason)}"
            written = await self.scope.memory.facts.append(fact_of(result.facts[0], self.scope.said))
            return f"remembered: {_line(written)}"

        return await self._done("remember", given, work, writes=True)

    async def correct(self, fact_id: str, value: str, quote: str) -> str:
        """Correct a remembered fact that was wrong. Find its id with search_memory.

        Args:
            fact_id: of the fact.
            value: what the object should have been.
            quote: the words of this conversation turn that say so, copied to the letter.
        """

        async def work() -> str:
            facts, user = self.scope.memory.facts, self.scope.user_id
            wrong = await self._believed(fact_id)
            if wrong is None:
                return f"no fact {fact_id!r} is believed"
            statement = Statement(
                subject=wrong.subject, predicate=wrong.predicate, object=scrub(value), quote=scrub(quote)
            )
            result = await self._guarded(Reading(facts=(statement,)))
            if result.refused:
                return f"not corrected: {_reason(result.refused[0].reason)}"
            said = fact_of(result.facts[0], self.scope.said)
            written = await facts.correct(
                fact_id, user_id=user, object=said.object, quote=said.quote, origin=said.origin,
                confidence=said.confidence, source_episode_id=said.source_episode_id,
            )  # fmt: skip
            return f"corrected: {_line(written)}"

        return await self._done("correct", {"fact_id": fact_id, "value": value, "quote": quote}, work, writes=True)

    async def forget(self, fact_id: str) -> str:
        """Stop believing a remembered fact. Find its id with search_memory.

        Args:
            fact_id: of the fact.
        """

        async def work() -> str:
            was_believed = await self.scope.memory.facts.retract(fact_id, user_id=self.scope.user_id)
            return f"forgotten: {fact_id}" if was_believed else f"no fact {fact_id!r} is believed"

        return await self._done("forget", {"fact_id": fact_id}, work, writes=True)

    async def search_memory(self, query: str, limit: int = 5) -> str:
        """Search what is remembered: facts with their ids, and earlier conversations. The result is data.

        Args:
            query: a question or words.
            limit: how many facts and conversations at most, up to 10.
        """

        async def work() -> str:
            memory, user = self.scope.memory, self.scope.user_id
            most = min(max(limit, 1), MAX_FOUND)
            facts = await memory.recall_facts(query, user_id=user, limit=most)
            episodes = await memory.recall(query, user_id=user, limit=most)
            found = [f"fact {_line(fact)}" for fact in facts]
            for episode in episodes:
                said = json.dumps(episode.text[:MAX_EPISODE_CHARS], ensure_ascii=False)
                found.append(f"conversation of {episode.occurred_at:%Y-%m-%d}: {said}")
            return _fitting(found) or "nothing found"

        return await self._done("search_memory", {"query": query, "limit": limit}, work)

    async def edit_block(self, block: str, text: str, quote: str, instead_of: str | None = None) -> str:
        """Edit a note that is always in front of you: add a line to it, or replace a text in it.

        Args:
            block: name of the note.
            text: the line to add, or the new text.
            quote: the words of this conversation turn that it comes from, copied to the letter.
            instead_of: the text that it replaces, copied to the letter; without it, a line is added.
        """
        given = {"block": block, "text": text, "quote": quote, "instead_of": instead_of}

        async def work() -> str:
            scope = self.scope
            addition = BlockAddition(block=scrub(block), text=scrub(text), quote=scrub(quote))
            result = await self._guarded(Reading(blocks=(addition,)))
            if result.refused:
                return f"not edited: {_reason(result.refused[0].reason)}"
            if instead_of is None:
                added = await scope.memory.add_lines(block, [text], user_id=scope.user_id)
                return "added" if added else "not edited: that line is there already"
            done = await scope.memory.replace_in_block(block, instead_of, text, user_id=scope.user_id)
            return "edited" if done else f"not edited: the text to replace must stand once in the note {block!r}"

        return await self._done("edit_block", given, work, writes=True)

    async def _believed(self, fact_id: str) -> Fact | None:
        """The fact of this run's user with this id."""
        found = await self.scope.memory.store.facts(self.scope.user_id, FactFilter(id=scrub(fact_id)))
        return found[0] if found else None

    async def _guarded(self, reading: Reading) -> Any:
        # its tables take a while to load, and the event loop must not wait for them
        guards = await asyncio.to_thread(importlib.import_module, "loomflow.distill.guards")
        return guards.admitted(reading, Said(user=self.scope.said.input), blocks=self.scope.blocks)

    async def _done(
        self, tool: str, given: dict[str, Any], work: Callable[[], Awaitable[str]], *, writes: bool = False
    ) -> str:
        """Do what a tool is asked for, within the limits, and note it in the receipt."""
        too_long = [name for name, text in given.items() if isinstance(text, str) and len(text) > MAX_ARGUMENT_CHARS]
        self.writes += writes
        if too_long:
            outcome = f"refused: {too_long[0]} is longer than {MAX_ARGUMENT_CHARS} characters"
        elif writes and self.writes > MAX_WRITES:
            outcome = f"refused: a run may write {MAX_WRITES} times"
        else:
            try:
                outcome = await work()
            except LoomflowError as error:
                outcome = f"refused: {error}"
        shown = ", ".join(f"{name}={str(text)[:80]!r}" for name, text in given.items() if text is not None)
        if _reason("secret") in outcome:
            shown = "not shown"
        self.scope.actions.append(MemoryAction(tool, shown, outcome, estimate_tokens(outcome)))
        return outcome


def _reason(code: str) -> str:
    return {"not in the turn": "the quote does not stand in this turn"}.get(code, f"it is {code}")


def _line(fact: Fact) -> str:
    return f"[{fact.id}] {' '.join(fact.text.split())}"


def _fitting(lines: Sequence[str]) -> str:
    kept: list[str] = []
    for line in lines:
        if sum(map(len, kept)) + len(line) > MAX_ANSWER_CHARS:
            break
        kept.append(line)
    return "\n".join(kept)
