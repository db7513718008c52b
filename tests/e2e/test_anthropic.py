"""The promises of the wire, of sessions and of interrupted runs, kept in Anthropic's Messages format too."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import BinaryContent
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelMessage, ModelResponse, PartStartEvent, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from loomflow import Agent, Fact, Memory, Tuning
from tests.anthropic_server import AnthropicServer, Overloaded, Reply, Stall, Thinking
from tests.anthropic_wire import MessagesRequest, signature_of
from tests.e2e import test_sessions as sessions
from tests.e2e.conftest import Said, Wire
from tests.e2e.test_interruptions import (
    HERE,
    INTERRUPTED,
    PROMPT,
    RESERVE,
    RESERVED,
    Restaurant,
    assert_only,
    test_another_picture_is_not_taken_for_a_retry,
    test_half_an_answer_is_not_kept_where_the_connection_drops,
    test_interrupted_run_keeps_real_tool_results,
    test_interrupted_run_leaves_what_was_said_once,
    test_retry_after_real_tool_results_keeps_them_and_is_said_once,
    test_retry_that_fails_too_keeps_the_tool_results_of_both,
    test_retry_with_the_same_words_is_said_once,
    test_stream_inside_a_generator_that_is_abandoned_does_not_block_the_session,
    test_stream_left_early_is_an_interrupted_run,
    test_stream_that_is_never_read_is_an_interrupted_run,
    test_stream_whose_reader_fails_is_an_interrupted_run,
    test_words_that_failed_twice_are_said_once,
)
from tests.e2e.test_sessions import (
    IMAGE,
    test_empty_answer_that_was_asked_for_again_is_not_replayed,
    test_history_keeps_its_order_when_all_times_are_equal,
    test_lone_surrogate_in_a_prompt_is_sent_and_stored_as_replacement,
    test_lone_surrogate_in_a_reply_loses_nothing_of_the_run,
    test_r17_one_session_id_of_two_users_is_two_conversations,
    test_rejected_answer_that_was_mended_is_not_replayed,
    test_session_of_a_hundred_turns_is_sent_whole_and_in_order,
    test_structured_output_is_stored_as_json_and_its_call_is_answered,
    test_tool_calls_and_results_come_back_in_pairs,
    weather,
)
from tests.e2e.test_wire import (
    ALICE,
    BLOCK,
    look_up,
    seed,
    test_braces_and_percent_signs_reach_the_model_as_stored,
    test_new_session_recalls_the_earlier_one,
    test_no_instructions_and_nothing_to_inject_is_the_prompt_alone,
    test_only_the_present_instructions_of_an_agent_are_sent,
    test_r1_each_request_of_a_run_with_a_tool_call_has_the_block_once,
    test_r1_first_run_has_the_block_directly_under_the_instructions,
    test_r1_later_run_has_the_history_in_order_under_a_fresh_block,
    test_r1_nothing_to_inject_is_no_block,
    test_r1_the_block_is_never_stored,
    test_r1_without_instructions_the_block_stands_alone_on_top,
    test_r4_the_block_on_the_wire_is_the_one_of_the_receipt,
    test_r17_another_user_gets_nothing_of_the_first,
)
from tests.openai_server import Drop, Failure, OpenAIServer, ToolCall

# The promises that do not depend on the format; here they run over this module's `wire`, `chat` and `streaming`.
__all__ = [
    "test_another_picture_is_not_taken_for_a_retry",
    "test_braces_and_percent_signs_reach_the_model_as_stored",
    "test_empty_answer_that_was_asked_for_again_is_not_replayed",
    "test_half_an_answer_is_not_kept_where_the_connection_drops",
    "test_history_keeps_its_order_when_all_times_are_equal",
    "test_interrupted_run_keeps_real_tool_results",
    "test_interrupted_run_leaves_what_was_said_once",
    "test_lone_surrogate_in_a_prompt_is_sent_and_stored_as_replacement",
    "test_lone_surrogate_in_a_reply_loses_nothing_of_the_run",
    "test_new_session_recalls_the_earlier_one",
    "test_no_instructions_and_nothing_to_inject_is_the_prompt_alone",
    "test_only_the_present_instructions_of_an_agent_are_sent",
    "test_r1_each_request_of_a_run_with_a_tool_call_has_the_block_once",
    "test_r1_first_run_has_the_block_directly_under_the_instructions",
    "test_r1_later_run_has_the_history_in_order_under_a_fresh_block",
    "test_r1_nothing_to_inject_is_no_block",
    "test_r1_the_block_is_never_stored",
    "test_r1_without_instructions_the_block_stands_alone_on_top",
    "test_r4_the_block_on_the_wire_is_the_one_of_the_receipt",
    "test_r17_another_user_gets_nothing_of_the_first",
    "test_r17_one_session_id_of_two_users_is_two_conversations",
    "test_rejected_answer_that_was_mended_is_not_replayed",
    "test_retry_after_real_tool_results_keeps_them_and_is_said_once",
    "test_retry_that_fails_too_keeps_the_tool_results_of_both",
    "test_retry_with_the_same_words_is_said_once",
    "test_session_of_a_hundred_turns_is_sent_whole_and_in_order",
    "test_stream_inside_a_generator_that_is_abandoned_does_not_block_the_session",
    "test_stream_left_early_is_an_interrupted_run",
    "test_stream_that_is_never_read_is_an_interrupted_run",
    "test_stream_whose_reader_fails_is_an_interrupted_run",
    "test_structured_output_is_stored_as_json_and_its_call_is_answered",
    "test_tool_calls_and_results_come_back_in_pairs",
    "test_words_that_failed_twice_are_said_once",
]

CLAUDE = "claude-sonnet-4-5"
KEY = "a-key-for-tests"


@dataclass(frozen=True, slots=True)
class AnthropicWire(Wire):
    """A way to the server of this format. Instructions and block are parts of their own, as the provider caches them.

    Attributes:
        limited: Whether the length of answers is limited. Where it is not, they may be so long that the client has them
            streamed to it even for a run that is not.
    """

    server: AnthropicServer
    limited: bool = False

    def agent(self, instructions: str = "Be brief.", **settings: Any) -> Agent:
        """An agent whose model is the server; it learns nothing after runs."""
        settings.setdefault("tuning", Tuning(distill=False))
        settings.setdefault("model", self.model({}) if self.limited else CLAUDE)
        return Agent(instructions, api_key=KEY, **settings)

    def model(self, settings: AnthropicModelSettings) -> AnthropicModel:
        """A model with settings, which an agent takes instead of a name."""
        provider = AnthropicProvider(base_url=self.server.base_url, api_key=KEY)
        limit = AnthropicModelSettings(max_tokens=4096)
        return AnthropicModel(CLAUDE, provider=provider, settings={**settings, **limit} if self.limited else settings)

    def head(self, *parts: str) -> list[Said]:
        """The system section: a part for the instructions, one for the block."""
        return [("system", part) for part in parts]


@pytest.fixture
def claude(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnthropicServer]:
    """The server. The client finds it as it finds any other, by its environment."""
    with AnthropicServer() as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.base_url)
        yield running


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def wire(request: pytest.FixtureRequest, claude: AnthropicServer) -> AnthropicWire:
    return AnthropicWire(claude, "anthropic", streamed=request.param, limited=not request.param)


@pytest.fixture
def chat(claude: AnthropicServer) -> AnthropicWire:
    return AnthropicWire(claude, "anthropic", streamed=False)


@pytest.fixture
def streaming(claude: AnthropicServer) -> AnthropicWire:
    return AnthropicWire(claude, "anthropic", streamed=True)


CACHED = {"type": "ephemeral", "ttl": "5m"}


async def test_cache_of_the_provider_ends_before_the_block(wire: AnthropicWire, memory: Memory) -> None:
    await seed(memory)
    model = wire.model(AnthropicModelSettings(anthropic_cache_instructions=True))
    await wire.ask(wire.agent(memory=memory, model=model), "Where should I eat in Lisbon?", **ALICE)
    (request,) = wire.server.received
    assert request.system_parts == [("Be brief.", CACHED), (BLOCK, None)]
    assert request.turns == [("user", ["Where should I eat in Lisbon?"])]


async def test_block_is_not_marked_for_the_cache_unless_asked_for(wire: AnthropicWire, memory: Memory) -> None:
    await seed(memory)
    await wire.ask(wire.agent(memory=memory), "Where should I eat in Lisbon?", **ALICE)
    assert wire.server.received[0].system_parts == [("Be brief.", None), (BLOCK, None)]


async def test_calls_at_once_are_answered_in_one_turn_directly_after(wire: AnthropicWire, memory: Memory) -> None:
    both = [ToolCall("look_up", {"word": "tea"}, "c1"), ToolCall("look_up", {"word": "bica"}, "c2")]
    wire.server.reply(["Let me see.", *both], "Both are drinks.")
    agent = wire.agent(memory=memory, tools=[look_up])
    result = await wire.ask(agent, "Tea or bica?", **ALICE)
    await wire.ask(agent, "Sure?", **ALICE)
    told = [
        ("user", ["Tea or bica?"]),
        ("assistant", ["Let me see.", "call:look_up:c1", "call:look_up:c2"]),
        ("user", ["result:c1:tea: a drink", "result:c2:bica: a drink"]),
        ("assistant", ["Both are drinks."]),
        ("user", ["Sure?"]),
    ]
    assert [request.turns for request in wire.server.received] == [told[:1], told[:3], told]
    assert {tuple(request.tools) for request in wire.server.received} == {("look_up",)}
    assert (result.output, result.usage.requests) == ("Both are drinks.", 2)


async def test_text_of_a_prompt_with_a_picture_is_recalled_and_both_are_replayed(
    wire: AnthropicWire, memory: Memory
) -> None:
    await memory.facts.append(Fact("Alice's bike", "is", "a green Kestrel", user_id="alice"))
    wire.server.reply("Yes, the Kestrel.")
    agent = wire.agent(memory=memory)
    result = await wire.ask(agent, ["Is this the same bike as before?", IMAGE], **HERE)
    await wire.ask(agent, "Sure?", **HERE)
    assert result.injection.text.splitlines()[1:] == ["Known facts:", "- Alice's bike is a green Kestrel"]
    first, second = wire.server.received
    asked = ("user", ["Is this the same bike as before?", "[image]"])
    assert first.turns == [asked]
    assert second.turns == [asked, ("assistant", ["Yes, the Kestrel."]), ("user", ["Sure?"])]
    source = {"type": "base64", "media_type": "image/png", "data": IMAGE.base64}
    assert [request.body["messages"][0]["content"][1]["source"] for request in (first, second)] == [source, source]


async def test_prompt_of_a_picture_alone_recalls_only_blocks(wire: AnthropicWire, memory: Memory) -> None:
    await memory.update_block("profile", "Rides a bike.", user_id="alice")
    agent = wire.agent(memory=memory)
    result = await wire.ask(agent, [IMAGE], **HERE)
    await wire.ask(agent, "Sure?", **HERE)
    assert result.injection.text.splitlines()[1:] == ["Block profile:", "> Rides a bike."]
    assert wire.server.received[1].turns == [("user", ["[image]"]), ("assistant", ["ok"]), ("user", ["Sure?"])]


async def test_answer_of_white_space_is_not_replayed(wire: AnthropicWire, memory: Memory) -> None:
    wire.server.reply(" \n")
    agent = wire.agent(memory=memory)
    assert (await wire.ask(agent, "Hi", **HERE)).output == " \n"
    await wire.ask(agent, "And now?", **HERE)
    assert wire.server.received[1].turns == [("user", ["Hi", "And now?"])]


async def test_answer_that_ends_in_white_space_is_replayed_as_it_was(wire: AnthropicWire, memory: Memory) -> None:
    wire.server.reply("Hello! \n")
    agent = wire.agent(memory=memory)
    await wire.ask(agent, "Hi", **HERE)
    await wire.ask(agent, "And now?", **HERE)
    assert wire.server.requests[1].messages[1:] == [("user", "Hi"), ("assistant", "Hello! \n"), ("user", "And now?")]


async def test_white_space_beside_a_call_does_not_stop_the_run(wire: AnthropicWire, memory: Memory) -> None:
    wire.server.reply(["\n\n", ToolCall("look_up", {"word": "tea"}, "c1")], "A drink.")
    await wire.ask(wire.agent(memory=memory, tools=[look_up]), "What is tea?", **HERE)
    assert wire.server.received[1].turns[1:] == [
        ("assistant", ["call:look_up:c1"]), ("user", ["result:c1:tea: a drink"]),
    ]  # fmt: skip


THINKING = AnthropicModelSettings(anthropic_thinking={"type": "enabled", "budget_tokens": 1024})


async def test_thoughts_come_back_with_their_signature(wire: AnthropicWire, memory: Memory) -> None:
    call = ToolCall("look_up", {"word": "tea"}, "c1")
    wire.server.reply([Thinking("Look it up."), call], [Thinking("A drink."), "Tea is a drink."])
    agent = wire.agent(memory=memory, model=wire.model(THINKING), tools=[look_up])
    await wire.ask(agent, "What is tea?", **HERE)
    await wire.ask(agent, "Sure?", **HERE)
    request = wire.server.received[-1]
    assert request.turns == [
        ("user", ["What is tea?"]),
        ("assistant", ["[thinking]", "call:look_up:c1"]),
        ("user", ["result:c1:tea: a drink"]),
        ("assistant", ["[thinking]", "Tea is a drink."]),
        ("user", ["Sure?"]),
    ]
    signed = {"type": "thinking", "thinking": "Look it up.", "signature": signature_of("Look it up.")}
    assert request.body["messages"][1]["content"][0] == signed
    (episode,) = (await memory.store.episodes("alice"))[:1]
    assert episode.output == "Tea is a drink."


async def test_retry_after_real_tool_results_goes_on_with_thoughts_too(wire: AnthropicWire, memory: Memory) -> None:
    wire.server.reply([Thinking("A table for two."), RESERVE], Failure(529, "Overloaded"), "Done.")
    here = Restaurant(wire, memory)
    agent = wire.agent(memory=memory, model=wire.model(THINKING), tools=[here.reserve])
    with pytest.raises(ModelAPIError):
        await wire.ask(agent, PROMPT, **HERE)
    await wire.ask(agent, PROMPT, **HERE)
    assert wire.server.received[-1].turns == [
        ("user", [PROMPT]),
        ("assistant", ["[thinking]", "call:reserve:c1"]),
        ("user", ["result:c1:table 7 for 2"]),
    ]


@pytest.mark.parametrize("kind", [*sessions.BROKEN, *sessions.UNREADABLE])
async def test_broken_stored_messages_do_not_break_the_next_run(
    chat: AnthropicWire, memory: Memory, path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ("tool", "try again")  # here a refusal is marked as one, and not wrapped
    broken = {
        name: (stored, [refused if line == sessions.REFUSED else line for line in expected])
        for name, (stored, expected) in sessions.BROKEN.items()
    }
    monkeypatch.setattr(sessions, "BROKEN", broken)
    await sessions.test_broken_stored_messages_do_not_break_the_next_run(chat, memory, path, kind)


@pytest.mark.parametrize("status", [529, 500, 429])
async def test_provider_that_fails_leaves_what_was_said_once(wire: AnthropicWire, memory: Memory, status: int) -> None:
    here = Restaurant(wire, memory)
    await here.fail(ModelAPIError, Failure(status, "not now"))
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]
    await assert_only(memory, "Are you there?")


@pytest.mark.parametrize("status", [529, 500])
async def test_provider_that_fails_after_a_tool_leaves_its_result(
    wire: AnthropicWire, memory: Memory, status: int
) -> None:
    here = Restaurant(wire, memory)
    await here.fail(ModelAPIError, RESERVE, Failure(status, "not now"))
    assert await here.ask("Are you there?") == [("user", PROMPT), *RESERVED, INTERRUPTED, ("user", "Are you there?")]
    await assert_only(memory, "Are you there?")


async def test_request_that_the_client_repeats_is_the_same_one(wire: AnthropicWire, memory: Memory) -> None:
    await seed(memory)
    wire.server.reply(Failure(529, "Overloaded", retry=True))
    await wire.ask(wire.agent(memory=memory), "Where should I eat in Lisbon?", **ALICE)
    assert wire.sent == [[*wire.head("Be brief.", BLOCK), ("user", "Where should I eat in Lisbon?")]] * 2


HALF_SAID = "half an answer, and then the other half"
CUT_CALL = ToolCall("reserve", {"people": 2}, "c1")


@pytest.mark.parametrize("cut", [Overloaded(2, HALF_SAID), Drop(2, HALF_SAID), Overloaded(2, CUT_CALL)])
async def test_stream_that_breaks_in_the_middle_leaves_nothing_half_done(
    streaming: AnthropicWire, memory: Memory, cut: Reply
) -> None:
    here = Restaurant(streaming, memory)
    streaming.server.reply(cut)
    with pytest.raises(ModelAPIError):
        await streaming.ask(here.agent, PROMPT, **HERE)
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]
    await assert_only(memory, "Are you there?")


@pytest.mark.parametrize("stall", [Stall(2, HALF_SAID), Stall(2, CUT_CALL), Stall(2, Thinking(HALF_SAID))])
async def test_run_cancelled_in_the_middle_of_a_stream_leaves_nothing_half_done(
    streaming: AnthropicWire, memory: Memory, stall: Stall
) -> None:
    here = Restaurant(streaming, memory)
    streaming.server.reply(stall)
    begun = asyncio.Event()

    async def read() -> None:
        async with here.agent.stream(PROMPT, **HERE) as stream:
            async for event in stream.events():
                if isinstance(event, PartStartEvent):
                    begun.set()

    run = asyncio.create_task(read())
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(here.agent.memory.session_locks) == 0
    assert await here.ask("Are you there?") == [("user", PROMPT), INTERRUPTED, ("user", "Are you there?")]
    await assert_only(memory, "Are you there?")


async def test_run_cancelled_in_a_stream_after_a_tool_leaves_its_result(
    streaming: AnthropicWire, memory: Memory
) -> None:
    here = Restaurant(streaming, memory)
    streaming.server.reply(RESERVE, Stall(1, HALF_SAID))
    await here.cancel(here.requested(2))
    assert await here.ask() == [("user", PROMPT), *RESERVED]
    assert await here.ask("Sure?") == [("user", PROMPT), *RESERVED, ("assistant", "ok"), ("user", "Sure?")]
    await assert_only(memory, PROMPT, "Sure?")


def test_one_agent_works_in_one_event_loop_after_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with AnthropicServer(keep_alive=True) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        agent = Agent("Be brief.", model=CLAUDE, api_key=KEY, memory=path, tuning=Tuning(distill=False))
        for prompt in ("One", "Two"):
            assert asyncio.run(agent.run(prompt, session_id="s")).output == "ok"
        assert agent.run_sync("Three", session_id="s").output == "ok"
        asyncio.run(agent.aclose())
        del agent
        gc.collect()  # a connection that was left open warns now, and a warning is an error
        history = [("user", "One"), ("assistant", "ok"), ("user", "Two"), ("assistant", "ok")]
        assert server.requests[-1].conversation == [*history, ("user", "Three")]


PROVIDERS = ("chat", "responses", "anthropic")
OTHERS = [(first, second) for first in PROVIDERS for second in PROVIDERS if first != second]
ASKED, TOLD, NEXT = ("user", "Will it rain?"), ("assistant", "It stays dry."), ("user", "And now?")
FINAL = ("tool", "Final result processed.")


@pytest.fixture
def wires(server: OpenAIServer, claude: AnthropicServer) -> dict[str, Wire]:
    """A way to each provider."""
    spoken = {endpoint: Wire(server, endpoint, streamed=False) for endpoint in ("chat", "responses")}
    return {**spoken, "anthropic": AnthropicWire(claude, "anthropic", streamed=False)}


class City(BaseModel):
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of turn: how it comes about, and what a later run is told of it."""

    script: list[Any]
    told: list[Said]
    prompt: Any = ASKED[1]
    fails: bool = False
    settings: dict[str, Any] = field(default_factory=dict[str, Any])


