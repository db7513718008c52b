"""Texts as PostgreSQL can keep them: it refuses NUL, which is a character like any other elsewhere.

A text with a NUL, or with the control character that is used here, is written with both replaced by two characters, and
read back as it was.
"""

from __future__ import annotations

from typing import Any

from psycopg.adapt import AdaptersMap
from psycopg.types.string import StrDumperUnknown, TextBinaryLoader, TextLoader

NUL, ESCAPE = "\x00", "\x10"
ESCAPED_NUL, ESCAPED_ESCAPE = ESCAPE + "\x12", ESCAPE + "\x11"


def escaped(text: str) -> str:
    """A text without NUL, from which `restored` makes the text again."""
    if NUL in text or ESCAPE in text:
        return text.replace(ESCAPE, ESCAPED_ESCAPE).replace(NUL, ESCAPED_NUL)
    return text


def restored(text: str) -> str:
    """The text that `escaped` was given."""
    if ESCAPE in text:
        return text.replace(ESCAPED_NUL, NUL).replace(ESCAPED_ESCAPE, ESCAPE)
    return text


class _Dumper(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        return super().dump(escaped(obj))


class _Loader(TextLoader):
    def load(self, data: Any) -> str:
        return restored(str(data, "utf-8"))


class _BinaryLoader(TextBinaryLoader):
    def load(self, data: Any) -> str:
        return restored(str(data, "utf-8"))


def register(adapters: AdaptersMap) -> None:
    """Have a connection write and read texts so."""
    adapters.register_dumper(str, _Dumper)
    adapters.register_loader("text", _Loader)
    adapters.register_loader("text", _BinaryLoader)
