"""Counting tokens: the built-in estimate, and the guard around a counter of the user's own.

The estimate (rule R10) is characters / 4, rounded up, where a wide character (Chinese, Japanese, Korean, emoji) costs a
whole token. It needs no model files and errs on the high side for English prose.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

TokenCounter = Callable[[str], int]
"""Anything that takes a text and returns its number of tokens."""

_WIDE = re.compile(
    "["
    "\u1100-\u11ff"  # Hangul Jamo
    "\u231a-\u23ff\u2600-\u27bf\u2b00-\u2bff"  # symbols shown as emoji
    "\u2e80-\ua4cf"  # CJK radicals, kana, bopomofo, ideographs, Yi
    "\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"  # compatibility ideographs, full- and half-width forms
    "\U0001f000-\U0001faff"  # emoji
    "\U00020000-\U0003ffff"  # further ideographs
    "]+"
)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text`: narrow characters / 4, rounded up, plus one for each wide character."""
    if text.isascii():
        return (len(text) + 3) // 4
    wide = sum(len(run) for run in _WIDE.findall(text))
    return wide + (len(text) - wide + 3) // 4


class GuardedCounter:
    """A user's counter that cannot break a run.

    Where it raises or returns something that is not a count, the estimate stands in. Exact tokenizers do raise: several
    refuse text that merely mentions one of their special tokens.

    Attributes:
        failure: the first thing that went wrong; empty if nothing did.
    """

    def __init__(self, counter: Callable[[str], Any]) -> None:
        self._counter = counter
        self.failure = ""

    def __call__(self, text: str) -> int:
        try:
            count = self._counter(text)
            if isinstance(count, bool) or int(count) != count or count < 0:
                raise ValueError(f"not a count of tokens: {count!r}")
            return int(count)
        except Exception as error:
            self.failure = self.failure or repr(error)
            return estimate_tokens(text)


def counter_or_estimate(counter: Callable[[str], Any] | None) -> TokenCounter:
    """Return the counter to measure with: the estimate, or the user's own behind its guard."""
    return estimate_tokens if counter is None else GuardedCounter(counter)
