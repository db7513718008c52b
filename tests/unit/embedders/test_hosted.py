"""Hosted models: what goes over a real wire to a local server, and what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pydantic_ai.embeddings import Embedder as PydanticEmbedder
from pydantic_ai.embeddings import EmbeddingModel, EmbeddingResult, EmbeddingSettings, TestEmbeddingModel
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.embeddings.result import EmbedInputType
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.providers.openai import OpenAIProvider

from loomflow import ConfigError, EmbedderError, Episode, Memory
from loomflow.embedders import HostedEmbedder, resolve_embedder
from loomflow.embedders.hosted import BATCH_CHARS, BATCH_TEXTS, MAX_CHARS
from tests.openai_server import DIMENSIONS, Failure, Hang, OpenAIServer, embedding_of

NAME = "openai:text-embedding-3-small"


@pytest.fixture(params=[False, True], ids=["close", "keep-alive"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A server that embeds, where OPENAI_BASE_URL points to."""
    with OpenAIServer(keep_alive=request.param) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment")
        yield server


class Labelled(EmbeddingModel):
    """A model of somebody's own: tells questions and stored texts apart, and keeps what it was asked."""

    def __init__(self, missing: int = 0) -> None:
        super().__init__()
        self.missing = missing
        self.asked: list[tuple[list[str], str, EmbeddingSettings]] = []

    @property
    def model_name(self) -> str:
        return "labelled"

    @property
    def system(self) -> str:
        return "own"

    async def embed(
        self, inputs: str | Sequence[str], *, input_type: EmbedInputType, settings: EmbeddingSettings | None = None
    ) -> EmbeddingResult:
        texts, settings = self.prepare_embed(inputs, settings)
        self.asked.append((texts, input_type, settings))
        vectors = [[float(len(text)), float(input_type == "query")] for text in texts][self.missing :]
        return EmbeddingResult(
            vectors, inputs=texts, input_type=input_type, model_name=self.model_name, provider_name=self.system
        )


# Requests and answers


async def test_texts_go_out_and_their_vectors_come_back(server: OpenAIServer) -> None:
    texts = ["tea in Lisbon", "Straße 👩‍👩‍👧", "会议纪要"]
    vectors = await HostedEmbedder(NAME).embed(texts)
    (request,) = server.embeddings
    assert request.body["model"] == "text-embedding-3-small"
    assert request.body["input"] == texts
    assert "dimensions" not in request.body
    assert request.headers["authorization"] == "Bearer key-of-the-environment"
    assert vectors.dtype == "float32"
    assert vectors.tolist() == [embedding_of(text) for text in texts]


