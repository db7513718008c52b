"""Compaction end to end: what is sent in place of the oldest part, what stays, what fails, and that nothing is lost."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelAPIError

from loomflow import Agent, ContextError, Episode, Fact, Memory, Tuning, estimate_tokens
from loomflow.context.compaction import HEAD
from loomflow.testing import Calls, ScriptedModel
from tests.e2e.conftest import Said, Wire
from tests.e2e.contexts import (
    HERE,
    NOTE,
    WIRES,
    answering,
    conversation,
    flat,
    said_in,
    sent_tokens,
    served,
    summarising,
    summary,
    tell,
    tuned,
)
from tests.openai_server import Failure, Hang, Reply, ToolCall

SMALL: dict[str, Any] = {"context_window_tokens": 2000, "auto_compact_at_tokens": 600, "memory_max_episodes": 0}
"""Of 20 turns, half of this window, the first 16 are compacted: what is left is below half of the trigger."""

RULES = "Never promise a date. Sign with L."
PROFILE = "Block rules:\n> Use metres, never feet."
GIST = "They asked sixteen questions."
NOW: Said = ("user", "And now?")


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    yield from served(request.param, monkeypatch)


def small(wire: Wire, memory: Memory, instructions: str = RULES, *, tools: Any = (), **settings: Any) -> Agent:
    """An agent whose requests are compacted above 600 tokens."""
    return wire.agent(instructions, memory=memory, tools=tools, tuning=tuned(**{**SMALL, **settings}))


def measure(depth: int) -> str:
    """What the river is like at a depth."""
    return f"depth {depth}: " + "cold and clear " * 24


async def lines_of(memory: Memory) -> list[str]:
    """Everything that is stored of the session, as text."""
    return [repr(turn) for turn in await memory.store.turns("alice", "s")]


async def test_the_oldest_turns_are_replaced_by_one_summary(wire: Wire, memory: Memory) -> None:
    await memory.update_block("rules", "Use metres, never feet.", user_id="alice")
    await tell(memory, range(20))
    wire.server.reply(GIST, "ok")
    result = await wire.ask(small(wire, memory), "And now?", **HERE)
    asked, answered = wire.server.requests
    expected = flat([("user", summary(GIST)), *said_in(range(16, 20)), NOW])
    assert flat(answered.messages) == [*wire.head(RULES, f"{NOTE}\n{PROFILE}"), *expected]
    assert (result.output, result.context.compactions, result.injection.problems) == ("ok", 1, ())
    assert result.context.total < 300
    ((role, text),) = asked.conversation
    assert role == "user"
    assert [text.count(said) for _, said in said_in(range(16))] == [1] * 32
    assert [said for _, said in said_in(range(16, 20)) if said in text] == []
    assert (asked.body["model"], asked.body.get("tools")) == (answered.body["model"], None)


async def test_below_the_trigger_nothing_is_compacted(wire: Wire, memory: Memory) -> None:
    await tell(memory, range(11))
    result = await wire.ask(small(wire, memory), "And now?", **HERE)
    assert [conversation(request) for request in wire.server.requests] == [[*said_in(range(11)), NOW]]
    assert (result.context.total <= 600, result.context.compactions) == (True, 0)


async def test_stored_history_keeps_the_original_turns(wire: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    before = await lines_of(memory)
    wire.server.reply(GIST, "It is noon.")
    result = await wire.ask(small(wire, memory), "And now?", **HERE)
    after = await lines_of(memory)
    assert after[:20] == before
    assert [text for text in [*after, repr(result.messages)] if GIST in text or HEAD in text] == []
    large = wire.agent(memory=memory, tuning=tuned(memory_max_episodes=0))
    await wire.ask(large, "Really?", **HERE)
    told = [*said_in(range(20)), NOW, ("assistant", "It is noon."), ("user", "Really?")]
    assert conversation(wire.server.requests[-1]) == told


async def test_the_next_run_starts_from_the_stored_turns_and_sums_up_anew(wire: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    agent = small(wire, memory)
    wire.server.reply(GIST, "ok", "Another summary.", "ok")
    await wire.ask(agent, "And now?", **HERE)
    result = await wire.ask(agent, "And then?", **HERE)
    first, second = summarising(wire)
    assert GIST not in json.dumps(second.body)
    assert "Summary so far" not in second.conversation[0][1]
    assert "Question 0001" in first.conversation[0][1]
    assert conversation(answering(wire)[1])[0][1].startswith(summary("Another summary."))
    assert result.context.compactions == 1


async def test_three_compactions_leave_rules_and_blocks_word_for_word(wire: Wire, memory: Memory) -> None:
    """claude-code#19736: rules that the user had set were gone after the conversation had been compacted."""
    await memory.update_block("rules", "Use metres, never feet.", user_id="alice")
    await memory.facts.append(Fact("The river", "is", "three metres deep", user_id="alice"))
    await tell(memory, range(20))
    calls = [ToolCall("measure", {"depth": number}, f"c{number}") for number in range(1, 8)]
    wire.server.reply("first gist", *calls[:4], "second gist", *calls[4:7], "third gist", "ok")
    result = await wire.ask(small(wire, memory, tools=[measure]), "How deep is the river?", **HERE)
    assert (result.output, result.context.compactions) == ("ok", 3)
    system = wire.head(RULES, f"{NOTE}\n{PROFILE}\nKnown facts:\n- The river is three metres deep")
    for request in answering(wire):
        assert request.messages[: len(system)] == system
        assert request.faults == []
        assert json.dumps(request.body).count("How deep is the river?") == 1
        assert json.dumps(request.body).count("Summary of the conversation before this point") == 1
    last = [text for _, text in answering(wire)[-1].conversation]
    assert last[0].startswith(summary("third gist"))
    assert last[-1] == measure(7)


