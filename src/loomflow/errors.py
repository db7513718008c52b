"""Every error that loomflow raises on purpose, as one tree.

    LoomflowError
    ├── ConfigError          a setting, an argument, an id or a memory URL is wrong (also a ValueError)
    ├── ModelError           a model name, its key or its package is missing or unknown
    ├── EmbedderError        an embedder failed or returned vectors that cannot be used
    ├── ContextError         a request would be larger than the model can take
    ├── SessionError         a session is used in a way that cannot work
    └── StoreError           the database cannot be opened, read or written
        ├── SchemaError      the file was written by a newer version, or is not a loomflow memory
        └── ConflictError    what was to be changed has changed meanwhile; read again and retry

Messages say what was wrong, with which value, and what to do about it. They never contain a password or a key.
"""

from __future__ import annotations

from datetime import datetime


class LoomflowError(Exception):
    """Base of every error raised by loomflow."""


class ConfigError(LoomflowError, ValueError):
    """A setting, an argument, an id or a memory URL is wrong."""

    @classmethod
    def of(cls, field: str, expected: str, value: object) -> ConfigError:
        """Build the message every bad value gets: the field, what it must be, and what it was.

        Args:
            field: name of the setting or argument, as the caller wrote it.
            expected: what it must be, to stand after "must be".
            value: what was given; long values are shortened.
        """
        shown = value.isoformat() if isinstance(value, datetime) else repr(value)
        if len(shown) > 80:
            shown = f"{shown[:77]}..."
        return cls(f"{field} must be {expected}, got {shown}")


class ModelError(LoomflowError):
    """A model name, its key or its package is missing or unknown."""


class EmbedderError(LoomflowError):
    """An embedder failed or returned vectors that cannot be used."""


class ContextError(LoomflowError):
    """A request would be larger than the model can take; the message says what it is made of."""


class SessionError(LoomflowError):
    """A session is used in a way that cannot work."""


class StoreError(LoomflowError):
    """The database cannot be opened, read or written."""


class SchemaError(StoreError):
    """The file was written by a newer version, or is not a loomflow memory."""


class ConflictError(StoreError):
    """What was to be changed has changed meanwhile; read again and retry."""
