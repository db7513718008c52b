"""What a client sent in Anthropic's Messages format, and what its provider refuses of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, TypeAlias, cast

from tests.openai_wire import Json, RecordedRequest

MESSAGES_PATH = "/v1/messages"
MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MAX_CACHE_POINTS = 4
_ID = re.compile(r"[a-zA-Z0-9_-]+")

Blocks: TypeAlias = list[Json]


class MessagesRequest(RecordedRequest):
    """A request in the Messages format, read like those in the OpenAI formats."""

    __slots__ = ()

    @property
    def messages(self) -> list[tuple[str, str]]:
        """The conversation as (role, text), with a message for each part of the system section.

        A tool call is `("assistant", "call:NAME:ID")`, its result `("tool", text)`. Blocks without text stand as
        `[type]`; thinking is nothing that anyone said, and is left out.
        """
        said = [line for role, blocks in turns_of(self.body) for line in _lines(role, blocks)]
        return [*(("system", part["text"]) for part in self._system), *said]

    @property
    def turns(self) -> list[tuple[str, list[str]]]:
        """The messages as they were sent: role and blocks, each block in one word or two."""
        return [(role, [_spelled(block) for block in blocks]) for role, blocks in turns_of(self.body)]

    @property
    def system_parts(self) -> list[tuple[str, Json | None]]:
        """The parts of the system section, each with its `cache_control`."""
        return [(part["text"], part.get("cache_control")) for part in self._system]

    @property
    def tools(self) -> list[str]:
        """Names of the tools that the model may call."""
        return [tool["name"] for tool in cast("list[Json]", self.body.get("tools") or [])]

    @property
    def faults(self) -> list[str]:
        """What the provider refuses, in its words where they are known."""
        return list(_faults(self.body))

    @property
    def _system(self) -> Blocks:
        return _blocks(self.body.get("system") or [])


def signature_of(thought: str) -> str:
    """The signature of a thought. The provider takes a thought back only with the one that it came with."""
    return hashlib.sha256(thought.encode()).hexdigest()


def turns_of(body: Json) -> list[tuple[str, Blocks]]:
    """The messages as they were sent."""
    return [(message["role"], _blocks(message["content"])) for message in body["messages"]]


def _combined(body: Json) -> list[tuple[str, Blocks]]:
    """The messages as the provider reads them: those of one role in a row are one turn."""
    turns: list[tuple[str, Blocks]] = []
    for role, blocks in turns_of(body):
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, list(blocks)))
    return turns


def _blocks(content: str | Blocks) -> Blocks:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _lines(role: str, blocks: Blocks) -> Iterator[tuple[str, str]]:
    said: list[str] = []
    for block in blocks:
        if block["type"] in ("tool_use", "tool_result"):
            yield from [(role, "\n".join(said))] if said else []
            said = []
            yield ("assistant", _spelled(block)) if block["type"] == "tool_use" else ("tool", _result(block))
        elif block["type"] not in ("thinking", "redacted_thinking"):
            said.append(_spelled(block))
    yield from [(role, "\n".join(said))] if said else []


def _spelled(block: Json) -> str:
    match block["type"]:
        case "text":
            return block["text"]
        case "tool_use":
            return f"call:{block['name']}:{block['id']}"
        case "tool_result":
            return f"result:{block['tool_use_id']}:{_result(block)}"
        case _:
            return f"[{block['type']}]"


def _result(block: Json) -> str:
    return "\n".join(map(_spelled, _blocks(block.get("content") or [])))


def _faults(body: Json) -> Iterator[str]:
    yield from (f"{name}: Field required" for name in ("model", "max_tokens", "messages") if name not in body)
    for role, blocks in turns_of(body):
        if role not in ("user", "assistant"):
            yield f'messages: Unexpected role "{role}"'
        if not blocks:
            yield "messages: all messages must have non-empty content except for the optional final assistant message"
    turns = _combined(body)
    if not turns:
        yield "messages: at least one message is required"
    elif turns[0][0] != "user":
        yield 'messages: first message must use the "user" role'
    yield from _faults_of_texts("system", _blocks(body.get("system") or []))
    for n, (role, blocks) in enumerate(turns):
        yield from _faults_of_texts("messages", blocks)
        yield from (f"messages.{n}.content: {fault}" for block in blocks for fault in _faults_of_block(role, block))
        following = turns[n + 1][1] if n + 1 < len(turns) else []
        yield from (f"messages.{n}: {fault}" for fault in _unanswered(blocks, following))
        yield from (f"messages.{n}.content: {fault}" for fault in _unasked(blocks, turns[n - 1][1] if n else []))
    yield from _faults_of_ids(turns)
    yield from _faults_of_the_end(turns, cast("Json", body.get("thinking") or {}))
    if _cache_points(body) > MAX_CACHE_POINTS:
        yield f"A maximum of {MAX_CACHE_POINTS} blocks with cache_control may be provided"


def _faults_of_texts(where: str, blocks: Blocks) -> Iterator[str]:
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    if "" in texts:
        yield f"{where}: text content blocks must be non-empty"
    if any(text.isspace() for text in texts):
        yield f"{where}: text content blocks must contain non-whitespace text"


def _faults_of_block(role: str, block: Json) -> Iterator[str]:
    kind = block["type"]
    at_home = {"tool_use": "assistant", "thinking": "assistant", "tool_result": "user", "image": "user"}
    if at_home.get(kind, role) != role:
        yield f"`{kind}` blocks are not allowed in {role} messages"
    if kind == "tool_use" and not _ID.fullmatch(block["id"]):
        yield f"tool_use.id: String should match pattern '^{_ID.pattern}$'"
    if kind == "image" and block["source"]["type"] == "base64":
        if block["source"]["media_type"] not in MEDIA_TYPES:
            yield f"image.source.base64.media_type: Input should be one of {', '.join(MEDIA_TYPES)}"
        if not block["source"]["data"]:
            yield "image.source.base64: image cannot be empty"
    if kind == "thinking" and block["signature"] != signature_of(block["thinking"]):
        yield "Invalid `signature` in `thinking` block"


def _unanswered(blocks: Blocks, following: Blocks) -> Iterator[str]:
    """Calls without a result at the very beginning of the next turn."""
    leading = takewhile(lambda block: block["type"] == "tool_result", following)
    answered = {block["tool_use_id"] for block in leading}
    called = [block["id"] for block in blocks if block["type"] == "tool_use"]
    missing = [id_ for id_ in called if id_ not in answered]
    if missing:
        yield f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}"


def _unasked(blocks: Blocks, before: Blocks) -> Iterator[str]:
    """Results without a call in the turn before, and second results."""
    called = [block["id"] for block in before if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    for id_ in dict.fromkeys(results):
        if id_ not in called:
            yield f"unexpected `tool_use_id` found in `tool_result` blocks: {id_}"
        if results.count(id_) > 1:
            yield f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id_}"


def _faults_of_ids(turns: list[tuple[str, Blocks]]) -> Iterator[str]:
    ids = [block["id"] for _, blocks in turns for block in blocks if block["type"] == "tool_use"]
    if len(set(ids)) < len(ids):
        yield "messages: `tool_use` ids must be unique"


def _faults_of_the_end(turns: list[tuple[str, Blocks]], thinking: Json) -> Iterator[str]:
    if not turns:
        return
    role, blocks = turns[-1]
    if role == "assistant" and blocks and blocks[-1]["type"] == "text" and blocks[-1]["text"][-1:].isspace():
        yield "messages: final assistant content cannot end with trailing whitespace"
    answers_tools = len(turns) > 1 and any(block["type"] == "tool_result" for block in blocks)
    if thinking.get("type") == "enabled" and answers_tools:
        kind = next((block["type"] for block in turns[-2][1]), "nothing")
        if kind not in ("thinking", "redacted_thinking"):
            yield f"messages: Expected `thinking` or `redacted_thinking`, but found `{kind}`"


def _cache_points(value: Any) -> int:
    if isinstance(value, dict):
        items = cast("Json", value)
        return ("cache_control" in items) + sum(map(_cache_points, items.values()))
    return sum(map(_cache_points, cast("list[Any]", value))) if isinstance(value, list) else 0
