"""The facts of a memory: append, query, history, retract."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import overload

from .bitemporal import FactChanges, supersede
from .checks import check_text, utc_or_none
from .embedding import embed_items
from .errors import ConfigError
from .items import Fact
from .ports import Embedder, FactFilter, Store


class Facts:
    """Reached as `memory.facts`. Facts are bi-temporal: nothing is overwritten, and any moment can be asked for."""

    def __init__(self, store: Callable[[], Store], embedder: Callable[[], Embedder | None]) -> None:
        self._store = store
        self._embedder = embedder

    @overload
    async def append(self, facts: Fact) -> Fact: ...

    @overload
    async def append(self, facts: Iterable[Fact]) -> list[Fact]: ...

    async def append(self, facts: Fact | Iterable[Fact]) -> Fact | list[Fact]:
        """Add one or several facts, each to the memory of its own `user_id`.

        A new value of a single-valued predicate (`lives_in`) ends the old one; other predicates (`likes`) gather
        values; a fact that is known already is confirmed. See `loomflow.bitemporal`.

        Returns:
            The version written, with id and times; for several facts, a list in the order given. A fact that was
            known to the letter comes back as it was given.

        Raises:
            ConfigError: something else than facts was given.
            StoreError: the facts of a user could not be written; then none of that user's were.
        """
        if not isinstance(facts, Fact | Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError.of("facts", "a Fact or a list of them", facts)
        told = [facts] if isinstance(facts, Fact) else list(facts)
        for fact in told:
            if not isinstance(fact, Fact):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError.of("facts", "a Fact or a list of them", fact)
        embedded = await embed_items(self._embedder(), told)
        written = list(told)
        for user_id in dict.fromkeys(fact.user_id for fact in told):
            places = [place for place, fact in enumerate(told) if fact.user_id == user_id]
            batch = [(replace(told[place], retired_at=None), embedded[place]) for place in places]
            for place, changes in zip(places, await self._store().add_facts(user_id, batch, supersede), strict=True):
                written[place] = _told_version(told[place], changes)
        return written[0] if isinstance(facts, Fact) else written

    async def query(
        self,
        *,
        user_id: str | None = None,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        valid_at: datetime | None = None,
        known_at: datetime | None = None,
    ) -> list[Fact]:
        """List what is true: now, or at any point of valid and recorded time.

        Args:
            user_id: whose facts; None is the anonymous scope.
            subject, predicate, object: only these, compared without case and spacing.
            valid_at: true at this moment; now by default.
            known_at: as believed at this moment; now by default.

        Returns:
            Facts, oldest recorded first.
        """
        which = FactFilter(
            subject=_text("subject", subject),
            predicate=_text("predicate", predicate),
            object=_text("object", object),
            valid_at=utc_or_none("valid_at", valid_at) or self._store().clock(),
            known_at=utc_or_none("known_at", known_at),
        )
        return await self._store().facts(user_id, which)

    async def history(
        self, subject: str | None = None, predicate: str | None = None, *, user_id: str | None = None
    ) -> list[Fact]:
        """List every version ever recorded, oldest first: what was believed, from when, and when that ended."""
        which = FactFilter(subject=_text("subject", subject), predicate=_text("predicate", predicate), history=True)
        return await self._store().facts(user_id, which)

    async def retract(self, fact: Fact | str, *, user_id: str | None = None) -> bool:
        """Stop believing a fact, given itself or its id. It stays in the history.

        Returns:
            Whether it was believed until now.
        """
        if isinstance(fact, Fact):
            if fact.id is None:
                raise ConfigError.of("fact", "a stored Fact, with an id", fact)
            return await self._store().retract_fact(fact.user_id, fact.id)
        return await self._store().retract_fact(user_id, fact)


def _text(field: str, value: str | None) -> str | None:
    return None if value is None else check_text(field, value, blank=False)


def _told_version(told: Fact, changes: FactChanges) -> Fact:
    """Of the versions written, the one that carries what was told; the plan puts it last."""
    return changes.add[-1] if changes.add else told
