"""Text and vectors encrypted at rest: sealed on their way into a query, opened on their way out of its rows.

A store has a data key of its own, which lies in it wrapped by the key that the user holds. So that key can be changed
without writing everything anew. The cipher is AES-SIV (RFC 5297): what is compared in SQL is sealed without a nonce, so
that equal texts are equal when sealed; everything else with one.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from loomflow.errors import ConfigError, StoreError

from .database import Database, Rows
from .rows import Owner

COMPARED: Final = frozenset({
    "subject_key", "predicate_key", "object_key", "name", "user_name", "agent_name", "error",
})  # fmt: skip
"""What SQL compares, sealed alike where it is alike."""

SEALED: Final = frozenset({
    "input", "output", "metadata", "messages", "prompt", "content", "subject", "predicate", "object", "quote",
    "sources", "data",
})  # fmt: skip

PLAIN: Final = frozenset({"same as"})
"""That a fact says that two subjects are one can be seen: an index is of these."""

INSTEAD: Final = {"facts_told": "all_facts"}
"""Queries that look into texts, and those that return at least the same rows without."""

MARK: Final = "\x1f"
"""Sealed texts begin with it: no id may have it in it."""
BLOB_MARK: Final = b"\x1fsealed"
HEADER: Final = 12
"""So many bytes of a segment are not sealed: they say how many items, passages and dimensions there are."""

NONCE: Final = 16
KEY_BITS: Final = 512


class Sealing:
    """The keys of a store that is encrypted, and what is sealed by them.

    Args:
        keys: Fernet keys that the user holds; the first encrypts, all decrypt.

    Raises:
        ConfigError: one of them is no Fernet key.
    """

    def __init__(self, keys: Sequence[str | bytes]) -> None:
        if not keys:
            raise ConfigError("encryption_key must be a Fernet key, or a list of at least one")
        self._keys = [_fernet(key) for key in keys]
        self._cipher: AESSIV | None = None

    def admit(self, db: Database, where: str) -> None:
        """Unwrap the store's own key, or make one in an empty store. What an old key wrapped is wrapped anew.

        Raises:
            StoreError: the store is not encrypted, or with another key. Nothing was written.
        """
        db.run("lock_encryption")
        if db.run("is_encrypted").fetchone()[0]:
            wrapped: str = db.run("wrapped_key").fetchone()[0]
            try:
                key = MultiFernet(self._keys).decrypt(wrapped)
            except InvalidToken:
                raise StoreError(f"{where} is encrypted with another key than encryption_key") from None
            if not _opens(self._keys[0], wrapped):
                db.run("set_wrapped_key", {"wrapped": self._keys[0].encrypt(key).decode()})
        else:
            if users := len(db.run("every_user").fetchall()):
                raise StoreError(
                    f"{where} is not encrypted, and has the memory of {users} users: open it without encryption_key, or"
                    " copy it into a new store with one, see `loomflow memory copy --dst-key-env`"
                )
            key = AESSIV.generate_key(KEY_BITS)
            db.run("begin_encryption")
            db.run("add_wrapped_key", {"wrapped": self._keys[0].encrypt(key).decode()})
        self._cipher = AESSIV(key)

    def wrap(self, db: Database) -> Database:
        """A connection that seals what is written and opens what is read."""
        return SealedDatabase(db, self)

    def seal(self, name: str, value: Any) -> Any:
        """A value on its way into the database, by the name that the query gives it."""
        if isinstance(value, str) and (name in SEALED or (name in COMPARED and value not in PLAIN)):
            nonce = b"" if name in COMPARED else os.urandom(NONCE)
            sealed = bytes([len(nonce)]) + nonce + self._encrypt(value.encode(), nonce)
            return MARK + b64encode(sealed).decode()
        if isinstance(value, bytes) and name in SEALED:
            nonce = os.urandom(NONCE)
            return value[:HEADER] + BLOB_MARK + nonce + self._encrypt(value[HEADER:], nonce)
        return value

    def open(self, value: Any) -> Any:
        """A value as it was before it was sealed. Bytes that cannot be opened are empty: an index that is damaged.

        Raises:
            StoreError: a text cannot be opened.
        """
        if isinstance(value, str) and value.startswith(MARK):
            try:
                sealed = b64decode(value[1:], validate=True)
                return self._decrypt(sealed[1 + sealed[0] :], sealed[1 : 1 + sealed[0]]).decode()
            except (InvalidTag, ValueError, IndexError) as error:
                raise StoreError("an encrypted text was changed, and cannot be opened") from error
        if isinstance(value, bytes) and value[HEADER : HEADER + len(BLOB_MARK)] == BLOB_MARK:
            begin = HEADER + len(BLOB_MARK)
            try:
                return value[:HEADER] + self._decrypt(value[begin + NONCE :], value[begin : begin + NONCE])
            except (InvalidTag, ValueError):
                return b""
        return value

    def _encrypt(self, data: bytes, nonce: bytes) -> bytes:
        assert self._cipher is not None, "the store was not opened"
        return self._cipher.encrypt(b"\x00" + data, [nonce] if nonce else None)  # of nothing it makes nothing

    def _decrypt(self, data: bytes, nonce: bytes) -> bytes:
        assert self._cipher is not None, "the store was not opened"
        return self._cipher.decrypt(data, [nonce] if nonce else None)[1:]


class SealedDatabase:
    """A connection within a transaction whose texts are sealed; to the code above it is like any other."""

    def __init__(self, inner: Database, sealing: Sealing) -> None:
        self._inner = inner
        self._sealing = sealing

    @property
    def nobody(self) -> Owner:
        return self._inner.nobody

    def user_key(self, user: str | None) -> str:
        return self._inner.user_key(user)

    def run(self, query: str, values: Mapping[str, Any] = {}, /) -> Rows:
        return _OpenedRows(self._inner.run(INSTEAD.get(query, query), self._sealed(values)), self._sealing)

    def run_many(self, query: str, values: Sequence[Mapping[str, Any]], /) -> None:
        self._inner.run_many(query, [self._sealed(row) for row in values])

    def _sealed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._sealing.seal(name, value) for name, value in values.items()}


class _OpenedRows:
    """What a query returned, opened as it is read."""

    def __init__(self, inner: Rows, sealing: Sealing) -> None:
        self._inner = inner
        self._sealing = sealing

    @property
    def rowcount(self) -> int:
        return self._inner.rowcount

    def fetchone(self) -> Any:
        row = self._inner.fetchone()
        return None if row is None else self._opened(row)

    def fetchmany(self, size: int, /) -> list[Any]:
        return [self._opened(row) for row in self._inner.fetchmany(size)]

    def fetchall(self) -> list[Any]:
        return [self._opened(row) for row in self._inner.fetchall()]

    def __iter__(self) -> Iterator[Any]:
        return map(self._opened, self._inner)

    def _opened(self, row: Any) -> tuple[Any, ...]:
        return tuple(map(self._sealing.open, row))


def _fernet(key: str | bytes) -> Fernet:
    try:
        return Fernet(key)
    except (ValueError, TypeError, UnicodeEncodeError):
        raise ConfigError(
            "encryption_key must be a Fernet key, 32 bytes in URL-safe base64 as Fernet.generate_key() makes them, got"
            f" {type(key).__name__} of length {len(key)}"
        ) from None


def _opens(key: Fernet, wrapped: str) -> bool:
    try:
        key.decrypt(wrapped)
    except InvalidToken:
        return False
    return True
