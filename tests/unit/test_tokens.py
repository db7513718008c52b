"""Counting tokens: the numbers of rule R10, and the guard around a counter of the caller's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomflow import estimate_tokens
from loomflow.tokens import GuardedCounter, counter_or_estimate


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("a" * 4000, 1000),
        ("naïve café", 3),  # narrow beyond ASCII: 10 characters
        ("привет мир!!", 3),
        ("مرحبا", 2),
        ("नमस्ते", 2),
        ("记忆", 2),
        ("記憶a", 3),
        ("記憶abcd", 3),
        ("記憶abcde", 4),
        ("こんにちは", 5),
        ("カタカナ", 4),
        ("ｶﾅ", 2),  # half-width kana
        ("안녕", 2),
        ("\u1112\u1161\u11ab", 3),  # conjoining jamo
        ("、。", 2),
        ("Ａ", 1),
        ("𠀀", 1),  # outside the basic plane
        ("😀", 1),
        ("😀😀", 2),
        ("👍🏽", 2),  # with a skin tone
        ("👨‍👩‍👧", 4),  # three people, two joiners
        ("🇵🇹", 2),
        ("⌚", 1),
        ("…[truncated]", 3),
        ("\ud800", 1),
    ],
)
def test_r10_estimate_of_tokens(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_counter_or_estimate_takes_the_estimate_for_none() -> None:
    assert counter_or_estimate(None) is estimate_tokens
    assert counter_or_estimate(len)("abc") == 3


@pytest.mark.parametrize("count", [0, 7, 7.0, np.int64(7), np.float64(7)], ids=repr)
def test_a_whole_number_of_any_type_is_a_count(count: Any) -> None:
    counted = GuardedCounter(lambda _: count)("some text")
    assert type(counted) is int
    assert counted == count


@pytest.mark.parametrize("count", [-1, 1.5, float("nan"), float("inf"), None, "7", [1, 2], True], ids=repr)
def test_what_is_no_count_is_replaced_by_the_estimate_and_reported(count: Any) -> None:
    guarded = GuardedCounter(lambda _: count)
    assert guarded.failure == ""
    assert [guarded("abcde"), guarded("abcdefghi")] == [2, 3]
    assert guarded.failure


def test_a_counter_that_raises_on_some_texts_still_counts_the_others() -> None:
    def count(text: str) -> int:
        if "<|" in text:
            raise ValueError("disallowed special token")
        return 100

    guarded = GuardedCounter(count)
    assert [guarded("a"), guarded("<|end|>"), guarded("b")] == [100, 2, 100]