async def test_summaries_are_merged_and_not_piled_up(wire: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    calls = [ToolCall("measure", {"depth": number}, f"c{number}") for number in range(1, 6)]
    wire.server.reply("first gist", *calls[:3], "second gist", calls[3], "ok")
    await wire.ask(small(wire, memory, tools=[measure]), "How deep is it?", **HERE)
    first, second = (request.conversation[0][1] for request in summarising(wire))
    assert second.startswith("Summary so far: first gist\n")
    assert [text for _, text in said_in(range(16)) if text in second] == []
    assert "Question 0000" in first
    sent = json.dumps(answering(wire)[-1].body)
    assert ("second gist" in sent, "first gist" in sent) == (True, False)


async def test_calls_keep_their_results_and_the_prompt_stays_in_every_request(wire: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    agent = small(wire, memory, tools=[measure], tool_result_max_tokens=40)
    pairs = [
        [ToolCall("measure", {"depth": n}, f"c{n}"), ToolCall("measure", {"depth": -n}, f"d{n}")] for n in range(7)
    ]
    wire.server.reply("gist", *pairs[:3], "gist", *pairs[3:6], "gist", pairs[6], "ok")
    result = await wire.ask(agent, "How deep is it?", **HERE)
    assert (result.output, result.context.compactions) == ("ok", 3)
    assert [request.faults for request in wire.server.requests] == [[]] * 11
    for request in answering(wire):
        said = [text for role, text in conversation(request) if role == "user"]
        assert said[-1].endswith("How deep is it?")
        assert sent_tokens(request) <= 600
    assert [f"depth {n}: cold" in repr(result.messages) for n in range(-6, 7)] == [True] * 13


async def test_the_prompt_is_the_last_message_of_the_first_request(wire: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    await memory.facts.append(Fact("The river", "is", "three metres deep", user_id="alice"))
    wire.server.reply(GIST, "ok")
    await wire.ask(small(wire, memory, memory_placement="tail"), "How deep is the river?", **HERE)
    tail = f"{NOTE}\nKnown facts:\n- The river is three metres deep"
    told = [("user", summary(GIST)), *said_in(range(17, 20)), ("user", tail), ("user", "How deep is the river?")]
    assert conversation(answering(wire)[0]) in (flat(told), flat([told[0], *said_in([16]), *told[1:]]))


async def test_a_long_run_stays_below_the_trigger_with_fewer_summaries_than_requests(memory: Memory) -> None:
    await tell(memory, range(20))

    def answer(messages: list[Any]) -> Any:
        text = str(messages[-1].parts[-1].content)
        if text.startswith(("User:", "Summary so far:", "Call of")):
            return "The river was measured."
        depth = len(model.requests)
        return Calls((("measure", {"depth": depth}),)) if depth < 40 else "ok"

    model = ScriptedModel([answer])
    settings: dict[str, Any] = {**SMALL, "auto_compact_at_tokens": 1000}
    tuning = Tuning(**settings)
    agent = Agent(RULES, model=model, memory=memory, tools=[measure], tuning=tuning)
    result = await agent.run("How deep is it?", **HERE)
    assert result.output == "ok"
    assert 3 < result.context.compactions < result.context.requests / 4
    assert result.context.total <= 1000


# What fails

FAILURES: dict[str, Reply] = {
    "error": Failure(500, "SECRET-ERROR out of order"),
    "refusal": Failure(400, "SECRET-ERROR prompt is too long"),
    "nothing": "",
    "blanks": "  \n ",
    "longer than what it stands for": "SECRET-ERROR far too long " * 600,
    "a call": ToolCall("measure", {"depth": 1}, "c1"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_failed_summary_leaves_the_conversation_and_the_run_goes_on(
    wire: Wire, memory: Memory, failure: str
) -> None:
    """langchain#38867: when the summary failed, its error text took the place of the history."""
    await tell(memory, range(20))
    wire.server.reply(FAILURES[failure], "ok", GIST, "fine")
    agent = small(wire, memory)
    result = await wire.ask(agent, "And now?", **HERE)
    assert [len(summarising(wire)), len(answering(wire))] == [1, 1]
    assert conversation(answering(wire)[0]) == [*said_in(range(20)), NOW]
    assert (result.output, result.context.compactions, result.context.summary) == ("ok", 0, 0)
    (problem,) = result.injection.problems
    assert problem.startswith("the conversation could not be compacted: ")
    kept = [*await lines_of(memory), repr(result.messages)]
    assert [text for text in kept if "SECRET-ERROR" in text or "compacted" in text or HEAD in text] == []
    result = await wire.ask(agent, "And then?", **HERE)
    assert (result.output, result.context.compactions, result.injection.problems) == ("fine", 1, ())
    assert "SECRET-ERROR" not in json.dumps(answering(wire)[1].body)


async def test_error_of_a_summary_is_nowhere_in_the_file(chat: Wire, memory: Memory, path: Path) -> None:
    await tell(memory, range(20))
    chat.server.reply(Failure(500, "SECRET-ERROR"), "ok")
    await chat.ask(small(chat, memory), "And now?", **HERE)
    await memory.aclose()
    kept = [file.read_bytes().decode("utf-8", "replace") for file in path.parent.iterdir()]
    assert [text for text in kept if "SECRET-ERROR" in text or "compacted" in text] == []
    assert any("Question 0003" in text for text in kept)


@pytest.mark.parametrize("failure", ["error", "nothing", "longer than what it stands for"])
async def test_failed_summary_of_what_is_larger_than_the_window_is_an_error_and_loses_nothing(
    wire: Wire, memory: Memory, failure: str
) -> None:
    await tell(memory, range(60))
    before = await lines_of(memory)
    agent = small(wire, memory, history_token_budget=None)
    wire.server.reply(FAILURES[failure], GIST, "fine")
    with pytest.raises(
        ContextError, match=r"about 3,0\d\d tokens, and the model takes 2,000; it is made of history 3,000"
    ):
        await wire.ask(agent, "And now?", **HERE)
    assert [len(summarising(wire)), len(answering(wire))] == [1, 0]
    after = await lines_of(memory)
    assert (after[:60], len(after)) == (before, 61)
    assert "SECRET-ERROR" not in repr(after)
    result = await wire.ask(agent, "And now?", **HERE)
    assert (result.output, result.context.compactions) == ("fine", 1)
    assert conversation(answering(wire)[0])[-1] == NOW


async def test_failed_summary_is_tried_once_a_request(chat: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    call = ToolCall("measure", {"depth": 1}, "c1")
    chat.server.reply(Failure(500, "busy"), call, Failure(500, "busy"), "ok")
    result = await chat.ask(small(chat, memory, tools=[measure]), "And now?", **HERE)
    assert [len(summarising(chat)), len(answering(chat))] == [2, 2]
    assert (result.output, result.context.compactions) == ("ok", 0)
    assert chat.server.requests[-1].faults == []


@pytest.mark.parametrize("spare", [1400, 1700])
async def test_fixed_part_above_the_trigger_makes_one_attempt_and_then_goes_as_it_is(
    wire: Wire, memory: Memory, spare: int
) -> None:
    """kimi-code#2498: with 14,000 of 16,384 tokens taken, compaction began again and again. Here a tenth of it."""
    await tell(memory, range(4))
    settings = {"context_window_tokens": 2048, "auto_compact_at_tokens": "auto"}
    agent = small(wire, memory, "Rule! " * (spare * 4 // 6), **settings)
    compactions: list[int] = []
    for number in range(3):
        wire.server.clear()
        wire.server.reply(f"gist {number}", "ok")
        result = await wire.ask(agent, f"Question {number}", **HERE)
        assert [len(summarising(wire)), len(answering(wire))] == ([1, 1] if result.context.compactions else [0, 1])
        assert conversation(answering(wire)[0])[-1][1].endswith(f"Question {number}")
        assert result.context.total <= 2048
        compactions.append(result.context.compactions)
    assert compactions == [1, 1, 1]


async def test_fixed_part_above_the_trigger_without_a_history_asks_for_no_summary(wire: Wire, memory: Memory) -> None:
    agent = small(wire, memory, "Rule! " * 1000, auto_compact_at_tokens=500)
    result = await wire.ask(agent, "Hello!", **HERE)
    assert [len(summarising(wire)), len(answering(wire))] == [0, 1]
    assert (result.output, result.context.total > 1500) == ("ok", True)


async def test_fixed_part_above_the_window_is_an_error_that_names_it_and_nobody_is_asked(
    wire: Wire, memory: Memory
) -> None:
    await tell(memory, range(4))
    agent = small(wire, memory, "Rule! " * 1400)
    with pytest.raises(
        ContextError, match=r"the model takes 2,000; it is made of instructions 2,100, history 200, prompt 6"
    ):
        await wire.ask(agent, "And now?", **HERE)
    assert wire.server.requests == []


async def test_summary_with_a_lone_surrogate_can_be_sent(wire: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    wire.server.reply("a cut emoji: \ud83d", "ok")
    result = await wire.ask(small(wire, memory), "And now?", **HERE)
    assert (result.output, result.context.compactions) == ("ok", 1)
    assert conversation(answering(wire)[0])[0][1].startswith(summary("a cut emoji: �"))


@pytest.mark.parametrize("letter", ["word ", "語"])
async def test_what_is_summed_up_fits_the_window_in_any_script(memory: Memory, letter: str) -> None:
    for number in range(40):
        await memory.remember(Episode(f"{number} {letter * 300}", f"{letter * 300}", **HERE))
    model = ScriptedModel([GIST, "ok"])
    agent = Agent(model=model, memory=memory, tuning=Tuning(**SMALL, history_token_budget=None))
    result = await agent.run("And now?", **HERE)
    assert (result.output, result.context.compactions) == ("ok", 1)
    (asked,) = [str(getattr(part, "content", "")) for part in model.requests[0][-1].parts]
    assert 900 < estimate_tokens(asked) < 1400


async def test_turns_without_an_answer_or_text_are_summed_up_and_replayed_in_a_form_that_is_taken(
    wire: Wire, memory: Memory
) -> None:
    """claude-code#62396: an empty message in the history made every later request fail."""
    await memory.remember([Episode(f"Question {number}", "", **HERE) for number in range(10)])
    await memory.remember([Episode("", f"Answer {number}", **HERE) for number in range(10)])
    await tell(memory, range(12))
    agent = small(wire, memory, auto_compact_at_tokens=400)
    wire.server.reply(GIST, "ok", "ok")
    result = await wire.ask(agent, "And now?", **HERE)
    assert (result.output, result.context.compactions) == ("ok", 1)
    large = wire.agent(memory=memory, tuning=tuned(memory_max_episodes=0))
    assert (await wire.ask(large, "And then?", **HERE)).output == "ok"
    assert [request.faults for request in wire.server.requests] == [[], [], []]


# Interrupted while compacting


async def test_run_that_is_cancelled_while_it_is_compacted_leaves_the_session_whole(wire: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    before = await lines_of(memory)
    agent = small(wire, memory)
    wire.server.reply(Hang(60))
    run = asyncio.create_task(wire.ask(agent, "And now?", **HERE))
    await asyncio.to_thread(wire.server.wait_for_requests, 1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (await lines_of(memory))[:20] == before
    wire.server.reply(GIST, "ok")
    result = await wire.ask(agent, "And now?", **HERE)
    assert conversation(answering(wire)[0]) == flat([("user", summary(GIST)), *said_in(range(16, 20)), NOW])
    assert (result.output, len(memory.session_locks)) == ("ok", 0)


async def test_time_out_while_compacting_is_one_and_no_failure_of_the_summary(chat: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    agent = small(chat, memory)
    chat.server.reply(Hang(60))

    async def ask() -> None:
        async with asyncio.timeout(None) as limit:
            moment = asyncio.ensure_future(asyncio.to_thread(chat.server.wait_for_requests, 1))
            moment.add_done_callback(lambda _: limit.reschedule(asyncio.get_running_loop().time()))
            await chat.ask(agent, "And now?", **HERE)

    with pytest.raises(TimeoutError):
        await ask()
    assert [len(summarising(chat)), len(answering(chat))] == [1, 0]
    chat.server.reply(GIST, "ok")
    assert (await chat.ask(agent, "Are you there?", **HERE)).output == "ok"
    said = [text for role, text in conversation(chat.server.requests[-1]) if role == "user"]
    assert [text.count("And now?") for text in said if "And now?" in text] == [1]


async def test_interrupted_run_that_was_compacted_keeps_its_results_and_goes_on(wire: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    agent = small(wire, memory, tools=[measure])
    calls = [ToolCall("measure", {"depth": number}, f"c{number}") for number in range(1, 5)]
    wire.server.reply("first gist", *calls[:3], "second gist", Failure(400, "out of order"))
    with pytest.raises(ModelAPIError):
        await wire.ask(agent, "How deep is it?", **HERE)
    kept = (await lines_of(memory))[-1]
    assert [f"depth {number}: cold" in kept for number in (1, 2, 3)] == [True] * 3
    assert [text for text in ("first gist", "second gist", HEAD) if text in kept] == []
    wire.server.reply("third gist", "ok")
    result = await wire.ask(agent, "How deep is it?", **HERE)
    last = wire.server.requests[-1]
    assert (result.output, last.faults) == ("ok", [])
    said = json.dumps(last.body)
    assert (said.count("How deep is it?"), said.count("third gist"), "Question 0001" in said) == (1, 1, False)


COMPACT = """
import sys
from loomflow import Agent, Tuning

url, path = sys.argv[1:]
tuning = Tuning(distill=False, context_window_tokens=2000, auto_compact_at_tokens=600, memory_max_episodes=0)
agent = Agent("Be brief.", model="gpt-4.1-mini", base_url=url, memory=path, tuning=tuning)
agent.run_sync("And now?", user_id="alice", session_id="s")
"""


@pytest.mark.slow
async def test_kill_while_compacting_leaves_the_session_whole(chat: Wire, path: Path) -> None:
    async with Memory.open(path) as memory:
        await tell(memory, range(20))
    chat.server.reply(Hang(60))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMPACT, chat.server.base_url, str(path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    await asyncio.to_thread(chat.server.wait_for_requests, 1)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    async with Memory.open(path) as memory:
        chat.server.reply(GIST, "ok")
        result = await chat.ask(small(chat, memory), "And now?", **HERE)
        assert conversation(answering(chat)[0]) == flat([("user", summary(GIST)), *said_in(range(16, 20)), NOW])
        assert result.output == "ok"


async def test_tokens_of_a_summary_are_not_those_of_the_run(chat: Wire, memory: Memory) -> None:
    await tell(memory, range(20))
    chat.server.reply(GIST, "ok")
    result = await chat.ask(small(chat, memory), "And now?", **HERE)
    answered = answering(chat)[0]
    assert result.usage.requests == 1
    assert result.usage.input_tokens == 1 + sum(len(text) for _, text in answered.messages) // 4
