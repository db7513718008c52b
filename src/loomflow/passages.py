"""Passages: long text cut at sentence borders, so that a block can hold the sentence that matters and not the page.

Where only the beginning and the end of a text are wanted: `both_ends`.
"""

from __future__ import annotations

import re

import regex

WHOLE_CHARS = 500
"""Text up to this length stays in one piece."""

PASSAGE_CHARS = 300
"""Longer text is cut into passages of about this length."""

MAX_SENTENCE_CHARS = 600
"""A sentence without an end in sight (code, a log, an address) is cut here, at a space if there is one near."""

_GRAPHEME = regex.compile(r"\X")
_BORDER = re.compile(r"""[.!?…]["'”’)\]]*\s+|[。！？…][\ufe00-\ufe0f"'”’」』）]*|\n\s*""")


def passages(text: str) -> list[tuple[int, int]]:
    """Where the passages of a text begin and end, in order; together they cover all of it but white space.

    >>> [text[a:b] for text in ["One. Two."] for a, b in passages(text)]
    ['One. Two.']
    """
    if len(text) <= WHOLE_CHARS:
        return [_stripped(text, 0, len(text))] if text.strip() else []
    found: list[tuple[int, int]] = []
    start = end = 0
    for sentence_end in _sentence_ends(text):
        if end > start and sentence_end - start > PASSAGE_CHARS:
            found.append((start, end))
            start = end
        end = sentence_end
    found.append((start, end))
    return [_stripped(text, *span) for span in found if text[slice(*span)].strip()]


def both_ends(text: str, most: int, gap: str = " … ") -> str:
    """The beginning and the end of a text that is longer than `most` characters, with `gap` between them.

    >>> both_ends("from beginning to end", 8)
    'from …  end'
    """
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}{gap}{text[len(text) - half :]}"


def _sentence_ends(text: str) -> list[int]:
    """Where sentences end, the last of them at the end of the text."""
    ends: list[int] = []
    last = 0
    for end in [*(border.end() for border in _BORDER.finditer(text)), len(text)]:
        while end - last > MAX_SENTENCE_CHARS:
            space = text.rfind(" ", last + PASSAGE_CHARS, last + MAX_SENTENCE_CHARS)
            last = space + 1 if space >= 0 else last + _cut(text[last : last + MAX_SENTENCE_CHARS + 64])
            ends.append(last)
        if end > last:
            ends.append(end)
            last = end
    return ends


def _cut(text: str) -> int:
    """Where to cut a text that has no space: between grapheme clusters, if there is a place."""
    return grapheme_start(text, MAX_SENTENCE_CHARS) or MAX_SENTENCE_CHARS


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def grapheme_start(text: str, position: int) -> int:
    """The last border between grapheme clusters (UAX 29) at or before `position`."""
    start = max(position - 1, 0)
    while start > 0 and not _begins_cluster(text[start]):
        start -= 1
    boundary = start
    for cluster in _GRAPHEME.finditer(text, start, min(len(text), position + 64)):
        if cluster.start() > position:
            break
        boundary = cluster.start()
        if cluster.end() <= position:
            boundary = cluster.end()
    return boundary


def _begins_cluster(character: str) -> bool:
    """Whether a cluster surely begins here, whatever stands before: a character of ASCII or an ideograph."""
    return " " <= character <= "~" or "\u4e00" <= character <= "\u9fff"
