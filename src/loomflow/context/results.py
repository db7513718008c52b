"""What a tool returned, cut to a token cap: the result as the model gets it, and the whole of it in parts.

Text keeps its beginning and, where there is room, a quarter at its end, where logs and stack traces say what went
wrong. JSON stays JSON. Where something is missing stands a marker with true numbers: what is missing there and, in the
last marker, how many tokens of the whole are (those of the whole less those of what is kept).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any, TypeGuard, cast

import regex
from pydantic_ai.messages import MULTI_MODAL_CONTENT_TYPES, ToolReturnPart, is_multi_modal_content
from pydantic_core import to_jsonable_python

from loomflow.tokens import TokenCounter

from .wire import scrubbed

END_CHARS = 80  # the end of a text is kept where a quarter of its room is at least this
SMALL_CHARS = 24  # values of an object up to this length are never cut
MAX_DEPTH = 40  # lists and objects nested deeper are kept whole or not at all
MAX_CLUSTER = 1024  # how far back to look for where a cluster begins; a longer one, or run of flags, may be cut
MARKERS = ("…[truncated: {numbers}{rest}]", "…[truncated{rest}]", "…[truncated]", "…", "")
"""From the one that says most; the first is taken that leaves half of the cap to the result, and fits."""

_LINE, _ITEM, _ENTRY, _SENTENCE, _WORD = (
    regex.compile(border)
    for border in (r"\n", r"[}\]],", r',(?=["{\[])', r"""[.!?…]["'”’)\]]*\s+|[。！？…]["'”’」』）]*""", r"\s+")
)
_CLUSTER = regex.compile(r"\X")
_SURE_START = regex.compile(  # where a cluster begins whatever stands further back
    r"(?<![\p{GCB=Prepend}\p{GCB=ZWJ}\p{GCB=Extend}\p{GCB=SpacingMark}])\p{GCB=Other}"
    r"|(?<=\p{GCB=Extend})[\p{ASCII}\p{ExtPict}]"
)
_json_value = partial(to_jsonable_python, by_alias=True, bytes_mode="base64")


