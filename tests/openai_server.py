"""A local HTTP server that speaks the OpenAI wire format, for tests of a real model client on a real wire.

It answers from a script and keeps what it was sent. It knows Chat Completions and Responses, each as one JSON
body or as server-sent events:

    with OpenAIServer() as server:
        server.reply(ToolCall("look_up", {"word": "tea"}), "Tea is a drink.")
        ...  # a client with base_url=server.base_url
        assert server.requests[-1].messages[0] == ("user", "What is tea?")

It embeds texts too, deterministically: texts that share words are near. Those requests are kept in `embeddings`.

Every answer closes its connection; with `keep_alive=True` connections stay open, as those of hosted providers do.
Like them it refuses, with status 400, what is not a conversation or cannot be embedded: see `RecordedRequest.faults`.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import select
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias, cast

from tests.openai_wire import CHAT_PATH, EMBEDDINGS_PATH, RESPONSES_PATH, Json, RecordedRequest

MODELS_PATH = "/v1/models"
DIMENSIONS = 64


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model calls a tool. Without an id it gets one that the server uses only once."""

    name: str
    arguments: Mapping[str, object]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error. The OpenAI client is told not to try again by itself, unless `retry` is set."""

    status: int
    message: str
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Hang:
    """No byte for `seconds`, then the text "late". Closing the server ends the wait, without an answer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """A stream that is cut after `after_chunks` deltas of `text`, or after one for each of its characters.

    Where no stream was asked for, the connection is cut before the status line.
    """

    after_chunks: int
    text: str


Reply: TypeAlias = str | ToolCall | list[ToolCall] | Failure | Hang | Drop


