"""The history of a session: stored turns to model messages and back, repaired on reading.

What is stored may be broken: a run was killed between a tool call and its result, a provider left an empty answer, an
earlier version wrote something that this one cannot read. Replaying that would make every later run of the session
fail, so it is mended here, each time it is read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_core import to_json

from loomflow.checks import scrub
from loomflow.records import Turn
from loomflow.settings import MEMORY_TOOLS
from loomflow.tokens import TokenCounter, estimate_tokens
from loomflow.turns import is_first_try, said, without_retries

from .counting import messages_tokens
from .wire import is_blank_answer

logger = logging.getLogger("loomflow")

INTERRUPTED_CALL = "interrupted: no result"
INTERRUPTED_RUN = "[interrupted before an answer was given]"


@dataclass(frozen=True, slots=True)
class History:
    """A session's chat history, ready to send.

    Attributes:
        messages: valid for every provider: calls with their results, answers with text, no system prompts.
        episode_ids: ids of the finished runs in it; they are not recalled again (rule R9).
        resumed: what an interrupted first try of this very prompt left: the prompt, tool calls and their results. The
            run goes on from there instead of saying the prompt again.
        is_cut: whether older turns were left out.
    """

    messages: list[ModelMessage]
    episode_ids: frozenset[str]
    resumed: list[ModelMessage]
    is_cut: bool = False


def rehydrate(
    turns: Sequence[Turn], prompt: str | None, budget: int | None = None, count: TokenCounter = estimate_tokens,
    result: int | None = None,
) -> History:  # fmt: skip
    """Rebuild the chat history of a session.

    Args:
        turns: as stored, in order.
        prompt: what the user says now; None if that is more than text. Interrupted turns that said the same just before
            were first tries of it; they are left out, but what tools returned in the last of them is carried on.
        budget: tokens that the history may cost: as many of the latest whole turns as fit; None takes all.
        count: counts tokens.
        result: tokens to which results of tools are shortened on the wire; they cost no more here.
    """
    kept: list[list[ModelMessage]] = []
    finished: set[str] = set()
    left = budget
    is_cut = False
    for turn in reversed(without_retries(turns, prompt)):
        messages = _messages(turn)
        cost = messages_tokens(messages, count, result) if left is not None else 0
        if left is not None and cost > left:
            is_cut = True
            if turn.interrupted is not None and budget is not None and cost > budget:
                continue  # what was too large to be sent does not hide what was said before it
            break
        left = None if left is None else left - cost
        kept.append(messages)
        if turn.episode is not None and turn.episode.id is not None:
            finished.add(turn.episode.id)
    in_order = [message for messages in reversed(kept) for message in messages]
    return History(in_order, frozenset(finished), _resumed(turns, prompt), is_cut)


def dump(messages: Sequence[ModelMessage]) -> str:
    """Serialise the messages of a run. Characters are kept as they are; lone surrogates become U+FFFD."""
    try:
        return ModelMessagesTypeAdapter.dump_json(list(messages)).decode("utf-8")
    except ValueError:  # UTF-8 cannot hold lone surrogates
        plain = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
        return scrub(json.dumps(plain, ensure_ascii=False))


def dump_interrupted(messages: Iterable[ModelMessage], run_id: str, resumed: Sequence[ModelMessage]) -> str | None:
    """Serialise what an interrupted run leaves: its prompt, and tool calls with real results.

    Text that the model had begun or that was rejected is not kept. None if there are no results to keep.
    """
    kept = list(resumed)
    for message in messages:
        if message.run_id != run_id or message in kept:
            continue
        if isinstance(message, ModelResponse):
            called = any(isinstance(part, ToolCallPart) for part in message.parts)
            parts = [part for part in message.parts if isinstance(part, ThinkingPart | ToolCallPart)]
            kept += [replace(message, parts=parts)] if called else []
        else:
            parts = [part for part in message.parts if isinstance(part, UserPromptPart) or _is_result(part)]
            kept += [replace(message, parts=parts)] if parts else []
    has_results = any(isinstance(part, ToolReturnPart) for message in kept for part in message.parts)
    return dump(kept) if has_results else None


def texts_of(messages: Iterable[ModelMessage]) -> Iterator[tuple[str, str]]:
    """Role and text of each part that has text: user, assistant, tool."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                yield "user", prompt_text(part.content)
            elif isinstance(part, TextPart):
                yield "assistant", part.content
            elif isinstance(part, ToolReturnPart):
                yield "tool", part.model_response_str()