WEATHER = ToolCall("weather", {"city": "Porto"}, "c1")
CALLED: list[Said] = [("assistant", "call:weather:c1"), ("tool", '{"city":"Porto","sky":"晴れ"}')]
TOOLS: dict[str, Any] = {"tools": [weather]}
KINDS = {
    "text": Kind(["It stays dry."], [ASKED, TOLD]),
    "text that ends in white space": Kind(["Dry. \n"], [ASKED, ("assistant", "Dry. \n")]),
    "empty text, asked again": Kind(["", "It stays dry."], [ASKED, TOLD]),
    "white space": Kind([" \n"], [ASKED]),
    "tool call": Kind([WEATHER, "It stays dry."], [ASKED, *CALLED, TOLD], settings=TOOLS),
    "tool call, then white space": Kind([WEATHER, " \n"], [ASKED, *CALLED], settings=TOOLS),
    "tool calls only": Kind(
        [ToolCall("final_result", {"name": "Porto", "size": 3}, "c1")],
        [ASKED, ("assistant", "call:final_result:c1"), FINAL, ("assistant", '{"name":"Porto","size":3}')],
        settings={"output_type": [City, str]},
    ),
    "picture": Kind(["It stays dry."], [("user", "Will it rain?\n[image]"), TOLD], prompt=[ASKED[1], IMAGE]),
    "picture alone": Kind(["It stays dry."], [("user", "[image]"), TOLD], prompt=[IMAGE]),
    "interrupted": Kind([Failure(500, "out of order")], [ASKED, INTERRUPTED], fails=True),
    "interrupted after a tool": Kind(
        [WEATHER, Failure(500, "out of order")], [ASKED, *CALLED, INTERRUPTED], fails=True, settings=TOOLS
    ),
}


