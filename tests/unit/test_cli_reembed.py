"""The command `loomflow memory reembed`: it changes the embedder, may be stopped at any moment, and goes on."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import pytest

from loomflow import Episode, Fact, Memory
from loomflow.index import vectors
from loomflow.reembedding import REEMBED_BATCH
from tests.command_line import run, wait_for
from tests.openai_server import Failure, Hang, OpenAIServer
from tests.tiny_onnx import lay_tiny

PATIENCE = 60.0
HOSTED = "openai:text-embedding-3-small"
STATIC = "wordllama:l2_supercat_256"
ANSWERED = Hang(0)
MANY = 3_000


@pytest.fixture
def url(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the commands of a test find their memory, which is not there yet; there is a key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-the-test")
    return url


@pytest.fixture
def server(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    return server


@pytest.fixture
def uninterruptible() -> Iterator[None]:
    """Children are started with SIGINT ignored, as a shell does with what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def store(url: str, count: int, user: str | None = None, *, facts: int = 0, embedder: Any = None) -> None:
    """Write episodes and facts, by default without vectors."""

    async def work() -> None:
        async with Memory.open(url, embedder=embedder) as memory:
            said = [Episode(f"I ran {n} km.", "Well done.", user_id=user, session_id="s") for n in range(count)]
            await memory.remember(said)
            await memory.facts.append([Fact("Bo", "ran", f"{n} km", user_id=user) for n in range(facts)])

    asyncio.run(work())


def embedded(url: str, embedder: str) -> list[int]:
    """The numbers of the episodes in the segments with vectors of an embedder, in order, repetitions included."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:"))) as db:
        rows = db.execute(
            "SELECT data FROM segments WHERE kind = 0 AND embedder_no = (SELECT no FROM embedders WHERE name = ?)",
            [embedder],
        )
        return sorted(number for (data,) in rows for number in vectors.from_bytes(data).numbers.tolist())


def numbers(url: str) -> list[int]:
    """The numbers of the episodes that there are, in order."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:"))) as db:
        return [number for (number,) in db.execute("SELECT no FROM episodes ORDER BY no")]


