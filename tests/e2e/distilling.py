"""What the tests of learning share: how a model answers that reads turns, and what it was sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from loomflow import Agent, EchoModel, Fact, Memory, Tuning
from loomflow.testing import ScriptedModel
from tests.openai_server import OpenAIServer, ToolCall
from tests.openai_wire import RecordedRequest

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""A Monday."""

CITIES = "Turin Porto Lyon Ghent Malmo Cork Bergen Graz Siena Nantes Bruges Tartu Split Riga Vigo Brno".split()

Json = dict[str, Any]
Triple = tuple[str, str, str]


def states(object_: str, quote: str, predicate: str = "lives_in", subject: str = "user", **more: Any) -> Json:
    """A statement, as a model writes it."""
    return {"subject": subject, "predicate": predicate, "object": object_, "quote": quote} | more


def lives_in(city: str, **more: Any) -> Json:
    return states(city, f"I live in {city}", **more)


def line(text: str, quote: str, block: str = "profile") -> Json:
    return {"block": block, "text": text, "quote": quote}


def reading(*facts: Json, lines: Iterable[Json] = ()) -> Json:
    """The answer of a model that has read a turn."""
    return {"facts": list(facts), "blocks": list(lines)}


NOTHING = reading()
EVERY_CITY = reading(*map(lives_in, CITIES[:12]))
"""What is proposed for each turn; the guards let in what stands in it."""


def on_the_wire(answer: Mapping[str, Any]) -> ToolCall:
    """The answer of a model that has read a turn, as the server sends it."""
    return ToolCall("final_result", answer)


def learner(memory: Memory, reader: Any, model: Any = None, **tuning: Any) -> Agent:
    """An agent that says what it was told, and learns with another model."""
    return Agent(model=model or EchoModel(""), memory=memory, tuning=Tuning(distill_model=reader, **tuning))


def wired_learner(memory: Memory, server: OpenAIServer, **settings: Any) -> Agent:
    """An agent that says what it was told, and learns with the model of the server."""
    tuning = Tuning(distill_model="openai-chat:gpt-4.1-mini", **settings)
    return Agent(model=EchoModel(""), memory=memory, base_url=server.base_url, tuning=tuning)


def turn_of(messages: list[ModelMessage]) -> Json:
    """The turn that a model was given to read."""
    (part,) = (part for part in messages[0].parts if isinstance(part, UserPromptPart))
    return json.loads(str(part.content))


def turns_read(reader: ScriptedModel) -> list[Json]:
    """The turns that a scripted model was given to read, in order."""
    return [turn_of(messages) for messages in reader.requests]


def turn_sent(request: RecordedRequest) -> Json:
    """The turn that was sent to the server to be read."""
    assert [role for role, _ in request.messages] == ["system", "user"]
    return json.loads(request.messages[1][1])


def was_to_read(request: RecordedRequest) -> bool:
    """Whether a request asked to read a turn."""
    return any("long-term memory of an assistant" in text for text in request.system)


def by_turn(answers: Mapping[str, Any], otherwise: Any = NOTHING) -> Callable[[list[ModelMessage]], Any]:
    """An answer that depends on the turn: that of the first key which the user said."""

    def answer(messages: list[ModelMessage]) -> Any:
        said: str = turn_of(messages)["user"]
        return next((answer for key, answer in answers.items() if key in said), otherwise)

    return answer


class Gate:
    """A model that reads turns once it is let: what happens meanwhile is up to the test."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        self.is_open = asyncio.Event()
        self.reached = asyncio.Event()
        self.read: list[str] = []
        self.model = FunctionModel(self._answer, model_name="gate")

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.read.append(turn_of(messages)["user"])
        self.reached.set()
        await self.is_open.wait()
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, dict(self.answer))])


def triple(fact: Fact) -> Triple:
    return fact.subject, fact.predicate, fact.object


async def believed(memory: Memory, user: str | None = "ana") -> list[Triple]:
    """What is true and believed of a user, sorted."""
    return sorted(map(triple, await memory.facts.query(user_id=user)))


async def waiting(memory: Memory) -> int:
    return (await memory.stats()).undistilled


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    """Wait until something that others do has happened."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110  (what others do is asked for)
            await asyncio.sleep(0.01)