def tool_texts(stored: str) -> tuple[str, ...]:
    """What tools returned in a run, as the model saw it; not the tools that read and write the memory."""
    parts = [part for message in _parse(stored) for part in message.parts if _is_result_of_others(part)]
    return tuple(part.model_response_str() for part in parts)


def prompt_text(prompt: object) -> str:
    """The text of a prompt: of one made of parts, the text parts; pictures and files have none."""
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Iterable):
        return ""
    texts = [part if isinstance(part, str) else getattr(part, "content", None) for part in prompt]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return "\n".join(text for text in texts if isinstance(text, str))


def repair(messages: Iterable[ModelMessage]) -> list[ModelMessage]:
    """Make messages valid for every provider.

    Every tool call gets a result and every result has a call; empty texts, empty messages and system prompts go.
    """
    mended: list[ModelMessage] = []
    open_calls: dict[str, ToolCallPart] = {}
    for message in messages:
        if isinstance(message, ModelResponse):
            mended += _closing(open_calls)
            parts = [part for part in message.parts if not is_blank_answer(part)]
            open_calls = {part.tool_call_id: part for part in parts if isinstance(part, ToolCallPart)}
            mended += [replace(message, parts=parts)] if _says_something(parts) else []
            continue
        if any(isinstance(part, RetryFeedbackPart) for part in message.parts) and not open_calls and mended:
            mended = mended[:-1] if isinstance(mended[-1], ModelResponse) else mended  # the answer was rejected
        kept = [part for part in message.parts if _belongs(part, open_calls)]
        closing = [part for request in _closing(open_calls) for part in request.parts]
        open_calls = {}
        if kept or closing:
            mended.append(replace(message, parts=[*closing, *kept]))
    return mended + _closing(open_calls)


def _resumed(turns: Sequence[Turn], prompt: str | None) -> list[ModelMessage]:
    last = turns[-1] if turns else None
    if last is None or not last.messages or not is_first_try(last, prompt):
        return []
    resumed = repair(_parse(last.messages))
    return resumed if resumed and isinstance(resumed[0], ModelRequest) else []


def _messages(turn: Turn) -> list[ModelMessage]:
    stored = repair(_parse(turn.messages)) if turn.messages else []
    if not stored or not isinstance(stored[0], ModelRequest):
        stored = _as_told(turn)
    if not isinstance(stored[-1], ModelResponse):
        answer = turn.episode.output if turn.episode is not None else INTERRUPTED_RUN
        stored += [ModelResponse(parts=[TextPart(answer)])] if answer.strip() else []
    return stored


def _as_told(turn: Turn) -> list[ModelMessage]:
    """A turn as its prompt and answer only."""
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(said(turn) or " ")])]
    if turn.episode is not None and turn.episode.output.strip():
        messages.append(ModelResponse(parts=[TextPart(turn.episode.output)]))
    return messages


def _parse(stored: str) -> list[ModelMessage]:
    try:
        return ModelMessagesTypeAdapter.validate_json(stored)
    except ValueError as error:
        logger.warning("stored messages of a run cannot be read, its prompt and answer are used instead: %s", error)
        return []


def _closing(open_calls: dict[str, ToolCallPart]) -> list[ModelMessage]:
    if not open_calls:
        return []
    parts: list[ModelRequestPart] = [
        ToolReturnPart(call.tool_name, INTERRUPTED_CALL, tool_call_id=id_) for id_, call in open_calls.items()
    ]
    return [ModelRequest(parts=parts)]


def _says_something(parts: Sequence[ModelResponsePart]) -> bool:
    return any(not isinstance(part, ThinkingPart) for part in parts)


def _is_result(part: ModelRequestPart | ModelResponsePart) -> TypeGuard[ToolReturnPart]:
    """Whether a part is what a tool really returned, and not a note that it failed or was not let run."""
    return isinstance(part, ToolReturnPart) and part.outcome == "success"


def _is_result_of_others(part: ModelRequestPart | ModelResponsePart) -> TypeGuard[ToolReturnPart]:
    return _is_result(part) and part.tool_name not in MEMORY_TOOLS


def _belongs(part: ModelRequestPart, open_calls: dict[str, ToolCallPart]) -> bool:
    """Whether a request part may be replayed.

    Results only where their call is open, which they close; never a system prompt, nor a demand to answer again, which
    was met.
    """
    if isinstance(part, ToolReturnPart):
        return open_calls.pop(part.tool_call_id, None) is not None
    return not isinstance(part, SystemPromptPart | RetryFeedbackPart)


def text_delta(event: Any) -> str:
    """The text that a stream event adds to the answer, if any."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def as_json(output: object) -> str:
    """Structured output as JSON text, non-ASCII characters as themselves."""
    return to_json(output).decode("utf-8")
