"""Search words and normal forms."""

from __future__ import annotations

import pytest

from loomflow.words import MAX_QUERY_WORDS, fold, normal_form, query_terms, terms


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
