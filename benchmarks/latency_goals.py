"""The numbers to reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pages import ms, table

INJECT_MS = {"1000": 2.0, "10000": 5.0, "100000": 15.0}
FILL_TIMES = 2
COLD_MS = {"10000": 60.0, "100000": 400.0}
REMEMBER_MS = {"median": 1.0, "p99": 4.0}
IMPORT_MS = 30.0
MEMORY_MB = {"100000": 600.0}
TIMES_FASTER = 200.0
AT = "10000"
MODES = {"": "top", "_fill": "fill"}


def goals(results: Mapping[str, Any]) -> str:
    """What was to be reached, and whether it was."""
    rows = [(_verdict(value, reached), what, value) for what, value, reached in _goals(results)]
    return f"## To reach\n\n{table(('', 'what', 'measured'), rows)}"


def _verdict(value: str, reached: bool) -> str:
    return "not measured" if not value else "PASS" if reached else "FAIL"


def _goals(results: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    sizes = results["sizes"]
    yield _faster(results)
    imports = results["imports"]["import loomflow"]["over_python_ms"]
    yield _goal("`import loomflow` over bare Python", imports, IMPORT_MS)
    for ending, mode in MODES.items():
        for size, limit in INJECT_MS.items():
            measured = sizes[size][f"inject{ending}"]["cpu_ms"]["median"] if size in sizes else None
            most = limit * FILL_TIMES if ending else limit
            yield _goal(f"inject at {int(size):,} in mode {mode}, median", measured, most)
        for size, limit in COLD_MS.items():
            measured = sizes[size][f"cold{ending}"]["first_inject"]["cpu_ms"] if size in sizes else None
            yield _goal(f"cold first inject at {int(size):,} in mode {mode}", measured, limit)
    for size, values in sizes.items():
        for name, limit in REMEMBER_MS.items():
            yield _goal(f"remember at {int(size):,}, {name}", values["remember"]["cpu_ms"][name], limit)
    for size, limit in MEMORY_MB.items():
        measured = results["growth"].get(size, {}).get("memory")
        yield _goal(f"memory over the import at {int(size):,}", measured, limit, "MB")


def _faster(results: Mapping[str, Any]) -> tuple[str, str, bool]:
    ours, theirs = results["sizes"].get(AT), results.get("reference", {}).get("sizes", {}).get(AT)
    what = f"inject at 10,000 at least {TIMES_FASTER:.0f} times faster (CPU) than the reference's recall_scored"
    if not (ours and theirs):
        return what, "", False
    times = theirs["recall"]["cpu_ms"]["median"] / ours["inject"]["cpu_ms"]["median"]
    return what, f"{times:.0f} times", times >= TIMES_FASTER


def _goal(what: str, measured: float | None, limit: float, unit: str = "ms") -> tuple[str, str, bool]:
    value = "" if measured is None else f"{ms(measured)} {unit}"
    reached = measured is not None and measured <= limit
    return f"{what}: at most {limit:g} {unit}{' CPU' if unit == 'ms' else ''}", value, reached
