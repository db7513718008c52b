"""What may come in from outside: ids, texts, datetimes and metadata, checked once and brought to one form.

Every value that enters a memory goes through here, so the rest of the code can rely on it: ids are non-blank strings,
texts can be encoded as UTF-8, datetimes are aware and in UTC, metadata is plain JSON.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, cast

from .errors import ConfigError

MAX_ID_CHARS = 1024
MAX_INT_BITS = 1024
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)

_UNFIT_FOR_IDS = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_PLAIN = "a string, finite number, boolean, None, datetime, UUID, list or dict"


def check_text(field: str, value: object, *, blank: bool = True) -> str:
    """Return `value` as text that UTF-8 can hold; lone surrogates become U+FFFD.

    Args:
        field: name used in the error.
        value: what was given.
        blank: whether empty or white-space text is allowed.

    Raises:
        ConfigError: `value` is not a string, or is blank where that is not allowed.
    """
    if not isinstance(value, str):
        raise ConfigError.of(field, "a string", value)
    if not blank and not value.strip():
        raise ConfigError.of(field, "a non-blank string", value)
    return scrub(value)


def scrub(text: str) -> str:
    """Replace lone surrogates, which no database can store, by U+FFFD; join split surrogate pairs."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def check_id(field: str, value: object) -> str:
    """Return `value` as an id: a non-blank string of at most 1,024 characters with nothing invisible in it.

    Raises:
        ConfigError: it is not, naming the field and the value.
    """
    if not isinstance(value, str):
        raise ConfigError.of(field, "a string", value)
    if not value.strip():
        raise ConfigError.of(field, "a non-blank string", value)
    if len(value) > MAX_ID_CHARS:
        raise ConfigError.of(field, f"at most {MAX_ID_CHARS} characters", value)
    if _UNFIT_FOR_IDS.search(value):
        raise ConfigError.of(field, "free of control characters and surrogates", value)
    return value


def check_user_id(value: object) -> str | None:
    """Return a checked `user_id`; None stays None, the scope of anonymous callers (rule R17).

    Raises:
        ConfigError: it is neither None nor a usable id.
    """
    return None if value is None else check_id("user_id", value)


def check_limit(field: str, value: object) -> int:
    """Return `value` as a positive int.

    Raises:
        ConfigError: it is anything else; True is not a number here.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError.of(field, "a positive int", value)
    return value


def utc(field: str, value: object) -> datetime:
    """Return a datetime in UTC; a naive one is read as UTC.

    Raises:
        ConfigError: `value` is not a datetime.
    """
    if not isinstance(value, datetime):
        raise ConfigError.of(field, "a datetime", value)
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:  # within a day of datetime.min or datetime.max; the clamp keeps the order
        return EARLIEST if value.year == 1 else LATEST


def utc_or_none(field: str, value: object) -> datetime | None:
    """Like `utc`, and None stays None."""
    return None if value is None else utc(field, value)


def check_metadata(field: str, value: object) -> dict[str, Any]:
    """Return metadata as plain JSON values.

    Numbers of numpy become Python numbers, datetimes ISO text, UUIDs text, tuples lists.

    Raises:
        ConfigError: it is not a mapping with string keys, or holds a value that JSON cannot; names the place.
    """
    if not isinstance(value, Mapping):
        raise ConfigError.of(field, "a mapping", value)
    try:
        return cast("dict[str, Any]", _plain(field, cast("object", value)))
    except RecursionError:
        raise ConfigError(f"{field} is nested too deeply") from None


def _plain(field: str, value: object) -> object:
    if isinstance(value, Mapping):
        return _plain_mapping(field, cast("Mapping[object, object]", value))
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return [_plain(f"{field}[{index}]", item) for index, item in enumerate(items)]
    if getattr(value, "shape", None) == () and callable(item := getattr(value, "item", None)):  # a number of numpy
        value = item()
    return _plain_scalar(field, value)


def _plain_scalar(field: str, value: object) -> object:
    if value is None or isinstance(value, bool) or (isinstance(value, int) and value.bit_length() <= MAX_INT_BITS):
        return value
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise ConfigError.of(field, _PLAIN, value)


def _plain_mapping(field: str, value: Mapping[object, object]) -> dict[str, object]:
    plain: dict[str, object] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise ConfigError.of(f"{field} key", "a string", key)
        plain[scrub(key)] = _plain(f"{field}.{key}", item)
    return plain


def to_json(value: object) -> str:
    """JSON with every character as itself: escapes would cost tokens and hide the text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
