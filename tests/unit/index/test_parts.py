"""The parts of an item: what is indexed and embedded one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from loomflow import Episode, Fact
from loomflow.index.parts import AGENT, USER, Part, parts_of_episode, parts_of_fact, texts_of
from loomflow.passages import passages
from tests.property.strategies import episodes, texts


@pytest.mark.parametrize(
    ("said", "answered", "parts"),
    [
        ("hi", "hello", [(Part(USER, 0, 2), "hi", "Ana"), (Part(AGENT, 0, 5), "hello", "Bot")]),
        (" hi\n", "", [(Part(USER, 1, 3), "hi", "Ana")]),
        (" ", "\thello", [(Part(AGENT, 1, 6), "hello", "Bot")]),
    ],
)
def test_both_sides_of_an_episode_have_parts_unless_they_are_blank(said: str, answered: str, parts: Any) -> None:
    assert parts_of_episode(Episode(said, answered, session_id="s", user_name="Ana", agent_name="Bot")) == parts


def test_a_fact_is_one_part_however_long_it_is() -> None:
    fact = Fact("Ana", "wrote", "a long sentence. " * 200)
    assert parts_of_fact(fact) == [(Part(USER, 0, len(fact.text)), fact.text, "Ana")]
    assert texts_of(fact) == [fact.text]


@given(episode=episodes(texts(hostile=True)))
def test_the_parts_of_an_episode_are_the_passages_of_its_sides(episode: Episode) -> None:
    parts = parts_of_episode(episode)
    assert [(part.start, part.end) for part, _, _ in parts if part.side == USER] == passages(episode.input)
    assert [(part.start, part.end) for part, _, _ in parts if part.side == AGENT] == passages(episode.output)
    assert [part.side for part, _, _ in parts] == sorted(part.side for part, _, _ in parts)
    for part, text, name in parts:
        side, whose = (episode.output, episode.agent_name) if part.side == AGENT else (episode.input, episode.user_name)
        assert (text, name) == (side[part.start : part.end], whose)
    assert texts_of(episode) == [text for _, text, _ in parts]
    assert texts_of(episode)
    assert all(text.strip() for text in texts_of(episode))
