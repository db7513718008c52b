"""How the command line fails: one line and a status, no traceback, no secret, nothing that steers a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from loomflow import Episode, Fact, Memory
from loomflow.cli.app import app
from tests.command_line import fill, in_memory, run

HOSTILE = "[red]x[/red] \x1b[31mred\x1b]0;title\x07 \x9b2J :smile:"


def process(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loomflow", *args],
        check=False, capture_output=True, encoding="utf-8", timeout=60, **options,
    )  # fmt: skip


READING = [
    ("memory", "list"),
    ("memory", "show"),
    ("memory", "search", "x"),
    ("memory", "stats"),
    ("memory", "export"),
    ("memory", "reembed"),
    ("memory", "distill"),
    ("memory", "history"),
    ("memory", "retract", "x"),
    ("memory", "correct", "x", "--object", "y"),
    ("memory", "merge", "x", "y"),
    ("memory", "forget", "--anonymous", "--yes"),
    ("inject", "x"),
]


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_reading_creates_no_memory(url: str, tmp_path: Path, args: tuple[str, ...]) -> None:
    failed = run(*args, status=1)
    assert failed.stdout == ""
    assert failed.stderr == f"error: no memory at {tmp_path / 'bot.db'}\n"
    assert list(tmp_path.iterdir()) == []


def test_bad_values_are_one_line_errors(url: str, tmp_path: Path) -> None:
    fill(url)
    (tmp_path / "broken.json").write_text('{"format": "loomflow-mem', encoding="utf-8")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "deep.json").write_text("[" * 200_000, encoding="utf-8")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "row.json").write_text(
        '{"format": "loomflow-memory", "version": 1, "user_id": null, "facts": [], "episodes": [{"input": "x"}]}',
        encoding="utf-8",
    )
    (tmp_path / "other.db").write_text("not a database at all, but long enough to be read as one", encoding="utf-8")
    failing = [
        (("memory", "import", str(tmp_path / "none.json")), "No such file"),
        (("memory", "import", str(tmp_path)), "Is a directory"),
        (("memory", "import", str(tmp_path / "broken.json")), "is not JSON"),
        (("memory", "import", str(tmp_path / "list.json")), "a JSON object is expected"),
        (("memory", "import", str(tmp_path / "deep.json")), "nested too deeply"),
        (("memory", "import", str(tmp_path / "binary.json")), "not UTF-8"),
        (("memory", "import", str(tmp_path / "row.json")), "episodes[0]"),
        (("memory", "export", "-o", str(tmp_path / "no" / "a.json")), "No such file"),
        (("memory", "show", "--memory", str(tmp_path / "other.db")), "not an SQLite database"),
        (("memory", "show", "--memory", "mysql://root:hunter2@host/db"), "mysql://root:***@host/db"),
        (("memory", "show", "--memory", "postgresql://root:hunter2@host/db"), "postgresql"),
        (("memory", "show", "--user", ""), "user_id must be"),
        (("memory", "set-block", " ", "x"), "block name must be"),
        (("memory", "add-fact", "a", " ", "c"), "predicate must be"),
        (("inject", "x", "--budget", "10", "--half-life", "-1"), "memory_decay_half_life_days must be"),
        (("inject", "x", "--embedder", f"onnx:{tmp_path / 'none'}"), "there is no such folder"),
        (("inject", "x", "--embedder", "nobody:model"), "embedder must be"),
        (("memory", "stats", "--embedder", "openai:text-embedding-3-small"), "needs OPENAI_API_KEY to be set"),
        (("chat", "--embedder", f"onnx:{tmp_path / 'none'}"), "there is no such folder"),
    ]
    for args, message in failing:
        failed = run(*args, status=1)
        assert failed.stderr.count("\n") == 1, failed.stderr
        assert failed.stderr.startswith("error: ")
        assert message in failed.stderr
        assert "hunter2" not in failed.output
    assert not (tmp_path / "a.json.partial").exists()


def test_misuse_is_one_line_and_status_2(url: str) -> None:
    for args in (
        ("memory", "nonsense"),
        ("memory", "show", "--nonsense"),
        ("memory", "add-fact", "a", "b"),
        ("memory", "add-fact", "a", "b", "c", "--valid-from", "tomorrow"),
        ("memory", "add-fact", "a", "b", "c", "--confidence", "2"),
        ("inject", "x", "--budget", "0"),
        ("inject", "x", "--at", "2026-13-01"),
        ("inject", "x", "--mode", "bottom"),
        ("inject", "x", "--max-facts", "-1"),
        ("inject", "x", "--min-relevance", "1.5"),
        ("inject", "x", "--min-relevance", "nan"),
        ("inject", "x", "--embedder", "nonsense"),
        ("inject", "x", "--embedder", ""),
        ("chat", "--mode", "bottom"),
        ("memory", "search", "x", "--embedder", "onnx:"),
        ("memory", "reembed", "--embedder", "none"),
        ("memory", "reembed", "--batch", "0"),
        ("memory", "reembed", "--user", "bo", "--anonymous"),
        ("nonsense",),
    ):
        failed = run(*args, status=2)
        assert failed.stderr.startswith("error: "), failed.stderr
        assert failed.stderr.count("\n") == 1
    assert "--memory" in CliRunner(env={"LOOMFLOW_MEMORY": ""}).invoke(app, ["memory", "list"]).stderr


def test_a_warning_of_the_library_is_one_line(url: str) -> None:
    fill(url)
    told = run("inject", "no such thing", "--user", "alice", "--budget", "2", "--json").stderr.splitlines()
    assert told[0] == (
        "warning: the memory block is over memory_token_budget=2: the working blocks alone are larger than the budget"
    )
    assert all(line.startswith("warning: ") for line in told)


def test_stored_text_is_no_markup_and_steers_no_terminal(url: str) -> None:
    async def work(memory: Memory) -> None:
        await memory.update_block("profile", HOSTILE)
        await memory.facts.append(Fact("Alice", "likes", HOSTILE))
        await memory.remember(Episode(HOSTILE, HOSTILE, session_id="[b]s[/b]\x9b"))

    in_memory(url, work)
    in_memory(url, lambda memory: memory.update_block("b", "x", user_id="[red]u[/red]\x9b"))
    for args in (
        ("memory", "show"),
        ("memory", "show", "--json"),
        ("memory", "history"),
        ("memory", "history", "--json"),
        ("memory", "search", "Alice likes red"),
        ("memory", "list"),
        ("memory", "export"),
        ("inject", "What does Alice like? red"),
        ("inject", "What does Alice like? red", "--json"),
    ):
        printed = run(*args).output
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", printed), args
        assert "[red]" in printed
    refused = run("memory", "show", "--user", "[red]\x1b[1mnobody", status=1).stderr
    assert "[red]" in refused
    assert "\x1b" not in refused


def test_a_closed_pipe_is_silent(url: str) -> None:
    fill(url, "alice", 900)
    for args in (["memory", "export", "--user", "alice"], ["memory", "show", "--user", "alice", "--limit", "900"]):
        child = subprocess.Popen(
            [sys.executable, "-m", "loomflow", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        told = child.stderr.read()
        child.stderr.close()
        child.wait(60)
        assert b"Error" not in told
        assert b"Exception" not in told
        assert b"error" not in told


def test_a_process_reads_a_pipe_and_says_what_fails(url: str) -> None:
    written = process("memory", "set-block", "profile", "--user", "zoë", input="Café ☕\n")
    assert (written.returncode, written.stderr) == (0, "")
    shown = process("memory", "show", "--user", "zoë", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Caf? ?" in shown.stdout
    failed = process("memory", "show", "--memory", "no-such.db")
    assert (failed.returncode, failed.stdout, failed.stderr) == (1, "", "error: no memory at no-such.db\n")
