"""A local HTTP server that speaks Anthropic's Messages format, for tests of a real model client on a real wire.

It answers from a script and keeps what it was sent, like the server of the OpenAI formats, which it builds on:

    with AnthropicServer() as server:
        server.reply([Thinking("What is tea?"), ToolCall("look_up", {"word": "tea"})], "Tea is a drink.")
        ...  # a client with base_url=server.base_url
        assert server.requests[-1].messages[0] == ("user", "What is tea?")

Like the provider it refuses, with status 400, what is not a conversation: see `MessagesRequest.faults`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from tests import openai_server
from tests.anthropic_wire import MESSAGES_PATH, MessagesRequest, signature_of
from tests.openai_server import Drop, Failure, Hang, OpenAIServer, ToolCall
from tests.openai_wire import Json

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
CUT_MESSAGE = "Overloaded"


@dataclass(frozen=True, slots=True)
class Thinking:
    """What the model thinks before it answers; the server signs it."""

    text: str


@dataclass(frozen=True, slots=True)
class Stall:
    """A stream that stops after `after_chunks` pieces of `block`, and stays open until the server is closed."""

    after_chunks: int
    block: Block


@dataclass(frozen=True, slots=True)
class Overloaded:
    """A stream that ends in an error event after `after_chunks` pieces of `block`, as those of a busy provider do.

    Where no stream was asked for, it is the status 529.
    """

    after_chunks: int
    block: Block


Block: TypeAlias = str | ToolCall | Thinking
Reply: TypeAlias = Block | Sequence[Block] | Failure | Hang | Drop | Stall | Overloaded
End: TypeAlias = Literal["whole", "drop", "stall", "overloaded"]


class AnthropicServer(OpenAIServer):
    """The server, listening on a free port of 127.0.0.1 while its `with` block runs.

    Attributes:
        base_url: What to give a client, `http://127.0.0.1:PORT`.
        requests: What was sent, oldest first, the client's own retries included.
    """

    def __init__(self, *, keep_alive: bool = False) -> None:
        super().__init__(keep_alive=keep_alive)
        self._listener.RequestHandlerClass = _Handler
        self.base_url = self.base_url.removesuffix("/v1")

    def __enter__(self) -> AnthropicServer:
        super().__enter__()
        return self

    @property
    def received(self) -> list[MessagesRequest]:
        """The requests, with what only this format has."""
        return cast("list[MessagesRequest]", self.requests)

    def reply(self, *replies: Reply) -> None:
        """Add to the script: one reply for each request. When none is left, the answer is the text "ok"."""
        super().reply(*cast("tuple[openai_server.Reply, ...]", replies))


@dataclass(frozen=True, slots=True)
class _Answer:
    """One assistant turn, not yet spelled. An empty text is no block: the model had nothing to say."""

    number: int
    request: MessagesRequest
    blocks: Sequence[Block]
    end: End = "whole"
    after_chunks: int = 0

    def pieces(self, text: str) -> Iterator[str]:
        """A text as it is streamed: in 3 pieces or more, if it has as many characters.

        Raises:
            _Cut: Where the stream does not go on.
        """
        cut_after = None if self.end == "whole" else self.after_chunks
        count = min(len(text), max(3, len(text) // 24, (cut_after or 0) + 1))
        for n in range(count):
            if n == cut_after:
                raise _Cut
            yield text[n * len(text) // count : (n + 1) * len(text) // count]
        if cut_after is not None:
            raise _Cut

    @property
    def stop_reason(self) -> str:
        return "tool_use" if any(isinstance(block, ToolCall) for block in self.blocks) else "end_turn"

    def head(self, content: list[Json], stop_reason: str | None) -> Json:
        return {
            "id": f"msg_{self.number}",
            "type": "message",
            "role": "assistant",
            "model": self.request.body["model"],
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": self.usage(),
        }

    def usage(self) -> Json:
        """Tokens, estimated as a quarter of the characters of the messages; tool schemas are not counted."""
        sent = 1 + sum(len(text) for _, text in self.request.messages) // 4
        answered = 1 + sum(len(json.dumps(_block(block))) for block in self.blocks) // 4
        cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {"input_tokens": sent, "output_tokens": answered} | cached


class _Cut(Exception):
    """The stream does not go on, in the middle."""


def _answer(number: int, request: MessagesRequest, reply: Reply) -> _Answer:
    match reply:
        case Drop(after_chunks, text):
            return _Answer(number, request, [text], "drop", after_chunks)
        case Stall(after_chunks, block):
            return replace(_answer(number, request, block), end="stall", after_chunks=after_chunks)
        case Overloaded(after_chunks, block):
            return replace(_answer(number, request, block), end="overloaded", after_chunks=after_chunks)
        case str() | ToolCall() | Thinking():
            return _answer(number, request, [reply])
        case Failure() | Hang():
            return _Answer(number, request, ["late"])
        case _:
            blocks = [_with_id(block, f"toolu_{number}_{n}") for n, block in enumerate(reply) if block != ""]
            return _Answer(number, request, blocks)


def _with_id(block: Block, id_: str) -> Block:
    return replace(block, id=block.id or id_) if isinstance(block, ToolCall) else block


def _block(block: Block) -> Json:
    match block:
        case str():
            return {"type": "text", "text": block, "citations": None}
        case Thinking(text):
            return {"type": "thinking", "thinking": text, "signature": signature_of(text)}
        case ToolCall(name, arguments, id_):
            return {"type": "tool_use", "id": id_, "name": name, "input": dict(arguments)}


def _begun(block: Block) -> Json:
    """A block as its stream begins: with everything but what deltas bring."""
    empty: Json = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {name: empty.get(name, value) for name, value in _block(block).items()}


def _deltas(answer: _Answer, block: Block) -> Iterator[Json]:
    match block:
        case str():
            yield from ({"type": "text_delta", "text": piece} for piece in answer.pieces(block))
        case Thinking(text):
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in answer.pieces(text))
            yield {"type": "signature_delta", "signature": signature_of(text)}
        case ToolCall(_, arguments):
            for piece in itertools.chain([""], answer.pieces(json.dumps(dict(arguments)))):
                yield {"type": "input_json_delta", "partial_json": piece}


def _events(answer: _Answer) -> Iterator[Json]:
    yield {"type": "message_start", "message": answer.head([], None)}
    yield {"type": "ping"}
    for index, block in enumerate(answer.blocks):
        yield {"type": "content_block_start", "index": index, "content_block": _begun(block)}
        for delta in _deltas(answer, block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": answer.stop_reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": answer.usage()}
    yield {"type": "message_stop"}


def _error(kind: str, message: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": message}}


class _Handler(openai_server._Handler):
    def do_GET(self) -> None:
        self._send_failure(Failure(404, f"no such endpoint: {self.path}"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        path = self.path.partition("?")[0]  # the client asks for beta features in the query
        if path != MESSAGES_PATH:
            self._send_failure(Failure(404, f"no such endpoint: {self.path}"))
            return
        listener = self._listener
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = MessagesRequest(path, headers, json.loads(body))
        reply = cast("Reply", listener.record(request))
        reply = _refusal(request) or reply
        if isinstance(reply, Failure):
            self._send_failure(reply)
        elif isinstance(reply, Hang) and listener.stopping.wait(reply.seconds):
            self.close_connection = True
        else:
            self._send_answer(_answer(next(listener.numbers), request, reply))

    def _send_answer(self, answer: _Answer) -> None:
        if answer.request.stream:
            self._send_events(answer)
        elif answer.end == "whole":
            self._send_json(200, answer.head([_block(block) for block in answer.blocks], answer.stop_reason))
        elif answer.end == "overloaded":
            self._send_failure(Failure(529, CUT_MESSAGE))
        else:
            self._leave(answer)

    def _send_events(self, answer: _Answer) -> None:
        self._send_head(200, {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked"})
        try:
            for event in _events(answer):
                self._send_event(event)
        except _Cut:
            if answer.end != "overloaded":
                self._leave(answer)
                return
            self._send_event(_error(ERROR_TYPES[529], CUT_MESSAGE))
        self.wfile.write(b"0\r\n\r\n")

    def _send_event(self, event: Json) -> None:
        frame = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode("ascii")
        self.wfile.write(b"%x\r\n%b\r\n" % (len(frame), frame))

    def _leave(self, answer: _Answer) -> None:
        """Answer no further: hang up, at once or when the server is closed."""
        if answer.end == "stall":
            self._listener.stopping.wait()
        self.close_connection = True

    def _send_failure(self, failure: Failure) -> None:
        error = _error(ERROR_TYPES.get(failure.status, "api_error"), failure.message) | {"request_id": "req_1"}
        headers = {"X-Should-Retry": str(failure.retry).lower(), "Request-Id": "req_1"}
        self._send_json(failure.status, error, headers)


def _refusal(request: MessagesRequest) -> Failure | None:
    if not {"x-api-key", "authorization"} & request.headers.keys():
        return Failure(401, "a key is required")
    faults = [] if "anthropic-version" in request.headers else ["anthropic-version: header is required"]
    faults += request.faults
    return Failure(400, "; ".join(faults)) if faults else None
