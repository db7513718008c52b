"""Spans of OpenTelemetry: which there are, what they carry, and what they never carry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from loomflow import Agent, EchoModel, Episode, Fact, Memory, Tuning
from loomflow.testing import ScriptedModel
from loomflow.tracing import NO_SPAN, span


class Collected(SpanProcessor):
    """Keeps spans while it is switched on: a provider cannot be taken back once it is set."""

    def __init__(self) -> None:
        self.is_on = False
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        if self.is_on:
            self.spans.append(span)


COLLECTED = Collected()
SECRETS = ("ana", "s-1", "oolong", "Turin", "profile", "Where do I live?")


@pytest.fixture(scope="module", autouse=True)
def provider() -> None:
    made = TracerProvider()
    made.add_span_processor(COLLECTED)
    trace.set_tracer_provider(made)


@pytest.fixture
def spans() -> Iterator[list[ReadableSpan]]:
    COLLECTED.spans.clear()
    COLLECTED.is_on = True
    yield COLLECTED.spans
    COLLECTED.is_on = False


def finished(spans: list[ReadableSpan], name: str) -> list[dict[str, Any]]:
    """The attributes of the spans with this name, in the order in which they ended."""
    return [dict(one.attributes or {}) for one in spans if one.name == f"loomflow.{name}"]


async def fill(memory: Memory) -> None:
    await memory.update_block("profile", "Ana drinks oolong.", user_id="ana")
    await memory.facts.append(Fact("user", "lives_in", "Turin", user_id="ana"))
    await memory.remember(Episode("I moved to Turin.", "Nice!", user_id="ana", session_id="s-1"))


@pytest.mark.parametrize("mode", ["top", "fill"])
async def test_recall_and_pack_carry_counts_and_tokens(spans: list[ReadableSpan], mode: Any) -> None:
    async with Memory.open(embedder=None) as memory:
        await fill(memory)
        tuning = Tuning(memory_token_budget=200, memory_mode=mode)
        injection = await memory.inject("Where do I live?", user_id="ana", session_id="s-2", tuning=tuning)
    (recalled,) = finished(spans, "recall")
    assert recalled == {
        "loomflow.mode": mode, "loomflow.facts": 1, "loomflow.episodes": len(injection.items) - 2,
        "loomflow.problems": 0,
    }  # fmt: skip
    (packed,) = finished(spans, "pack")
    assert packed["loomflow.tokens"] == injection.tokens
    assert packed["loomflow.budget"] == 200
    assert packed["loomflow.injected"] == sum(item.status != "dropped" for item in injection.items)


async def test_what_the_store_does_is_named(spans: list[ReadableSpan]) -> None:
    async with Memory.open(embedder=None) as memory:
        await fill(memory)
        await memory.recall("Turin", user_id="ana")
        await memory.forget(user_id="ana")
    operations = [one["loomflow.operation"] for one in finished(spans, "store")]
    assert operations == ["change_block", "change_facts", "add_episodes", "search", "forget"]


async def test_learning_has_a_span_for_each_run(spans: list[ReadableSpan]) -> None:
    read = {"facts": [{"subject": "user", "predicate": "lives_in", "object": "Turin", "quote": "I live in Turin"}]}
    async with Agent(model=EchoModel(), tuning=Tuning(distill_model=ScriptedModel([read]))) as agent:
        await agent.run("I live in Turin.", user_id="ana")
        await agent.distill()
    (learned,) = finished(spans, "distill")
    assert learned == {
        "loomflow.attempt": 1, "loomflow.facts": 1, "loomflow.lines": 0, "loomflow.refused": 0,
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["top", "fill"])
async def test_no_span_carries_text_of_a_memory(spans: list[ReadableSpan], mode: Any) -> None:
    async with Memory.open(embedder=None) as memory:
        await fill(memory)
        await memory.inject("Where do I live?", user_id="ana", session_id="s-1", tuning=Tuning(memory_mode=mode))
    carried = repr([(one.name, dict(one.attributes or {})) for one in spans])
    assert not [secret for secret in SECRETS if secret in carried]


async def test_text_is_let_in_where_it_is_asked_for(spans: list[ReadableSpan]) -> None:
    async with Memory.open(embedder=None) as memory:
        await fill(memory)
        tuning = Tuning(trace_memory_text=True)
        injection = await memory.inject("Where do I live?", user_id="ana", tuning=tuning)
    assert finished(spans, "recall")[0]["loomflow.question"] == "Where do I live?"
    assert finished(spans, "pack")[0]["loomflow.block"] == injection.text


def test_an_error_is_noted_and_goes_on(spans: list[ReadableSpan]) -> None:
    with pytest.raises(ValueError, match="broken"), span("pack"):
        raise ValueError("broken")
    (one,) = spans
    assert not one.status.is_ok


def test_without_opentelemetry_nothing_is_loaded_and_nothing_noted() -> None:
    program = (
        "import sys; from loomflow.tracing import span, NO_SPAN\n"
        "with span('recall', mode='top') as one: one.note(facts=1); assert one is NO_SPAN\n"
        "assert 'opentelemetry' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    NO_SPAN.note(anything=1)
