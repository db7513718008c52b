"""The facts of a memory: append, query, history, retract, correct, merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, overload

from .checks import EARLIEST, check_id, check_text, utc_or_none
from .embedding import embed_items
from .errors import ConfigError
from .items import Fact
from .ports import Embedder, Store
from .predicates import SAME_AS, Predicates
from .records import FactFilter, FactScript
from .transactions import Rules, as_told, canonical, correction, is_merge, merging, retraction, telling_all
from .words import normal_form


class Facts:
    """Reached as `memory.facts`. Facts are bi-temporal: nothing is overwritten, and any moment can be asked for."""

    def __init__(
        self, store: Callable[[], Store], embedder: Callable[[], Embedder | None], predicates: Predicates
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._predicates = predicates

    @overload
    async def append(self, facts: Fact) -> Fact: ...

    @overload
    async def append(self, facts: Iterable[Fact]) -> list[Fact]: ...

    async def append(self, facts: Fact | Iterable[Fact]) -> Fact | list[Fact]:
        """Add one or several facts, each to the memory of its own `user_id`.

        A new value of a single-valued predicate (`lives_in`) ends the old one; other predicates (`likes`) gather
        values; a fact that is known already is confirmed. See `loomflow.bitemporal`, and `loomflow.predicates` for
        which are single-valued.

        Returns:
            The version written, with id and times; for several facts, a list in the order given. Where
            nothing changes (it is known to the letter, or an agent repeats what the user said), the one believed.

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
            rules = self._rules()

            def script(places: list[int] = places, rules: Rules = rules) -> FactScript[list[Fact]]:
                return (yield from telling_all([told[place] for place in places], rules))

            vectors = {told[place].text: embedded[place] for place in places}
            versions = await self._store().change_facts(user_id, script, vectors)
            await self.embed_missing(user_id, [version for version in versions if version.text not in vectors])
            for place, version in zip(places, versions, strict=True):
                written[place] = version
        return written[0] if isinstance(facts, Fact) else written

    async def embed_missing(self, user_id: str | None, versions: Sequence[Fact]) -> None:
        """Embed facts whose text only came about as they were written: under another name of their subject."""
        embedder = self._embedder()
        if embedder is None or not versions:
            return
        embedded = await embed_items(embedder, versions)
        vectors = {fact.id: vector for fact, vector in zip(versions, embedded, strict=True) if fact.id is not None}
        await self._store().set_vectors(user_id, {}, vectors)

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
        known = utc_or_none("known_at", known_at)
        which = FactFilter(
            subject=_text("subject", subject),
            predicate=_text("predicate", predicate),
            object=_text("object", object),
            valid_at=utc_or_none("valid_at", valid_at) or self._store().clock(),
            known_at=known,
        )
        return await self._of_all_names(user_id, which, known)

    async def history(
        self, subject: str | None = None, predicate: str | None = None, *, user_id: str | None = None
    ) -> list[Fact]:
        """List every version ever recorded, oldest first: what was believed, from when, and when that ended."""
        which = FactFilter(subject=_text("subject", subject), predicate=_text("predicate", predicate), history=True)
        return await self._of_all_names(user_id, which, None)

    async def retract(self, fact: Fact | str, *, user_id: str | None = None) -> bool:
        """Stop believing a fact, given itself or its id. It stays in the history.

        What its value had ended is open again: without "moved to Braga", Porto is where she lives.

        Returns:
            Whether it was believed until now.
        """
        user, fact_id = _identity(fact, user_id)
        rules = self._rules()
        return await self._store().change_facts(user, lambda: retraction(fact_id, rules)) is not None

    async def correct(self, fact: Fact | str, *, user_id: str | None = None, **fields: Any) -> Fact:
        """Believe a fact otherwise than it was told, for the same time. What was told stays in the history.

            await memory.facts.correct(fact, object="Braga")

        Args:
            fact: itself or its id.
            user_id: whose fact, where an id is given.
            fields: fields of `Fact`: subject, predicate, object, valid_from, valid_until, confidence, metadata, and
                those that say where it is from; the others stay as they are.

        Returns:
            The version written.

        Raises:
            ConfigError: no such fact is believed, or a field is unknown or has the wrong form.
        """
        user, fact_id = _identity(fact, user_id)
        unknown = sorted(fields.keys() - CORRECTABLE)
        if unknown:
            raise ConfigError(
                f"a fact has no field {unknown[0]!r} to correct; there are {', '.join(sorted(CORRECTABLE))}"
            )
        rules = self._rules()
        found = await self._store().facts(user, FactFilter(id=fact_id))
        corrected = [
            replace(as_told(one), **fields) for one in found
        ]  # refuses what has the wrong form, and is embedded
        embedded = await embed_items(self._embedder(), corrected)
        vectors = {one.text: vector for one, vector in zip(corrected, embedded, strict=True)}
        version = await self._store().change_facts(user, lambda: correction(fact_id, fields, rules), vectors)
        await self.embed_missing(user, [] if version.text in vectors else [version])
        return version

    async def merge(self, subject: str, into: str, *, user_id: str | None = None) -> list[Fact]:
        """Say that two subjects are one: "Alice" is "alice@example.com".

        The facts of the first become facts of the second, with their sources; what each believed before stays in the
        history. From then on, what is told or asked of the first is told or asked of the second. That the two are the
        same is itself a fact, with the predicate `same_as`; retract it to keep apart what is told later.

        Returns:
            The versions written: the facts given on, and those of the second that they changed.

        Raises:
            ConfigError: the two are one already, or one is blank.
        """
        source, target = check_text("subject", subject, blank=False), check_text("into", into, blank=False)
        rules = self._rules()
        store = self._store()
        source, target = await self._name_of(user_id, source), await self._name_of(user_id, target)
        believed = await store.facts(user_id, FactFilter(subject=source))
        renamed = [*(replace(fact, subject=target) for fact in believed), Fact(source, SAME_AS, target)]
        embedded = await embed_items(self._embedder(), renamed)
        vectors = {fact.text: vector for fact, vector in zip(renamed, embedded, strict=True)}
        return await store.change_facts(user_id, lambda: merging(source, target, rules), vectors)

    async def _name_of(self, user_id: str | None, subject: str) -> str:
        """The subject that a name stands for."""
        script = canonical(subject)
        step = next(script)
        try:
            while isinstance(step, FactFilter):
                step = script.send(await self._store().facts(user_id, step))
        except StopIteration as stop:
            return stop.value
        return subject

    def _rules(self) -> Rules:
        return Rules(self._store().clock(), self._predicates.is_single_valued)

    async def _of_all_names(self, user_id: str | None, which: FactFilter, known_at: datetime | None) -> list[Fact]:
        """The facts of a subject, and of the one that it was merged into."""
        store = self._store()
        found = await store.facts(user_id, which)
        names = {which.subject and normal_form(which.subject)}
        subject = which.subject
        while subject is not None:
            told = await store.facts(user_id, FactFilter(subject=subject, predicate=SAME_AS, known_at=known_at))
            same = [fact for fact in told if is_merge(fact)]
            subject = same[-1].object if same and normal_form(same[-1].object) not in names else None
            if subject is not None:
                names.add(normal_form(subject))
                found += await store.facts(user_id, replace(which, subject=subject))
        return sorted(found, key=lambda fact: fact.recorded_at or EARLIEST) if len(names) > 1 else found


CORRECTABLE = frozenset(
    "subject predicate object valid_from valid_until confidence metadata origin quote told_at source_episode_id".split()
)
"""What `Facts.correct` may change."""


def _identity(fact: Fact | str, user_id: str | None) -> tuple[str | None, str]:
    if isinstance(fact, Fact):
        if fact.id is None:
            raise ConfigError.of("fact", "a stored Fact, with an id", fact)
        if user_id is not None and user_id != fact.user_id:
            raise ConfigError.of("user_id", f"that of the fact, {fact.user_id!r}", user_id)
        return fact.user_id, fact.id
    return user_id, check_id("fact", fact)


def _text(field: str, value: str | None) -> str | None:
    return None if value is None else check_text(field, value, blank=False)
