"""What stands between a run and its model: each request, as it goes on the wire.

In this order: text that cannot be sent is mended, tool results are shortened, the oldest part of the conversation is
compacted if the request would be too large, the memory block is put in, and the request is counted. Nothing of this
changes what is stored.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import RunContext
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from loomflow.account import ContextAccount
from loomflow.errors import ContextError
from loomflow.passages import both_ends

from .compaction import HEAD, Compaction, prompt_place
from .counting import definitions_tokens, messages_tokens, result_tokens
from .limits import UNKNOWN_WINDOW, Limits
from .paging import PAGING_TOOL
from .results import capped
from .wire import acceptable, is_of_chat_completions, sendable, with_prompts_joined, without_strange_media

SUMMARISED_SHARE, CHARS_A_TOKEN = 0.6, 3
"""So much of the window is given to be summarised at most; of more, the beginning and the end."""

LEAST_RESULT = 24
"""So many tokens of a tool result stay, however little room there is."""

CACHING_SYSTEMS = ("anthropic", "bedrock")
"""Providers that cache the instructions as a part of their own. Elsewhere instructions and block are one system
message: the chat templates of several local models refuse a second one."""

DISCOVERY_TOOLS = frozenset(("search_tools", "load_capability", PAGING_TOOL))
"""Tools by which the model finds others, and the one that reads parts: what they return is never shortened."""


@dataclass(slots=True)
class RequestPlan:
    """What the requests of one run are made of, besides their messages.

    Attributes:
        run_id: of the run that the prompt is from.
        system: memory that stands under the instructions.
        tail: memory that stands right before the prompt; empty where all of it is in `system`.
        pinned_tokens: of the memory, what the working blocks cost.
        limits: in tokens.
        can_page: whether the model has the tool that gives the rest of a shortened result.
        compaction: what has been compacted so far.
        account: of the last request.
        shortened: what results of tools were shortened to, by the id of their call and of their content, which is kept.
    """

    run_id: str
    system: str
    tail: str
    pinned_tokens: int
    limits: Limits
    can_page: bool = False
    compaction: Compaction = field(default_factory=Compaction)
    account: ContextAccount = field(default_factory=ContextAccount)
    shortened: dict[tuple[str, int], tuple[object, ToolReturnPart]] = field(
        default_factory=dict[tuple[str, int], tuple[object, ToolReturnPart]]
    )


class RunModel(WrapperModel):
    """The model of a run: puts memory into each request and keeps it within its limits, on the wire only.

    The block never enters the message history, so it is not stored, and it is built anew for each run (rule R1).
    """

    def __init__(self, wrapped: Model[Any], plan: RequestPlan) -> None:
        super().__init__(wrapped)
        self._plan = plan

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        sent, parameters = await self._prepared(messages, model_request_parameters)
        return await super().request(sent, model_settings, parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        sent, parameters = await self._prepared(messages, model_request_parameters)
        async with super().request_stream(sent, model_settings, parameters, run_context) as response:
            yield response

    def prepare_messages(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        return super().prepare_messages(self._sendable(messages), model_request_parameters)

    def _sendable(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """The messages as the provider takes them; of the history, not what it cannot take at all."""
        sent = sendable(messages)
        if self.wrapped.system.startswith(CACHING_SYSTEMS):
            sent = acceptable(sent)
        return without_strange_media(sent, self.wrapped, prompt_place(sent, self._plan.run_id))

    async def _prepared(
        self, messages: Sequence[ModelMessage], parameters: ModelRequestParameters
    ) -> tuple[list[ModelMessage], ModelRequestParameters]:
        """A request as it is sent.

        Raises:
            ContextError: it is larger than the model's window, and cannot be made smaller.
        """
        plan, limits = self._plan, self._plan.limits
        whole = self._with_short_results(self._sendable(messages))
        place = prompt_place(whole, plan.run_id)
        beside = self._beside(parameters)
        if limits.compact_at is not None:
            sent = plan.compaction.applied(whole, place)
            least = beside.total + messages_tokens(
                [whole[place], *whole[max(place + 1, len(whole) - 2) :]], limits.count
            )
            can_fit = limits.window is None or least <= limits.window
            if can_fit and beside.total + messages_tokens(sent, limits.count) > limits.compact_at:
                await plan.compaction.compact(
                    whole, place, beside.total, limits.compact_at, limits.count, self._summarise
                )
        plan.account = self._account(beside, whole, place)
        over = plan.account.total - (limits.compact_at or limits.window or plan.account.total)
        if over > 0:
            whole = self._squeezed(whole, over)
            plan.account = self._account(beside, whole, place)
        if limits.window is not None and plan.account.total > limits.window:
            raise _too_large(plan.account)
        sent = plan.compaction.applied(_with_tail(whole, place, plan.tail), place)
        if is_of_chat_completions(self.wrapped):
            sent = with_prompts_joined(sent, (HEAD, plan.tail or HEAD))
        return sent, self._with_block(parameters)

    async def _summarise(self, instructions: str, text: str) -> object:
        window = self._plan.limits.window or UNKNOWN_WINDOW
        room = int(window * SUMMARISED_SHARE)
        text = both_ends(text, room * CHARS_A_TOKEN)
        while (cost := self._plan.limits.count(text)) > room and len(text) > CHARS_A_TOKEN:
            text = both_ends(text, min(len(text) * room // cost, len(text) * 9 // 10))
        summariser = PydanticAgent(instructions=instructions, retries=0)  # an empty answer is not asked for again
        return (await summariser.run(text, model=self.wrapped)).output

    def _with_short_results(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        if self._plan.limits.result is None:
            return list(messages)
        return [
            replace(message, parts=[self._short(part) for part in message.parts])
            if isinstance(message, ModelRequest) and any(isinstance(part, ToolReturnPart) for part in message.parts)
            else message
            for message in messages
        ]

    def _short(self, part: ModelRequestPart) -> ModelRequestPart:
        plan, limits = self._plan, self._plan.limits
        assert limits.result is not None
        if not isinstance(part, ToolReturnPart) or part.tool_name in DISCOVERY_TOOLS:
            return part
        key = (part.tool_call_id, id(part.content))  # some servers give an id twice
        known = plan.shortened.get(key)
        if known is not None and known[0] is part.content:
            return known[1]
        if result_tokens(part, limits.count) <= limits.result:
            return part
        rest = f'; read_tool_result("{part.tool_call_id}", 1) gives it in parts' if plan.can_page else ""
        short = capped(part.content, limits.result, limits.count, rest=rest)
        if short is part.content:
            return part
        plan.shortened[key] = (part.content, replace(part, content=short))
        return plan.shortened[key][1]

    def _squeezed(self, messages: Sequence[ModelMessage], over: int) -> list[ModelMessage]:
        """The messages, of whose last tool results so many tokens are left out; they share what is left for them."""
        count, last = self._plan.limits.count, messages[-1]
        results = [part for part in last.parts if isinstance(part, ToolReturnPart)]
        if self._plan.limits.result is None or not isinstance(last, ModelRequest) or not results:
            return list(messages)
        room = sum(result_tokens(part, count) for part in results) - over
        share = max(room // len(results), LEAST_RESULT)
        parts: list[ModelRequestPart] = []
        for part in last.parts:
            if isinstance(part, ToolReturnPart) and result_tokens(part, count) > share:
                parts.append(self._noted(part, replace(part, content=capped(part.content, share, count))))
            else:
                parts.append(part)
        return [*messages[:-1], replace(last, parts=parts)]

    def _noted(self, part: ToolReturnPart, short: ToolReturnPart) -> ToolReturnPart:
        """Note that a result goes in this form from now on; `part` may be a shortened form itself."""
        known = [key for key, (_, form) in self._plan.shortened.items() if form is part]
        key = known[0] if known else (part.tool_call_id, id(part.content))
        original = self._plan.shortened[key][0] if known else part.content
        self._plan.shortened[key] = (original, short)
        return short

    def _beside(self, parameters: ModelRequestParameters) -> ContextAccount:
        """The account of the next request, as far as it does not depend on the messages."""
        plan, limits, count = self._plan, self._plan.limits, self._plan.limits.count
        memory = count(plan.system) + count(plan.tail)
        shown = _shown_tools(parameters)
        return ContextAccount(
            instructions=sum(count(part.content) for part in parameters.instruction_parts or ()),
            blocks=min(plan.pinned_tokens, memory),
            recall=max(memory - plan.pinned_tokens, 0),
            tools=definitions_tokens(shown, count),
            window=limits.window,
            compact_at=limits.compact_at,
            requests=plan.account.requests + 1,
            deferred=len(parameters.function_tools) + len(parameters.output_tools) - len(shown),
        )

    def _account(self, beside: ContextAccount, messages: Sequence[ModelMessage], place: int) -> ContextAccount:
        plan, count, done = self._plan, self._plan.limits.count, self._plan.compaction
        after = place + 1 + done.transcript
        sent = [*messages[done.history : place + 1], *messages[after:]]
        short = {id(part) for _, part in plan.shortened.values()}
        return replace(
            beside,
            summary=messages_tokens([done.message()], count) if done.summary else 0,
            history=messages_tokens(messages[done.history : place], count),
            prompt=messages_tokens(messages[place : place + 1], count),
            transcript=messages_tokens(messages[after:], count),
            compactions=done.count,
            shortened=sum(id(part) in short for message in sent for part in message.parts),
        )

    def _with_block(self, parameters: ModelRequestParameters) -> ModelRequestParameters:
        if not self._plan.system:
            return parameters
        parts = list(parameters.instruction_parts or [])
        block = InstructionPart(content=self._plan.system, dynamic=True)
        if not self.wrapped.system.startswith(CACHING_SYSTEMS):
            texts = [part.content for part in (*parts, block)]
            return replace(parameters, instruction_parts=[InstructionPart(content="\n\n".join(texts), dynamic=True)])
        return replace(parameters, instruction_parts=[*parts, block])


def _with_tail(messages: Sequence[ModelMessage], place: int, tail: str) -> list[ModelMessage]:
    """The messages with recalled memory right before the prompt of the run."""
    sent = list(messages)
    message = sent[place] if tail and sent else None
    if isinstance(message, ModelRequest):
        parts = list(message.parts)
        first = next((n for n, part in enumerate(parts) if isinstance(part, UserPromptPart)), len(parts))
        sent[place] = replace(message, parts=[*parts[:first], UserPromptPart(tail), *parts[first:]])
    return sent


def _shown_tools(parameters: ModelRequestParameters) -> list[ToolDefinition]:
    """The tools whose definitions are sent; deferred ones are not, until they are found."""
    found: Any = getattr(parameters, "revealed_tool_names", None) or ()
    tools = [tool for tool in parameters.function_tools if not tool.defer_loading or tool.name in found]
    return [*tools, *parameters.output_tools]


def _too_large(account: ContextAccount) -> ContextError:
    parts = sorted(account.shares.items(), key=lambda share: -share[1])
    largest = ", ".join(f"{name} {cost:,}" for name, cost in parts if cost)
    return ContextError(
        f"the request would have about {account.total:,} tokens, and the model takes {account.window:,}; "
        f"it is made of {largest}"
    )
