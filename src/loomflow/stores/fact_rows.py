"""Rows of facts: listing them, and carrying out a change of them step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loomflow.bitemporal import FactChanges
from loomflow.items import Fact
from loomflow.moments import to_micros
from loomflow.predicates import predicate_key
from loomflow.records import Embedded, FactFilter, FactScript, Result
from loomflow.words import normal_form

from . import segments
from .database import Database, Owner
from .rows import fact_columns, fact_of
from .searching import Searcher
from .segments import FACT, Indexed


def carry_out(
    db: Database, searcher: Searcher, owner: Owner, user: str | None, script: FactScript[Result],
    embedded: Mapping[str, Embedded],
) -> tuple[Result, bool]:  # fmt: skip
    """Do what a script asks for; the rows that it adds are indexed together at the end."""
    added: dict[int, Indexed] = {}
    answer: list[Fact] | None = None
    while True:
        try:
            step = next(script) if answer is None else script.send(answer)
        except StopIteration as stop:
            return stop.value, segments.add(db, owner, FACT, list(added.values()))
        if isinstance(step, FactFilter):
            answer = list_facts(db, owner, user, step)
        else:
            answer = []
            _write_changes(db, searcher, owner, step, embedded, added)


def _write_changes(
    db: Database, searcher: Searcher, owner: Owner, changes: FactChanges, embedded: Mapping[str, Embedded],
    added: dict[int, Indexed],
) -> None:  # fmt: skip
    before: dict[str, int] = {}
    for old in changes.retire:
        for (number,) in db.run("retire_fact", fact_columns(old, owner)).fetchall():
            before[old.text] = number
    for version in changes.add:
        (number,) = db.run("add_fact", fact_columns(version, owner)).fetchone()
        known: Sequence[Embedded] = ()
        if (same := before.get(version.text)) is not None:
            known = added[same].embedded if same in added else searcher.vectors_of(db, owner, FACT, same)
        new = embedded.get(version.text)
        if new is not None and new.vector is not None:
            known = [*(one for one in known if one.embedder != new.embedder), new]
        added[number] = Indexed(number, version, known)


def list_facts(db: Database, owner: Owner | None, user: str | None, which: FactFilter) -> list[Fact]:
    values = {
        "owner": owner,
        "id": which.id,
        "subject_key": None if which.subject is None else normal_form(which.subject),
        "predicate_key": None if which.predicate is None else predicate_key(which.predicate),
        "object_key": None if which.object is None else normal_form(which.object),
        "valid_at": to_micros(which.valid_at),
        "known_at": to_micros(which.known_at),
        "history": which.history,
    }
    is_of_now = not which.history and which.valid_at is None and which.known_at is None
    if is_of_now and which == FactFilter(id=which.id):
        query = "fact_by_id" if which.id is not None else "list_facts"
    else:
        is_of_thing = which.id is None and which.subject is not None and which.predicate is not None
        query = "believed_of_thing" if is_of_now and is_of_thing else "list_facts"
    return [fact_of(row, user) for row in db.run(query, values)]
