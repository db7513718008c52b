"""`loomflow memory check`: looks for damage in a memory, and makes anew what can be."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from .display import counted, say, say_json, tell, user_label
from .failures import FAILED
from .opening import existing_memory
from .options import MEMORY_VARIABLE, AsJson

if TYPE_CHECKING:
    from loomflow.stores.checking import CheckReport, Fault


def check(
    url: Annotated[
        str, typer.Argument(metavar="URL", envvar=MEMORY_VARIABLE, help="Which memory.", show_default=False)
    ],
    repair: Annotated[bool, typer.Option("--repair", help="Make damaged indexes anew from what was written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for damage: of pages, of references, of rows, and of indexes that do not say what the rows say.

    With --repair, indexes are made anew; no row that was written is deleted. The status is 1 if damage is left.
    """

    async def work() -> CheckReport:
        opened = existing_memory(url)
        try:  # not entered: that it cannot be opened is what is looked for
            return await opened.check(repair=repair)
        finally:
            await opened.aclose()

    report = asyncio.run(work())
    if as_json:
        say_json(asdict(report) | {"is_whole": report.is_whole})
    else:
        _say_report(report, repair)
    if not report.is_whole:
        raise typer.Exit(FAILED)


def _say_report(report: CheckReport, repair: bool) -> None:
    looked_at = ", ".join((
        counted(report.users, "user"), counted(report.episodes, "episode"), counted(report.facts, "fact version")
    ))  # fmt: skip
    say(f"{'whole' if report.is_whole else 'damaged'}: {looked_at}")
    for fault in report.repaired:
        say(f"repaired: {_line(fault)}")
    for fault in report.faults:
        say(f"damaged: {_line(fault)}")
    for advice in dict.fromkeys(fault.advice for fault in report.faults if fault.advice):
        tell(f"to help it: {advice}")
    if not repair and any(not fault.advice for fault in report.faults):
        tell("to help it: `loomflow memory check --repair` makes indexes anew")
    for name, count in report.unembedded.items():
        tell(
            f"{counted(count, 'item')} without a vector of {name}, found by keyword only; see `loomflow memory reembed`"
        )


def _line(fault: Fault) -> str:
    whose = "" if fault.kind in ("pages", "reference") and fault.user_id is None else f" of {user_label(fault.user_id)}"
    return f"{fault.table}{whose}: {fault.what}"
