"""The command `loomflow memory distill`: it learns from the queue, may be stopped at any moment, and goes on."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest

from loomflow import Episode, Memory
from loomflow.distill.distiller import MAX_ATTEMPTS
from tests.command_line import in_memory, run
from tests.openai_server import Failure, Hang, OpenAIServer, Reply, ToolCall

PATIENCE = 60.0
SAID = "I have visited Rome in 2019"
LINE = {"block": "profile", "text": "Has been in Rome.", "quote": SAID}
FACT = {"subject": "user", "predicate": "has_visited", "object": "Rome", "quote": SAID}
READ = ToolCall("final_result", {"facts": [FACT], "blocks": [LINE]})
"""What a model reads out of each of the runs of these tests."""

INVENTED = ToolCall("final_result", {"facts": [{**FACT, "quote": "Rome is where my sister lives"}], "blocks": []})


def put(url: str, count: int, user: str | None = "alice") -> None:
    """Put runs into the queue."""

    async def work(memory: Memory) -> None:
        said = [Episode(f"{SAID}, time {n}.", "Nice.", user_id=user, session_id="s") for n in range(count)]
        await memory.remember(said, distill=True)

    in_memory(url, work)


def queue(url: str) -> list[tuple[int, str | None, int]]:
    """Of each run in the queue, in order: how often it was tried, who is at it, and whether it is parked."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:"))) as db:
        return db.execute("SELECT attempts, claim, is_parked FROM undistilled ORDER BY episode_no").fetchall()


