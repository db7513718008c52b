"""The chat command: streaming, its commands, Ctrl-C, and models that fail."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from typing import IO

import pytest
from typer.testing import Result

from loomflow import SessionMessage
from loomflow.distill.background import CLOSE_SECONDS
from tests.command_line import in_memory, run, wait_for
from tests.openai_server import CHAT_PATH, Drop, Failure, Hang, OpenAIServer, ToolCall

PATIENCE = 30.0
SAID = "I live in Turin."
TURIN = ToolCall(
    "final_result", {"facts": [{"subject": "user", "predicate": "lives_in", "object": "Turin", "quote": SAID}]}
)
NOTHING_LEARNED = ToolCall("final_result", {"facts": []})
CHAT = (sys.executable, "-m", "loomflow", "chat")


@pytest.fixture
def url(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a chat finds its memory, if it is told so."""
    monkeypatch.delenv("LOOMFLOW_MEMORY")
    return url


def chat(*args: str, said: str, status: int = 0) -> Result:
    return run("chat", *args, input=said, status=status)


def said_in(url: str, session: str, user: str | None = None) -> list[SessionMessage]:
    return in_memory(url, lambda memory: memory.session_messages(session, user_id=user))


def start(url: str, *args: str) -> subprocess.Popen[str]:
    command = [*CHAT, "--memory", url, "--session", "s-1", *args]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", bufsize=1
    )


