"""What a question says beside its words: dates, names, whether it asks for a time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomflow.index.questions import DateAsked, asks_time, dates_in, is_question, named, names_time, without_names
from tests.property.strategies import HOSTILE, SCRIPTS

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
DATE_WORDS = (
    "may", "March", "mars", "on", "in", "de", "5", "31", "99", "2023", "1999", "-", "/", ".", "年", "月", "日", "ago",
    "days", "a", "two", "week", "last", "yesterday", "since", "vor", "when", "what", "?", "st", ",", "٣", "²",
)  # fmt: skip


def asked(year: int | None = None, month: int | None = None, day: int | None = None) -> DateAsked:
    return DateAsked(year, month, day)


def span(first: int, last: int) -> DateAsked:
    """From so many days ago to so many days ago."""
    return DateAsked(span=(NOW.date() - timedelta(days=first), NOW.date() - timedelta(days=last)))


# Dates


@pytest.mark.parametrize(
    ("question", "date_asked"),
    [
        ("What happened on 7 May 2023?", asked(2023, 5, 7)),
        ("what happened on may 7th, 2023", asked(2023, 5, 7)),
        ("On the 3rd of May, 2021?", asked(2021, 5, 3)),
        ("What did Ana do in July 2022?", asked(2022, 7)),
        ("In JULY?", asked(None, 7)),
        ("Sept. 5?", asked(None, 9, 5)),
        ("the Dec 5th party", asked(None, 12, 5)),
        ("early March", asked(None, 3)),
        ("the 1st of August", asked(None, 8, 1)),
        ("2023-05-07", asked(2023, 5, 7)),
        ("2023/5/7", asked(2023, 5, 7)),
        ("2023.5", asked(2023, 5)),
        ("What happened in 2022?", asked(2022)),
        ("Was war am 5. März 2023?", asked(2023, 3, 5)),
        ("im Mai", asked(None, 5)),
        ("Was passierte im Dezember 2021?", asked(2021, 12)),
        ("¿Qué pasó el 5 de mayo de 2023?", asked(2023, 5, 5)),
        ("en enero", asked(None, 1)),
        ("le 5 février 2024", asked(2024, 2, 5)),
        ("en août", asked(None, 8)),
        ("2023年5月7日我做了什么？", asked(2023, 5, 7)),
        ("2023年5月", asked(2023, 5)),
        ("２０２３年５月", asked(2023, 5)),
        ("2023年", asked(2023)),
        ("12月25号", asked(None, 12, 25)),
        ("5月你去哪儿了", asked(None, 5)),
    ],
)
def test_a_question_names_a_date(question: str, date_asked: DateAsked) -> None:
    assert dates_in(question, NOW) == [date_asked]


@pytest.mark.parametrize(
    "question",
    [
        "", "What is my dog's name?", "May I ask you something?", "You may go", "Who may it be?", "They march on",
        "the march on Rome", "the dec machine", "a jan sand", "marching", "maybe", "mayor", "Augustus",
        "I am 2023123 years", "12023", "call 555-2023", "2 and 3", "月亮",
    ],
)  # fmt: skip
def test_a_question_that_names_no_date(question: str) -> None:
    assert dates_in(question, NOW) == []


@pytest.mark.parametrize(
    ("question", "date_asked"),
    [("in may", 5), ("5 may", 5), ("may 5", 5), ("May 2023", 5), ("in march", 3), ("on Dec 5", 12), ("since jan", 1)],
)
def test_a_month_that_is_another_word_counts_beside_a_number_or_after_a_preposition(
    question: str, date_asked: int
) -> None:
    assert [one.month for one in dates_in(question, NOW)] == [date_asked]


@pytest.mark.parametrize(("question", "month"), [("What did we do last March?", 3), ("Who came last May?", 5)])
def test_a_month_that_is_another_word_counts_after_last(question: str, month: int) -> None:
    assert [one.month for one in dates_in(question, NOW)] == [month]


@pytest.mark.parametrize("question", ["the 90 May guests", "0 May", "May 45", "room 32 August"])
def test_a_number_that_is_no_day_is_no_day(question: str) -> None:
    assert dates_in(question, NOW) in ([], [asked(None, 5)], [asked(None, 8)])


def test_may_as_a_verb_is_no_month_even_after_this() -> None:
    assert dates_in("I think this may be wrong", NOW) == []


@pytest.mark.parametrize(
    ("question", "dates"),
    [
        ("May 2022 or June 2023?", [asked(2022, 5), asked(2023, 6)]),
        ("In May or June 2023?", [asked(2023, 5), asked(2023, 6)]),
        ("2022-05 and 2023-06", [asked(2022, 5), asked(2023, 6)]),
        ("2023, 2019 and 2021", [asked(2019), asked(2021), asked(2023)]),
        ("yesterday or in May", [asked(None, 5), span(1, 1)]),
    ],
)
def test_several_dates(question: str, dates: list[DateAsked]) -> None:
    assert dates_in(question, NOW) == dates


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What did I eat today?", (0, 0)),
        ("and tonight?", (0, 0)),
        ("What did I say yesterday?", (1, 1)),
        ("last night", (1, 1)),
        ("Was war gestern?", (1, 1)),
        ("¿Qué comí ayer?", (1, 1)),
        ("昨天我说了什么", (1, 1)),
        ("aujourd'hui", (0, 0)),
        ("last week", (13, 1)),
        ("letzte Woche", (13, 1)),
        ("上周", (13, 1)),
        ("the past month", (61, 1)),
        ("上个月", (61, 1)),
        ("3 days ago", (3, 3)),
        ("a week ago", (10, 4)),
        ("two weeks ago", (17, 11)),
        ("6 months ago", (195, 165)),
        ("a year ago", (547, 183)),
        ("0 days ago", (0, 0)),
    ],
)
def test_a_relative_date_is_counted_back_from_now(question: str, days: tuple[int, int]) -> None:
    assert dates_in(question, NOW) == [span(*days)]


@pytest.mark.parametrize("question", ["999 years ago", "999 days ago", "last month", "yesterday"])
def test_before_the_first_day_there_is_nothing(question: str) -> None:
    (found,) = dates_in(question, datetime(1, 1, 2, tzinfo=UTC))
    assert found.span == (date.min, date.min)


@pytest.mark.parametrize(
    ("question", "year"), [("Who won the 2019/20 season?", 2019), ("What is new in version 2023.45?", 2023)]
)
def test_a_number_that_is_no_month_leaves_the_year_or_nothing(question: str, year: int) -> None:
    assert dates_in(question, NOW) in ([], [asked(year)])


@given(
    question=st.lists(st.sampled_from([*DATE_WORDS, " ", " ", *HOSTILE, *SCRIPTS[0]]), max_size=30).map("".join),
    now=st.datetimes(timezones=st.just(UTC)),
)
def test_whatever_is_asked_dates_are_in_order(question: str, now: datetime) -> None:
    for found in dates_in(question, now):
        assert (found.span is None) != (found.year is None and found.month is None)
        assert found.day is None or found.month is not None
        if found.span is not None:
            assert date.min <= found.span[0] <= found.span[1] <= now.date()
    assert asks_time(question) in {True, False}
    assert names_time(question) in {True, False}


# Whether it asks when, and whether a text says when


@pytest.mark.parametrize(
    "question",
    [
        "When did Ana call?", "WHEN", "How long did it take?", "What day is it?", "Which year was that?",
        "what exact date", "What time do I get up?", "Wann war das?", "Wie lange?", "Welches Jahr?", "welchem Monat",
        "¿Cuándo fue?", "Quand?", "我什么时候去的？", "会议是几号？", "多久了", "いつですか",
    ],
)  # fmt: skip
def test_a_question_asks_for_a_time(question: str) -> None:
    assert asks_time(question)


@pytest.mark.parametrize(
    "question",
    ["", "Where does Ana live?", "whenever", "What is the update?", "What daydream?", "Was ist das?", "谁？"],
)
def test_a_question_asks_for_no_time(question: str) -> None:
    assert not asks_time(question)


@pytest.mark.parametrize(
    "text",
    [
        "I went there yesterday", "Tomorrow it is", "recently", "since Monday", "last week", "next summer",
        "this evening", "two years ago", "a few days later", "3 weeks before", "in June", "the 2nd of August", "1999",
        "on Friday", "vor zwei Wochen", "letzten Monat", "nächste Woche", "am Montag", "am 3.5. war das", "Ayer comí",
        "hier soir", "昨天", "去年我们结婚", "星期一", "5月", "周末", "in Oktober",
    ],
)  # fmt: skip
def test_a_text_says_when(text: str) -> None:
    assert names_time(text)


@pytest.mark.parametrize(
    "text",
    ["", "I like tea", "You may go", "They march", "the sun is out", "12345", "a mondayish mood", "vor allem", "月"],
)
def test_a_text_says_no_time(text: str) -> None:
    assert not names_time(text)


@pytest.mark.parametrize(
    "text", ["Really?", "Really? ", 'He asked: "really?"', "吗？", "هل؟", "(why?)", "What?!?", "tea?\n"]
)
def test_a_question_ends_with_its_mark(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize("text", ["", "No.", "Why? Because.", "?x", "What?!"])
def test_what_ends_otherwise_is_no_question(text: str) -> None:
    assert not is_question(text)


def test_a_question_in_cjk_quotes_is_one() -> None:
    assert is_question("「お茶は好きですか？」")


# Names

NAMES = ["Ana Souza", "Bob", "Dr. Will Smith", "小明", "The", "José", "Anne-Marie", "J"]


@pytest.mark.parametrize(
    ("question", "whose"),
    [
        ("When did Ana call?", ["Ana Souza"]),
        ("Is SOUZA there?", ["Ana Souza"]),
        ("What is Bob's dog called?", ["Bob"]),
        ("What is Bob’s dog called?", ["Bob"]),
        ("Did Ana meet Bob?", ["Ana Souza", "Bob"]),
        ("Where is Smith?", ["Dr. Will Smith"]),
        ("Will it rain?", []),  # a word of its own
        ("The end", []),
        ("Bobsled", []),
        ("小明说了什么？", ["小明"]),
        ("明", []),
        ("Où est José ?", ["José"]),
        ("Anne said", ["Anne-Marie"]),
        ("J said", []),
        ("", []),
    ],
)
def test_whom_a_question_names(question: str, whose: list[str]) -> None:
    assert [NAMES[place] for place in named(question, NAMES)] == whose


@pytest.mark.parametrize(
    ("question", "name"), [("Что сказал Андрей?", "Андрей"), ("ماذا قال أحمد؟", "أحمد"), ("राजेश कब आया?", "राजेश")]
)
def test_names_of_other_alphabets_are_found(question: str, name: str) -> None:
    assert named(question, [name]) == [0]


def test_a_name_that_is_the_beginning_of_a_contraction_is_a_name() -> None:
    assert named("What did Don say?", ["Don"]) == [0]


def test_accents_of_names_matter_as_little_as_those_of_words() -> None:
    assert named("What did Jose say?", ["José"]) == [0]


@pytest.mark.parametrize(
    ("question", "about"),
    [
        ("When did Ana call Bob?", "When did call ?"),
        ("What is Bob's dog called?", "What is dog called?"),
        ("What is Bob’s dog called?", "What is dog called?"),
        ("Souza, Ana: tea", ", : tea"),
        ("Where is the end?", "Where is the end?"),
        ("小明说了什么？", "小明说了什么？"),
        ("Will it rain?", "Will it rain?"),
        ("Bobsled", "Bobsled"),
        ("", ""),
        ("Ana", "Ana"),
    ],
)
def test_a_question_without_the_names_in_it(question: str, about: str) -> None:
    assert without_names(question, NAMES) == about


@pytest.mark.parametrize("question", ["Ana?", "Bob!", "Ana, Bob?", "Bob's?"])
def test_a_question_of_names_alone_is_left_as_it_is(question: str) -> None:
    assert without_names(question, NAMES) == question


@given(question=st.text(max_size=60), names=st.lists(st.text(min_size=1, max_size=12), max_size=4))
def test_any_question_and_any_names(question: str, names: list[str]) -> None:
    assert set(named(question, names)) <= set(range(len(names)))
    about = without_names(question, names)
    assert about.strip() or not question.strip()
    assert len(about) <= max(len(question), len(" ".join(question.split())))