def embedding_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The vector of a text: each of its words, in lower case, adds 1 in a place that its hash says."""
    vector = [0.0] * dimensions
    for word in text.lower().split():
        vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % dimensions] += 1.0
    return vector


class OpenAIServer:
    """The server, listening on a free port of 127.0.0.1 while its `with` block runs.

    Attributes:
        base_url: What to give a client, `http://127.0.0.1:PORT/v1`.
        requests: What was sent, oldest first, the client's own retries included. GETs are not kept.
        embeddings: The same for texts to embed, which are not in `requests`.
    """

    def __init__(self, *, keep_alive: bool = False) -> None:
        self._listener = _Listener(keep_alive=keep_alive)
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.01,), daemon=True)
        self.requests: list[RecordedRequest] = self._listener.requests
        self.embeddings: list[RecordedRequest] = self._listener.embeddings
        self.base_url: str = f"http://127.0.0.1:{self._listener.server_port}/v1"

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.stopping.set()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    def reply(self, *replies: Reply) -> None:
        """Add to the script: one reply for each request. When none is left, the answer is the text "ok"."""
        with self._listener.lock:
            self._listener.replies.extend(replies)

    def reply_to_embeddings(self, *replies: Failure | Hang) -> None:
        """Add to the script for texts to embed. When none is left, they are embedded."""
        with self._listener.lock:
            self._listener.embedding_replies.extend(replies)

    def wait_for_requests(self, count: int, timeout: float = 20.0) -> None:
        """Block until `count` requests have come in; after `timeout` seconds, a TimeoutError."""
        with self._listener.lock:
            if not self._listener.lock.wait_for(lambda: len(self.requests) >= count, timeout):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came in")

    def clear(self) -> None:
        """Forget the requests, and the replies that are left."""
        with self._listener.lock:
            self._listener.requests.clear()
            self._listener.replies.clear()
            self._listener.embeddings.clear()
            self._listener.embedding_replies.clear()


class _Cut(Exception):
    """The stream ends here, in the middle."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """One assistant turn, not yet spelled in a format."""

    number: int
    request: RecordedRequest
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    drop_after: int | None = None

    def pieces(self, text: str) -> Iterator[str]:
        """A text as it is streamed: in 3 pieces or more, if it has as many characters.

        Raises:
            _Cut: Where the stream is to be cut.
        """
        count = min(len(text), max(3, len(text) // 24, (self.drop_after or 0) + 1))
        for n in range(count):
            if n == self.drop_after:
                raise _Cut
            yield text[n * len(text) // count : (n + 1) * len(text) // count]
        if self.drop_after is not None:
            raise _Cut

    def usage(self, sent_key: str, answered_key: str) -> Json:
        """Tokens, estimated as a quarter of the characters of the messages; tool schemas are not counted."""
        sent = 1 + sum(len(text) for _, text in self.request.messages) // 4
        answered = 1 + sum(map(len, [self.text, *map(_arguments, self.calls)])) // 4
        return {sent_key: sent, answered_key: answered, "total_tokens": sent + answered}


def _turn(number: int, request: RecordedRequest, reply: Reply) -> _Turn:
    match reply:
        case str():
            return _Turn(number, request, reply)
        case Drop(after_chunks, text):
            return _Turn(number, request, text, drop_after=after_chunks)
        case ToolCall():
            return _turn(number, request, [reply])
        case list():
            calls = [replace(call, id=call.id or f"call_{number}_{n}") for n, call in enumerate(reply)]
            return _Turn(number, request, calls=calls)
        case _:
            return _Turn(number, request, "late")


def _arguments(call: ToolCall) -> str:
    return json.dumps(dict(call.arguments))


def _chat_body(turn: _Turn) -> Json:
    message: Json = {"role": "assistant", "content": None if turn.calls else turn.text}
    if turn.calls:
        message["tool_calls"] = [_chat_call(call, _arguments(call)) for call in turn.calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(turn)}
    return _chat_head(turn, "chat.completion") | {"choices": [choice], "usage": _chat_usage(turn)}


def _chat_head(turn: _Turn, kind: str) -> Json:
    model = turn.request.body["model"]
    return {"id": f"chatcmpl-{turn.number}", "object": kind, "created": int(time.time()), "model": model}


def _chat_call(call: ToolCall, arguments: str) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _chat_usage(turn: _Turn) -> Json:
    return turn.usage("prompt_tokens", "completion_tokens")


def _finish_reason(turn: _Turn) -> str:
    return "tool_calls" if turn.calls else "stop"


def _chat_frames(turn: _Turn) -> Iterator[str]:
    options: Json = turn.request.body.get("stream_options") or {}
    head = _chat_head(turn, "chat.completion.chunk")
    for delta in _chat_deltas(turn):
        yield _frame(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _frame(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": _finish_reason(turn)}]})
    if options.get("include_usage"):
        yield _frame(head | {"choices": [], "usage": _chat_usage(turn)})
    yield "data: [DONE]\n\n"


def _chat_deltas(turn: _Turn) -> Iterator[Json]:
    yield {"role": "assistant", "content": None if turn.calls else ""}
    for index, call in enumerate(turn.calls):
        yield {"tool_calls": [{"index": index} | _chat_call(call, "")]}
        for piece in turn.pieces(_arguments(call)):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
    for piece in turn.pieces(turn.text):
        yield {"content": piece}


def _response_body(turn: _Turn, status: str = "completed") -> Json:
    done = status == "completed"
    tokens = turn.usage("input_tokens", "output_tokens") | {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": f"resp_{turn.number}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "model": turn.request.body["model"],
        "output": [_output_item(turn, n, status) for n in range(len(turn.calls) or 1)] if done else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": turn.request.body.get("tools") or [],
        "usage": tokens if done else None,
    }


def _output_item(turn: _Turn, n: int, status: str) -> Json:
    done = status == "completed"
    if not turn.calls:
        head: Json = {"id": f"msg_{turn.number}", "type": "message", "role": "assistant", "status": status}
        return head | {"content": [_output_text(turn.text)] if done else []}
    call = turn.calls[n]
    head = {"id": f"fc_{turn.number}_{n}", "type": "function_call", "status": status}
    return head | {"call_id": call.id, "name": call.name, "arguments": _arguments(call) if done else ""}


def _output_text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _response_frames(turn: _Turn) -> Iterator[str]:
    for number, (kind, event) in enumerate(_response_events(turn)):
        yield f"event: {kind}\n" + _frame({"type": kind, "sequence_number": number} | event)


def _response_events(turn: _Turn) -> Iterator[tuple[str, Json]]:
    yield "response.created", {"response": _response_body(turn, "in_progress")}
    yield "response.in_progress", {"response": _response_body(turn, "in_progress")}
    for n in range(len(turn.calls) or 1):
        started = _output_item(turn, n, "in_progress")
        yield "response.output_item.added", {"output_index": n, "item": started}
        at = {"item_id": started["id"], "output_index": n}
        yield from _call_events(turn, turn.calls[n], at) if turn.calls else _text_events(turn, at)
        yield "response.output_item.done", {"output_index": n, "item": _output_item(turn, n, "completed")}
    yield "response.completed", {"response": _response_body(turn)}


def _text_events(turn: _Turn, at: Json) -> Iterator[tuple[str, Json]]:
    here = at | {"content_index": 0}
    yield "response.content_part.added", here | {"part": _output_text("")}
    for piece in turn.pieces(turn.text):
        yield "response.output_text.delta", here | {"delta": piece, "logprobs": []}
    yield "response.output_text.done", here | {"text": turn.text, "logprobs": []}
    yield "response.content_part.done", here | {"part": _output_text(turn.text)}


def _call_events(turn: _Turn, call: ToolCall, at: Json) -> Iterator[tuple[str, Json]]:
    for piece in turn.pieces(_arguments(call)):
        yield "response.function_call_arguments.delta", at | {"delta": piece}
    yield "response.function_call_arguments.done", at | {"name": call.name, "arguments": _arguments(call)}


def _embeddings_body(request: RecordedRequest) -> Json:
    dimensions: int = request.body.get("dimensions") or DIMENSIONS
    in_base64 = request.body.get("encoding_format") == "base64"
    data: list[Json] = []
    for index, text in enumerate(request.inputs):
        vector = embedding_of(text, dimensions)
        packed = base64.b64encode(struct.pack(f"<{dimensions}f", *vector)).decode() if in_base64 else vector
        data.append({"object": "embedding", "index": index, "embedding": packed})
    tokens = 1 + sum(map(len, request.inputs)) // 4
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": request.body["model"], "data": data, "usage": usage}


def _frame(data: Json) -> str:
    return f"data: {json.dumps(data)}\n\n"


class _Listener(ThreadingHTTPServer):
    """The listening socket, and what the handler threads share."""

    daemon_threads = False  # so that server_close joins the handlers
    request_queue_size = 128  # the default of 5 makes many clients at once wait a second for their connection

    def __init__(self, *, keep_alive: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keep_alive = keep_alive
        self.lock = threading.Condition()
        self.stopping = threading.Event()
        self.requests: list[RecordedRequest] = []
        self.replies: deque[Reply] = deque()
        self.embeddings: list[RecordedRequest] = []
        self.embedding_replies: deque[Failure | Hang] = deque()
        self.numbers = itertools.count(1)

    def record(self, request: RecordedRequest) -> Reply:
        """Keep a request and take its reply, in one step: the n-th request gets the n-th reply."""
        embeds = request.path == EMBEDDINGS_PATH
        replies = self.embedding_replies if embeds else self.replies
        with self.lock:
            (self.embeddings if embeds else self.requests).append(request)
            self.lock.notify_all()
            return replies.popleft() if replies else "ok"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up, as one does whose run is cancelled."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    # HTTP/1.0 has no chunks, and without them a cut stream looks like a whole one.
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 5.0

    def handle(self) -> None:
        """Answer one request; with keep-alive, go on until the client leaves or the server is closed."""
        self.handle_one_request()
        while self._listener.keep_alive and not self.close_connection and self._awaits_more():
            self.handle_one_request()

    @property
    def _listener(self) -> _Listener:
        return cast("_Listener", self.server)

    def _awaits_more(self) -> bool:
        while not self._listener.stopping.is_set():
            if select.select([self.connection], [], [], 0.02)[0]:
                return True
        return False

    def do_GET(self) -> None:
        if self.path != MODELS_PATH:
            self._send_failure(Failure(404, f"no such endpoint: {self.path}"))
            return
        model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}
        self._send_json(200, {"object": "list", "data": [model]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path not in (CHAT_PATH, RESPONSES_PATH, EMBEDDINGS_PATH):
            self._send_failure(Failure(404, f"no such endpoint: {self.path}"))
            return
        listener = self._listener
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(self.path, headers, json.loads(body))
        reply = listener.record(request)
        if request.faults:
            what = "to be embedded" if self.path == EMBEDDINGS_PATH else "a conversation"
            reply = Failure(400, f"not {what}: {', '.join(request.faults)}")
        if isinstance(reply, Failure):
            self._send_failure(reply)
        elif isinstance(reply, Hang) and listener.stopping.wait(reply.seconds):
            self.close_connection = True
        elif self.path == EMBEDDINGS_PATH:
            self._send_json(200, _embeddings_body(request))
        else:
            self._send_turn(_turn(next(listener.numbers), request, reply))

    def _send_turn(self, turn: _Turn) -> None:
        chat = self.path == CHAT_PATH
        if turn.request.stream:
            self._send_stream(_chat_frames(turn) if chat else _response_frames(turn))
        elif turn.drop_after is None:
            self._send_json(200, _chat_body(turn) if chat else _response_body(turn))
        else:
            self.close_connection = True

    def _send_stream(self, frames: Iterator[str]) -> None:
        self._send_head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        try:
            for frame in frames:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(frame), frame.encode("ascii")))
            self.wfile.write(b"0\r\n\r\n")
        except _Cut:
            self.close_connection = True

    def _send_failure(self, failure: Failure) -> None:
        error = {"message": failure.message, "type": "scripted_failure", "param": None, "code": None}
        self._send_json(failure.status, {"error": error}, {"X-Should-Retry": str(failure.retry).lower()})

    def _send_json(self, status: int, body: Json, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        fixed = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        self._send_head(status, {**fixed, **(headers or {})})
        self.wfile.write(data)

    def _send_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        connection = "keep-alive" if self._listener.keep_alive else "close"
        for name, value in {**headers, "Connection": connection}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Keep the test output quiet."""
