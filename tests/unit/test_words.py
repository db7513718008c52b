"""Search words and normal forms."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomflow.words import (
    MAX_QUERY_WORDS,
    fold,
    is_about_asker,
    normal_form,
    query_terms,
    saying,
    says_something,
    terms,
)
from tests.property.strategies import HOSTILE, words


@pytest.mark.parametrize(("text", "folded"), [("Straße", "strasse"), ("ＡＢＣ", "abc"), ("ﬁne", "fine"), ("É", "é")])
def test_fold_takes_away_case_and_width(text: str, folded: str) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("?!", []),
        ("Where does Alice live?", ["alic", "live"]),
        ("walked walks WALKING", ["walk"]),
        ("café Müller", ["cafe", "muller"]),
        ("2+2?", []),  # a sum is nothing to look for
        ("route 66", ["rout", "66"]),
        ("in 2023", ["2023"]),
        ("What is it?", ["what", "is", "it"]),  # function words only: better than nothing
        ("tea Tea TEA rice", ["tea", "rice"]),
        ("lives_in e-mail C++ 3.14", ["live", "e", "mail", "c", "3", "14"]),
        ("我住在里斯本", ["我住", "住在", "在里", "里斯", "斯本"]),
        ("茶", ["茶"]),
        ("我喜欢tea和咖啡", ["我喜", "喜欢", "tea", "和咖", "咖啡"]),
        ("서울에", ["서울", "울에"]),
        ("ｶﾀｶﾅ", ["カタ", "タカ", "カナ"]),
        ('"; DROP * NEAR(', ["drop", "near"]),
        ("😀", []),
    ],
)
def test_query_terms(text: str, words: list[str]) -> None:
    assert query_terms(text) == words


def test_a_long_query_keeps_the_words_of_its_beginning_and_end() -> None:
    words = [f"w{n}" for n in range(1000)]
    half = MAX_QUERY_WORDS // 2
    assert query_terms(" ".join(words)) == words[:half] + words[-half:]


def test_runs_without_spaces_are_pairs_and_their_single_characters_too() -> None:
    assert terms("我住X") == (["我住", "x"], ["我", "住"])
    assert terms("茶") == (["茶"], [])


@pytest.mark.parametrize("text", ["我住在里斯本", "茶", "東京タワー", "서울에 살아요", "喝茶and咖啡", "𠀀𠀁"])
def test_every_term_of_a_text_finds_the_text(text: str) -> None:
    indexed = {term for kind in terms(text) for term in kind}
    assert set(query_terms(text)) <= indexed
    assert {term for character in text if character > "\u3000" for term in query_terms(character)} <= indexed


def test_stop_words_can_be_found_but_do_not_count_as_telling() -> None:
    assert terms("What is it about Lisbon?") == (["lisbon"], ["what", "is", "it", "about"])


@pytest.mark.parametrize(
    ("one", "other"),
    [("I like tea.", "i  LIKE\ttea"), ("Ｌｉｓｂｏｎ", "lisbon"), ("“tea”", "tea"), ("Tea!", "tea"), ("茶。", "茶")],
)
def test_normal_form_is_the_same_for_the_same_saying(one: str, other: str) -> None:
    assert normal_form(one) == normal_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C", "C++"),
        ("5", "-5"),
        ("C", "C#"),
        ("tea", "tea?"),
        ("tea", "no tea"),
        ("3.14", "314"),
        ("👍", "👎"),
        ("a b", "ab"),
    ],
)
def test_normal_form_differs_where_the_meaning_does(one: str, other: str) -> None:
    assert normal_form(one) != normal_form(other)


def test_normal_form_of_punctuation_alone_is_not_empty() -> None:
    assert normal_form("...") == "..."
    assert normal_form("   ") == ""


# Terms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Łódź", ["łodz"]),  # a stroke is no accent
        ("Привет, Андрей", ["привет", "андреи"]),  # alike in the index and in the question
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("İstanbul", ["istanbul"]),
        ("Ⅻ ½ m²", ["xii", "1", "2", "m2"]),
        ("か\u3099", ["が"]),
        ("\u1112\u1161\u11ab국", ["한국"]),
        ("東京タワー・大阪", ["東京", "京タ", "タワ", "ワー", "大阪"]),
        ("𠀀𠀁", ["𠀀𠀁"]),
        ("O’Brien", ["o", "brien"]),
    ],
)
def test_words_of_many_scripts(text: str, words: list[str]) -> None:
    assert query_terms(text) == words


@given(text=st.lists(words(), max_size=8).map(" ".join))
def test_case_width_and_composition_make_no_difference_to_the_terms(text: str) -> None:
    assert terms(text.upper()) == terms(text.lower())
    assert terms(unicodedata.normalize("NFD", text)) == terms(unicodedata.normalize("NFC", text))
    assert terms("".join(_wide(character) for character in text)) == terms(text)


def _wide(character: str) -> str:
    return chr(ord(character) + 0xFEE0) if character.isascii() and character.isalnum() else character


@given(text=st.text(st.characters(exclude_categories=["Cs", "Nd"])) | st.lists(words(), max_size=8).map("".join))
def test_every_term_of_a_question_is_a_term_of_the_same_text(text: str) -> None:
    telling, other = terms(text)
    assert set(query_terms(text)) <= {*telling, *other}
    assert all(term and not any(character.isspace() for character in term) for term in [*telling, *other])


@given(one=st.lists(words(), max_size=5).map(" ".join), other=st.lists(words(), max_size=5).map(" ".join))
def test_the_terms_of_a_text_are_those_of_its_parts(one: str, other: str) -> None:
    together = terms(f"{one} {other}")
    assert together == (terms(one)[0] + terms(other)[0], terms(one)[1] + terms(other)[1])


@pytest.mark.parametrize(
    ("text", "word"), [("mẹ ăn gì?", "mẹ"), ("J'aime le thé", "thé"), ("bún và tô", "tô"), ("Hör zu", "hör")]
)
def test_a_word_that_is_a_stop_word_only_without_its_accent_tells_something(text: str, word: str) -> None:
    assert set(query_terms(word)) <= set(query_terms(text))


@pytest.mark.parametrize("text", ["2+2?", "17 * 23", "2 + 2 = 4", "3.5×2", "10 - 4", "6 / 2", "2^10", "1,000+1"])
def test_a_sum_is_nothing_to_look_for(text: str) -> None:
    assert query_terms(text) == []
    assert not says_something(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2023-05-07", ["2023", "05", "07"]), ("+49 170", ["49", "170"]), ("C++ 17", ["c", "17"]),
        ("24/7", ["24", "7"]), ("3-4 days", ["3", "4", "day"]), ("A+ blood", ["blood"]), ("10 x", ["10", "x"]),
        ("B12 + D3", ["b12", "d3"]), ("C4 + 5", ["c4", "5"]),
    ],
)  # fmt: skip
def test_numbers_that_are_no_sum_are_looked_for(text: str, words: list[str]) -> None:
    assert query_terms(text) == words


@pytest.mark.parametrize(
    "text", ["", "ok", "Thanks!", "Who am I?", "What is it?", "2+2?", "😀", "?!", "Thank you, bye", "Hello!"]
)
def test_what_says_nothing(text: str) -> None:
    assert not says_something(text)


@pytest.mark.parametrize("text", ["tea", "Where do I live?", "茶", "42", "ok, tea", "明日は？", "привет"])
def test_what_says_something(text: str) -> None:
    assert says_something(text)


@pytest.mark.parametrize("text", ["I am not", "Don't!", "It isn't", "We didn’t", "They haven't", "you're"])
def test_a_contraction_says_no_more_than_its_words(text: str) -> None:
    assert not says_something(text)


@pytest.mark.parametrize("text", ["Who am I?", "my dog", "What is OURS?", "Is it mine?", "my-self"])
def test_a_text_speaks_of_the_asker(text: str) -> None:
    assert is_about_asker(text)


@pytest.mark.parametrize("text", ["", "Who are you?", "Mimi", "mẹ ở đâu?"])
def test_a_text_does_not_speak_of_the_asker(text: str) -> None:
    assert not is_about_asker(text)


@pytest.mark.parametrize(("text", "word"), [("Where does Don live?", "don"), ("Who won the race?", "won")])
def test_a_word_that_begins_a_contraction_elsewhere_tells_something(text: str, word: str) -> None:
    assert word in query_terms(text)


# Sayings


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice lives_in Lisbon", "alice lives in Lisbon."), ("I really like tea", "I like the tea"),
        ("It is just so", "it is"), ("She said: “tea”", "she said tea"), ("Also, I like tea!", "i like tea"),
    ],
)  # fmt: skip
def test_a_repetition_says_the_same(one: str, other: str) -> None:
    assert saying(one) == saying(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like tea", "I do not like tea"), ("5 mg", "-5 mg"), ("take 5 mg", "take 50 mg"), ("C", "C++"), ("a", "b"),
        ("3.5 mg", "35 mg"), ("tea", "tea?"), ("take .5 mg", "take 5 mg"), ("if !ready", "if ready"), ("茶", "咖啡"),
        ("lives in Lisbon", "lived in Lisbon"), ("👍", "👎"), ("10:30", "1030"),
    ],
)  # fmt: skip
def test_another_word_number_or_negation_says_something_else(one: str, other: str) -> None:
    assert saying(one) != saying(other)


@given(text=st.lists(words() | st.sampled_from(HOSTILE), max_size=8).map("".join))
def test_a_normal_form_is_its_own_normal_form(text: str) -> None:
    once = normal_form(text)
    assert normal_form(once) == once
    assert (once == "") == (not text.strip())
