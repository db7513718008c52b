"""Messages as they may go on the wire: prompts that are joined, and files that a client cannot send."""

from __future__ import annotations

from typing import Any

from pydantic_ai import BinaryContent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

from loomflow.context.compaction import HEAD
from loomflow.context.wire import with_prompts_joined

TAIL = "User memory: data"
HEADS = (HEAD, TAIL)


def prompts(*contents: Any) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(content) for content in contents])


def contents(messages: list[ModelMessage]) -> list[list[Any]]:
    return [[getattr(part, "content", None) for part in message.parts] for message in messages]


def test_texts_of_ours_join_the_prompt_after_them() -> None:
    messages = [prompts(f"{HEAD}a"), prompts("b"), ModelResponse(parts=[TextPart("c")]), prompts(f"{TAIL} d", "e")]
    assert contents(with_prompts_joined(messages, HEADS)) == [[f"{HEAD}a\nb"], ["c"], [f"{TAIL} d\ne"]]


def test_summary_and_memory_join_one_prompt() -> None:
    assert contents(with_prompts_joined([prompts(f"{HEAD}a"), prompts(f"{TAIL} b", "c")], HEADS)) == [
        [f"{HEAD}a\n{TAIL} b\nc"]
    ]


def test_a_prompt_with_a_picture_keeps_it() -> None:
    picture = BinaryContent(b"x", media_type="image/png")
    messages = [prompts(f"{TAIL} a", ["look", picture])]
    assert contents(with_prompts_joined(messages, HEADS)) == [[[f"{TAIL} a", "look", picture]]]


def test_nothing_is_lost_where_no_prompt_follows() -> None:
    messages: list[ModelMessage] = [prompts(f"{HEAD}a"), ModelResponse(parts=[TextPart("c")]), prompts(f"{HEAD}mine")]
    assert contents(with_prompts_joined(messages, HEADS)) == [[f"{HEAD}a"], ["c"], [f"{HEAD}mine"]]


def test_other_prompts_in_a_row_are_left_as_they_are() -> None:
    messages: list[ModelMessage] = [prompts("a"), prompts("b", "c")]
    assert with_prompts_joined(messages, HEADS) == messages
