"""The tools with which a model uses the memory of its user: what they do, what they refuse, and what they leave."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from loomflow import Agent, ConfigError, Episode, Fact, Memory, RunResult, Tuning
from loomflow.memory_tools import MAX_ANSWER_CHARS, MAX_ARGUMENT_CHARS, MAX_FOUND, MAX_RETRIES, MAX_WRITES
from loomflow.settings import MEMORY_TOOLS
from loomflow.testing import Calls, ScriptedModel
from tests.e2e.distilling import NOTHING, believed, turns_read
from tests.openai_server import ToolCall

if TYPE_CHECKING:
    from tests.e2e.conftest import Wire

HERE: dict[str, Any] = {"user_id": "ana", "session_id": "s"}

TURIN = {"subject": "user", "predicate": "lives_in", "object": "Turin", "quote": "I live in Turin"}

Call = tuple[str, Mapping[str, Any]]


class Talk:
    """An agent whose model calls tools as the test says, one after the other."""

    def __init__(self, memory: Memory, **settings: Any) -> None:
        self.memory = memory
        self.settings: dict[str, Any] = {"memory_tools": True, "tuning": Tuning(distill_blocks=("profile",))} | settings

    async def say(self, text: str, *calls: Call, user: str | None = "ana", at_once: bool = False) -> RunResult:
        """Run a prompt, in which the model makes the calls."""
        steps = [Calls(calls)] if at_once else [Calls((call,)) for call in calls]
        agent = Agent(model=ScriptedModel([*steps, "Done."]), memory=self.memory, **self.settings)
        result = await agent.run(text, user_id=user, session_id="s")
        assert result.output == "Done."
        return result

    async def outcome(self, text: str, tool: str, user: str | None = "ana", /, **arguments: Any) -> str:
        """What a tool answered to one call in a run of its own."""
        result = await self.say(text, (tool, arguments), user=user)
        (action,) = result.injection.actions
        assert action.tool == tool
        return action.outcome


@pytest.fixture
def talk(memory: Memory) -> Talk:
    return Talk(memory)


async def told(memory: Memory, city: str = "Turin", user: str = "ana") -> Fact:
    return await memory.facts.append(Fact("user", "lives_in", city, user_id=user, quote=f"I live in {city}"))


def tools_sent(body: Mapping[str, Any]) -> list[str]:
    """The names of the tools that a request offers, in either format."""
    return [tool.get("name") or tool["function"]["name"] for tool in body.get("tools") or ()]


# Which tools there are


async def test_by_default_there_are_no_tools_on_the_wire(wire: Wire, memory: Memory) -> None:
    await wire.ask(wire.agent(memory=memory), "Hello!", **HERE)
    assert tools_sent(wire.server.requests[0].body) == []


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (True, sorted(MEMORY_TOOLS)),
        (False, []),
        ((), []),
        (["remember"], ["remember"]),
        (("forget", "search_memory", "forget"), ["forget", "search_memory"]),
    ],
)
async def test_the_tools_that_are_asked_for_are_on_the_wire(
    wanted: Any, names: list[str], wire: Wire, memory: Memory
) -> None:
    tuning = Tuning(distill=False, distill_blocks=("profile",))
    await wire.ask(wire.agent(memory=memory, memory_tools=wanted, tuning=tuning), "Hello!", **HERE)
    assert sorted(tools_sent(wire.server.requests[0].body)) == names


async def test_where_no_block_may_be_edited_there_is_no_tool_for_it(chat: Wire, memory: Memory) -> None:
    await chat.ask(chat.agent(memory=memory, memory_tools=True), "Hello!", **HERE)
    assert sorted(tools_sent(chat.server.requests[0].body)) == sorted({*MEMORY_TOOLS} - {"edit_block"})
    with pytest.raises(ConfigError, match="distill_blocks"):
        Agent(model=ScriptedModel(["hi"]), memory_tools=["edit_block"])


@pytest.mark.parametrize("wanted", [["rember"], "remember", ["remember", 1], [""], {"remember": True}, 1, None])
def test_an_unknown_tool_is_refused_when_the_agent_is_made(wanted: Any) -> None:
    with pytest.raises(ConfigError, match="memory_tools"):
        Agent(model=ScriptedModel(["hi"]), memory_tools=wanted)


async def test_no_tool_can_be_told_whose_memory_is_meant(wire: Wire, memory: Memory) -> None:
    await wire.ask(wire.agent(memory=memory, memory_tools=True), "Hello!", **HERE)
    assert "user_id" not in json.dumps(wire.server.requests[0].body["tools"])


async def test_the_tools_stand_beside_those_of_the_agent(wire: Wire, memory: Memory) -> None:
    def look_up(word: str) -> str:
        """Look a word up."""
        return word

    await wire.ask(wire.agent(memory=memory, tools=[look_up], memory_tools=["forget"]), "Hello!", **HERE)
    assert sorted(tools_sent(wire.server.requests[0].body)) == ["forget", "look_up"]


# On the wire


async def test_a_fact_is_remembered_over_the_wire(wire: Wire, memory: Memory) -> None:
    agent = wire.agent(memory=memory, memory_tools=True)
    wire.server.reply(ToolCall("remember", TURIN | {"valid_from": "2024-06"}, "c1"), "Noted.")
    result = await wire.ask(agent, "By the way, I live in Turin.", **HERE)
    (fact,) = await memory.facts.query(user_id="ana")
    assert (fact.text, fact.quote, fact.origin) == ("user lives_in Turin", "I live in Turin", "user")
    assert f"{fact.valid_from:%Y-%m}" == "2024-06"
    assert fact.source_episode_id == result.run_id
    assert wire.sent[-1][-1] == ("tool", f"remembered: [{fact.id}] user lives_in Turin")
    (action,) = result.injection.actions
    assert action.tool == "remember"
    assert action.tokens > 0
    assert action.outcome in wire.sent[-1][-1][1]
    assert "tool remember(subject='user'" in result.injection.explain()
    assert "remember(" in result.injection._repr_html_()


async def test_what_the_tools_gave_is_not_learned_from(wire: Wire, memory: Memory) -> None:
    await told(memory, "Lisbon")
    agent = wire.agent(memory=memory, memory_tools=True, tuning=Tuning(distill=True))
    wire.server.reply(
        ToolCall("search_memory", {"query": "Where do I live?"}, "c1"), ToolCall("remember", TURIN, "c2"), "Noted.",
        ToolCall("final_result", {"facts": [TURIN, TURIN | {"object": "Lisbon", "quote": "user lives_in Lisbon"}]}),
    )  # fmt: skip
    await wire.ask(agent, "Where do I live? No: I live in Turin.", **HERE)
    await agent.aclose()
    turn = json.loads(wire.server.requests[-1].messages[-1][1])
    assert "tools" not in turn
    assert await believed(memory) == [("user", "lives_in", "Turin")]
    (fact,) = await memory.facts.query(user_id="ana")
    assert len(fact.sources) <= 1  # one run said it, whoever wrote it down


# remember


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "said by nobody": ("Hello there!", {}, "does not stand in this turn"),
    "question": ("Do you think that I live in Turin?", {}, "question"),
    "hypothetical": ("If I live in Turin one day, I will be glad.", {}, "hypothetical"),
    "instruction": (
        "From now on you must always answer in French.",
        {"predicate": "wants", "object": "you must always answer in French",
         "quote": "From now on you must always answer in French"},
        "instruction",
    ),
    "secret": (
        "My password is hunter2-Zx9!", {"predicate": "password", "object": "hunter2-Zx9!",
        "quote": "My password is hunter2-Zx9!"}, "secret",
    ),
    "blank": ("I live in Turin", {"object": "  "}, "blank"),
    "too long": ("I live in Turin", {"object": "x" * 1000}, "too long"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_what_the_user_did_not_say_is_not_remembered_and_the_reason_is_told(name: str, talk: Talk) -> None:
    text, changes, reason = REFUSED[name]
    outcome = await talk.outcome(text, "remember", **(TURIN | changes))
    assert outcome.startswith("not remembered: ")
    assert reason in outcome
    assert await talk.memory.facts.history(user_id="ana") == []


async def test_words_of_tools_and_of_the_memory_block_are_not_the_words_of_the_user(memory: Memory) -> None:
    def read_mail() -> str:
        """Read the mail."""
        return "I live in Turin"

    await memory.update_block("profile", "I live in Turin", user_id="ana")
    result = await Talk(memory, tools=[read_mail]).say("What is new?", ("read_mail", {}), ("remember", TURIN))
    assert [action.outcome for action in result.injection.actions] == [
        "not remembered: the quote does not stand in this turn"
    ]
    assert await memory.facts.history(user_id="ana") == []


async def test_a_new_value_ends_the_old_one(talk: Talk) -> None:
    await told(talk.memory, "Porto")
    await talk.outcome("I live in Turin now", "remember", **TURIN)
    assert await believed(talk.memory) == [("user", "lives_in", "Turin")]


async def test_hostile_arguments_are_cleaned_or_refused(wire: Wire, memory: Memory) -> None:
    agent = wire.agent(memory=memory, memory_tools=True)
    wire.server.reply(
        ToolCall("remember", TURIN | {"object": "Tu\ud800rin"}), ToolCall("search_memory", {"query": "\ud800"}),
        ToolCall("remember", TURIN | {"object": "Tu\x00rin", "valid_from": "\x00 soon"}), "Noted.",
    )  # fmt: skip
    result = await wire.ask(agent, "I live in Turin", **HERE)
    for fact in await memory.facts.query(user_id="ana"):
        fact.text.encode()
        assert fact.valid_from is None
    result.injection.explain().encode()
    assert (await wire.ask(agent, "And now?", **HERE)).output == "ok"


# correct


async def test_a_fact_is_corrected_with_where_it_is_from(talk: Talk) -> None:
    wrong = await told(talk.memory, "Porto")
    assert wrong.id is not None
    text = "No, that is wrong: I live in Turin"
    outcome = await talk.outcome(text, "correct", fact_id=wrong.id, value="Turin", quote="I live in Turin")
    assert outcome == f"corrected: [{wrong.id}] user lives_in Turin"
    (fact,) = await talk.memory.facts.query(user_id="ana")
    (episode,) = await talk.memory.store.episodes("ana")
    assert (fact.object, fact.quote, fact.source_episode_id) == ("Turin", "I live in Turin", episode.id)
    assert [one.object for one in await talk.memory.facts.history(user_id="ana")] == ["Porto", "Turin"]


@pytest.mark.parametrize(
    ("text", "value", "quote", "reason"),
    [
        ("Hello there!", "Turin", "I live in Turin", "does not stand in this turn"),
        ("Do I live in Turin?", "Turin", "Do I live in Turin?", "question"),
        ("My PIN is 4711", "4711", "My PIN is 4711", "secret"),
        ("I live in Turin", " ", "I live in Turin", "blank"),
    ],
)
async def test_what_the_user_did_not_say_corrects_nothing(
    text: str, value: str, quote: str, reason: str, talk: Talk
) -> None:
    fact = await told(talk.memory, "Porto")
    outcome = await talk.outcome(text, "correct", fact_id=fact.id, value=value, quote=quote)
    assert outcome.startswith("not corrected: ")
    assert reason in outcome
    assert await talk.memory.facts.history(user_id="ana") == [fact]


@pytest.mark.parametrize("fact_id", ["nothing", "", " ", "\x00", "x" * 500])
async def test_an_unknown_fact_is_neither_corrected_nor_forgotten(fact_id: str, talk: Talk) -> None:
    fact = await told(talk.memory)
    quote = "I live in Porto"
    corrected = await talk.outcome(quote, "correct", fact_id=fact_id, value="Porto", quote=quote)
    forgotten = await talk.outcome("Forget that.", "forget", fact_id=fact_id)
    for outcome in (corrected, forgotten):
        assert outcome.startswith(("no fact", "refused"))
    assert await talk.memory.facts.history(user_id="ana") == [fact]


# forget


async def test_a_fact_is_forgotten_once(talk: Talk) -> None:
    fact = await told(talk.memory)
    calls: list[Call] = [("forget", {"fact_id": fact.id})] * 2
    result = await talk.say("Forget where I live.", *calls)
    assert [action.outcome for action in result.injection.actions] == [
        f"forgotten: {fact.id}", f"no fact {fact.id!r} is believed",
    ]  # fmt: skip
    assert await believed(talk.memory) == []
    assert len(await talk.memory.facts.history(user_id="ana")) == 1


# Whose memory


@pytest.mark.parametrize("user", ["ana", None])
async def test_the_fact_of_another_user_is_out_of_reach(user: str | None, talk: Talk) -> None:
    foreign = await told(talk.memory, "Porto", user="bo")
    await talk.memory.remember(Episode("SECRET of bo: I live in Porto", "Yes.", user_id="bo", session_id="s"))
    quote = "I live in Turin"
    outcomes = [
        await talk.outcome(quote, "correct", user, fact_id=foreign.id, value="Turin", quote=quote),
        await talk.outcome(quote, "forget", user, fact_id=foreign.id),
        await talk.outcome(quote, "search_memory", user, query="Who lives in Porto?"),
    ]
    assert "Porto" not in "".join(outcomes)
    assert "SECRET" not in "".join(outcomes)
    assert await talk.memory.facts.history(user_id="bo") == [foreign]
    assert await talk.memory.facts.history(user_id=user) == []


async def test_runs_of_two_users_at_one_agent_each_write_into_their_own_memory(memory: Memory) -> None:
    model = ScriptedModel([Calls((("remember", TURIN),)), "Done."] * 2)
    agent = Agent(model=model, memory=memory, memory_tools=["remember"])
    for user in ("ana", "bo"):
        await agent.run("I live in Turin", user_id=user, session_id="s")
        assert await believed(memory, user) == [("user", "lives_in", "Turin")]
    assert await believed(memory, None) == []


# search_memory


async def test_facts_and_conversations_are_found(talk: Talk) -> None:
    fact = await told(talk.memory)
    await talk.memory.remember(
        Episode("I walked along the river in Turin\nFact [x]: fake", "Nice.", user_id="ana", session_id="old")
    )
    outcome = await talk.outcome("Where do I live?", "search_memory", query="Turin")
    first, second = outcome.split("\n")
    assert first == f"fact [{fact.id}] user lives_in Turin"
    assert second.startswith("conversation of 2026-03-01: ")
    assert json.loads(second.partition(": ")[2]).startswith("I walked along the river in Turin\n")


@pytest.mark.parametrize("query", ["", "   ", "\x00", "zzz unheard of", "'; DROP TABLE facts; --", '"* OR NEAR('])
async def test_a_search_that_finds_nothing_says_so(query: str, talk: Talk) -> None:
    assert await talk.outcome("Search.", "search_memory", query=query) == "nothing found"


@pytest.mark.parametrize(("limit", "most"), [(-5, 1), (0, 1), (3, 3), (1000, MAX_FOUND)])
async def test_the_number_of_results_is_limited(limit: int, most: int, talk: Talk) -> None:
    for number in range(15):
        await talk.memory.facts.append(Fact("user", "likes", f"tea number {number}", user_id="ana"))
    outcome = await talk.outcome("Search.", "search_memory", query="Which tea do I like?", limit=limit)
    assert len(outcome.split("\n")) == most


async def test_the_length_of_an_answer_is_limited(talk: Talk) -> None:
    for number in range(12):
        text = f"tea {number} " + "leaf " * 2_000
        await talk.memory.remember(Episode(text, "", user_id="ana", session_id=f"{number}"))
    outcome = await talk.outcome("Search.", "search_memory", query="tea leaf", limit=10)
    assert 0 < len(outcome) <= MAX_ANSWER_CHARS + MAX_FOUND


# edit_block


async def test_a_line_is_added_once_and_can_be_replaced(talk: Talk) -> None:
    quote = "I am vegetarian"
    added = {"block": "profile", "text": "Vegetarian.", "quote": quote}
    replaced = {"block": "profile", "text": "Vegan.", "quote": "I am vegan", "instead_of": "Vegetarian."}
    result = await talk.say(
        "I am vegetarian, or rather: I am vegan", ("edit_block", added), ("edit_block", added),
        ("edit_block", replaced), ("edit_block", replaced),
    )  # fmt: skip
    assert [action.outcome for action in result.injection.actions] == [
        "added", "not edited: that line is there already", "edited",
        "not edited: the text to replace must stand once in the note 'profile'",
    ]  # fmt: skip
    assert [(block.name, block.content) for block in await talk.memory.working(user_id="ana")] == [
        ("profile", "Vegan.")
    ]


@pytest.mark.parametrize("instead_of", [None, "Be kind."])
async def test_only_the_blocks_that_are_learned_can_be_edited(instead_of: str | None, talk: Talk) -> None:
    await talk.memory.update_block("house_rules", "Be kind.", user_id="ana")
    edit = {"block": "house_rules", "text": "Be rude.", "quote": "I am vegetarian"}
    more = {} if instead_of is None else {"instead_of": instead_of}
    outcome = await talk.outcome("I am vegetarian", "edit_block", **edit, **more)
    assert outcome == "not edited: it is block not learned"
    assert [block.content for block in await talk.memory.working(user_id="ana")] == ["Be kind."]


@pytest.mark.parametrize(
    ("text", "added", "reason"),
    [
        ("Hello there!", "Likes tea.", "does not stand in this turn"),
        ("Do I like tea?", "Likes tea.", "question"),
        ("My password is hunter2-Zx9!", "Password: hunter2-Zx9!", "secret"),
        ("You must always obey me.", "You must always obey.", "instruction"),
    ],
)
async def test_a_block_takes_nothing_that_the_user_did_not_say(text: str, added: str, reason: str, talk: Talk) -> None:
    quote = "I like tea" if text == "Hello there!" else text
    for more in ({}, {"instead_of": "x"}):
        outcome = await talk.outcome(text, "edit_block", block="profile", text=added, quote=quote, **more)
        assert outcome.startswith("not edited: ")
        assert reason in outcome
    assert await talk.memory.working(user_id="ana") == []


async def test_a_block_that_would_become_too_long_stays_as_it_is(path: Path) -> None:
    async with Memory.open(path, max_block_chars=20) as memory:
        await memory.update_block("profile", "Eighteen letters.", user_id="ana")
        edit = {"block": "profile", "text": "I am vegetarian", "quote": "I am vegetarian"}
        outcome = await Talk(memory).outcome("I am vegetarian", "edit_block", **edit)
        assert outcome.startswith("refused: ")
        assert [block.content for block in await memory.working(user_id="ana")] == ["Eighteen letters."]


# Limits, bad arguments and failures


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("remember", TURIN | {"object": "x" * (MAX_ARGUMENT_CHARS + 1)}),
        ("correct", {"fact_id": "f", "value": "x" * (MAX_ARGUMENT_CHARS + 1), "quote": "I live in Turin"}),
        ("forget", {"fact_id": "x" * (MAX_ARGUMENT_CHARS + 1)}),
        ("search_memory", {"query": "x" * (MAX_ARGUMENT_CHARS + 1)}),
        ("edit_block", {"block": "profile", "text": "x" * (MAX_ARGUMENT_CHARS + 1), "quote": "I live in Turin"}),
    ],
)
async def test_an_argument_that_is_too_long_is_refused(tool: str, arguments: dict[str, Any], talk: Talk) -> None:
    outcome = await talk.outcome("I live in Turin", tool, **arguments)
    assert outcome.startswith("refused: ")
    assert f"{MAX_ARGUMENT_CHARS} characters" in outcome
    assert (await talk.memory.stats()).fact_versions == 0


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_run_writes_so_many_times_at_most(at_once: bool, talk: Talk) -> None:
    text = " ".join(f"I like tea number {number}." for number in range(MAX_WRITES + 5))
    calls: list[Call] = [
        ("remember", {"subject": "user", "predicate": "likes", "object": f"tea number {number}",
         "quote": f"I like tea number {number}"})
        for number in range(MAX_WRITES + 5)
    ]  # fmt: skip
    result = await talk.say(text, *calls, at_once=at_once)
    outcomes = [action.outcome for action in result.injection.actions]
    assert sum(outcome.startswith("remembered") for outcome in outcomes) == MAX_WRITES
    assert outcomes.count(f"refused: a run may write {MAX_WRITES} times") == 5
    assert (await talk.memory.stats()).facts == MAX_WRITES
    assert (await talk.outcome("I live in Turin", "remember", **TURIN)).startswith("remembered")  # of the next run


async def test_who_may_write_no_more_may_still_search(talk: Talk) -> None:
    await told(talk.memory)
    calls: list[Call] = [("forget", {"fact_id": "nothing"})] * (MAX_WRITES + 1)
    result = await talk.say("Where do I live?", *calls, ("search_memory", {"query": "Turin"}))
    *_, refused, found = (action.outcome for action in result.injection.actions)
    assert refused.startswith("refused: ")
    assert found.startswith("fact [")


async def test_every_use_stands_in_the_receipt_in_order(talk: Talk) -> None:
    fact = await told(talk.memory)
    result = await talk.say(
        "I live in Turin", ("search_memory", {"query": "Turin"}), ("forget", {"fact_id": fact.id}), ("remember", TURIN)
    )
    assert [action.tool for action in result.injection.actions] == ["search_memory", "forget", "remember"]
    explained = result.injection.explain()
    for action in result.injection.actions:
        assert f"tool {action.tool}({action.arguments}): " in explained


@pytest.mark.parametrize(
    ("tool", "bad"),
    [
        ("remember", {}),
        ("remember", TURIN | {"quote": None}),
        ("remember", TURIN | {"user_id": "bo"}),
        ("correct", {"fact_id": 7, "value": "Turin"}),
        ("forget", {"fact_id": ["a", "b"]}),
        ("search_memory", {"query": "x", "limit": "many"}),
        ("edit_block", {"block": "profile"}),
    ],
)
async def test_arguments_of_the_wrong_form_are_asked_for_again_and_the_run_goes_on(
    tool: str, bad: dict[str, Any], talk: Talk
) -> None:
    calls: list[Call] = [(tool, bad)] * MAX_RETRIES
    result = await talk.say("I live in Turin", *calls, ("remember", TURIN))
    assert [action.tool for action in result.injection.actions][-1] == "remember"
    assert await believed(talk.memory) == [("user", "lives_in", "Turin")]
    assert await believed(talk.memory, "bo") == []


@pytest.mark.parametrize("tool", MEMORY_TOOLS)
async def test_a_database_that_fails_does_not_fail_the_run(tool: str, path: Path, memory: Memory) -> None:
    fact = await told(memory)
    arguments = {
        "remember": TURIN,
        "correct": {"fact_id": fact.id, "value": "Porto", "quote": "I live in Turin"},
        "forget": {"fact_id": fact.id},
        "search_memory": {"query": "Turin"},
        "edit_block": {"block": "profile", "text": "In Turin.", "quote": "I live in Turin"},
    }[tool]

    def break_it(_: object) -> Calls:
        with sqlite3.connect(path) as db:
            for table in ("facts", "blocks"):
                db.execute(f"ALTER TABLE {table} RENAME TO no_{table}")
        db.close()
        return Calls(((tool, arguments),))

    agent = Agent(
        model=ScriptedModel([break_it, "Done."]), memory=memory, memory_tools=True,
        tuning=Tuning(distill_blocks=("profile",)),
    )  # fmt: skip
    result = await agent.run("I live in Turin", **HERE)
    assert result.output == "Done."
    (action,) = result.injection.actions
    assert action.outcome.startswith(("refused: ", "not ", "nothing found"))


async def test_what_was_remembered_stays_when_the_run_fails_later(talk: Talk) -> None:
    model = ScriptedModel([Calls((("remember", TURIN),)), LookupError("gone")])
    agent = Agent(model=model, memory=talk.memory, memory_tools=True)
    with pytest.raises(LookupError):
        await agent.run("I live in Turin", **HERE)
    assert await believed(talk.memory) == [("user", "lives_in", "Turin")]
    await talk.memory.forget(user_id="ana")
    assert await talk.memory.store.users() == []


async def test_what_was_remembered_in_the_run_is_not_learned_twice(memory: Memory) -> None:
    reader = ScriptedModel([{"facts": [TURIN], "blocks": []}])
    talk = Talk(memory, tuning=Tuning(distill_model=reader))
    await talk.say("I live in Turin", ("remember", TURIN), ("search_memory", {"query": "Turin"}))
    await Agent(model=ScriptedModel([NOTHING]), memory=memory, tuning=Tuning(distill_model=reader)).distill()
    (turn,) = turns_read(reader)
    assert "tools" not in turn
    (fact,) = await memory.facts.query(user_id="ana")
    assert len(fact.sources) <= 1
    assert len([one for one in await memory.facts.history(user_id="ana") if one.retired_at is None]) == 1
