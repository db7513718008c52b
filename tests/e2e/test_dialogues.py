"""The dialogues of `tests/dialogues`: what is believed, remembered as past, refused and shown after each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from loomflow import Agent, Fact, Memory, Tuning
from loomflow.distill.guards import admitted
from loomflow.distill.statements import BlockAddition, Reading, Said, Statement
from loomflow.stores.sqlite import SQLiteStore
from loomflow.testing import Calls, ManualClock, ScriptedModel

FOLDER = Path(__file__).parents[1] / "dialogues"
DIALOGUES: list[dict[str, Any]] = [
    dialogue | {"file": path.stem}
    for path in sorted(FOLDER.glob("*.json"))
    for dialogue in json.loads(path.read_text(encoding="utf-8"))
]

Triple = tuple[str, str, str]


def runs_of(dialogue: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [run for run in dialogue["runs"] for _ in range(run.get("repeat", 1))]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def triple(fact: Fact) -> Triple:
    return fact.subject, fact.predicate, fact.object


def day(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%d}"


class Played:
    """A dialogue that took place: an agent with tools, a clock, and a model that reads each run as the fixture says."""

    def __init__(self, dialogue: Mapping[str, Any], memory: Memory, clock: ManualClock) -> None:
        self.memory = memory
        self.clock = clock
        self.runs = runs_of(dialogue)
        self.reader = ScriptedModel([run["reading"] for run in self.runs] or [{}])
        answers: list[Any] = []
        for run in self.runs:
            names: list[str] = [tool["name"] for tool in run.get("tools", ())]
            calls = tuple((name, dict[str, Any]()) for name in names)
            answers += [Calls(calls), run["agent"]] if calls else [run["agent"]]
        results = [tool for run in self.runs for tool in run.get("tools", ())]
        tuning = Tuning(
            distill=True, distill_model=self.reader, distill_blocks=tuple(dialogue.get("learn_blocks", ())),
            memory_max_episodes=0,
        )  # fmt: skip
        self.agent = Agent(
            "Be kind.", model=ScriptedModel(answers), memory=memory, tuning=tuning, tools=_tools(results)
        )

    async def play(self) -> None:
        for run in self.runs:
            self.clock.moment = moment(run["at"])
            await self.agent.run(run["user"], user_id="ana", session_id=run["session"])
            await self.agent.aclose()
            await self.agent.distill()


def _tools(results: list[dict[str, str]]) -> list[Any]:
    """A function for each tool that is named, which returns what the dialogue says, in order."""
    by_name: dict[str, list[str]] = {}
    for result in results:
        by_name.setdefault(result["name"], []).append(result["result"])

    def tool(name: str) -> Any:
        def returning() -> str:
            return by_name[name].pop(0)

        returning.__name__ = name
        return returning

    return [tool(name) for name in by_name]


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda dialogue: f"{dialogue['file']}: {dialogue['name']}")
async def test_a_dialogue_leaves_what_it_should(dialogue: dict[str, Any]) -> None:
    clock = ManualClock(moment(dialogue["runs"][0]["at"]))
    async with Memory(SQLiteStore(None, clock=clock)) as memory:
        played = Played(dialogue, memory, clock)
        await played.play()
        asked = dialogue["asked"]
        clock.moment = moment(asked["at"])

        facts = await memory.facts.query(user_id="ana")
        wanted: list[list[str]] = dialogue["facts"]
        assert sorted(map(list, map(triple, facts))) == sorted(wanted)
        history = await memory.facts.history(user_id="ana")
        believed = [fact for fact in history if fact.retired_at is None]
        if "ended" in dialogue:
            ended = [
                [*triple(fact), day(fact.valid_from), day(fact.valid_until)]
                for fact in believed
                if fact.valid_until is not None
                and fact.valid_until <= clock.moment
                and fact.valid_from != fact.valid_until
            ]
            assert sorted(ended, key=str) == sorted(dialogue["ended"], key=str)
        for never in dialogue.get("never", ()):
            assert tuple(never) not in set(map(triple, history))
        blocks = {block.name: block.content for block in await memory.working(user_id="ana")}
        if "blocks" in dialogue:
            assert blocks == dialogue["blocks"]

        block = (await played.agent.preview(asked["question"], user_id="ana")).text
        for text in asked["has"]:
            assert text in block
        for text in asked["lacks"]:
            assert text not in block
        stats = await memory.stats()
        assert (stats.undistilled, stats.parked) == (0, 0)


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda dialogue: f"{dialogue['file']}: {dialogue['name']}")
def test_the_guards_refuse_what_they_should(dialogue: dict[str, Any]) -> None:
    refused: set[tuple[str, str]] = set()
    for run in dialogue["runs"]:
        said = Said(run["user"], run["agent"], tuple(tool["result"] for tool in run.get("tools", ())))
        reading = Reading(
            facts=tuple(Statement(**fact) for fact in run["reading"]["facts"]),
            blocks=tuple(BlockAddition(**line) for line in run["reading"]["blocks"]),
        )
        admission = admitted(reading, said, blocks=dialogue.get("learn_blocks", ()))
        for one in admission.refused:
            refused.add((one.item.object if isinstance(one.item, Statement) else one.item.text, one.reason))
    assert refused == {(text, reason) for text, reason in dialogue["refused"]}


def test_there_are_enough_dialogues_in_many_languages() -> None:
    assert len(DIALOGUES) >= 40
    assert len({dialogue["language"] for dialogue in DIALOGUES}) >= 10
    assert len({dialogue["name"] for dialogue in DIALOGUES}) == len(DIALOGUES)