def start(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "loomflow", "memory", "reembed", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def stream_of(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


# To the end


def test_everyone_is_embedded_or_one_user(url: str) -> None:
    for user in (None, "alice", "bo"):
        store(url, 3, user, facts=1)
    assert run("memory", "reembed", "--anonymous").stdout.splitlines() == [
        "embedded: 4 of 4 facts and episodes without a vector",
        f"the anonymous user has vectors of the default embedder ({STATIC})",
    ]
    assert "embedded: 4 of 4" in run("memory", "reembed", "--user", "bo").stdout
    everyone = run("memory", "reembed", "--batch", "2")
    assert "embedded: 4 of 4" in everyone.stdout
    assert everyone.stderr == f"embedding 4 facts and episodes with {STATIC}\n"
    assert embedded(url, STATIC) == numbers(url)
    again = run("memory", "reembed")
    assert again.stdout.splitlines()[0] == "nothing to do: no vector is missing (12 items)"
    assert again.stderr == ""
    assert run("memory", "reembed", "--user", "nobody").stdout == "nothing to do: there are no facts and episodes\n"


def test_the_batch_that_the_help_names_is_the_one_that_is_used(url: str, server: OpenAIServer) -> None:
    assert f"{REEMBED_BATCH} if omitted" in " ".join(run("memory", "reembed", "--help").stdout.replace("│", "").split())
    store(url, 0, facts=70)
    run("memory", "reembed", "--embedder", HOSTED)
    assert [len(one.inputs) for one in server.embeddings] == [1, 64, 6]
    store(url, 0, "bo", facts=5)
    server.clear()
    run("memory", "reembed", "--embedder", HOSTED, "--batch", "3")
    # One word to see that it works, one for the length of the vectors that are there, then the batches.
    assert [len(one.inputs) for one in server.embeddings] == [1, 1, 3, 2]


def test_a_change_of_embedder_says_how_to_open_the_memory(url: str, server: OpenAIServer) -> None:
    store(url, 5, embedder="default")
    changed = run("memory", "reembed", "--embedder", HOSTED)
    assert changed.stdout.splitlines() == [
        "embedded: 5 of 5 facts and episodes without a vector",
        f"the memory has vectors of {HOSTED} now",
        "wherever it is opened, the embedder has to be given:",
        f'  in Python:           Memory.open(..., embedder="{HOSTED}")',
        f"  on the command line: export LOOMFLOW_EMBEDDER={HOSTED}, or --embedder",
    ]
    assert embedded(url, HOSTED) == numbers(url)
    assert embedded(url, STATIC) == []


def test_a_terminal_shows_how_many_of_all_are_done(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store(url, 40, "alice", facts=10)
    store(url, 25, "bo", embedder="default")
    store(url, 30, "bo")
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", run("memory", "reembed", "--batch", "7").stderr)
    assert "0/80" in shown
    assert "80/80" in shown


# Failures


def test_texts_that_fail_are_counted_and_named(url: str, server: OpenAIServer) -> None:
    store(url, 0, "bo", facts=9)
    refused = Failure(400, "too rude\nfor sk-for-the-test")
    server.reply_to_embeddings(ANSWERED, refused, ANSWERED, *[refused] * 7)
    failed = run("memory", "reembed", "--embedder", HOSTED, status=1)
    assert failed.stdout.splitlines()[0] == "embedded: 2 of 9 facts and episodes without a vector"
    told = failed.stderr.splitlines()
    assert len([line for line in told if line.startswith("warning: ")]) == 1
    assert told[1].endswith("status 400: too rude for ***")
    assert told[2].startswith("7 got none (the embedder failed for 7 texts)")
    assert re.fullmatch(r"- fact \w+, 'Bo ran 1 km' of user 'bo'", told[3])
    assert told[-1] == "- and 2 more"
    assert len(told) == 3 + 5 + 1
    assert "embedded: 7 of 7" in run("memory", "reembed", "--embedder", HOSTED).stdout
    assert "nothing to do" in run("memory", "reembed", "--embedder", HOSTED).stdout


def test_what_embeds_to_nothing_is_no_failure(url: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with Memory.open(url, embedder=None) as memory:
            await memory.remember([Episode(text, "", session_id="s") for text in ("one", "[PAD]", "[PAD] [PAD]")])

    asyncio.run(work())
    named = f"onnx:{lay_tiny(tmp_path / 'tiny')}"
    for done, missing in ((1, 3), (0, 2)):
        told = run("memory", "reembed", "--embedder", named)
        assert f"embedded: {done} of {missing} " in told.stdout
        assert "2 got none (the embedder gave nothing to compare)" in told.stderr
        assert "'[PAD] [PAD]'" in told.stderr


@pytest.mark.parametrize("embedder", [HOSTED, "fastembed:nobody/knows"])
def test_an_embedder_that_cannot_work_is_asked_once(url: str, server: OpenAIServer, embedder: str) -> None:
    store(url, 300, embedder="default")
    server.reply_to_embeddings(*[Failure(401, "wrong key: sk-for-the-test")] * 9)
    failed = run("memory", "reembed", "--embedder", embedder, status=1)
    assert failed.stdout == ""
    assert failed.stderr.startswith(f"error: the embedder {embedder} cannot be used, nothing was done: ")
    assert failed.stderr.count("\n") == 1
    assert "sk-for-the-test" not in failed.stderr
    assert len(server.embeddings) <= 1
    assert embedded(url, STATIC) == numbers(url)


# Stopping


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_is_stopped_in_the_middle_and_goes_on(url: str, interruptible: None, number: signal.Signals) -> None:
    store(url, MANY)
    child = start("--batch", "4")
    wait_for(lambda: embedded(url, STATIC) or child.poll() is not None)
    child.send_signal(number)
    printed, told = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, told
    assert printed == ""
    done = embedded(url, STATIC)
    assert 0 < len(done) < MANY
    assert len(set(done)) == len(done)
    assert told.splitlines()[-1] == (
        f"stopped: {len(done):,} of {MANY:,} are embedded and stored; the same command goes on with the rest"
    )
    assert json.loads(run("memory", "stats", "--json").stdout)["unembedded"] == MANY - len(done)
    rest = run("memory", "reembed").stdout.splitlines()[0]
    assert rest == f"embedded: {MANY - len(done):,} of {MANY - len(done):,} facts and episodes without a vector"
    assert embedded(url, STATIC) == numbers(url)  # each of them once
    assert "nothing to do" in run("memory", "reembed").stdout


@pytest.mark.slow
def test_a_signal_that_is_ignored_stays_ignored(url: str, uninterruptible: None) -> None:
    store(url, 500)
    child = start("--batch", "2")
    wait_for(lambda: embedded(url, STATIC) or child.poll() is not None)
    child.send_signal(signal.SIGINT)
    printed, told = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, told
    assert "embedded: 500 of 500" in printed


def test_a_second_signal_does_not_wait_for_an_answer(url: str, server: OpenAIServer, interruptible: None) -> None:
    store(url, 0, facts=6)
    server.reply_to_embeddings(ANSWERED, ANSWERED, Hang(PATIENCE))
    child = start("--embedder", HOSTED, "--batch", "2")
    told = stream_of(child.stderr)
    assert told.readline() == f"embedding 6 facts and episodes with {HOSTED}\n"
    wait_for(lambda: len(server.embeddings) == 3)
    child.send_signal(signal.SIGINT)
    assert told.readline() == "stopping after what is under way; Ctrl-C again stops at once\n"
    child.send_signal(signal.SIGINT)
    _, rest = child.communicate(timeout=PATIENCE / 2)
    assert child.returncode == 130
    assert rest == "stopped: 2 of 6 are embedded and stored; the same command goes on with the rest\n"
    server.clear()
    assert "embedded: 4 of 4" in run("memory", "reembed", "--embedder", HOSTED).stdout
    assert [one.inputs for one in server.embeddings][1:] == [[f"Bo ran {n} km" for n in range(2, 6)]]


def test_one_signal_is_enough_where_no_answer_comes(url: str, server: OpenAIServer, interruptible: None) -> None:
    store(url, 0, facts=6)
    server.reply_to_embeddings(ANSWERED, Hang(PATIENCE))
    child = start("--embedder", HOSTED)
    wait_for(lambda: len(server.embeddings) == 2)
    child.send_signal(signal.SIGTERM)
    _, told = child.communicate(timeout=PATIENCE / 2)
    assert child.returncode == 130
    assert told.splitlines()[-1] == "stopped before anything was embedded; the same command begins again"


def test_it_is_stopped_while_it_tries_the_embedder(url: str, server: OpenAIServer, interruptible: None) -> None:
    store(url, 0, facts=6)
    server.reply_to_embeddings(Hang(PATIENCE))
    child = start("--embedder", HOSTED)
    wait_for(lambda: server.embeddings)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=PATIENCE / 2) == (
        "",
        "stopped before anything was embedded; the same command begins again\n",
    )
    assert child.returncode == 130


def test_old_vectors_are_there_until_all_have_new_ones(url: str, server: OpenAIServer, interruptible: None) -> None:
    store(url, 6, embedder="default")
    server.reply_to_embeddings(ANSWERED, ANSWERED, Hang(PATIENCE))
    child = start("--embedder", HOSTED, "--batch", "2")
    wait_for(lambda: len(server.embeddings) == 3)
    for _ in range(2):
        child.send_signal(signal.SIGTERM)
        time.sleep(0.05)  # the system may join signals that come at once
    child.communicate(timeout=PATIENCE)
    assert embedded(url, STATIC) == numbers(url)
    assert len(embedded(url, HOSTED)) == 2
    server.clear()
    run("memory", "reembed", "--embedder", HOSTED)
    assert embedded(url, STATIC) == []
    assert embedded(url, HOSTED) == numbers(url)
