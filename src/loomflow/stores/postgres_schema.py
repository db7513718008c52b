"""The tables in PostgreSQL: created and brought up to date, by whichever of several processes comes first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from loomflow.errors import ConfigError, SchemaError

from .queries import HERE, migrations

LOCK: Final = 0x6C6F6F6D666C6F77  # "loomflow"
BY_USER: Final = "/* by user */"
MOST_PARTITIONS: Final = 1024
_TABLE = re.compile(r"CREATE TABLE (\w+) \((?:[^;]|;(?!\n))*?\) /\* by user \*/;", re.DOTALL)

Connection = psycopg.Connection[Any]


def migrate(connection: Connection, schema: str, partitions: int | None = None) -> None:
    """Create the tables in a schema, or bring them up to date; several processes may do so at once.

    Args:
        connection: in autocommit.
        schema: where; created if missing.
        partitions: into how many tables each table is split by the hash of the user; None as it is, and for new tables
            not at all.

    Raises:
        SchemaError: a newer version wrote the tables, the database is not in UTF-8, or there is no pgvector.
        ConfigError: `partitions` is not what the tables have.
    """
    encoding = _one(connection, "SHOW server_encoding")
    if encoding != "UTF8":
        raise SchemaError(f"the database must have the encoding UTF8, it has {encoding}")
    scripts = migrations("postgres")
    if _version(connection, schema, len(scripts)) < len(scripts):
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
            version = _version(connection, schema, len(scripts))  # another process may have been here
            _create(connection, schema, scripts[version:], version, partitions or 0)
    if partitions is not None and (there := partitions_of(connection, schema)) != partitions:
        raise ConfigError.of("partitions", f"{there}, as the tables in schema {schema} have", partitions)


def partitions_of(connection: Connection, schema: str) -> int:
    """Into how many tables each table is split; 0 if it is not."""
    table = sql.Literal(f"{sql.Identifier(schema).as_string(connection)}.episodes")
    return _one(connection, sql.SQL("SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass({})").format(table))


def extension_schema(connection: Connection) -> str:
    """Where the types of pgvector are."""
    return _one(connection, "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'")


def search_path(connection: Connection, schema: str) -> str:
    """Where names are looked up: in the schema, then among the types of pgvector."""
    return f"{sql.Identifier(schema).as_string(connection)}, {extension_schema(connection)}"


def tables(connection: Connection, schema: str) -> list[sql.Identifier]:
    """The tables in a schema."""
    query = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = to_regnamespace(%s)"
    names = connection.execute(query, [sql.Identifier(schema).as_string(connection)]).fetchall()
    return [sql.Identifier(schema, name) for (name,) in names]


def _create(connection: Connection, schema: str, scripts: Sequence[str], version: int, partitions: int) -> None:
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except psycopg.errors.FeatureNotSupported as error:
        raise SchemaError("the server has no pgvector; install the extension, version 0.7 or newer") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError("an administrator of the database must run once: CREATE EXTENSION vector") from error
    name = sql.Identifier(schema)
    if not _one(connection, "SELECT count(*) FROM pg_namespace WHERE nspname = %s", [schema]):
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
    connection.execute("SELECT set_config('search_path', %s, true)", [search_path(connection, schema)])
    for script in scripts:
        _execute(connection, _partitioned(script, partitions))
    _execute(connection, (HERE / "sql" / "postgres" / "row_security.sql").read_text(encoding="utf-8"))
    connection.execute("CREATE TABLE IF NOT EXISTS loomflow_schema (version integer NOT NULL)")
    connection.execute("DELETE FROM loomflow_schema")
    connection.execute("INSERT INTO loomflow_schema (version) VALUES (%s)", [version + len(scripts)])


def _partitioned(script: str, partitions: int) -> str:
    """A script whose tables are split by the hash of the user into so many; unchanged but for the marks if 0."""
    if not partitions:
        return script.replace(f" {BY_USER}", "")

    def split(match: re.Match[str]) -> str:
        table = match[1]
        parts = [
            f"CREATE TABLE {table}_{number} PARTITION OF {table}"
            f" FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number});"
            for number in range(partitions)
        ]
        return "\n".join([match[0].replace(BY_USER, "PARTITION BY HASH (user_id)"), *parts])

    return _TABLE.sub(split, script)


def _version(connection: Connection, schema: str, newest: int) -> int:
    """The version of the tables; 0 if there are none."""
    table = sql.Identifier(schema, "loomflow_schema")
    if _one(connection, "SELECT to_regclass(%s)", [table.as_string(connection)]) is None:
        return 0
    version = _one(connection, sql.SQL("SELECT version FROM {}").format(table))
    if version > newest:
        raise SchemaError(
            f"schema {schema} was written by a newer loomflow (schema version {version}, this version knows {newest});"
            " upgrade loomflow"
        )
    return version


def _execute(connection: Connection, script: str) -> None:
    """Run a script of several statements."""
    try:
        connection.execute(script.encode())
    except psycopg.errors.DuplicateTable as error:
        raise SchemaError(
            f"it has tables of another program ({error}); name another schema with ?schema=NAME"
        ) from error


def _one(connection: Connection, query: Any, values: Sequence[object] | None = None) -> Any:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return row[0]
