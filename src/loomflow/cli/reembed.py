"""`loomflow memory reembed`: changes the embedder of a memory, or makes up for a failure of it.

It may be stopped at any moment: what was embedded is stored, and the same command goes on from there.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from loomflow.embedding import check_vectors
from loomflow.errors import EmbedderError
from loomflow.items import Episode, Fact
from loomflow.reembedding import TIMEOUT_SECONDS

from .display import counted, fact_line, one_line, say, tell, user_label
from .failures import FAILED, INTERRUPTED, misuse
from .memory_commands import chosen_users
from .opening import KEYWORD_ONLY, existing_memory, read_embedder
from .options import EMBEDDER_VARIABLE, Anonymous, EmbedderName, MemoryUrl, OneUser
from .progress import progress_bar
from .refusals import Refusals, reason_of
from .stopping import Stopping

if TYPE_CHECKING:
    from loomflow.memory import Memory

NAMED = 5
"""So many of those that got no vector are named."""

NAMED_CHARS = 60


def reembed(
    memory: MemoryUrl,
    user: OneUser = None,
    anonymous: Anonymous = False,
    embedder: EmbedderName = "default",
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", min=1, help="How many are embedded and stored at a time; 64 if omitted."),
    ] = None,
) -> None:
    """Embed the facts and episodes that have no vector of an embedder: after a change or a failure of it.

    Until then they are found by keyword only. It may be stopped with Ctrl-C at any moment: what was embedded is stored,
    and the same command goes on. Vectors of other embedders are deleted once a user's memory has all of this one.
    """
    scopes = chosen_users(user, anonymous)
    if read_embedder(embedder) is None:
        raise misuse(
            f"--embedder {KEYWORD_ONLY} makes no vectors: give --embedder or {EMBEDDER_VARIABLE} the name of one"
        )
    stopping = Stopping()
    work = _Reembedding(existing_memory(memory, embedder), scopes, {} if batch is None else {"batch": batch}, stopping)
    try:
        with work.refusals:
            stopping.run(work.run)
    except asyncio.CancelledError:
        _tell_stopped(work)
        raise typer.Exit(INTERRUPTED) from None
    _say_done(work)
    if work.items:
        _say_how_to_open(embedder, work.name, "the memory" if scopes is None else user_label(scopes[0]))
    if work.refusals.count:
        raise typer.Exit(FAILED)


@dataclass
class _Reembedding:
    """One run of the command, and what has come of it so far.

    Attributes:
        opened, scopes, options, stopping: what to work on, for whom (None is everyone), with which batches, until when.
        refusals: the texts that the embedder failed for.
        name: of the embedder.
        items: the facts and episodes that there are.
        missing: of each user, how many of them had no vector when it began.
        tried, done: how many were tried, and how many have got a vector.
        left: some of those that were tried in vain.
    """

    opened: Memory
    scopes: list[str | None] | None
    options: dict[str, int]
    stopping: Stopping
    refusals: Refusals = field(default_factory=Refusals)
    name: str = ""
    items: int = 0
    missing: dict[str | None, int] = field(default_factory=dict[str | None, int])
    tried: int = 0
    done: int = 0
    left: list[tuple[str | None, Episode | Fact]] = field(default_factory=list[tuple[str | None, Episode | Fact]])

    @property
    def total(self) -> int:
        """How many had no vector."""
        return max(sum(self.missing.values()), self.tried)

    async def run(self) -> None:
        """Embed the memory of one user after the other."""
        try:
            async with self.opened:
                await self._count()
                await self._try_embedder()
                await self._embed()
        except asyncio.CancelledError:
            async with self.opened:  # all that was handed over has been written by now
                left = [max((await self.opened.stats(user_id=one)).unembedded, 0) for one in self.missing]
            self.done = max(sum(self.missing.values()) - sum(left), 0)
            raise

    async def _count(self) -> None:
        for one in await self.opened.users() if self.scopes is None else self.scopes:
            stats = await self.opened.stats(user_id=one)
            self.missing[one] = max(stats.unembedded, 0)
            self.items += stats.facts + stats.episodes

    async def _try_embedder(self) -> None:
        """Embed a word, so that an embedder that cannot work at all is not asked for every text.

        Raises:
            EmbedderError: it cannot.
        """
        embedder = self.opened.embedder
        assert embedder is not None
        self.name = embedder.name
        if not sum(self.missing.values()):
            return
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                check_vectors(embedder, await embedder.embed(["memory"]), 1)
        except Exception as error:
            raise EmbedderError(
                f"the embedder {self.name} cannot be used, nothing was done: {reason_of(error)}"
            ) from error

    async def _embed(self) -> None:
        if self.total:
            tell(f"embedding {self.total:,} facts and episodes with {self.name}")
        with progress_bar("embedding", self.total) as advance, self.stopping.finishing():

            def progress(tried: int) -> None:
                self.tried += tried
                advance(tried)
                self.stopping.point()

            for one in self.missing:
                tried = self.tried
                done = await self.opened.reembed(user_id=one, progress=progress, **self.options)
                self.done += done
                if done < self.tried - tried and len(self.left) < NAMED:
                    episodes, facts = await self.opened.store.unembedded(one, self.name, NAMED)
                    self.left += [(one, item) for item in (*episodes, *facts)][:NAMED]


def _tell_stopped(work: _Reembedding) -> None:
    if work.done:
        tell(
            f"stopped: {work.done:,} of {work.total:,} are embedded and stored; the same command goes on with the rest"
        )
    else:
        tell("stopped before anything was embedded; the same command begins again")


def _say_done(work: _Reembedding) -> None:
    if not work.items:
        say("nothing to do: there are no facts and episodes")
        return
    if not work.total:
        say(f"nothing to do: no vector is missing ({counted(work.items, 'item')})")
        return
    say(f"embedded: {work.done:,} of {work.total:,} facts and episodes without a vector")
    failed = work.tried - work.done
    if failed > 0:
        texts = work.refusals.count
        why = f"the embedder failed for {counted(texts, 'text')}" if texts else "the embedder gave nothing to compare"
        tell(f"{failed:,} got none ({why}) and are found by keyword only; the same command tries them again:")
        for user, item in work.left[:NAMED]:
            tell(f"- {_named(item)} of {user_label(user)}")
        if failed > NAMED:
            tell(f"- and {failed - NAMED:,} more")


def _named(item: Episode | Fact) -> str:
    kind, text = ("fact", fact_line(item)) if isinstance(item, Fact) else ("episode", item.text)
    line = one_line(text)
    return f"{kind} {item.id}, {line if len(line) <= NAMED_CHARS else f'{line[: NAMED_CHARS - 1]}…'!r}"


def _say_how_to_open(given: str, name: str, whose: str) -> None:
    if given == "default":
        say(f"{whose} has vectors of the default embedder ({name})")
        return
    say(f"{whose} has vectors of {name} now")
    say("wherever it is opened, the embedder has to be given:")
    say(f"  in Python:           Memory.open(..., embedder={json.dumps(given, ensure_ascii=False)})")
    say(f"  on the command line: export {EMBEDDER_VARIABLE}={shlex.quote(given)}, or --embedder")
