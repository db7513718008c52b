"""The receipt of an injection, as text and as HTML."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from loomflow import InjectedItem, Injection

BLOCK = InjectedItem(
    "block", "profile", "Vegetarian.", 7, None, None, 1.0, None, "injected", "pinned: always in, in full"
)
FACT = InjectedItem("fact", "f1", "Alice likes tea", 5, 0, 1 / 61, 0.5, 0.5 / 61, "truncated", "cut to what was left")
EPISODE = InjectedItem(
    "episode",
    "e1",
    "User: <b>hi</b>\nthere ⏎ Agent: " + "long " * 30,
    1234,
    11,
    1 / 72,
    1.0,
    1 / 72,
    "dropped",
    "no room",
)


def injection(**fields: Any) -> Injection:
    known: dict[str, Any] = {
        "text": "the block <x>", "tokens": 21, "budget": 1500, "items": (BLOCK, FACT, EPISODE), "query": "tea?",
        "user_id": "alice", "session_id": None, "at": datetime(2026, 11, 3, tzinfo=UTC),
    }  # fmt: skip
    return Injection(**known | fields)


def test_explain_is_a_table_with_a_line_for_each_item() -> None:
    assert injection(half_life_days=30.0).explain() == (
        "21 tokens (budget 1500, half-life 30 days): 1 injected, 1 truncated, 1 dropped\n"
        "status     kind     rank  decay    score  tokens  reason                      text\n"
        "injected   block          1.000                7  pinned: always in, in full  Vegetarian.\n"
        "truncated  fact        0  0.500  0.00820       5  cut to what was left        Alice likes tea\n"
        "dropped    episode    11  1.000  0.01389    1234  no room                     "
        "User: <b>hi</b> there ⏎ Agent: long long long long long lon…"
    )


def test_explain_names_what_went_wrong_before_the_table() -> None:
    told = injection(budget=None, over_budget=("too large",), problems=("embedder failed",)).explain().split("\n")
    assert told[:3] == ["21 tokens (no budget): 1 injected, 1 truncated, 1 dropped", "! too large", "! embedder failed"]


def test_explain_of_nothing_says_so() -> None:
    assert injection(text="", tokens=0, budget=None, items=()).explain() == (
        "0 tokens (no budget): 0 injected, 0 truncated, 0 dropped\nNothing was recalled."
    )


def test_html_escapes_stored_text() -> None:
    page = injection(over_budget=("<i>over</i>",))._repr_html_()
    assert "&lt;b&gt;hi&lt;/b&gt;" in page
    assert "<pre>the block &lt;x&gt;</pre>" in page
    assert "&lt;i&gt;over&lt;/i&gt;" in page
    assert "<b>hi" not in page
    assert page.count("<tr>") == 4
    assert page.count("<td>") == 3 * 8


def test_a_receipt_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        injection().tokens = 0  # pyright: ignore[reportAttributeAccessIssue]
