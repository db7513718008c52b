"""The account of a request: its parts, their sum, and how it is read."""

from __future__ import annotations

from loomflow import ContextAccount

FULL = ContextAccount(
    instructions=1, blocks=20, recall=300, summary=4, history=5000, prompt=6, transcript=7, tools=662, window=8000,
    compact_at=6000, requests=3, compactions=2, shortened=1, deferred=12,
)  # fmt: skip


def test_the_total_is_the_sum_of_the_parts_in_the_order_in_which_they_are_sent() -> None:
    parts = ["instructions", "blocks", "recall", "summary", "history", "prompt", "transcript", "tools"]
    assert list(FULL.shares) == parts
    assert FULL.total == sum(FULL.shares.values()) == 6000


def test_it_explains_itself() -> None:
    assert FULL.explain() == "\n".join(
        [
            "6,000 tokens of 8,000 in request 3",
            "  instructions     1     0 %",
            "  blocks          20     0 %",
            "  recall         300     5 %",
            "  summary          4     0 %",
            "  history      5,000    83 %",
            "  prompt           6     0 %",
            "  transcript       7     0 %",
            "  tools          662    11 %",
            "  compactions of the conversation: 2",
            "  tool results shortened: 1",
            "  tool definitions deferred: 12",
        ]
    )


def test_of_an_unknown_window_and_an_empty_request_nothing_is_said() -> None:
    lines = ContextAccount().explain().splitlines()
    assert (lines[0], len(lines), [line for line in lines if "%" in line]) == ("0 tokens in request 0", 9, [])