def heard(wire: Wire) -> list[Said]:
    """The last conversation as the model reads it: what one side said in a row is one message."""
    conversation: list[Said] = []
    for role, text in wire.server.requests[-1].conversation:
        spelled = text.replace("[image_url]", "[image]").replace("[input_image]", "[image]")
        if conversation and role == "user" == conversation[-1][0]:
            spelled = f"{conversation.pop()[1]}\n{spelled}"
        conversation.append((role, spelled))
    return conversation


def joined(told: list[Said], *following: Said) -> list[Said]:
    """What was told and what followed, in the same form."""
    first, *rest = following
    if told[-1][0] == "user":
        return [*told[:-1], ("user", f"{told[-1][1]}\n{first[1]}"), *rest]
    return [*told, *following]


@pytest.mark.parametrize(("first", "second"), OTHERS)
@pytest.mark.parametrize("kind", KINDS)
async def test_session_goes_on_with_another_provider_and_back(
    wires: dict[str, Wire], memory: Memory, kind: str, first: str, second: str
) -> None:
    turn, one, other = KINDS[kind], wires[first], wires[second]
    agent = one.agent(memory=memory, **turn.settings)
    one.server.reply(*turn.script)
    if turn.fails:
        with pytest.raises(ModelAPIError):
            await one.ask(agent, turn.prompt, **HERE)
    else:
        await one.ask(agent, turn.prompt, **HERE)
    await other.ask(other.agent(memory=memory, **turn.settings), NEXT[1], **HERE)
    assert heard(other) == joined(turn.told, NEXT)
    await one.ask(agent, "And tomorrow?", **HERE)
    assert heard(one) == joined(turn.told, NEXT, ("assistant", "ok"), ("user", "And tomorrow?"))


