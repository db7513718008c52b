"""Tool results under a cap: never too long, still JSON, true numbers, nothing lost in parts; for every value."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import regex
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai.messages import BinaryContent, ImageUrl, ToolReturnPart
from pydantic_core import to_jsonable_python

from loomflow.checks import scrub
from loomflow.context.results import capped, part, parts_of
from loomflow.tokens import TokenCounter, counter_or_estimate, estimate_tokens
from tests.property.strategies import COUNTERS, counters, json_values, texts, words

REST = '; read_tool_result("call_1", part=2) gives more'
ADDITIVE = ("estimate", "length", "utf8", "words", "greedy", "refusing")
"""Counters by which a shorter text is never much longer: a cap of 24 always leaves room for something."""

MARKER = re.compile(
    r"…\[truncated: ([\d,]+) of ([\d,]+) (lines|characters|items|keys)(?:, ([\d,]+) of ([\d,]+) tokens)?\]"
)


@dataclass
class Row:
    name: str
    at: datetime
    values: tuple[Any, ...]


class Found(BaseModel):
    title: str
    score: float
    inner: dict[str, Any]


@st.composite
def long_texts(draw: st.DrawFn, *, hostile: bool = True) -> str:
    """Prose, logs, tables and walls of letters, up to some thousand characters."""
    line = draw(texts(hostile=hostile, longest=400))
    form = draw(st.sampled_from(["{0}", "{0}. ", "{0}\n", "{0}\r\n", '{{"n":{1},"t":"x"}}\n', "{1},{0},x\n", "[{0}] "]))
    return "".join(form.format(line, number) for number in range(draw(st.integers(0, 30))))[:6000]


def odd_texts() -> st.SearchStrategy[str]:
    """Texts of characters that join others to clusters, or do not, by what stands around them."""
    odd = "a \u0301\u200d👍🏽🇵🇹\n\r\u0915\u094d\u0937\u093f\u0600\u1112\u1161\u11ab가\ufe0f#\u20e3"
    odd += "\u0e01\u0e33\ud83d\ude00漢"
    return st.text(st.sampled_from(odd), min_size=1, max_size=12).flatmap(
        lambda piece: st.integers(1, 200).map(lambda times: piece * times)
    )


def clusters(text: str) -> set[int]:
    return {found.start() for found in regex.finditer(r"\X", text)} | {len(text)}


def plain_values(*, hostile: bool = True) -> st.SearchStrategy[Any]:
    """JSON values of any nesting with short and long texts in them, some of which are JSON themselves."""
    leaf = json_values() | long_texts(hostile=hostile) | st.integers(-(10**40), 10**40)
    key = words() | texts(hostile=hostile, longest=60)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=5),
            st.dictionaries(key, inner, max_size=5),
            st.tuples(inner, st.integers(0, 60)).map(lambda drawn: [drawn[0]] * drawn[1]),
            st.tuples(inner, st.integers(0, 60)).map(lambda drawn: {f"k{n}": drawn[0] for n in range(drawn[1])}),
            inner.map(json.dumps),
            inner.map(lambda value: json.dumps(value, indent=2, ensure_ascii=False)),
        ),
        max_leaves=8,
    )


def contents() -> st.SearchStrategy[Any]:
    """What tools return: JSON values, objects, and lists with files in them."""
    value, tame = plain_values(), plain_values(hostile=False)
    when = st.datetimes(timezones=st.just(UTC))
    file = st.sampled_from([BinaryContent(b"\x89PNG" * 2000, media_type="image/png"), ImageUrl("https://x.y/z.png")])
    return st.one_of(
        value,
        value,
        st.builds(Row, long_texts(), when, st.tuples(tame)),
        st.builds(Found, title=long_texts(), score=st.floats(), inner=st.dictionaries(words(), tame, max_size=3)),
        st.lists(value | file | st.builds(Row, words(), when, st.just(())), max_size=6),
        st.tuples(tame, when),
        st.dictionaries(st.integers(), value, max_size=3),
        st.sampled_from(
            [Decimal("1.5"), b"\xff\x00" * 500, {1, 2}, datetime(2026, 1, 1), 10**5000, {"n": 10**5000}, None]
        ),
        file,
    )


def limits() -> st.SearchStrategy[int]:
    return st.integers(24, 80) | st.integers(24, 1500)


def read(content: Any) -> str:
    """What the model gets of a result as text; lone surrogates in JSON come as U+FFFD."""
    try:
        return ToolReturnPart("tool", content, tool_call_id="1").model_response_str()
    except ValueError:
        return ToolReturnPart("tool", scrubbed(content), tool_call_id="1").model_response_str()


def scrubbed(value: Any) -> Any:
    """A value as plain JSON without lone surrogates; files stay."""
    if isinstance(value, BinaryContent | ImageUrl):
        return value
    if isinstance(value, list):
        return [scrubbed(item) for item in cast("list[Any]", value)]
    return clean(to_jsonable_python(clean(value), by_alias=True, bytes_mode="base64"))


def clean(value: Any) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [clean(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in cast("dict[str, Any]", value).items()}
    return value


def counter(name: str) -> TokenCounter:
    return counter_or_estimate(COUNTERS[name])


@given(content=contents(), limit=limits(), name=st.sampled_from(ADDITIVE), rest=st.sampled_from(["", REST]))
@example(content={"n": 10**5000}, limit=24, name="length", rest=REST)
def test_no_result_is_longer_than_the_cap(content: Any, limit: int, name: str, rest: str) -> None:
    count = counter(name)
    result = capped(content, limit, count, rest=rest)
    assert count(read(result)) <= limit


@given(content=contents(), limit=st.integers(-5, 200), drawn=counters(), rest=st.sampled_from(["", REST]))
def test_a_cap_that_nothing_fits_gives_the_least_that_there_is(
    content: Any, limit: int, drawn: tuple[str, TokenCounter], rest: str
) -> None:
    _, count = drawn
    result = capped(content, limit, count, rest=rest)
    text = read(result)
    if count(text) > limit and text:
        assert len(text) <= 80 + len(rest)


@given(content=contents(), limit=limits(), drawn=counters())
def test_what_fits_is_returned_itself(content: Any, limit: int, drawn: tuple[str, TokenCounter]) -> None:
    _, count = drawn
    fits = count(read(content)) <= limit
    result = capped(content, limit, count)
    assert (result is content) if fits else (result is not content or not read(content))


@given(value=plain_values(), limit=limits(), name=st.sampled_from(ADDITIVE), indent=st.sampled_from([None, 2]))
def test_json_stays_json(value: Any, limit: int, name: str, indent: int | None) -> None:
    count = counter(name)
    assert isinstance(capped({"k": value}, limit, count), dict)
    assert isinstance(capped([value, value], limit, count), list)
    assert isinstance(json.loads(capped(json.dumps({"k": value}, indent=indent), limit, count)), dict)
    assert isinstance(json.loads(capped(json.dumps([value, value], ensure_ascii=False), limit, count)), list)


@given(value=plain_values(hostile=False), limit=limits(), name=st.sampled_from(ADDITIVE))
def test_what_is_kept_is_of_the_original_and_the_numbers_are_true(value: Any, limit: int, name: str) -> None:
    count = counter(name)
    result = capped(value, limit, count, rest="")
    totals: list[tuple[int, int]] = []
    kept = same(result, scrubbed(value), totals)
    assert len(totals) <= 1
    for lost, total in totals:
        assert total == count(read(value))
        assert lost == max(0, total - count(read(kept)))


def same(cut: Any, whole: Any, totals: list[tuple[int, int]]) -> Any:
    """Check what was cut against the whole, and return it without its markers."""
    if cut == whole or type(cut) is not type(whole):
        assert cut == whole or isinstance(cut, str)
        return cut if cut == whole else same_text(cut, read(whole), totals)
    if isinstance(cut, str):
        tree = tree_of(whole)
        return same_text(cut, whole, totals) if tree is None else read(same(json.loads(cut), tree, totals))
    if isinstance(cut, list):
        items = cast("list[Any]", cut)
        if items and is_marker(items[-1], "items") and items != whole[: len(items)]:
            lost = numbers(items.pop(), len(whole), totals, "items")
            assert lost in {None, len(whole) - len(items)}
        return [same(one, other, totals) for one, other in zip(items, whole, strict=False)]
    entries = cast("dict[str, Any]", cut)
    named = list(entries)
    if named and named[-1].strip("…") == "" and is_marker(entries[named[-1]], "keys"):
        lost = numbers(entries[named.pop()], len(whole), totals, "keys")
        assert lost in {None, len(whole) - len(named)}
    assert named == list(whole)[: len(named)]
    return {key: same(entries[key], whole[key], totals) for key in named}


def tree_of(text: str) -> Any:
    """The list or object that a text is in JSON."""
    try:
        return json.loads(text) if text.strip()[:1] in {"{", "["} else None
    except (ValueError, RecursionError):
        return None


def is_marker(value: Any, unit: str) -> bool:
    return isinstance(value, str) and (
        value in {"…[truncated]", "…"} or bool((found := MARKER.fullmatch(value)) and found[3] == unit)
    )


def numbers(marker: str, whole: int, totals: list[tuple[int, int]], unit: str) -> int | None:
    """How much a marker says is missing; None if it does not say."""
    found = MARKER.fullmatch(marker)
    if not found:
        return None
    lost, of, tokens, total = (int((group or "0").replace(",", "")) for group in found.group(1, 2, 4, 5))
    assert (of, found[3]) == (whole, unit)
    totals += [(tokens, total)] if found[4] else []
    return lost


def same_text(cut: str, whole: str, totals: list[tuple[int, int]]) -> str:
    found = MARKER.search(cut) or re.search(r"…\[truncated\]|…(?=\s|$)", cut)
    assert found
    head, tail = cut[: found.start()], cut[found.end() :]
    gap = tail[:1]
    assert gap in {"", " ", "\n"}
    assert whole.startswith(head)
    assert whole.endswith(tail[1:])
    assert {len(head), len(whole) - len(tail[1:])} <= clusters(whole)
    if found.re is MARKER:
        lines = found[3] == "lines"
        left_out = whole[len(head) : len(whole) - len(tail[1:])]
        lost = numbers(
            found[0], len(whole.split("\n")) - whole.endswith("\n") if lines else len(whole), totals, found[3]
        )
        assert lost == (len(left_out.split("\n")) - left_out.endswith("\n") if lines else len(left_out))
        assert not lines or head[-1:] in {"", "\n"}
    return head + tail


@given(text=long_texts() | odd_texts(), limit=limits(), name=st.sampled_from(ADDITIVE))
def test_a_text_keeps_its_beginning_and_loses_no_half_character(text: str, limit: int, name: str) -> None:
    result = capped(text, limit, counter(name))
    if tree_of(text) is None and result != text:
        head = result[: result.index("…")] if "…" not in text else ""
        assert text.startswith(head)
        assert len(head) in clusters(text)


@given(before=st.lists(st.sampled_from([0, 1, 2]), max_size=4), value=plain_values(), limit=limits())
def test_files_stay_where_they_are(before: Sequence[int], value: Any, limit: int) -> None:
    files = [BinaryContent(bytes([n]) * 9000, media_type="image/png") for n in range(3)]
    content = [one for n in before for one in (value, files[n])] + [value]
    result = capped(content, limit, estimate_tokens)
    assert [id(one) for one in result if isinstance(one, BinaryContent)] == [id(files[n]) for n in before]
    assert estimate_tokens(read(result)) <= limit


@given(content=contents(), limit=limits(), drawn=counters())
def test_parts_join_to_the_whole(content: Any, limit: int, drawn: tuple[str, TokenCounter]) -> None:
    _, count = drawn
    whole = read(content)
    assume(len(whole) < 8000)
    number = parts_of(content, limit, count)
    shown = min(number, 12)
    parts = [part(content, position, limit, count) for position in range(1, shown + 1)]
    assert "".join(parts) == whole if shown == number else whole.startswith("".join(parts))
    assert all(parts)
    assert not any(part(content, none, limit, count) for none in (number + 1, 0, -1))


@given(text=long_texts() | odd_texts(), limit=limits(), name=st.sampled_from(ADDITIVE))
def test_no_part_is_longer_than_the_limit_or_begins_within_a_character(text: str, limit: int, name: str) -> None:
    count = counter(name)
    borders, position = clusters(text), 0
    longest = max((count(cluster) for cluster in regex.findall(r"\X", text)), default=0)
    for number in range(1, min(parts_of(text, limit, count), 12) + 1):
        one = part(text, number, limit, count)
        assert count(one) <= limit
        assert position in borders or longest > limit
        position += len(one)


@given(content=contents(), limit=limits(), name=st.sampled_from(ADDITIVE))
def test_what_fits_is_one_part(content: Any, limit: int, name: str) -> None:
    text = read(content)
    if counter(name)(text) <= limit:
        assert parts_of(content, limit, counter(name)) == (1 if text else 0)