def ended(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Status and the rest of stdout and stderr, once the child has ended. Its stdin is closed."""
    if child.stdin is not None:
        child.stdin.close()
    rest = stream_of(child.stdout).read(), stream_of(child.stderr).read()
    for pipe in (child.stdout, child.stderr):
        stream_of(pipe).close()
    return child.wait(PATIENCE), *rest


def stream_of(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def test_without_a_key_it_echoes_and_remembers(url: str) -> None:
    talked = chat("--memory", url, "--user", "bo", "--session", "s-1", said="I like tea.\n\n  \nAnd you?\n")
    assert talked.stdout == "Echo: I like tea.\nEcho: And you?\n"
    assert "EchoModel" in talked.stderr
    assert "OPENAI_API_KEY is not set" in talked.stderr
    assert [message.content for message in said_in(url, "s-1", "bo")] == [
        "I like tea.", "Echo: I like tea.", "And you?", "Echo: And you?",
    ]  # fmt: skip
    again = chat("--memory", url, "--user", "bo", "--session", "s-2", said="What do I like, tea?\n/why\n")
    assert "User: I like tea. ⏎ Agent: Echo: I like tea." in again.stdout


def test_the_settings_of_recall_hold_for_answers(url: str) -> None:
    chat("--memory", url, "--session", "s-1", "--embedder", "none", said="I like tea.\nI like running by the sea.\n")
    asked = "What do I like, tea?\n/why\n"
    filled = chat("--memory", url, "--mode", "fill", "--max-facts", "2", "--embedder", "none", said=asked)
    assert "note: --max-facts has no effect in --mode fill" in filled.stderr
    assert "tokens (budget 1500)" in filled.stdout
    assert "nearby 1.00" in filled.stdout
    assert "vector" not in filled.stdout
    limited = chat("--memory", url, "--max-episodes", "1", "--embedder", "none", said=asked)
    assert "over the limit of 1 episodes" in " ".join(limited.stdout.split())


def test_commands(url: str) -> None:
    talked = chat("--memory", url, said="/why\n/help\n/nonsense\n/blocks\n/etc/hosts is a file\n/quit\nnot read\n")
    assert "nothing has been asked yet" in talked.stderr
    assert "unknown command /nonsense" in talked.stderr
    assert "no working blocks" in talked.stderr
    assert all(command in talked.stdout for command in ("/why", "/blocks", "/help", "/quit"))
    assert "Echo: /etc/hosts is a file" in talked.stdout
    assert "not read" not in talked.stdout


def test_a_real_model_streams_and_gets_the_block(
    url: str, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-the-test")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    run("memory", "set-block", "profile", "Likes [b]tea[/b].", "--memory", url)
    server.reply("Then tea \x1b[31mit is[/red].", NOTHING_LEARNED)
    talked = chat("--memory", url, "--instructions", "Be kind.", "--budget", "50", said="What to drink?\n/blocks\n")
    assert "Then tea ␛[31mit is[/red].\n" in talked.stdout
    assert "Likes [b]tea[/b]." in talked.stdout
    assert "model: gpt-4.1-mini" in talked.stderr
    request, reading = server.requests
    assert (request.path, request.stream, request.body["model"]) == (CHAT_PATH, True, "gpt-4.1-mini")
    assert "Be kind." in "\n".join(request.system)
    assert "> Likes [b]tea[/b]." in "\n".join(request.system)
    assert not reading.stream  # what learns from the run: see below
    assert not any("Likes [b]tea[/b]." in text or "Be kind." in text for _, text in reading.messages)


# Learning from the conversation


def facts(url: str) -> list[str]:
    return [fact.text for fact in in_memory(url, lambda memory: memory.facts.query())]


def waiting(url: str) -> int:
    return in_memory(url, lambda memory: memory.stats()).undistilled


def test_facts_are_learned_from_what_is_said(url: str, server: OpenAIServer) -> None:
    server.reply("Nice.", TURIN)
    talked = chat("--memory", url, "--model", "local", "--base-url", server.base_url, said=f"{SAID}\n")
    assert (talked.stdout, facts(url), waiting(url)) == ("Nice.\n", ["user lives_in Turin"], 0)


def test_facts_are_learned_while_the_chat_waits_for_a_line(url: str, server: OpenAIServer) -> None:
    server.reply("Nice.", TURIN)
    child = start(url, "--model", "local", "--base-url", server.base_url)
    stream_of(child.stdin).write(f"{SAID}\n")
    wait_for(lambda: len(server.requests) == 2 and facts(url), PATIENCE)
    status, printed, told = ended(child)
    assert (status, printed) == (0, "Nice.\n")
    assert len(told.splitlines()) == 2


def test_another_model_learns_or_none(url: str, server: OpenAIServer) -> None:
    args = ("--memory", url, "--model", "local", "--base-url", server.base_url)
    server.reply("Nice.", TURIN)
    chat(*args, "--distill-model", "cheap", said=f"{SAID}\n")
    assert [request.body["model"] for request in server.requests] == ["local", "cheap"]
    server.clear()
    chat(*args, "--no-distill", said=f"{SAID}\n")
    assert len(server.requests) == 1
    assert waiting(url) == 0


def test_what_cannot_learn_is_named(url: str) -> None:
    for args in (("--distill",), ("--distill", "--model", "echo")):
        failed = chat("--memory", url, *args, said="x\n", status=2)
        assert failed.stderr.startswith("error: --distill needs a model that can read: give --model or --distill-model")
    assert "unknown model 'nope'" in chat("--memory", url, "--distill-model", "nope", said="x\n", status=1).stderr
    chat("--memory", url, "--no-distill", said="x\n")


def test_leaving_waits_for_what_is_learned_and_ctrl_c_leaves_it_for_later(
    url: str, server: OpenAIServer, interruptible: None
) -> None:
    server.reply("Nice.", Hang(PATIENCE))
    args = ("--model", "local", "--base-url", server.base_url)
    child = start(url, *args)
    stream_of(child.stdin).write(f"{SAID}\n")
    stream_of(child.stdin).close()
    child.stdin = None
    told = stream_of(child.stderr)
    assert [told.readline().partition(":")[0] for _ in range(2)] == ["model", "memory"]
    assert told.readline() == "learning from the conversation; Ctrl-C leaves it for later\n"
    server.wait_for_requests(2)
    begun = time.monotonic()
    child.send_signal(signal.SIGINT)
    status, printed, rest = ended(child)
    assert (status, printed, rest) == (0, "Nice.\n", "")
    assert time.monotonic() - begun < CLOSE_SECONDS / 2
    assert (facts(url), waiting(url)) == ([], 1)
    server.clear()
    server.reply(TURIN)
    run("memory", "distill", "--memory", url, *args)
    assert (facts(url), waiting(url)) == (["user lives_in Turin"], 0)


# Failures


def test_a_failing_model_is_one_line_and_the_chat_goes_on(
    url: str, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret-key")
    server.reply(
        Failure(401, "Incorrect API key provided: very-secret-key.\nSee the page."), Drop(1, "half an answer"), "fine"
    )
    args = ("--memory", url, "--session", "s-1", "--model", "local", "--base-url", server.base_url)
    talked = chat(*args, said="one\ntwo\nthree\n", status=1)
    assert talked.stdout.endswith("fine\n")
    errors = [line for line in talked.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2
    assert errors[0] == (
        "error: the model local answered with status 401: Incorrect API key provided: ***. See the page."
    )
    assert "very-secret-key" not in talked.output
    assert [message.content for message in said_in(url, "s-1")][-2:] == ["three", "fine"]


def test_a_model_that_cannot_be_used_is_one_line(url: str) -> None:
    assert chat("--memory", url, "--model", "no-such-model", said="x\n", status=1).stderr.startswith("error: unknown")
    missing_key = chat("--memory", url, "--model", "gpt-4.1-mini", said="x\n", status=1).stderr.splitlines()[-1]
    assert missing_key.startswith("error: model 'gpt-4.1-mini'")
    assert "OPENAI_API_KEY" in missing_key
    nameless = chat("--memory", url, "--base-url", "http://127.0.0.1:9/v1", said="x\n", status=2)
    assert nameless.stderr.startswith("error: --base-url needs --model")


def test_ctrl_c_interrupts_the_answer_and_the_session_stays_usable(
    url: str, server: OpenAIServer, interruptible: None
) -> None:
    server.reply(Hang(60), "Hello again.")
    child = start(url, "--model", "local", "--base-url", server.base_url)
    stdin, stdout = stream_of(child.stdin), stream_of(child.stdout)
    stdin.write("first\n")
    wait_for(lambda: server.requests, PATIENCE)
    child.send_signal(signal.SIGINT)
    stdin.write("second\n")
    assert stdout.readline() == "\n"
    assert stdout.readline() == "Hello again.\n"
    status, _, told = ended(child)
    assert status == 0, told
    assert "[interrupted]" in told
    assert "Traceback" not in told
    assert [text for role, text in server.requests[1].messages if role == "user"] == ["first", "second"]
    assert [message.content for message in said_in(url, "s-1")] == ["first", "second", "Hello again."]


def test_ctrl_c_while_waiting_for_a_line_leaves(url: str, interruptible: None) -> None:
    child = start(url)
    told = stream_of(child.stderr)
    told.readline()
    assert told.readline().startswith("memory: ")
    child.send_signal(signal.SIGINT)
    wait_for(lambda: child.poll() is not None, PATIENCE)
    status, _, rest = ended(child)
    assert (status, rest) == (130, "")


def test_at_a_terminal_it_prompts_and_ctrl_d_leaves(url: str) -> None:
    screen = ""
    terminal, other_end = pty.openpty()
    as_a_user_has_it = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYDANTIC"))
    }
    child = subprocess.Popen(
        [*CHAT, "--memory", url], stdin=other_end, stdout=other_end, stderr=other_end, env=as_a_user_has_it
    )
    os.close(other_end)

    def is_shown(text: str) -> bool:
        nonlocal screen
        if select.select([terminal], [], [], 0.05)[0]:
            screen += os.read(terminal, 4096).decode("utf-8", "replace")
        return text in screen

    wait_for(lambda: is_shown("you> "), PATIENCE)
    os.write(terminal, b"hello\n")
    wait_for(lambda: is_shown("Echo: hello"), PATIENCE)
    wait_for(lambda: screen.count("you> ") == 2 or is_shown("never"), PATIENCE)
    os.write(terminal, b"\x04")
    assert child.wait(PATIENCE) == 0
    os.close(terminal)
    assert "/help lists the commands" in screen
    assert "pydantic" not in screen
