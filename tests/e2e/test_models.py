"""Names of models: which endpoint they reach, and what is said where a key, a package or the model is missing."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from loomflow import Agent, ConfigError, EchoModel, Fact, Memory, ModelError
from tests.openai_server import CHAT_PATH, RESPONSES_PATH, Failure, OpenAIServer

KEY = "sk-very-secret-1234"
HINT = "use gpt-*, o*, claude-*, gemini-*, provider:name, base_url= for a local server, or EchoModel()"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no address of a provider comes from the environment."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)


def reached(server: OpenAIServer, agent: Agent) -> tuple[str, str, str]:
    """Path, model name and authorization of the one request that a run sends."""
    assert agent.run_sync("Hello").output == "ok"
    (request,) = server.requests
    return request.path, request.body["model"], request.headers["authorization"]


def failure_of(make: Callable[[], Agent]) -> str:
    """The message of the ModelError that a run ends in: one line, without a key."""
    with pytest.raises(ModelError) as raised:
        make().run_sync("Hello")
    message = str(raised.value)
    assert "\n" not in message
    assert KEY not in message
    return message


@pytest.mark.parametrize(
    ("name", "path", "sent"),
    [
        ("gpt-4.1-mini", CHAT_PATH, "gpt-4.1-mini"),
        ("o3", CHAT_PATH, "o3"),
        ("o4-mini", CHAT_PATH, "o4-mini"),
        ("chatgpt-4o-latest", CHAT_PATH, "chatgpt-4o-latest"),
        ("openai:gpt-4.1-mini", RESPONSES_PATH, "gpt-4.1-mini"),
        ("openai-responses:gpt-5", RESPONSES_PATH, "gpt-5"),
        ("openai-chat:gpt-4.1-mini", CHAT_PATH, "gpt-4.1-mini"),
        ("qwen3:8b", CHAT_PATH, "qwen3:8b"),
        ("ollama:qwen3:8b", CHAT_PATH, "qwen3:8b"),
        ("openai-chat:qwen3:8b", CHAT_PATH, "qwen3:8b"),
        ("hf.co/some/Model-GGUF:Q4_K_M", CHAT_PATH, "hf.co/some/Model-GGUF:Q4_K_M"),
        ("llama3.3", CHAT_PATH, "llama3.3"),
        ("claude-sonnet-4-5", CHAT_PATH, "claude-sonnet-4-5"),
        ("gemini-2.5-flash", CHAT_PATH, "gemini-2.5-flash"),
        ("my model", CHAT_PATH, "my model"),
    ],
)
def test_every_name_reaches_the_server_of_base_url(server: OpenAIServer, name: str, path: str, sent: str) -> None:
    agent = Agent(model=name, base_url=server.base_url)
    assert reached(server, agent) == (path, sent, "Bearer no-key-needed")


@pytest.mark.parametrize(
    ("name", "path", "sent"),
    [
        ("gpt-4.1-mini", CHAT_PATH, "gpt-4.1-mini"),
        ("openai:gpt-4.1-mini", RESPONSES_PATH, "gpt-4.1-mini"),
        ("openai-chat:gpt-4.1-mini", CHAT_PATH, "gpt-4.1-mini"),
        ("gpt-oss:20b", CHAT_PATH, "gpt-oss:20b"),
        ("llama3.3", CHAT_PATH, "llama3.3"),
        ("qwen3:8b", CHAT_PATH, "qwen3:8b"),
        ("mistral-small:24b", CHAT_PATH, "mistral-small:24b"),
    ],
)
@pytest.mark.parametrize("key", [None, KEY])
def test_every_openai_and_local_name_reaches_the_server_of_the_environment(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, name: str, path: str, sent: str, key: str | None
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    assert reached(server, Agent(model=name))[:2] == (path, sent)
    if key is not None:
        assert server.requests[0].headers["authorization"] == f"Bearer {key}"


def test_key_given_comes_before_the_one_of_the_environment(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    agent = Agent(model="gpt-4.1-mini", base_url=server.base_url, api_key=KEY)
    assert reached(server, agent)[2] == f"Bearer {KEY}"


def test_key_of_the_environment_is_sent_to_base_url(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert reached(server, Agent(model="gpt-4.1-mini", base_url=server.base_url))[2] == f"Bearer {KEY}"


def test_model_that_is_built_already_is_used_as_it_is(server: OpenAIServer) -> None:
    provider = OpenAIProvider(base_url=server.base_url, api_key="sk-mine")
    agent = Agent(model=OpenAIChatModel("my-model", provider=provider))
    assert reached(server, agent) == (CHAT_PATH, "my-model", "Bearer sk-mine")


async def test_model_that_is_built_already_gets_the_block(memory: Memory) -> None:
    await memory.facts.append(Fact("Alice", "likes", "tea", user_id="alice"))
    seen: list[list[str]] = []

    def answer(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append([part.content for part in info.model_request_parameters.instruction_parts or []])
        return ModelResponse(parts=[TextPart("Tea.")])

    agent = Agent("Be brief.", model=FunctionModel(answer), memory=memory)
    result = await agent.run("What does Alice like?", user_id="alice")
    assert result.output == "Tea."
    assert seen == [[f"Be brief.\n\n{result.injection.text}"]]
    assert result.injection.text.splitlines()[1:] == ["Known facts:", "- Alice likes tea"]


def test_test_model_of_pydantic_ai_works() -> None:
    assert Agent(model=TestModel(custom_output_text="fine")).run_sync("Hello").output == "fine"


async def test_echo_model_answers_and_keeps_what_it_was_sent(memory: Memory) -> None:
    await memory.update_block("profile", "Vegetarian.", user_id="alice")
    echo = EchoModel(prefix="> ")
    agent = Agent("Be brief.", model=echo, memory=memory)
    first = await agent.run("One", user_id="alice", session_id="s")
    async with agent.stream("Two words", user_id="alice", session_id="s") as stream:
        pieces = [piece async for piece in stream]
    assert (first.output, pieces) == ("> One", ["> ", "Two ", "words"])
    assert [request.system for request in echo.requests] == [f"Be brief.\n\n{first.injection.text}"] * 2
    assert echo.requests[1].messages == (("user", "One"), ("assistant", "> One"), ("user", "Two words"))


def test_the_name_echo_is_the_echo_model() -> None:
    assert Agent(model="echo").run_sync("Hello").output == "Echo: Hello"


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "o3", "openai:gpt-5", "openai-chat:gpt-5", "openai-responses:gpt-5"])
def test_missing_openai_key_says_what_to_set(name: str) -> None:
    message = failure_of(lambda: Agent(model=name))
    assert message.startswith(f"model {name!r}")
    assert "OPENAI_API_KEY" in message
    assert "api_key=" in message
    assert "Provider" not in message  # a class that the caller has never seen


@pytest.mark.parametrize(
    ("name", "variable"),
    [("deepseek:deepseek-chat", "DEEPSEEK_API_KEY"), ("openrouter:a/b", "OPENROUTER_API_KEY")],
)
def test_missing_key_of_another_provider_says_what_to_set(name: str, variable: str) -> None:
    assert variable in failure_of(lambda: Agent(model=name))


@pytest.mark.parametrize(
    ("name", "package", "module"),
    [
        ("claude-sonnet-4-5", "loomflow[anthropic]", "anthropic"),
        ("anthropic:claude-sonnet-4-5", "loomflow[anthropic]", "anthropic"),
        ("gemini-2.5-flash", "loomflow[google]", "google"),
        ("google:gemini-2.5-flash", "loomflow[google]", "google"),
        ("groq:llama-3.3-70b", "pydantic-ai-slim[groq]", "groq"),
        ("mistral:mistral-large", "pydantic-ai-slim[mistral]", "mistralai"),
    ],
)
def test_missing_package_says_what_to_install(name: str, package: str, module: str) -> None:
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    expected = f"model {name!r} needs a package that is not installed: pip install '{package}'"
    assert failure_of(lambda: Agent(model=name, api_key=KEY)) == expected


@pytest.mark.parametrize("name", ["llama3", "GPT-4.1", "o", "claude", "openai:", ":x", "test", "test:x", "a b:c"])
def test_name_of_no_known_form_is_refused_when_the_agent_is_made(name: str) -> None:
    with pytest.raises(ModelError) as raised:
        Agent(model=name)
    assert str(raised.value) == f"unknown model {name!r}; {HINT}"


@pytest.mark.parametrize("name", ["", "  ", "\n"])
def test_blank_name_is_refused_when_the_agent_is_made(name: str) -> None:
    with pytest.raises(ModelError) as raised:
        Agent(model=name)
    assert str(raised.value) == f"model must be a non-blank name, got {name!r}; {HINT}"


@pytest.mark.parametrize("name", ["foo:bar", "qwen3:8b", "echo:x"])
def test_unknown_provider_says_so(name: str) -> None:
    provider, _, _ = name.partition(":")
    message = failure_of(lambda: Agent(model=name))
    assert message.startswith(f"unknown model {name!r}: ")
    assert provider in message


@pytest.mark.parametrize("model", [None, 3, EchoModel, object()])
def test_what_is_no_model_is_refused(model: Any) -> None:
    message = failure_of(lambda: Agent(model=model))
    assert message == f"model must be a name, a pydantic-ai model or EchoModel(), got {type(model).__name__}"


def test_key_is_in_no_message_where_the_server_cannot_be_spoken_to(server: OpenAIServer) -> None:
    server.reply(Failure(401, "no such key"))
    agent = Agent(model="gpt-4.1-mini", base_url=server.base_url, api_key=KEY)
    with pytest.raises(Exception, match="401") as raised:
        agent.run_sync("Hello")
    assert KEY not in repr(raised.value)
    assert KEY not in repr(agent)


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "claude-sonnet-4-5", "foo:bar", "deepseek:deepseek-chat"])
async def test_preview_needs_no_key_no_package_and_no_model(memory: Memory, name: str) -> None:
    await memory.facts.append(Fact("Alice", "likes", "tea", user_id="alice"))
    agent = Agent(model=name, memory=memory)
    injection = await agent.preview("What does Alice like?", user_id="alice", session_id="s")
    assert injection.text.splitlines()[1:] == ["Known facts:", "- Alice likes tea"]
    assert injection.problems == ()


async def test_run_whose_model_cannot_be_built_leaves_nothing_in_the_session(memory: Memory) -> None:
    with pytest.raises(ModelError):
        await Agent(model="gpt-4.1-mini", memory=memory).run("Hello", session_id="s")
    assert await memory.session_messages("s") == []
    assert await memory.users() == []


@pytest.mark.parametrize(
    "wrong", [{"instructions": None}, {"instructions": 3}, {"tuning": 1500}, {"memory": 3}, {"memory": "redis://x"}]
)
def test_wrong_argument_of_an_agent_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Agent(model=EchoModel(), **wrong)


@pytest.mark.parametrize("prompt", [None, 3, b"bytes", {"a": 1}])
def test_what_is_no_prompt_is_refused_before_anything_is_stored(path: Path, prompt: Any) -> None:
    agent = Agent(model=EchoModel(), memory=path)
    with pytest.raises(ConfigError, match="prompt must be a string"):
        agent.run_sync(prompt, session_id="s")
    assert len(agent.memory.session_locks) == 0
    assert not path.exists()
