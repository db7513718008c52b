"""SQL kept in `.sql` files: named queries and ordered migrations, read from the package."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def queries(dialect: str) -> dict[str, str]:
    """The named queries of a dialect, by name. A query starts at its `-- name:` line."""
    found: dict[str, str] = {}
    for path in sorted((HERE / "sql" / dialect).glob("*.sql")):
        parts = _NAME.split(path.read_text(encoding="utf-8"))[1:]
        found |= {name: text.strip().rstrip(";") for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return found


@cache
def migrations(dialect: str) -> tuple[str, ...]:
    """The migrations of a dialect, in order; the first brings an empty database to schema version 1."""
    scripts = sorted((HERE / "migrations" / dialect).glob("*.sql"))
    return tuple(script.read_text(encoding="utf-8") for script in scripts)
