"""Tool results under a cap, in exact texts and numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.messages import BinaryContent, ImageUrl, ToolReturnPart

from loomflow.context.results import capped, part, parts_of
from loomflow.tokens import estimate_tokens

LOG = "".join(f"line {number:03}: step {number} done\n" for number in range(1, 201))
ROWS = "".join(f"{number},name {number} {'x' * 30}\n" for number in range(100))
OBJECTS = "".join(json.dumps({"id": number, "text": "a b " * 10}) + "\n" for number in range(50))
PICTURE = BinaryContent(b"\x89PNG" * 50_000, media_type="image/png")
LINK = ImageUrl("https://example.com/map.png")
REST = "; more: part 2"


@dataclass
class Place:
    name: str
    seen: datetime
    notes: str


class Page(BaseModel):
    title: str
    lines: list[int]


def lines(first: int, last: int) -> str:
    return "".join(LOG.splitlines(keepends=True)[first - 1 : last])


def read(content: Any) -> str:
    return ToolReturnPart("tool", content).model_response_str()


TEXTS: dict[str, Any] = {
    "a log keeps its end": (
        LOG, 100, REST,
        lines(1, 11) + "…[truncated: 186 of 200 lines, 1,093 of 1,173 tokens; more: part 2]\n" + lines(198, 200),
    ),
    "the end of a trace is its last line": (
        f"{LOG}ValueError: no file", 100, "",
        f"{lines(1, 12)}…[truncated: 186 of 201 lines, 1,094 of 1,178 tokens]\n{lines(199, 200)}ValueError: no file",
    ),
    "too little room for an end": (
        LOG, 40, "", f"{lines(1, 4)}…[truncated: 196 of 200 lines, 1,151 of 1,173 tokens]"
    ),
    "at the end of a sentence": (
        "One sentence here. " * 100, 40, "",
        "One sentence here. " * 5 + "…[truncated: 1,805 of 1,900 characters, 451 of 475 tokens]",
    ),
    "at the end of a word": (
        "word " * 500, 30, "", "word " * 12 + "…[truncated: 2,440 of 2,500 characters, 610 of 625 tokens]"
    ),
    "where there is no border": (
        "x" * 500, 40, "", "x" * 100 + "…[truncated: 400 of 500 characters, 100 of 125 tokens]"
    ),
    "wide characters": (
        "我住在里斯本。" * 50, 60, "", "我住在里斯本。" * 6 + "…[truncated: 308 of 350 characters, 308 of 350 tokens]"
    ),
    "CSV in whole rows with its header": (
        f"id,name\n{ROWS}", 40, "",
        f"id,name\n{ROWS[:80]}…[truncated: 98 of 101 lines, 1,025 of 1,047 tokens]",
    ),
    "JSON lines in whole lines": (
        OBJECTS, 60, "", OBJECTS[: 3 * 62] + "…[truncated: 47 of 50 lines, 738 of 785 tokens]"
    ),
    "a cap with room for a short marker": (LOG, 24, "", lines(1, 3) + "…[truncated]"),
    "a hint has room where numbers have not": (LOG, 24, REST, lines(1, 3) + "…[truncated; more: part 2]"),
    "a tiny cap": (LOG, 3, REST, "line 001: …"),
    "a cap of one": (LOG, 1, REST, "line"),
    "nothing fits": (LOG, 0, REST, ""),
}  # fmt: skip

VALUES: dict[str, Any] = {
    "a list keeps its first items": (
        list(range(1000)), 40, "",
        [*range(37), "…[truncated: 963 of 1,000 items, 947 of 973 tokens]"],
    ),
    "items stay whole": (
        [{"id": number, "name": f"name {number}"} for number in range(100)], 40, "",
        [*({"id": number, "name": f"name {number}"} for number in range(4)),
         "…[truncated: 96 of 100 items, 645 of 671 tokens]"],
    ),
    "an object keeps its keys, small values whole, large ones in equal parts": (
        {"ok": True, "log": LOG, "code": 1, "notes": "word " * 300}, 110, REST,
        {"ok": True, "log": f"{lines(1, 6)}…[truncated: 194 of 200 lines]", "code": 1,
         "notes": "word " * 30 + "…[truncated: 1,350 of 1,500 characters, 1,526 of 1,608 tokens; more: part 2]"},
    ),
    "more keys than there is room for": (
        {f"key {number}": number for number in range(300)}, 40, "",
        {**{f"key {number}": number for number in range(10)}, "…": "…[truncated: 290 of 300 keys, 970 of 996 tokens]"},
    ),
    "a key that looks like ours": (
        {"…": 1, **{f"k{number}": "v" * 30 for number in range(100)}}, 40, "",
        {"…": 1, "k0": "v" * 30, "k1": "v" * 30, "……": "…[truncated: 98 of 101 keys, 954 of 975 tokens]"},
    ),
    "at any depth": (
        {"page": {"title": "Lisbon", "rows": [{"n": number} for number in range(500)]}, "next": None}, 60, "",
        {"page": {"title": "Lisbon", "rows": [*({"n": number} for number in range(16)),
                                              "…[truncated: 484 of 500 items, 1,189 of 1,235 tokens]"]}, "next": None},
    ),
    "JSON in a text in JSON": (
        {"body": json.dumps({"rows": list(range(500)), "ok": True})}, 50, "",
        {"body": '{"rows":[' + ",".join(map(str, range(40)))
         + ',"…[truncated: 460 of 500 items, 570 of 607 tokens]"],"ok":true}'},
    ),
    "a text that is JSON": (
        json.dumps(["word " * 9] * 50, indent=2), 60, "",
        '["' + ("word " * 9 + '","') * 3 + '…[truncated: 47 of 50 items, 601 of 638 tokens]"]',
    ),
    "a text that is JSON and fits without its spaces": (
        json.dumps({"a": [1, 2, 3], "b": {"c": "d"}}, indent=4), 14, "", '{"a":[1,2,3],"b":{"c":"d"}}',
    ),
    "a value that JSON writes as a text": (Decimal("1" * 300), 24, "", "1" * 84 + "…[truncated]"),
    "an object of a class": (
        Place("Lisbon", datetime(2026, 1, 2, tzinfo=UTC), "word " * 100), 50, "",
        {"name": "Lisbon", "seen": "2026-01-02T00:00:00Z",
         "notes": "word " * 17 + "…[truncated: 415 of 500 characters, 104 of 140 tokens]"},
    ),
    "a model": (
        Page(title="Lisbon", lines=list(range(900))), 40, "",
        {"title": "Lisbon", "lines": [*range(28), "…[truncated: 872 of 900 items, 854 of 880 tokens]"]},
    ),
    "lone surrogates": (
        {"a": "\ud83d\ude00\ud800" * 100}, 30, "",
        {"a": "😀\ufffd" * 11 + "…[truncated: 178 of 200 characters, 111 of 127 tokens]"},
    ),
    "a tiny cap on a list": ([1] * 500, 3, REST, [1, 1, "…"]),
    "no room for an object": ({"a": "b" * 100}, 0, REST, {}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "limit", "rest", "result"), [*TEXTS.values(), *VALUES.values()], ids=[*TEXTS, *VALUES]
)
def test_what_the_model_gets(content: Any, limit: int, rest: str, result: Any) -> None:
    assert capped(content, limit, estimate_tokens, rest=rest) == result
    assert estimate_tokens(read(result)) <= limit or not result


@pytest.mark.parametrize(
    "content",
    [
        "",
        "short",
        [],
        {},
        None,
        7,
        {"a": [1]},
        Place("x", datetime(2026, 1, 2), "y"),
        PICTURE,
        LINK,
        [PICTURE, "ok", LINK],
    ],
    ids=repr,
)
def test_what_fits_is_the_same_object(content: Any) -> None:
    assert capped(content, 24, estimate_tokens) is content


def test_files_are_neither_counted_nor_cut() -> None:
    assert capped([PICTURE, LOG, LINK], 40, estimate_tokens) == [
        PICTURE,
        f"{lines(1, 4)}…[truncated: 196 of 200 lines, 1,151 of 1,173 tokens]",
        LINK,
    ]
    assert capped([LOG, PICTURE, 1, LINK, 2], 60, estimate_tokens) == [
        f"{lines(1, 6)}…[truncated: 194 of 200 lines]",
        PICTURE,
        "…[truncated: 2 of 3 items, 1,192 of 1,225 tokens]",
        LINK,
    ]
    assert capped(PICTURE, 0, estimate_tokens) is PICTURE


def test_what_pydantic_ai_cannot_serialise_is_left_to_it() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for content in (object(), {"a": object()}, circle):
        assert capped(content, 24, estimate_tokens) is content
        with pytest.raises(ValueError, match="serializ"):
            parts_of(content, 24, estimate_tokens)


def test_json_that_is_too_deep_to_be_written_again_is_cut_as_text() -> None:
    deep = "[" * 400 + "]" * 400
    assert capped(deep, 40, estimate_tokens) == "[" * 100 + "…[truncated: 700 of 800 characters, 175 of 200 tokens]"


def test_parts_are_cut_at_the_same_borders() -> None:
    assert parts_of(LOG, 60, estimate_tokens) == 20
    assert [part(LOG, number, 60, estimate_tokens) for number in range(1, 21)] == [
        lines(first, first + 9) for first in range(1, 201, 10)
    ]


def test_parts_of_json_are_cut_between_items() -> None:
    rows = [{"id": number, "name": f"name {number}"} for number in range(10)]
    assert [part(rows, number, 24, estimate_tokens) for number in range(1, 5)] == [
        '[{"id":0,"name":"name 0"},{"id":1,"name":"name 1"},{"id":2,"name":"name 2"},',
        '{"id":3,"name":"name 3"},{"id":4,"name":"name 4"},{"id":5,"name":"name 5"},',
        '{"id":6,"name":"name 6"},{"id":7,"name":"name 7"},{"id":8,"name":"name 8"},',
        '{"id":9,"name":"name 9"}]',
    ]


@pytest.mark.parametrize(
    ("content", "number"), [("", 1), (None, 1), (PICTURE, 1), ("short", 0), ("short", 2), ("short", -1)]
)
def test_there_is_no_such_part(content: Any, number: int) -> None:
    assert part(content, number, 24, estimate_tokens) == ""


def test_a_cluster_larger_than_the_limit_is_left_out_of_a_result_and_cut_in_parts() -> None:
    family = "e" + "\u0301" * 99
    assert capped(family * 3, 24, len) == "…[truncated]"
    assert [part(family, number, 24, len) for number in (1, 2, 5)] == [family[:24], family[24:48], family[96:]]


@pytest.mark.parametrize(
    "content",
    [
        "".join(f"2026-01-{n % 28 + 1:02} INFO step {n} of the job took {n * 7 % 91} ms\n" for n in range(100_000)),
        "x" * 5_000_000, "記憶。" * 1_600_000, "👍🏽" * 1_250_000, "\u0301" * 2_500_000, "🇵🇹" * 1_000_000,
        list(range(700_000)), [{"id": n, "text": "word " * 5} for n in range(100_000)],
        json.dumps({str(n): "word " * 5 for n in range(150_000)}),
        {str(n): list(range(5000)) for n in range(200)},
    ],
    ids=["log", "line", "wide", "emoji", "marks", "flags", "numbers", "rows", "json", "lists"],
)  # fmt: skip
def test_five_megabytes_are_counted_once(content: Any) -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return estimate_tokens(text)

    text = read(capped(content, 2000, count, rest=REST))
    assert 1700 < estimate_tokens(text) <= 2000
    assert sum(counted) < 1.25 * len(read(content))