def change_queue(url: str, assignments: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:"))) as db, db:
        db.execute(f"UPDATE undistilled SET {assignments}")


def facts(url: str, user: str | None = "alice") -> list[str]:
    return [fact.text for fact in in_memory(url, lambda memory: memory.facts.query(user_id=user))]


def model(server: OpenAIServer, *replies: Reply) -> tuple[str, ...]:
    """The options that name a model, which has been told what to answer."""
    server.clear()
    server.reply(*replies)
    return "--model", "local", "--base-url", server.base_url


def distill(*args: str, status: int = 0) -> Any:
    return run("memory", "distill", *args, status=status)


def start(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "loomflow", "memory", "distill", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


# To the end


def test_the_queue_of_everyone_or_of_one_user_is_drained(url: str, server: OpenAIServer) -> None:
    for user in (None, "alice", "bo"):
        put(url, 3, user)
    learned = "3 facts, 0 lines in working blocks; refused: 0\n"  # the lines: no block is to be added to
    assert distill("--user", "bo", *model(server, *[READ] * 3)).stdout == f"learned from 3 of 3 runs: {learned}"
    assert (facts(url, "alice"), facts(url, "bo")) == ([], ["user has_visited Rome"])
    assert "learned from 3 of 3 runs" in distill("--anonymous", *model(server, *[READ] * 3)).stdout
    everyone = distill(*model(server, *[READ] * 3))
    assert "learned from 3 of 3 runs" in everyone.stdout
    assert everyone.stderr == "learning from 3 runs with local\n"
    assert (queue(url), facts(url), facts(url, None)) == ([], ["user has_visited Rome"], ["user has_visited Rome"])
    again = distill(*model(server))
    assert (again.stdout, again.stderr, server.requests) == ("nothing to do: no run is waiting\n", "", [])


def test_lines_go_into_the_blocks_that_are_named_and_what_is_invented_goes_nowhere(
    url: str, server: OpenAIServer
) -> None:
    put(url, 1)
    distill("--block", "profile", "--block", "other", *model(server, READ))
    (block,) = in_memory(url, lambda memory: memory.working(user_id="alice"))
    assert (block.name, block.content) == ("profile", "Has been in Rome.")
    assert "profile, other" in "\n".join(server.requests[0].system)
    put(url, 1)
    assert distill(*model(server, INVENTED)).stdout.endswith("0 facts, 0 lines in working blocks; refused: 1\n")


def test_a_limit_leaves_the_rest(url: str, server: OpenAIServer) -> None:
    put(url, 7)
    told = distill("--limit", "5", *model(server, *[READ] * 5))
    assert "learned from 5 of 5 runs" in told.stdout
    assert told.stderr.splitlines()[-1] == "2 more can be learned from now; the same command goes on"
    assert queue(url) == [(0, None, 0)] * 2
    assert "learned from 2 of 2 runs" in distill("--limit", "5", *model(server, *[READ] * 2)).stdout


def test_the_key_of_the_environment_names_the_model(
    url: str, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-the-test")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    put(url, 1)
    server.reply(READ)
    assert distill().stderr == "learning from 1 run with gpt-4.1-mini\n"
    assert [request.body["model"] for request in server.requests] == ["gpt-4.1-mini"]


def test_json(url: str, server: OpenAIServer) -> None:
    put(url, 3)
    fields = json.loads(distill("--json", "--limit", "1", *model(server, Failure(500, "sad")), status=1).stdout)
    (failure,) = fields.pop("failures")
    assert (failure["runs"], failure["next_in"]) == (1, "0:00:30")
    assert "sad" in failure["error"]
    waiting = fields.pop("queue")
    assert {name: waiting[name] for name in ("waiting", "due", "parked", "errors")} == {
        "waiting": 3, "due": 2, "parked": 0, "errors": [],
    }  # fmt: skip
    assert fields == {"runs": 0, "facts": 0, "lines": 0, "refused": 0, "failed": 1, "parked": 0}
    learned = json.loads(distill("--json", *model(server, READ, READ)).stdout)
    assert (learned["runs"], learned["facts"], learned["failures"]) == (2, 2, [])


def test_a_terminal_shows_how_many_of_all_are_done(
    url: str, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(url, 6)
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", distill(*model(server, *[READ] * 6)).stderr)
    assert "0/6" in shown
    assert "6/6" in shown


# Failures


def test_what_fails_is_told_with_its_next_attempt(url: str, server: OpenAIServer) -> None:
    put(url, 4)
    failed = distill(*model(server, *[Failure(500, "no Bearer abcdef")] * 3, READ), status=1)
    assert failed.stdout == "learned from 1 of 4 runs: 1 fact, 0 lines in working blocks; refused: 0\n"
    told = failed.stderr.splitlines()
    assert len(told) == 3
    assert told[1].startswith("3 runs failed, next attempt in 0:00:30: ")
    assert "no Bearer ***" in told[1]
    assert re.fullmatch(r"the same command goes on at [0-9-]+ [0-9:]+ UTC or later", told[2])
    assert queue(url) == [(1, None, 0)] * 3
    now = distill(*model(server))
    assert now.stdout == "nothing to do now: 3 runs waiting for a next attempt, or taken by another program\n"
    assert now.stderr.startswith("the same command goes on at ")


def test_what_was_given_up_is_told_with_the_reason_and_can_be_tried_again(url: str, server: OpenAIServer) -> None:
    put(url, 2)
    change_queue(url, f"attempts = {MAX_ATTEMPTS - 1}")
    parked = distill(*model(server, *[Failure(500, "sad\x1b[1m")] * 2), status=1).stderr.splitlines()
    assert parked[1] == "2 runs given up after several attempts; --retry-parked tries again:"
    assert re.fullmatch("- 2: .*sad.*", parked[2])
    assert len(parked) == 3
    assert "\x1b" not in parked[2]
    later = distill(*model(server))
    assert later.stdout == "nothing to do: no run is waiting\n"
    assert later.stderr.splitlines() == parked[1:]
    assert queue(url) == [(MAX_ATTEMPTS, None, 1)] * 2
    missing = distill("--retry-parked", "--model", "gpt-4.1-mini", status=1)
    assert "OPENAI_API_KEY" in missing.stderr.splitlines()[-1]
    assert queue(url) == [(MAX_ATTEMPTS, None, 1)] * 2
    assert "learned from 2 of 2 runs" in distill("--retry-parked", *model(server, READ, READ)).stdout
    assert queue(url) == []


def test_stats_show_what_waits_and_what_was_given_up(url: str, server: OpenAIServer) -> None:
    put(url, 2)
    change_queue(url, f"attempts = {MAX_ATTEMPTS - 1}")
    distill("--limit", "1", *model(server, Failure(500, "sad")), status=1)
    shown = run("memory", "stats").stdout
    assert re.search("^undistilled +1  runs that facts are still to be learned from", shown, re.MULTILINE)
    assert re.search("^parked +1  runs given up", shown, re.MULTILINE)
    assert re.search("^ +1  .*sad", shown, re.MULTILINE)
    fields = json.loads(run("memory", "stats", "--json").stdout)
    assert (fields["undistilled"], fields["parked"]) == (1, 1)
    (error,) = fields["parked_errors"]
    assert error["runs"] == 1
    assert "sad" in error["error"]
    assert json.loads(run("memory", "stats", "--json", "--user", "bo").stdout)["parked_errors"] == []


@pytest.mark.parametrize(
    ("args", "reply", "message"),
    [
        ((), None, "no model to learn with: set OPENAI_API_KEY for gpt-4.1-mini, or give --model"),
        (("--model", "no-such-model"), None, "unknown model 'no-such-model'"),
        (("--model", "gpt-4.1-mini"), None, "needs a key: set OPENAI_API_KEY"),
        (
            ("--model", "m"),
            Failure(401, "wrong key sk-abcdefgh"),
            "the model m answered with status 401: wrong key ***",
        ),
        (("--model", "m"), Failure(404, "no such model"), "the model m answered with status 404: no such model"),
        (
            ("--model", "m", "--base-url", "http://127.0.0.1:1/v1"),
            None,
            "the server of the model 'm' cannot be reached",
        ),
    ],
)
def test_a_model_that_cannot_be_used_is_one_line_and_leaves_the_queue(
    url: str, server: OpenAIServer, args: tuple[str, ...], reply: Failure | None, message: str
) -> None:
    put(url, 9)
    if reply is not None:
        server.reply(*[reply] * 9)
        args = (*args, "--base-url", server.base_url)
    failed = distill(*args, status=1)
    assert failed.stdout == ""
    (error,) = [line for line in failed.stderr.splitlines() if not line.startswith("learning from 9 runs")]
    assert error.startswith("error: ")
    assert message in error
    assert queue(url) == [(0, None, 0)] * 9
    assert len(server.requests) <= 4


def test_a_key_that_is_refused_in_the_middle_keeps_what_was_done(url: str, server: OpenAIServer) -> None:
    put(url, 9)
    failed = distill(*model(server, *[READ] * 4, *[Failure(401, "revoked")] * 4), status=1)
    assert failed.stderr.splitlines()[1:] == [
        "4 of 9 runs done and stored before it failed",
        "error: the model local answered with status 401: revoked",
    ]
    assert queue(url) == [(0, None, 0)] * 5


def test_misuse(url: str) -> None:
    put(url, 1)
    for args in (
        ("--model", "echo"),
        ("--base-url", "http://127.0.0.1:9/v1"),
        ("--limit", "0"),
        ("--user", "bo", "--anonymous"),
        ("--embedder", "nonsense"),
    ):
        assert distill(*args, status=2).stderr.startswith("error: "), args
    assert "distill_blocks must be" in distill("--block", " ", status=1).stderr


# Stopping


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_is_stopped_in_the_middle_and_goes_on(
    url: str, server: OpenAIServer, interruptible: None, number: signal.Signals
) -> None:
    put(url, 10)
    options = model(server, *[READ] * 4, *[Hang(PATIENCE)] * 4)
    child = start(*options)
    server.wait_for_requests(8)
    child.send_signal(number)
    printed, told = child.communicate(timeout=PATIENCE / 2)
    assert child.returncode == 130, told
    assert printed == ""
    assert told.splitlines() == [
        "learning from 10 runs with local",
        "stopped: 4 of 10 runs done and stored; the same command goes on with the rest",
    ]
    assert queue(url) == [(0, None, 0)] * 6
    assert "learned from 6 of 6 runs" in distill(*model(server, *[READ] * 6)).stdout
    assert distill(*options).stdout == "nothing to do: no run is waiting\n"


def test_it_is_stopped_before_anything_is_done(url: str, server: OpenAIServer, interruptible: None) -> None:
    put(url, 2)
    child = start("--json", *model(server, *[Hang(PATIENCE)] * 2))
    server.wait_for_requests(2)
    child.send_signal(signal.SIGINT)
    printed, told = child.communicate(timeout=PATIENCE / 2)
    assert (child.returncode, printed) == (130, "")
    assert told.splitlines()[-1] == "stopped before anything was learned; the same command begins again"
    assert queue(url) == [(0, None, 0)] * 2


def test_what_a_killed_command_was_at_is_done_by_the_next(url: str, server: OpenAIServer) -> None:
    put(url, 3)
    child = start(*model(server, *[Hang(PATIENCE)] * 3))
    server.wait_for_requests(3)
    child.kill()
    child.communicate(timeout=PATIENCE)
    assert all(claim for _, claim, _ in queue(url))
    assert "learned from 3 of 3 runs" in distill(*model(server, *[READ] * 3)).stdout


def test_runs_that_another_program_is_at_are_left_to_it(url: str, server: OpenAIServer, interruptible: None) -> None:
    put(url, 2)
    child = start(*model(server, *[Hang(PATIENCE)] * 2))
    server.wait_for_requests(2)
    assert distill(*model(server)).stdout.startswith("nothing to do now: 2 runs waiting for a next attempt, or taken")
    assert server.requests == []
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=PATIENCE / 2)
    assert child.returncode == 130