async def test_a_server_of_ones_own_is_asked_for_its_model(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    embedder = HostedEmbedder("qwen3-embedding:0.6b", base_url=server.base_url, api_key="key-of-the-server")
    await embedder.embed(["tea"])
    assert server.embeddings[0].body["model"] == "qwen3-embedding:0.6b"
    assert server.embeddings[0].headers["authorization"] == "Bearer key-of-the-server"
    assert embedder.name == "openai:qwen3-embedding:0.6b"
    monkeypatch.delenv("OPENAI_API_KEY")
    for name in ("openai:bge-m3", "ollama:bge-m3", "bge-m3"):
        await HostedEmbedder(name, base_url=server.base_url).embed(["tea"])
    assert [request.body["model"] for request in server.embeddings[1:]] == ["bge-m3"] * 3
    assert "key-of" not in server.embeddings[-1].headers["authorization"]


async def test_a_key_can_be_given(server: OpenAIServer) -> None:
    await HostedEmbedder(NAME, api_key="key-of-the-caller").embed(["tea"])
    assert server.embeddings[0].headers["authorization"] == "Bearer key-of-the-caller"


async def test_shorter_vectors_are_asked_for_and_are_another_space(server: OpenAIServer) -> None:
    embedder = HostedEmbedder(NAME, dimensions=16)
    assert (await embedder.embed(["tea"])).shape == (1, 16)
    assert server.embeddings[0].body["dimensions"] == 16
    assert embedder.name != HostedEmbedder(NAME).name == NAME
    assert HostedEmbedder(NAME, name="mine").name == "mine"


async def test_many_texts_are_several_requests_in_order(server: OpenAIServer) -> None:
    texts = [f"text {number}" for number in range(2 * BATCH_TEXTS + 5)]
    vectors = await HostedEmbedder(NAME).embed(texts)
    assert [len(request.inputs) for request in server.embeddings] == [BATCH_TEXTS, BATCH_TEXTS, 5]
    assert vectors.tolist() == [embedding_of(text) for text in texts]


async def test_long_texts_are_cut_and_do_not_make_a_request_too_large(server: OpenAIServer) -> None:
    texts = [f"{number} " + "long " * 40_000 for number in range(30)]
    vectors = await HostedEmbedder(NAME).embed(texts)
    assert len(vectors) == 30
    for request in server.embeddings:
        assert all(len(text) == MAX_CHARS for text in request.inputs)
        assert sum(map(len, request.inputs)) <= BATCH_CHARS
    await HostedEmbedder(NAME, max_chars=10).embed(texts[:1])
    assert server.embeddings[-1].inputs == ["0 long lon"]


async def test_no_texts_are_no_request(server: OpenAIServer) -> None:
    assert len(await HostedEmbedder(NAME).embed([])) == 0
    assert server.embeddings == []


async def test_a_memory_recalls_by_them(server: OpenAIServer) -> None:
    async with Memory.open(embedder=HostedEmbedder(NAME)) as memory:
        await memory.remember([Episode(text, "", session_id="s") for text in ("red green blue", "one two three")])
        matches = await memory.recall_scored("green blue yellow")
        assert matches[0].episode.input == "red green blue"
        assert matches[0].vector_rank == 0
        assert (await memory.stats()).embedder == NAME
    assert len(server.embeddings) == 2
    assert server.requests == []


# Failures


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_the_status_of_a_failure_is_in_the_error(server: OpenAIServer, status: int) -> None:
    server.reply_to_embeddings(Failure(status, "the model is having a day off"))
    embedder = HostedEmbedder(NAME)
    with pytest.raises(ModelHTTPError, match=rf"{status}.*text-embedding-3-small") as caught:
        await embedder.embed(["tea"])
    assert caught.value.status_code == status
    assert (await embedder.embed(["tea"])).shape == (1, DIMENSIONS)


async def test_a_failure_of_the_server_costs_no_memory(server: OpenAIServer) -> None:
    server.reply_to_embeddings(*[Failure(500, "not now")] * 2)
    async with Memory.open(embedder=HostedEmbedder(NAME)) as memory:
        await memory.remember(Episode("red green blue", "", session_id="s"))
        injection = await memory.inject("green?")
        assert any("500" in problem for problem in injection.problems)
        assert "red green blue" in injection.text
        assert (await memory.stats()).unembedded == 1
        assert await memory.reembed(user_id=None) == 1


async def test_a_server_that_hangs_is_left_when_the_caller_says_so(server: OpenAIServer) -> None:
    server.reply_to_embeddings(Hang(60))
    embedder = HostedEmbedder(NAME)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await embedder.embed(["tea"] * (BATCH_TEXTS + 1))
    assert len(server.embeddings) == 1
    assert (await embedder.embed(["tea"])).tolist() == [embedding_of("tea")]


async def test_a_server_that_is_not_there_is_an_error(server: OpenAIServer) -> None:
    with pytest.raises(Exception, match=r"[Cc]onnection"):
        await HostedEmbedder("bge-m3", base_url="http://127.0.0.1:9/v1").embed(["tea"])


async def test_an_answer_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(EmbedderError, match="own:labelled answered 2 vectors for 3 texts"):
        await HostedEmbedder(Labelled(missing=1)).embed(["a", "b", "c"])


# Event loops


def test_event_loops_one_after_the_other_have_their_own_connections(server: OpenAIServer) -> None:
    embedder = HostedEmbedder(NAME)
    for _ in range(3):
        assert len(asyncio.run(embedder.embed(["tea"]))) == 1
    assert len(server.embeddings) == 3


async def test_an_event_loop_in_a_thread_does_not_disturb_the_one_that_waits(server: OpenAIServer) -> None:
    embedder = HostedEmbedder(NAME)
    for _ in range(2):
        await embedder.embed(["tea"])
        await asyncio.to_thread(lambda: asyncio.run(embedder.embed(["rye"])))
    assert [request.inputs[0] for request in server.embeddings] == ["tea", "rye", "tea", "rye"]


async def test_many_at_once_are_answered_each_with_its_own(server: OpenAIServer) -> None:
    embedder = HostedEmbedder(NAME)
    texts = [f"text number {number}" for number in range(20)]
    answers = await asyncio.gather(*(embedder.embed([text]) for text in texts))
    assert [answer[0].tolist() for answer in answers] == [embedding_of(text) for text in texts]


async def test_a_closed_embedder_opens_again_on_use(server: OpenAIServer) -> None:
    embedder = HostedEmbedder(NAME)
    await embedder.aclose()
    for _ in range(2):
        assert len(await embedder.embed(["tea"])) == 1
        await embedder.aclose()
    await HostedEmbedder(TestEmbeddingModel()).aclose()


# What pydantic-ai has


async def test_questions_and_stored_texts_are_told_apart() -> None:
    model = Labelled()
    embedder = resolve_embedder(model)
    assert embedder is not None
    assert embedder.name == "own:labelled"
    assert (await embedder.embed(["tea"], query=True)).tolist() == [[3, 1]]
    assert (await embedder.embed(["rye"])).tolist() == [[3, 0]]
    assert [(texts, kind) for texts, kind, _ in model.asked] == [(["tea"], "query"), (["rye"], "document")]


async def test_an_embedder_of_pydantic_ai_keeps_its_settings() -> None:
    model = Labelled()
    embedder = resolve_embedder(PydanticEmbedder(model, settings=EmbeddingSettings(dimensions=3, truncate=False)))
    assert embedder is not None
    await embedder.embed(["tea"])
    assert model.asked[0][2] == {"dimensions": 3, "truncate": False}
    await HostedEmbedder(model, dimensions=5).embed(["tea"])
    assert model.asked[1][2] == {"dimensions": 5}


def test_an_embedder_of_pydantic_ai_with_a_name_serves_every_event_loop(server: OpenAIServer) -> None:
    embedder = resolve_embedder(PydanticEmbedder(NAME, settings=EmbeddingSettings(dimensions=8)))
    assert embedder is not None
    assert embedder.name == NAME
    for _ in range(2):
        assert asyncio.run(embedder.embed(["tea"])).shape == (1, 8)


async def test_a_model_with_a_server_of_its_own_is_used_as_it_is(server: OpenAIServer) -> None:
    async with OpenAIProvider(base_url=server.base_url, api_key="its-own") as provider:
        embedder = HostedEmbedder(OpenAIEmbeddingModel("bge-m3", provider=provider))
        await embedder.embed(["tea"])
    assert embedder.name == "openai:bge-m3"
    assert server.embeddings[0].headers["authorization"] == "Bearer its-own"


# Arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model": NAME, "base_url": "nonsense"}, "base_url must be an http:// or https:// URL"),
        ({"model": NAME, "base_url": "ftp://user:geheim@host"}, "base_url must be"),
        ({"model": NAME, "api_key": "geheim\u00e9"}, "api_key must be non-blank printable ASCII"),
        ({"model": NAME, "api_key": ""}, "api_key must be non-blank printable ASCII"),
        ({"model": NAME, "dimensions": 0}, "dimensions must be a positive int"),
        ({"model": NAME, "max_chars": 0}, "max_chars must be a positive int"),
        ({"model": NAME, "name": " "}, "name must be a non-blank string"),
        ({"model": " "}, "embedder must be a non-blank string"),
        ({"model": "text-embedding-3-small"}, 'embedder must be "PROVIDER:MODEL"'),
        ({"model": "nobody:knows"}, "there is no provider nobody, got 'nobody:knows'"),
        ({"model": 5}, "embedder must be .*, got 5"),
        ({"model": TestEmbeddingModel(), "base_url": "http://127.0.0.1/v1"}, "go with the name of a model"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        HostedEmbedder(**arguments)
    assert "geheim" not in str(caught.value)


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(EmbedderError, match="text-embedding-3-small' needs OPENAI_API_KEY to be set"):
        HostedEmbedder(NAME)
