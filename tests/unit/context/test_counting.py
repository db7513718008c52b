"""What the parts of a request cost: texts by the counter, files at a flat rate, results as they are shortened."""

from __future__ import annotations

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from loomflow.context.counting import (
    CALL_TOKENS,
    MEDIA_TOKENS,
    MESSAGE_TOKENS,
    message_tokens,
    messages_tokens,
    part_tokens,
    result_tokens,
)

PICTURE = BinaryContent(bytes(100_000), media_type="image/png")
LINK = ImageUrl("https://example.org/pier.png")


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("four", 4),
        ([], 0),
        (["four", "to"], 6),
        ([PICTURE], MEDIA_TOKENS),
        (["four", PICTURE, LINK], 4 + 2 * MEDIA_TOKENS),
    ],
)
def test_files_of_a_prompt_are_never_counted_as_text(content: str | list[UserContent], tokens: int) -> None:
    assert part_tokens(UserPromptPart(content), len) == tokens


@pytest.mark.parametrize(
    ("content", "tokens"),
    [("four", 4), (PICTURE, MEDIA_TOKENS), (["four", PICTURE, LINK], len("four") + 2 * MEDIA_TOKENS)],
)
def test_files_of_a_result_are_never_counted_as_text(content: object, tokens: int) -> None:
    assert result_tokens(ToolReturnPart("look", content, tool_call_id="c1"), len) - tokens in range(3)


def test_a_call_costs_its_name_its_arguments_and_its_place() -> None:
    call = ToolCallPart("look", {"q": "語"}, tool_call_id="c1")
    assert part_tokens(call, len) == CALL_TOKENS + len("look") + len('{"q":"語"}')
    message = ModelResponse(parts=[TextPart("See."), call])
    assert message_tokens(message, len) == MESSAGE_TOKENS + len("See.") + part_tokens(call, len)


@pytest.mark.parametrize(("most", "tokens"), [(None, 1000), (100, 100), (1000, 1000), (5000, 1000)])
def test_a_result_costs_no_more_than_it_is_shortened_to(most: int | None, tokens: int) -> None:
    message = ModelRequest(parts=[ToolReturnPart("look", "x" * 1000, tool_call_id="c1"), UserPromptPart("y" * 500)])
    around = MESSAGE_TOKENS + CALL_TOKENS + len("look") + 500
    assert messages_tokens([message], len, most) == around + tokens