def capped(content: Any, limit: int, count: TokenCounter, *, rest: str = "") -> Any:
    """What a tool returned, in at most `limit` tokens; what fits comes back as it is, the same object.

    Files (images, documents) alone or in a list stay, uncounted, and so does what pydantic-ai cannot serialise. If no
    form fits, because the limit is too small for the counter, it is the smallest. `rest` says how to get what is left
    out, at the end of the last marker.
    """
    try:
        sendable, text = _sendable(content)
    except (ValueError, RecursionError):
        return content
    if not text or (total := count(text)) <= limit:
        return content
    smallest: list[tuple[int, int, Any]] = []
    for marker in MARKERS:
        numbers = f"{total:,} of {total:,} characters, {total:,} of {total:,} tokens"
        if marker and count(marker.format(numbers=numbers, rest=rest)) > limit // 2:
            continue
        cut = _Cut(sendable, text, total, marker, rest, count)
        room = _widest(len(text) + 64, len(text) * limit // total, limit, lambda room, cut=cut: count(cut.at(room)[1]))
        result, shorter = cut.at(room)
        if (tokens := count(shorter)) <= limit:
            return result
        smallest.append((tokens, len(shorter), result))
    return min(smallest, key=lambda one: one[:2])[2]


def parts_of(content: Any, limit: int, count: TokenCounter) -> int:
    """In how many parts of at most `limit` tokens the text of a result comes; 0 if it has none."""
    return sum(1 for _ in _parts(_sendable(content)[1], limit, count))


def part(content: Any, number: int, limit: int, count: TokenCounter) -> str:
    """A part of the text of a result, by its number from 1 on; empty if there is none of that number.

    All parts joined are the whole text. A grapheme cluster is cut only where it passes the limit by itself, and a part
    passes the limit only where a single character does.
    """
    parts = _parts(_sendable(content)[1], limit, count)
    return next(islice(parts, number - 1, None), "") if number > 0 else ""


def _parts(text: str, limit: int, count: TokenCounter) -> Iterator[str]:
    start, borders, total = 0, _borders(text), count(text)
    size = max(len(text) * limit // max(total, limit, 1), 1)
    while start < len(text):
        left = len(text) - start
        size = left if left <= 2 * size else size
        size = _widest(left + 1, size, limit, lambda size, start=start: count(text[start : start + size]))
        end = len(text) if size == left else _last_border(text, start, start + size, borders)
        while end > start and count(text[start:end]) > limit:
            end = _cluster_border(text, end - 1)
        end = end if end > start else start + max(size, 1)
        yield text[start:end]
        start = end


def _sendable(content: Any) -> tuple[Any, str]:
    """Content, and its text as the model gets it; what lone surrogates keep from being JSON comes without them."""
    try:
        return content, ToolReturnPart("", content).model_response_str()
    except ValueError as error:
        if "surrogate" not in str(error):
            raise
        return _sendable(scrubbed(_plain(scrubbed(content))))


def _plain(content: Any) -> Any:
    """The value as strings, numbers, lists and dicts; files in a list stay."""
    if _has_files(content):
        return [item if is_multi_modal_content(item) else _json_value(item) for item in content]
    return _json_value(content)


def _has_files(content: Any) -> TypeGuard[list[Any]]:
    kinds = set(map(type, cast("list[Any]", content))) if isinstance(content, list) else ()
    return any(issubclass(kind, MULTI_MODAL_CONTENT_TYPES) for kind in kinds)


def _widest(high: int, guess: int, limit: int, measure: Callable[[int], int]) -> int:
    """About the largest size below `high` that measures at most `limit`, by ratio and bisection; 0 if none does."""
    low, size = 0, max(min(guess, high - 1), 1)
    for turn in range(40):
        tokens = measure(size)
        low, high = (size, high) if tokens <= limit else (low, size)
        if high - low <= 1 + low // 64 or limit - limit // 32 <= tokens <= limit:
            break
        by_ratio = size * limit // max(tokens, 1)
        near = turn % 2 == 0 and low < by_ratio < min(high, low * 4 + 64)
        size = by_ratio if near else min((low + high) // 2, low * 2 + 16)
    return low


class _Cut:
    """The shorter forms of one result, with markers of one kind. Room is in characters, and only roughly kept."""

    def __init__(self, content: Any, text: str, total: int, marker: str, rest: str, count: TokenCounter) -> None:
        plain = _plain(content)
        self._mixed: list[Any] = plain if _has_files(plain) else []
        data = [item for item in self._mixed if not is_multi_modal_content(item)]
        self._single = len(data) == 1  # beside files pydantic-ai takes a single item out of the list
        self._root: Any = data[0] if self._single else data or plain
        self._marker, self._rest, self._count, self._total = marker, rest, count, total
        self._marker_room = len(marker.format(numbers="1,200 of 3,400 items", rest=""))
        self._bare = min(MARKERS[2], marker.format(numbers="", rest=""), key=len)
        self._tree, self._sizes = cache(_tree), {id(self._root): len(text)}
        self._places, self._open, self._missing = 0, 0, ""

    def at(self, room: int) -> tuple[Any, str]:
        """The content cut to `room`, and its text."""
        self._places = self._open = 0
        _, kept = self._whole(self._fitted(self._root, room))  # without markers, for what they have to say
        self._open = self._places
        self._missing = f", {max(0, self._total - self._count(kept)):,} of {self._total:,} tokens"
        return self._whole(self._fitted(self._root, room))

    def _mark(self, lost: int, of: int, unit: str, *, bare: bool) -> str:
        """The marker of a place, if anything is lost there. The last one speaks of the whole too, and is never bare."""
        self._places, self._open = self._places + bool(lost), self._open - bool(lost)
        if not lost or self._open < 0:
            return ""
        if self._open:
            return self._bare if bare else self._marker.format(numbers=f"{lost:,} of {of:,} {unit}", rest="")
        return self._marker.format(numbers=f"{lost:,} of {of:,} {unit}{self._missing}", rest=self._rest)

    def _whole(self, shorter: Any) -> tuple[Any, str]:
        if not self._mixed:
            return _sendable(shorter)
        data = iter([shorter] if self._single else shorter)
        places = ([item] if is_multi_modal_content(item) else islice(data, 1) for item in self._mixed)
        return _sendable([item for place in places for item in place])

    def _fitted(self, value: Any, room: int, depth: int = 0) -> Any:
        return value if self._size(value) <= room else self._shorter(value, room, depth)

    def _size(self, value: Any) -> int:
        if isinstance(value, str | int):
            return len(value) + 2 if isinstance(value, str) else value.bit_length() // 3 + 1
        if id(value) not in self._sizes:
            self._sizes[id(value)] = len(_sendable(value)[1])
        return self._sizes[id(value)]

    def _shorter(self, value: Any, room: int, depth: int) -> Any:
        """A value that is larger than the room, cut; where there is little room, with a marker that says little."""
        bare = room < 3 * self._marker_room
        inner = max(room - len(self._bare) if bare else room - self._marker_room, 0)
        if isinstance(value, dict):
            return self._shorter_object(cast("dict[str, Any]", value), room, inner, depth, bare=bare)
        if isinstance(value, list):
            items = cast("list[Any]", value)
            kept = self._first(items, [1] * min(len(items), inner), inner - 2, depth)
            marker = self._mark(len(items) - len(kept), len(items), "items", bare=bare)
            return [*kept, marker] if marker else kept
        text = _sendable(value)[1]
        if depth < MAX_DEPTH and (tree := self._tree(text)) is not None:
            return _sendable(self._fitted(tree, room, depth + 1))[1]
        return self._shorter_text(text, min(inner, len(text)), bare=bare)

    def _shorter_object(self, value: dict[str, Any], room: int, inner: int, depth: int, *, bare: bool) -> Any:
        """All keys, the large values cut to one length; or the first entries, if not even that fits."""
        around = [len(key) + 4 for key in islice(value, room + 1)]
        left = room - 2 - sum(around)
        sizes = [self._size(item) for item in value.values()] if left >= 0 else []
        large = [size for size in sizes if size > SMALL_CHARS]
        left -= sum(sizes) - sum(large)
        if left >= len(large) * (len(self._bare) + 2) and depth < MAX_DEPTH:
            share = max(_share(large, left), SMALL_CHARS)
            named = zip(value.items(), sizes, strict=True)
            return {key: self._shorter(one, share, depth + 1) if size > share else one for (key, one), size in named}
        kept = dict(zip(value, self._first(value.values(), around, inner - 2, depth), strict=False))
        marker, name = self._mark(len(value) - len(kept), len(value), "keys", bare=bare), "…"
        while name in kept:
            name += "…"
        return {**kept, name: marker} if marker else kept

    def _first(self, items: Iterable[Any], around: Sequence[int], room: int, depth: int) -> list[Any]:
        """The first items as they are, and the next one cut; `around` is what each takes besides its own room."""
        kept: list[Any] = []
        for item, more in zip(items, around, strict=False):
            size = self._size(item) + more
            if size > room:
                if room - more > 2 * self._marker_room and isinstance(item, str | list | dict) and depth < MAX_DEPTH:
                    kept.append(self._fitted(item, room - more, depth + 1))
                break
            room -= size
            kept.append(item)
        return kept

    def _shorter_text(self, text: str, room: int, *, bare: bool) -> str:
        """The beginning of a text and, if a quarter of the room is worth it, its end."""
        borders = _borders(text)
        ending = room // 4 if room // 4 >= END_CHARS else 0
        end = _last_border(text, 0, room - ending, borders)
        start = _first_border(text, len(text) - ending, borders) if ending else len(text)
        head, tail, at_line = text[:end], text[start:], start == len(text) or text[start - 1] == "\n"
        lines = _lines(text)
        lost = lines - _lines(head) - _lines(tail) if lines > 1 and at_line and head[-1:] in {"", "\n"} else 0
        numbers = (lost, lines, "lines") if lost else (start - end, len(text), "characters")
        marker, gap = self._mark(*numbers, bare=bare), ("\n" if at_line else " ") if tail else ""
        return f"{head}{marker}{gap}{tail}"


def _tree(text: str) -> Any:
    """The list or object that a text is in JSON; None if it is none, or too deep to be written again."""
    try:
        tree = json.loads(text) if text.lstrip()[:1] in {"{", "["} else None
        return tree if _sendable(tree) else None
    except (ValueError, RecursionError):
        return None


def _share(sizes: Sequence[int], room: int) -> int:
    """What each large one gets if the small ones are whole."""
    for rank, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - rank) > room:
            return room // (len(sizes) - rank)
        room -= size
    return max(sizes, default=0)


def _lines(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def _borders(text: str) -> list[tuple[Any, float]]:
    """What to cut a text at, best first, and how far from the limit: rows only at their ends."""
    first = [line for line in text[:8000].split("\n")[:3] if line]
    rows = len(first) > 1 and (
        all(line.startswith(("{", "[")) for line in first)
        or any(comma in first[0] and len({line.count(comma) for line in first}) == 1 for comma in ",\t;|")
    )
    json_borders = [(_ITEM, 1 / 2), (_ENTRY, 1 / 3)] if text.startswith(("{", "[")) else []
    return [(_LINE, 1.0 if rows else 1 / 2), *json_borders, (_SENTENCE, 1 / 3), (_WORD, 1 / 5)]


def _last_border(text: str, start: int, end: int, borders: list[tuple[Any, float]]) -> int:
    for pattern, share in borders:
        if found := [match.end() for match in pattern.finditer(text, end - int((end - start) * share), end)]:
            return _cluster_border(text, found[-1])
    return _cluster_border(text, end)


def _first_border(text: str, start: int, borders: list[tuple[Any, float]]) -> int:
    for pattern, share in borders:
        found = pattern.search(text, start - 1, start + int((len(text) - start) * share))
        if found and found.end() < len(text):
            return _cluster_border(text, found.end())
    return _cluster_border(text, start)


def _cluster_border(text: str, position: int) -> int:
    """The last border between grapheme clusters (UAX 29) at or before `position`; it parts no surrogates either."""
    sure = _SURE_START.search(text, max(position - 256, 0), position + 1)
    start = sure.start() if sure else max(position - MAX_CLUSTER, 0)
    ends = (start + cluster.end() for cluster in _CLUSTER.finditer(text[start : position + 1]))
    border = max((end for end in ends if end <= position), default=start)
    return border - ("\ud800" <= text[border - 1 : border] < "\udc00" <= text[border : border + 1] <= "\udfff")
