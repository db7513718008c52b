"""The option --embedder: which command uses it, where its name comes from, and a model on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loomflow import Episode, Fact, Memory
from tests.command_line import fill, in_memory, run
from tests.minilm import lay_minilm
from tests.openai_server import Failure, OpenAIServer

HOSTED = "openai:text-embedding-3-small"
UNUSABLE = "onnx:/nowhere/model"


@pytest.fixture
def url(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the commands of a test find their memory, which is not there yet; there is a key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-the-test")
    return url


def unembedded(*args: str) -> int:
    return json.loads(run("memory", "stats", "--json", *args).stdout)["unembedded"]


def test_what_writes_and_what_asks_uses_the_named_embedder(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ("--embedder", HOSTED)
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        run("memory", "add-fact", "Bo", "likes", "green tea", *named)
        assert server.embeddings.pop().inputs == ["Bo likes green tea"]
        found = run("memory", "search", "black tea", *named)
        assert server.embeddings[0].inputs == ["black tea"]
        assert "Bo likes green tea" in found.stdout
        assert found.stderr == ""
        server.clear()
        receipt = json.loads(run("inject", "coffee or tea?", "--json", *named).stdout)["receipt"]
        assert server.embeddings.pop().inputs == ["coffee or tea?"]
        assert receipt["items"][0]["vector_rank"] == 0
        run("chat", "--memory", url, "--session", "s-1", "--model", "echo", *named, input="Anything new?\n")
        assert [one.inputs for one in server.embeddings] == [
            ["Anything new?"],
            ["Anything new?", "Echo: Anything new?"],
        ]
        run("memory", "export", "-o", str(tmp_path / "bo.json"))
        server.clear()
        run("memory", "import", str(tmp_path / "bo.json"), "--user", "copy", *named)
        assert sum(len(one.inputs) for one in server.embeddings) == 3
        assert unembedded(*named) == 0
        assert unembedded() == 4


def test_an_import_says_how_often_the_embedder_failed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(url, "alice", 3)
    run("memory", "export", "--user", "alice", "-o", str(tmp_path / "alice.json"))
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        server.reply_to_embeddings(*[Failure(500, "out of order: sk-for-the-test")] * 20)
        args = ("memory", "import", str(tmp_path / "alice.json"), "--user", "copy", "--embedder", HOSTED)
        imported = run(*args)
    assert "1 block, 1 fact version, 3 episodes" in imported.stdout
    told = imported.stderr.splitlines()
    assert len(told) == 2
    assert "status 500: out of order: ***" in told[0]
    assert told[1] == "the embedder failed for 7 texts; `loomflow memory reembed` makes up for it"
    assert in_memory(url, lambda memory: memory.stats(user_id="copy")).episodes == 3


def test_none_is_keyword_search_only(url: str) -> None:
    run("memory", "add-fact", "Bo", "likes", "tea", "--embedder", "none")
    assert json.loads(run("memory", "stats", "--embedder", "none", "--json").stdout)["embedder"] is None
    assert unembedded() == 1
    assert "Bo likes tea" in run("memory", "search", "tea", "--embedder", "none").stdout
    (item,) = json.loads(run("inject", "tea", "--embedder", "none", "--json").stdout)["receipt"]["items"]
    assert (item["lexical_rank"], item["vector_rank"]) == (0, None)


def test_the_variable_names_the_embedder_and_the_option_goes_before_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOMFLOW_EMBEDDER", "none")
    run("memory", "add-fact", "Bo", "likes", "tea")
    assert unembedded("--embedder", "default") == 1
    assert "must be default" in run("memory", "stats", "--embedder", "nonsense", status=2).stderr
    monkeypatch.setenv("LOOMFLOW_EMBEDDER", "nonsense")
    assert "LOOMFLOW_EMBEDDER" in run("memory", "search", "tea", status=2).stderr
    monkeypatch.setenv("LOOMFLOW_EMBEDDER", "")
    assert unembedded() == 1


def test_what_needs_no_vector_needs_no_embedder(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(url, "alice", 2)
    monkeypatch.setenv("LOOMFLOW_EMBEDDER", UNUSABLE)
    run("memory", "list")
    run("memory", "show", "--user", "alice")
    run("memory", "set-block", "profile", "Tall.", "--user", "alice")
    run("memory", "export", "--user", "alice", "-o", str(tmp_path / "alice.json"))
    run("memory", "forget", "--user", "alice", "--yes")
    refused = run("memory", "search", "tea", status=1).stderr
    assert refused == "error: no model at /nowhere/model: there is no such folder\n"


def test_a_model_in_a_folder_finds_what_shares_no_word(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = (
        "We got a kitten last week.", "Nuts make me ill.", "My car broke down on the motorway.",
        "The rent goes up in May.", "I play the cello on Sundays.", "Our daughter starts school.",
        "The roof leaks when it rains.", "I quit smoking.", "We flew over the Alps.", "My boss is leaving.",
        "I baked sourdough bread.", "The garden is full of snails.",
    )  # fmt: skip

    async def work(memory: Memory) -> None:
        await memory.remember([Episode(text, "Noted.", session_id=f"s-{n}") for n, text in enumerate(said)])
        await memory.facts.append(Fact("Ada", "drives", "a Volvo"))

    in_memory(url, work)
    named = f"onnx:{lay_minilm(tmp_path / 'my models' / 'all-MiniLM-L6-v2')}"
    assert unembedded("--embedder", named) == 13
    reembedded = run("memory", "reembed", "--embedder", named).stdout
    assert "embedded: 13 of 13" in reembedded
    assert f'Memory.open(..., embedder="{named}")' in reembedded
    assert f"LOOMFLOW_EMBEDDER='{named}'" in reembedded  # quoted, as a shell needs it
    assert unembedded("--embedder", named) == 0
    assert unembedded() == 13
    warned = run("inject", "Do you have any pets?").stderr
    assert "12 episodes have no vector of embedder wordllama" in warned
    monkeypatch.setenv("LOOMFLOW_EMBEDDER", named)
    for question, answer in (("Do you have any pets?", said[0]), ("Can I serve satay with peanut sauce?", said[1])):
        found = json.loads(run("memory", "search", question, "--json").stdout)
        assert found["episodes"][0]["episode"]["input"] == answer
        assert found["episodes"][0]["lexical_rank"] is None
        told = run("inject", question)
        assert answer in told.stdout
        assert "warning" not in told.stderr
