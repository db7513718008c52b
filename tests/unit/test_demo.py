"""The demo: what it shows is what the model was sent, with and without a key."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loomflow import EchoModel, Memory, demo
from tests.command_line import fill, run
from tests.openai_server import Failure, OpenAIServer


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, a terminal of 80 columns, and temporary files where the test can find them."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LOOMFLOW_MEMORY"):
        monkeypatch.delenv(name, raising=False)


async def scenes(memory: Memory, model: EchoModel) -> list[demo.Scene]:
    await demo.write(memory, datetime.now(UTC))
    return [scene async for scene in demo.play(memory, model)]


async def test_the_block_shown_is_read_off_the_request() -> None:
    model = EchoModel()
    async with Memory.open("inmemory") as memory:
        played = await scenes(memory, model)
    assert len(played) == len(model.requests) == len(demo.TAKES) == 4
    for scene, request in zip(played, model.requests, strict=True):
        assert request.system == f"{demo.INSTRUCTIONS}\n\n{scene.sent}"
        assert scene.sent == scene.injection.text
        assert scene.injection.problems == ()
        assert scene.answer == f"Echo: {demo.QUESTION}"
        assert request.messages == (("user", demo.QUESTION),)


async def test_the_scenes_tell_what_their_texts_say() -> None:
    async with Memory.open("inmemory") as memory:
        budget, without, small, fresh = await scenes(memory, EchoModel())
    for scene in (budget, without, small, fresh):
        assert "lives_in Lisbon" in scene.sent or scene is small
        assert "lives_in Porto" not in scene.sent
        assert demo.PROFILE.splitlines()[0] in scene.sent
    statuses = {item.status for item in budget.injection.items}
    assert statuses == {"injected", "truncated", "dropped"}
    assert budget.injection.tokens <= 300 < without.injection.tokens
    assert small.injection.tokens <= 120
    longest = max(item.tokens for item in without.injection.items)
    assert longest > 4000
    assert longest > without.injection.tokens / 2
    assert "Which restaurant in Porto" in budget.sent
    assert "Which restaurant in Porto" not in fresh.sent
    packed = [item for item in fresh.injection.items if item.kind != "block" and item.status != "dropped"]
    assert "Horta Verde" in packed[0].text
    assert any(item.decay < 0.5 for item in fresh.injection.items)


async def test_only_the_last_question_stays_in_the_memory() -> None:
    async with Memory.open("inmemory") as memory:
        played = await scenes(memory, EchoModel())
        held = await memory.stats(user_id=demo.USER)
        sessions = [len(await memory.session_messages(f"scene-{n}", user_id=demo.USER)) for n in range(1, 5)]
        (oldest, *_) = sorted(str(episode.occurred_at) for episode in await memory.store.episodes(demo.USER))
    assert sessions == [0, 0, 0, 2]
    assert held.episodes == 9
    assert held.fact_versions > held.facts - 1 > 0
    assert oldest < str(datetime.now(UTC) - timedelta(days=364))
    assert all("Echo" not in item.text for scene in played for item in scene.injection.items)


def test_it_runs_without_a_key_and_keeps_its_memory(tmp_path: Path) -> None:
    shown = run("demo").stdout
    assert "OPENAI_API_KEY is not set" in shown
    assert max(len(line) for line in shown.splitlines() if str(tmp_path) not in line) <= 80
    assert [int(number) for number in re.findall(r"^(\d)\. The ", shown, re.MULTILINE)] == [1, 2, 3, 4]
    for phrase in ("…[truncated]", "dropped", "characters not shown", "half-life 30 days", f"Echo: {demo.QUESTION}"):
        assert phrase in shown
    found = re.search(r"export LOOMFLOW_MEMORY=sqlite:(\S+)", shown)
    assert found is not None
    assert Path(found[1]).is_file()
    assert tmp_path in Path(found[1]).parents
    listed = run("memory", "list", "--memory", found[1])
    assert listed.stdout.splitlines()[1].split() == [demo.USER, "6", "1", "6", "9"]


def test_with_a_key_the_model_is_real_and_gets_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-the-test")
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        server.reply("Book Horta Verde.", "Second.", "Third.", "Fourth.")
        shown = run("demo", "--model", "gpt-4.1").stdout
    assert "model: gpt-4.1\n" in shown
    assert "EchoModel" not in shown
    assert "Book Horta Verde." in shown
    assert "Fourth." in shown
    assert [request.body["model"] for request in server.requests] == ["gpt-4.1"] * 4
    for request in server.requests:
        system = "\n".join(request.system)
        assert system.startswith(demo.INSTRUCTIONS)
        assert f"Block profile:\n> {demo.PROFILE.splitlines()[0]}" in system
    assert "…[truncated]" in server.requests[0].system[-1]
    assert "…[truncated]" not in server.requests[1].system[-1]


def test_a_failing_model_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret-key")
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        server.reply(Failure(401, "Incorrect API key provided: very-secret-key"))
        failed = run("demo", status=1)
    assert failed.stderr == "error: the model gpt-4.1-mini answered with status 401: Incorrect API key provided: ***\n"
    assert "very-secret-key" not in failed.output


def test_it_leaves_a_memory_of_its_user_alone(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path / 'bot.db'}"

    fill(place, "bo")
    run("demo", "--memory", place)
    refused = run("demo", "--memory", place, status=1)
    assert refused.stdout == ""
    assert refused.stderr.startswith(f"error: {place} holds memories of user 'alice' already")
    assert run("demo", "--memory", "inmemory", status=1).stderr.startswith("error: the demo closes its memory")


def test_the_variable_of_the_other_commands_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMFLOW_MEMORY", f"sqlite:{tmp_path / 'mine.db'}")
    run("demo")
    assert not (tmp_path / "mine.db").exists()
