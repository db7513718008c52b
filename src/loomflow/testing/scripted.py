"""A model that answers from a script: for tests of agents, without a network and without a key."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel


@dataclass(frozen=True, slots=True)
class Calls:
    """An answer that calls tools: the name and the arguments of each."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...]


Answer = str | Mapping[str, Any] | Calls | BaseException | Callable[[list[ModelMessage]], Any]
"""A text; structured output; calls of tools; an error to raise; or a function from the messages to one of these."""


class ScriptedModel(FunctionModel):
    """Gives one answer after the other, and keeps what it was sent.

        agent = Agent("Be brief.", model=ScriptedModel(["Hello!"]))

    Args:
        answers: in order. When they are used up, the last one is given again.

    Attributes:
        requests: the messages of every request, in order.
        instructions: the instructions of every request, memory block included, in order.
    """

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = list(answers)
        self.requests: list[list[ModelMessage]] = []
        self.instructions: list[str] = []
        super().__init__(self._answer, stream_function=self._stream, model_name="scripted")

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> list[ModelResponsePart]:
        parts = info.model_request_parameters.instruction_parts or []
        self.requests.append(messages)
        self.instructions.append("\n\n".join(part.content for part in parts))
        if not self._answers:
            raise AssertionError("the script has no answer")
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        while callable(answer) and not isinstance(answer, BaseException):
            answer = answer(messages)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Calls):
            return [ToolCallPart(name, dict(arguments)) for name, arguments in answer.calls]
        if isinstance(answer, Mapping) and info.output_tools:
            return [ToolCallPart(info.output_tools[0].name, {**answer})]
        return [TextPart(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))]

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=self._next(messages, info))

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for place, part in enumerate(self._next(messages, info)):
            if isinstance(part, TextPart):
                yield part.content
            elif isinstance(part, ToolCallPart):
                yield {place: DeltaToolCall(name=part.tool_name, json_args=part.args_as_json_str())}
