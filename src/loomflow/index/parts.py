"""The parts of an item that are indexed and embedded one by one: passages of what each side said, or a whole fact."""

from __future__ import annotations

from dataclasses import dataclass

from loomflow.items import Episode, Fact
from loomflow.passages import passages

USER, AGENT = 0, 1


@dataclass(frozen=True, slots=True)
class Part:
    """A passage of an item: which side said it (`USER` or `AGENT`), and where it stands in that side's text."""

    side: int
    start: int
    end: int


def parts_of_episode(episode: Episode) -> list[tuple[Part, str, str | None]]:
    """The passages of an episode, with their text and who said it, in order."""
    sides = ((USER, episode.input, episode.user_name), (AGENT, episode.output, episode.agent_name))
    return [
        (Part(side, start, end), text[start:end], name) for side, text, name in sides for start, end in passages(text)
    ]


def parts_of_fact(fact: Fact) -> list[tuple[Part, str, str | None]]:
    """A fact is one passage, named after its subject."""
    return [(Part(USER, 0, len(fact.text)), fact.text, fact.subject)]


def texts_of(item: Episode | Fact) -> list[str]:
    """The texts of an item's passages: what is embedded, one vector each."""
    parts = parts_of_episode(item) if isinstance(item, Episode) else parts_of_fact(item)
    return [text for _, text, _ in parts]
