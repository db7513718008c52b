"""What a client sent in the OpenAI wire format, read alike for Chat Completions and Responses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

CHAT_PATH = "/v1/chat/completions"
RESPONSES_PATH = "/v1/responses"
EMBEDDINGS_PATH = "/v1/embeddings"
MAX_INPUTS = 2048


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """What a client posted. Header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: Json

    @property
    def stream(self) -> bool:
        """Whether the client asked for server-sent events."""
        return bool(self.body.get("stream"))

    @property
    def messages(self) -> list[tuple[str, str]]:
        """The conversation as (role, text), alike for both formats.

        Roles are system (developer messages and `instructions` too), user, assistant and tool. A tool call
        is `("assistant", "call:NAME:ID")`, its result `("tool", text)`. Parts without text stand as `[type]`.
        """
        spelled = _response_messages if self.path == RESPONSES_PATH else _chat_messages
        return list(spelled(self.body))

    @property
    def system(self) -> list[str]:
        """Texts of the system and developer messages, in the order sent; `instructions` come first."""
        return [text for role, text in self.messages if role == "system"]

    @property
    def conversation(self) -> list[tuple[str, str]]:
        """`messages` without the leading system messages."""
        return list(itertools.dropwhile(lambda message: message[0] == "system", self.messages))

    @property
    def inputs(self) -> list[str]:
        """The texts to embed."""
        said: str | list[str] = self.body["input"]
        return [said] if isinstance(said, str) else said

    @property
    def faults(self) -> list[str]:
        """What a provider refuses.

        In a conversation: calls and results that are not paired, and answers without text. Of texts to embed: none or
        too many of them, and empty ones.
        """
        if self.path == EMBEDDINGS_PATH:
            fits = 1 <= len(self.inputs) <= MAX_INPUTS
            return [*([] if fits else ["number of inputs"]), *("empty input" for text in self.inputs if not text)]
        spelled = _response_pairs if self.path == RESPONSES_PATH else _chat_pairs
        return list(_faults(spelled(self.body)))


def _chat_messages(body: Json) -> Iterator[tuple[str, str]]:
    for message in body["messages"]:
        text, calls = _text(message.get("content")), cast("list[Json]", message.get("tool_calls") or [])
        if text or not calls:
            yield _role(message), text
        for call in calls:
            yield "assistant", f"call:{call['function']['name']}:{call['id']}"


def _response_messages(body: Json) -> Iterator[tuple[str, str]]:
    if body.get("instructions"):
        yield "system", body["instructions"]
    items = body["input"]
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        match item.get("type", "message"):
            case "message":
                yield _role(item), _text(item["content"])
            case "function_call":
                yield "assistant", f"call:{item['name']}:{item['call_id']}"
            case "function_call_output":
                yield "tool", _text(item["output"])
            case _:
                pass  # reasoning, references, tool definitions: nothing that anyone said


def _chat_pairs(body: Json) -> Iterator[tuple[str, str]]:
    for message in body["messages"]:
        calls = cast("list[Json]", message.get("tool_calls") or [])
        if message["role"] == "tool":
            yield "result", message["tool_call_id"]
        elif message["role"] != "assistant" or not calls or message.get("content") is not None:
            yield message["role"], _text(message.get("content"))
        yield from (("call", call["id"]) for call in calls)


def _response_pairs(body: Json) -> Iterator[tuple[str, str]]:
    items = body["input"]
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        match item.get("type", "message"):
            case "function_call":
                yield "call", item["call_id"]
            case "function_call_output":
                yield "result", item["call_id"]
            case "message":
                yield item["role"], _text(item["content"])
            case _:
                pass


def _faults(steps: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Walk over messages (role, text), calls (call, id) and results (result, id)."""
    pending: list[str] = []
    for kind, value in itertools.chain(steps, [("end", "")]):
        if kind == "call":
            pending.append(value)
        elif kind == "result":
            if value not in pending:
                yield f"result without a call: {value}"
            pending = [id_ for id_ in pending if id_ != value]
        else:
            yield from (f"call without a result: {id_}" for id_ in pending)
            pending = []
            if kind == "assistant" and not value.strip():
                yield "assistant message without text"


def _role(message: Json) -> str:
    return "system" if message["role"] == "developer" else message["role"]


def _text(content: str | list[Json] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.get("text") or part.get("refusal") or f"[{part['type']}]" for part in content)
