"""What a PostgreSQL URL says: where the server is, and the settings of loomflow's own in its query string.

    postgresql://user:password@host:5432/database?schema=memories&pool_size=16&sslmode=verify-full

Everything but `schema`, `pool_size` and `exact_up_to` is for the database's own client library, libpq.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from loomflow.errors import ConfigError

SCHEMA: Final = "loomflow"
POOL_SIZE: Final = 8
EXACT_UP_TO: Final = 50_000

PATIENCE: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "loomflow",
}
"""Set where the URL does not say otherwise: a peer that is gone without a word is noticed within a minute."""

_IDENTIFIER = re.compile(r"[^\W\d]\w{0,62}")
_SECRETS = frozenset({"password", "sslpassword"})


@dataclass(frozen=True, slots=True)
class PostgresLocation:
    """A database, a schema in it, and how it is used.

    Attributes:
        conninfo: for libpq, with the password; not to be shown.
        url: to be shown.
        schema: where the tables are.
        pool_size: most connections at a time.
        exact_up_to: users with more episodes than this are searched through the server's indexes.
    """

    conninfo: str
    url: str
    schema: str = SCHEMA
    pool_size: int = POOL_SIZE
    exact_up_to: int = EXACT_UP_TO

    def __repr__(self) -> str:
        return f"PostgresLocation({self.url!r})"


def postgres_location(url: str) -> PostgresLocation:
    """Read a URL.

    Raises:
        ConfigError: a part of it has the wrong form; the password is not shown.
    """
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in options if name in {"schema", "pool_size", "exact_up_to"}}
    rest = [(name, value) for name, value in options if name not in own]
    plain = urlunsplit(parts._replace(query=urlencode(rest, quote_via=quote)))
    try:
        known = conninfo_to_dict(plain)
        conninfo = make_conninfo(plain, **{name: value for name, value in PATIENCE.items() if name not in known})
    except psycopg.Error:  # its message may quote the password
        raise ConfigError.of("memory", "postgresql://USER@HOST/DATABASE?OPTIONS", _shown(url)) from None
    schema = own.get("schema", SCHEMA)
    if not _IDENTIFIER.fullmatch(schema) or len(schema.encode()) > 63 or schema.startswith("pg_"):
        raise ConfigError.of("memory, its option schema", "the name of a schema of its own", schema)
    return PostgresLocation(
        conninfo, _shown(url), schema, _count(own, "pool_size", POOL_SIZE), _count(own, "exact_up_to", EXACT_UP_TO)
    )


def _count(options: dict[str, str], name: str, default: int) -> int:
    value = options.get(name, str(default))
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise ConfigError.of(f"memory, its option {name}", "a positive number", value)
    return int(value)


def _shown(url: str) -> str:
    """The URL with stars for its passwords."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    netloc = f"{name}:***{at}{host}" if colon else parts.netloc
    given = parse_qsl(parts.query, keep_blank_values=True)
    options = [(option, "***" if option in _SECRETS else value) for option, value in given]
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(options, safe="*/", quote_via=quote)))
