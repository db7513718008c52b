"""Model names: what they mean to pydantic-ai, and `EchoModel`, which needs no model at all.

Nothing heavy is imported here; `loomflow.context.engine` builds the model when the first run needs it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .errors import ModelError

_BARE = (
    (re.compile(r"(?:gpt|chatgpt|o\d)(?:-|$)"), "openai-chat"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-"), "google"),
)
_LOCAL_PREFIXES = ("openai", "openai-chat", "openai-responses", "ollama", "anthropic")
_HINT = "use gpt-*, o*, claude-*, gemini-*, provider:name, base_url= for a local server, or EchoModel()"


@dataclass(frozen=True, slots=True)
class EchoRequest:
    """What one request put in front of `EchoModel`.

    Attributes:
        system: the instructions and, under them, the memory block.
        messages: role and text of the chat history and the prompt, in order.
    """

    system: str
    messages: tuple[tuple[str, str], ...]


class EchoModel:
    """Answers with what it was sent: no key, no network. For demos and tests.

    The answer is the last user message behind `prefix`. Everything that was sent is kept in `requests`, so a test can
    look at the block that reached the model.

    Args:
        prefix: put before the answer.

    >>> EchoModel().prefix
    'Echo: '
    """

    def __init__(self, prefix: str = "Echo: ") -> None:
        self.prefix = prefix
        self.requests: list[EchoRequest] = []

    def __repr__(self) -> str:
        return f"EchoModel(prefix={self.prefix!r})"

    def answer(self, request: EchoRequest) -> str:
        """Note a request and return the answer to it."""
        self.requests.append(request)
        said = [text for role, text in request.messages if role == "user"]
        return f"{self.prefix}{said[-1] if said else ''}"


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model name, taken apart.

    Attributes:
        given: as the caller wrote it.
        provider: as pydantic-ai calls it.
        name: the model's own name.
        base_url: of the server; None for the provider's own.
    """

    given: str
    provider: str
    name: str
    base_url: str | None = None


def parse_model_name(given: str, base_url: str | None = None) -> ModelName:
    """Take a model name apart.

    With a `base_url` every name is taken as one of that server's, whatever colons it has; `openai:` in front of it
    asks for the Responses API, `anthropic:` for Anthropic's Messages, else chat completions are spoken, which every
    local server understands.

    Raises:
        ModelError: the name is of no known form.

    >>> parse_model_name("gpt-4.1-mini").provider
    'openai-chat'
    >>> parse_model_name("qwen3:8b", base_url="http://127.0.0.1:8080/v1").name
    'qwen3:8b'
    """
    if not given.strip():
        raise ModelError(f"model must be a non-blank name, got {given!r}; {_HINT}")
    prefix, colon, rest = given.partition(":")
    server = base_url or os.environ.get("OPENAI_BASE_URL")
    if base_url is not None:
        if colon and prefix in _LOCAL_PREFIXES:
            return ModelName(given, prefix, rest, base_url)
        return ModelName(given, "openai-chat", given, base_url)
    for pattern, provider in _BARE:
        if pattern.match(given):
            return ModelName(given, provider, given)
    if colon and rest and re.fullmatch(r"[a-z][a-z0-9/_-]*", prefix):
        if prefix == "test":
            raise ModelError(f"unknown model {given!r}; {_HINT}")
        return ModelName(given, prefix, rest)
    if server:
        return ModelName(given, "openai-chat", given)
    raise ModelError(f"unknown model {given!r}; {_HINT}")
