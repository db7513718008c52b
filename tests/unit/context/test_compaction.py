"""Compaction: what is put into the summary, what stays, and what happens when summarising fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from loomflow.context.compaction import HEAD, Compaction, conversation_text, plan, prompt_place
from loomflow.context.counting import messages_tokens
from loomflow.tokens import estimate_tokens
from tests.exchanges import assert_paired

RUN = "run"


def user(text: str, run_id: str = "earlier") -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)], run_id=run_id)


def agent(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def call(id_: str, size: int = 40) -> list[ModelMessage]:
    """A call and its result."""
    return [
        ModelResponse(parts=[ToolCallPart("look", {"q": id_}, tool_call_id=id_)]),
        ModelRequest(parts=[ToolReturnPart("look", "x" * size, tool_call_id=id_)]),
    ]


def turn(number: int, size: int = 400) -> list[ModelMessage]:
    return [user(f"question {number} " + "q" * size), agent(f"answer {number} " + "a" * size)]


def summariser(answers: list[object], seen: list[tuple[str, str]]) -> Any:
    async def summarise(instructions: str, text: str) -> object:
        seen.append((instructions, text))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return summarise


async def compact(done: Compaction, messages: Sequence[ModelMessage], limit: int, *answers: object) -> list[Any]:
    seen: list[tuple[str, str]] = []
    place = prompt_place(messages, RUN)
    await done.compact(messages, place, 0, limit, estimate_tokens, summariser(list(answers), seen))
    return seen


def test_the_prompt_is_that_of_the_run() -> None:
    messages = [*turn(1), user("now", RUN), *call("c1")]
    assert prompt_place(messages, RUN) == 2
    assert prompt_place(turn(1), RUN) == 0


def test_no_more_turns_than_needed_are_taken_the_oldest_first() -> None:
    messages = [*turn(1), *turn(2), *turn(3), user("now", RUN)]
    whole = messages_tokens(messages, estimate_tokens)
    one = messages_tokens(turn(1), estimate_tokens)
    assert plan(messages, 6, (0, 0), whole - 1, estimate_tokens) == (2, 0)
    assert plan(messages, 6, (0, 0), whole - one - 1, estimate_tokens) == (4, 0)
    assert plan(messages, 6, (2, 0), whole - one, estimate_tokens) == (4, 0)
    assert plan(messages, 6, (0, 0), 0, estimate_tokens) == (6, 0)


def test_exchanges_of_the_run_itself_are_taken_too_but_never_the_last() -> None:
    messages = [*turn(1), user("now", RUN), *call("c1"), *call("c2"), *call("c3")]
    assert plan(messages, 2, (0, 0), 0, estimate_tokens) == (2, 4)
    assert plan([user("now", RUN), *call("c1")], 0, (0, 0), 0, estimate_tokens) == (0, 0)


def test_nothing_is_taken_where_there_is_only_the_prompt() -> None:
    assert plan([user("now", RUN)], 0, (0, 0), 0, estimate_tokens) == (0, 0)


async def test_the_summary_stands_before_what_is_kept() -> None:
    messages = [*turn(1), *turn(2), user("now", RUN), *call("c1")]
    done = Compaction()
    ((instructions, text),) = await compact(done, messages, 500, "They spoke about two things.")
    assert "words" in instructions
    assert text.startswith("User: question 1")
    assert "answer 2" in text
    applied = done.applied(messages, 4)
    assert conversation_text(applied[:1], "").removeprefix("User: ") == f"{HEAD}They spoke about two things."
    assert applied[1:] == messages[4:]
    assert done.count == 1


async def test_summaries_are_merged_and_not_piled_up() -> None:
    messages: list[ModelMessage] = [*turn(1), *turn(2), user("now", RUN)]
    done = Compaction()
    await compact(done, messages, 400, "first")
    messages += [*call("c1", 1200), *call("c2", 1200), *call("c3", 1200)]
    ((_, text),) = await compact(done, messages, 400, "second")
    assert text.startswith("Summary so far: first\nCall of look")
    assert "question 1" not in text
    applied = done.applied(messages, 4)
    assert [done.summary, done.count] == ["second", 2]
    assert conversation_text(applied[:1], "") == f"User: {HEAD}second"
    assert applied[1:] == [messages[4], *call_messages(messages, "c3")]
    assert_paired(applied)


def call_messages(messages: Sequence[ModelMessage], id_: str) -> list[ModelMessage]:
    return [
        message for message in messages if any(getattr(part, "tool_call_id", None) == id_ for part in message.parts)
    ]


@pytest.mark.parametrize(
    "answer", [RuntimeError("rate limit"), "", "   ", None, 5, "longer " * 1000], ids=lambda answer: repr(answer)[:20]
)
async def test_a_summary_that_fails_leaves_everything_as_it_was(answer: object) -> None:
    messages = [*turn(1), *turn(2), user("now", RUN)]
    done = Compaction()
    seen = await compact(done, messages, 400, answer)
    assert len(seen) == 1, "one attempt"
    assert done.applied(messages, 4) == messages
    assert (done.count, len(done.problems)) == (0, 1)
    assert await compact(done, messages, 400, "next time") != []
    assert done.count == 1


async def test_where_nothing_can_be_taken_nobody_is_asked() -> None:
    done = Compaction()
    assert await compact(done, [user("now " * 1000, RUN)], 100) == []
    assert done.problems == []


@given(
    sizes=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 3)), max_size=6),
    calls=st.integers(0, 4), limit=st.integers(50, 2000), with_results=st.booleans(),
)  # fmt: skip
def test_whatever_is_taken_calls_keep_their_results_and_the_prompt_stays(
    sizes: list[tuple[int, int]], calls: int, limit: int, with_results: bool
) -> None:
    messages: list[ModelMessage] = []
    for number, (size, tools) in enumerate(sizes):
        messages.append(user("q" * size))
        for tool in range(tools):
            messages += call(f"h{number}-{tool}", size)
        messages.append(agent("a" * size))
    if with_results:  # a prompt that closes the calls of an interrupted run
        messages.append(ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id="open")]))
        closing = ToolReturnPart("look", "interrupted", tool_call_id="open")
        messages.append(ModelRequest(parts=[closing, UserPromptPart("now")], run_id=RUN))
    else:
        messages.append(user("now", RUN))
    prompt = len(messages) - 1
    for number in range(calls):
        messages += call(f"r{number}", 200)
    history, transcript = plan(messages, prompt, (0, 0), limit, estimate_tokens)
    done = Compaction(summary="s", history=history, transcript=transcript)
    applied = done.applied(messages, prompt)
    assert_paired(applied)
    assert messages[prompt] in applied
    assert applied[-1] == messages[-1]
    if calls:
        assert applied[-2:] == messages[-2:]