@pytest.mark.parametrize(("first", "second"), OTHERS)
async def test_retry_with_another_provider_goes_on_from_the_tool_results(
    wires: dict[str, Wire], memory: Memory, first: str, second: str
) -> None:
    await Restaurant(wires[first], memory).fail(ModelAPIError, RESERVE, Failure(500, "out of order"))
    here = Restaurant(wires[second], memory)
    assert await here.ask() == [("user", PROMPT), *RESERVED]
    told = [("user", PROMPT), *RESERVED, ("assistant", "ok")]
    assert await here.ask("Sure?") == [*told, ("user", "Sure?")]
    await assert_only(memory, PROMPT, "Sure?")


def thinking_model(provider: str, *parts: ThinkingPart | TextPart | ToolCallPart) -> FunctionModel:
    """A model that answers as one of `provider` would that thinks."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(list(parts), provider_name=provider)

    return FunctionModel(answer)


THOUGHTS = {
    "signed by OpenAI": ThinkingPart("Clouds?", id="rs_1", signature="gAAAA", provider_name="openai"),
    "signed by Anthropic": ThinkingPart("Clouds?", signature=signature_of("Clouds?"), provider_name="anthropic"),
    "signed by another": ThinkingPart("Clouds?", signature="CiQB", provider_name="google"),
    "without a signature": ThinkingPart("Clouds?"),
    "hidden by OpenAI": ThinkingPart("", id="rs_1", signature="gAAAA", provider_name="openai"),
    "hidden by Anthropic": ThinkingPart(
        "", id="redacted_thinking", signature="EmwKAhg", provider_name="anthropic"
    ),
    "hidden without a signature": ThinkingPart(""),
}  # fmt: skip


@pytest.mark.parametrize("second", PROVIDERS)
@pytest.mark.parametrize("kind", THOUGHTS)
async def test_thoughts_of_any_provider_do_not_stop_another(
    wires: dict[str, Wire], memory: Memory, kind: str, second: str
) -> None:
    thought, other = THOUGHTS[kind], wires[second]
    model = thinking_model(thought.provider_name or "local", thought, TextPart("It stays dry."))
    agent = Agent("Be brief.", model=model, memory=memory, tuning=Tuning(distill=False))
    await agent.run(ASKED[1], **HERE)
    await other.ask(other.agent(memory=memory), NEXT[1], **HERE)
    conversation = heard(other)
    assert conversation[0][1].startswith(ASKED[1])
    assert conversation[-1] == NEXT
    assert conversation[-2][1].endswith(TOLD[1])


async def test_thoughts_alone_that_were_asked_for_again_are_not_replayed(wire: AnthropicWire, memory: Memory) -> None:
    wire.server.reply(Thinking("Hm."), "Hello!")
    agent = wire.agent(memory=memory)
    await wire.ask(agent, "Hi", **HERE)
    await wire.ask(agent, "And now?", **HERE)
    assert wire.server.received[-1].turns == [("user", ["Hi"]), ("assistant", ["Hello!"]), ("user", ["And now?"])]


BLANKS: dict[str, Any] = {
    "nothing": "",
    "white space": " \n",
    "white space beside a picture": [" ", IMAGE],
    "a list of nothing": [""],
}


@pytest.mark.parametrize("first", ["chat", "responses"])
@pytest.mark.parametrize("prompt", BLANKS)
async def test_blank_prompt_to_another_provider_does_not_stop_anthropic(
    wires: dict[str, Wire], memory: Memory, first: str, prompt: str
) -> None:
    await wires[first].ask(wires[first].agent(memory=memory), BLANKS[prompt], **HERE)
    claude = wires["anthropic"]
    await claude.ask(claude.agent(memory=memory), NEXT[1], **HERE)
    assert heard(claude)[-1] == NEXT


@pytest.mark.parametrize("prompt", ["nothing", "white space"])
async def test_blank_prompt_does_not_stop_the_session_whether_it_is_refused_or_not(
    wire: AnthropicWire, memory: Memory, prompt: str
) -> None:
    agent = wire.agent(memory=memory)
    with suppress(ModelAPIError):
        await wire.ask(agent, BLANKS[prompt], **HERE)
    await wire.ask(agent, NEXT[1], **HERE)
    assert wire.server.received[-1].turns[-1][1][-1] == NEXT[1]


async def test_empty_prompt_does_not_let_the_model_go_on_with_its_last_answer(
    wire: AnthropicWire, memory: Memory
) -> None:
    agent = wire.agent(memory=memory)
    await wire.ask(agent, "Hi", **HERE)
    await wire.ask(agent, "", **HERE)
    assert wire.server.received[-1].turns[-1][0] == "user"


SOUND = BinaryContent(b"RIFF", media_type="audio/wav")


@pytest.mark.parametrize("second", ["responses", "anthropic"])
async def test_sound_that_one_provider_heard_does_not_stop_another(
    wires: dict[str, Wire], memory: Memory, second: str
) -> None:
    first, other = wires["chat"], wires[second]
    await first.ask(first.agent(memory=memory), [ASKED[1], SOUND], **HERE)
    await other.ask(other.agent(memory=memory), NEXT[1], **HERE)
    assert heard(other)[-1] == NEXT


IDS = {"with other characters": ("functions.weather:0", "functions.weather:1"), "given twice": ("call_0", "call_0")}


@pytest.mark.parametrize("ids", IDS)
async def test_ids_of_calls_that_a_local_server_gave_do_not_stop_anthropic(
    wires: dict[str, Wire], memory: Memory, ids: str
) -> None:
    local, claude = wires["chat"], wires["anthropic"]
    local.server.reply(*(ToolCall("weather", {"city": "Porto"}, id_) for id_ in IDS[ids]), "It stays dry.")
    await local.ask(local.agent(memory=memory, tools=[weather]), ASKED[1], **HERE)
    await claude.ask(claude.agent(memory=memory, tools=[weather]), NEXT[1], **HERE)
    assert [text for role, text in heard(claude) if role == "tool"] == [CALLED[1][1]] * 2


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def call(id_: str = "c1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "weather", "input": {}}


def returned(id_: str = "c1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": "dry"}


HELLO, HI = user(text("Hello")), assistant(text("Hi"))
CACHE_POINT = text("Hello") | {"cache_control": CACHED}
REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no messages": ([], "at least one message"),
    "assistant first": ([HI, HELLO], 'first message must use the "user" role'),
    "system message": ([HELLO, {"role": "system", "content": "Be brief."}], "Unexpected role"),
    "empty message": ([HELLO, assistant(), HELLO], "must have non-empty content"),
    "empty text": ([user(text(""), text("Hello"))], "text content blocks must be non-empty"),
    "empty string": ([{"role": "user", "content": ""}], "text content blocks must be non-empty"),
    "white space": ([HELLO, assistant(text("\n")), HELLO], "must contain non-whitespace text"),
    "call without a result": ([HELLO, assistant(call()), HELLO], "without `tool_result` blocks immediately after: c1"),
    "call at the end": ([HELLO, assistant(call())], "without `tool_result` blocks immediately after: c1"),
    "result after a text": (
        [HELLO, assistant(call()), user(text("Here:"), returned())], "without `tool_result` blocks immediately after",
    ),
    "result too late": ([HELLO, assistant(call()), HELLO, HI, user(returned())], "unexpected `tool_use_id`"),
    "result without a call": ([HELLO, HI, user(returned())], "unexpected `tool_use_id`"),
    "result first": ([user(returned())], "unexpected `tool_use_id`"),
    "result given twice": ([HELLO, assistant(call()), user(returned(), returned())], "must have a single result"),
    "call by the user": ([user(call()), user(returned())], "not allowed in user messages"),
    "id given twice": (
        [HELLO, assistant(call()), user(returned()), assistant(call()), user(returned())], "ids must be unique",
    ),
    "id with other characters": ([HELLO, assistant(call("c.1")), user(returned("c.1"))], "should match pattern"),
    "white space at the end": ([HELLO, assistant(text("Hi "))], "cannot end with trailing whitespace"),
    "thought with another signature": (
        [HELLO, assistant({"type": "thinking", "thinking": "Hm.", "signature": "x"}, text("Hi")), HELLO], "signature",
    ),
    "too many cache points": ([user(*[CACHE_POINT] * 5)], "A maximum of 4 blocks"),
}  # fmt: skip
TAKEN: dict[str, list[dict[str, Any]]] = {
    "one message": [{"role": "user", "content": "Hello"}],
    "one side twice in a row": [HELLO, HELLO, HI, HI, HELLO],
    "results in two messages": [
        HELLO, assistant(call("c1"), call("c2")), user(returned("c1")), user(returned("c2"), text("And?")),
    ],
    "beginning of an answer": [HELLO, HI],
}  # fmt: skip


def posted(messages: list[dict[str, Any]]) -> MessagesRequest:
    return MessagesRequest("/v1/messages", {}, {"model": CLAUDE, "max_tokens": 9, "messages": messages})


@pytest.mark.parametrize("kind", REFUSED)
def test_server_refuses_what_the_provider_refuses(kind: str) -> None:
    messages, fault = REFUSED[kind]
    assert any(fault in found for found in posted(messages).faults)


@pytest.mark.parametrize("kind", TAKEN)
def test_server_takes_what_the_provider_takes(kind: str) -> None:
    assert posted(TAKEN[kind]).faults == []
