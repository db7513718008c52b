"""Passages: they cover the text, end at sentence borders, and cut no character in two."""

from __future__ import annotations

import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from loomflow.passages import MAX_SENTENCE_CHARS, PASSAGE_CHARS, WHOLE_CHARS, grapheme_start, passages
from tests.property.strategies import HOSTILE, SCRIPTS

WORDS = [word for script in SCRIPTS for word in script]
ENDS = (". ", "! ", '?" ', "。", "？」", "\n", "\n\n  ", "\r\n", "… ", " ", "", "   ", ", ", "3.14", "a.b.c")


@st.composite
def long_texts(draw: st.DrawFn, *, words: tuple[str, ...] = tuple(WORDS)) -> str:
    """Sentences of one word or of many, ended in many ways."""
    sentence = st.tuples(st.sampled_from(words), st.integers(1, 120), st.sampled_from(["", " "]), st.sampled_from(ENDS))
    return "".join((word + joint) * times + end for word, times, joint, end in draw(st.lists(sentence, max_size=30)))


def pieces(text: str) -> list[str]:
    return [text[begin:end] for begin, end in passages(text)]


def clusters(text: str) -> set[int]:
    """Where grapheme clusters begin, and the end."""
    return {found.start() for found in regex.finditer(r"\X", text)} | {len(text)}


@given(text=long_texts(words=(*WORDS, *HOSTILE)))
def test_passages_cover_all_of_a_text_but_white_space_in_order(text: str) -> None:
    last = 0
    for begin, end in passages(text):
        assert last <= begin < end
        assert not text[last:begin].strip()
        last = end
    assert not text[last:].strip()


@given(text=long_texts(words=(*WORDS, *HOSTILE)))
def test_a_passage_has_no_white_space_around_it_and_is_not_too_long(text: str) -> None:
    for piece in pieces(text):
        assert piece == piece.strip() != ""
        assert len(piece) <= MAX_SENTENCE_CHARS


@given(text=long_texts())
def test_no_character_is_cut_in_two(text: str) -> None:
    borders = clusters(text)
    assert all({begin, end} <= borders for begin, end in passages(text))


@given(text=long_texts())
def test_two_passages_that_would_go_into_one_are_not_left_apart(text: str) -> None:
    found = passages(text)
    borders = [0, *(end for _, end in found)], [*(begin for begin, _ in found), len(text)]
    for last, following in zip(borders[0], borders[1][2:], strict=False):
        assert following - last > PASSAGE_CHARS  # with the white space around


@given(text=st.text(max_size=WHOLE_CHARS))
def test_a_short_text_is_one_passage(text: str) -> None:
    assert pieces(text) == ([text.strip()] if text.strip() else [])


@pytest.mark.parametrize("length", [WHOLE_CHARS - 1, WHOLE_CHARS, WHOLE_CHARS + 1])
def test_a_text_is_cut_only_if_it_is_longer_than_what_stays_whole(length: int) -> None:
    text = "A sentence of words. " * 30
    assert (len(pieces(text[: length - 1] + "x")) == 1) == (length <= WHOLE_CHARS)


@pytest.mark.parametrize("text", ["", " ", "\n \t", "\u2003" * 900, " \n" * 900])
def test_white_space_has_no_passages(text: str) -> None:
    assert passages(text) == []


@pytest.mark.parametrize(
    ("sentence", "joint"),
    [
        ("This is a sentence about nothing in particular.", " "),
        ("Is it a question?", "  "),
        ('She said "no way!"', " "),
        ("这是一个关于茶的句子。", ""),
        ("「お茶が好きです。」", ""),
        ("너는 어디에 사니?", " "),
        ("A line without an end", "\n"),
        ("A paragraph", "\r\n\r\n"),
        ("To be continued…", " "),
    ],
)
def test_passages_end_where_sentences_do(sentence: str, joint: str) -> None:
    found = pieces(joint.join([sentence] * 100))
    assert len(found) > 3
    for piece in found:
        assert re.fullmatch(rf"{re.escape(sentence)}(?:{joint}{re.escape(sentence)})*", piece)
        assert PASSAGE_CHARS / 2 < len(piece) <= PASSAGE_CHARS or piece is found[-1]


@pytest.mark.parametrize("word", ["3.14", "v1.2.3", "https://example.org/a.b?c=d!e", "e.g", "...tea"])
def test_a_dot_inside_of_a_word_ends_no_sentence(word: str) -> None:
    for piece in pieces(f"{word} and more " * 200):
        assert set(piece.split()) <= {word, "and", "more"}


@pytest.mark.parametrize("length", [501, 600, 601, 5000])
def test_text_without_borders_is_cut_at_its_longest(length: int) -> None:
    found = pieces("x" * length)
    assert "".join(found) == "x" * length
    assert {len(piece) for piece in found[:-1]} <= {MAX_SENTENCE_CHARS}


def test_a_long_sentence_is_cut_between_words() -> None:
    found = pieces("word " * 1000)
    assert {word for piece in found for word in piece.split()} == {"word"}
    assert min(len(piece) for piece in found[:-1]) > PASSAGE_CHARS


def test_a_space_too_near_is_no_place_to_cut_at() -> None:
    assert [len(piece) for piece in pieces("a " + "x" * 1500)] == [600, 600, 302]


@pytest.mark.parametrize("cluster", ["👨‍👩‍👧‍👦", "🇵🇹", "👍🏽", "e\u0301", "क्षि", "각", "か\u3099", "1️⃣"])
@pytest.mark.parametrize("offset", range(4))
def test_text_without_spaces_is_cut_between_characters(cluster: str, offset: int) -> None:
    text = "x" * offset + cluster * 1000
    assert all({begin, end} <= clusters(text) for begin, end in passages(text))
    assert "".join(pieces(text)) == text


def test_a_character_longer_than_a_passage_is_cut_all_the_same() -> None:
    text = "e" + "\u0301" * 2000
    assert "".join(pieces(text)) == text


def test_a_full_stop_in_a_form_of_its_own_is_not_parted_from_the_sign_that_says_so() -> None:
    text = "很好。\ufe01" * 200
    assert all({begin, end} <= clusters(text) for begin, end in passages(text))


# Borders between grapheme clusters


@given(text=st.lists(st.sampled_from([*WORDS, " ", "\r\n", "a"])).map("".join), data=st.data())
def test_a_border_at_or_before_a_position_is_the_last_one(text: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(text)))
    assert grapheme_start(text, position) == max(border for border in clusters(text) if border <= position)


@pytest.mark.parametrize(("text", "position", "start"), [("", 0, 0), ("ab", 1, 1), ("ab", 2, 2), ("e\u0301", 1, 0),
                                                         ("ae\u0301", 2, 1), ("🇵🇹🇵🇹🇵🇹", 3, 2)])  # fmt: skip
def test_where_a_character_begins(text: str, position: int, start: int) -> None:
    assert grapheme_start(text, position) == start
