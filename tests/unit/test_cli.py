"""The command line: its help and documentation, and what each command prints and writes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

import loomflow
from loomflow import Episode, Fact, Memory, Tuning
from loomflow.cli.app import app
from tests.command_line import fill, in_memory, run

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def commands() -> list[tuple[str, Any]]:
    """Every command and group, with the words that call it."""

    def below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield words, command
        for name, child in getattr(command, "commands", {}).items():
            yield from below(f"{words} {name}", child)

    return list(below("loomflow", typer.main.get_command(app)))


def long_names(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        return [parameter.name.upper()]
    return [name for name in parameter.opts if name.startswith("--")]


# Help and documentation


@pytest.mark.parametrize(("words", "command"), commands())
def test_every_command_and_parameter_has_help(words: str, command: Any) -> None:
    assert command.help, words
    assert [parameter.name for parameter in command.params if not parameter.help] == []


@pytest.mark.parametrize(("words", "command"), commands())
def test_every_command_and_parameter_is_documented(words: str, command: Any) -> None:
    page = DOCS.read_text(encoding="utf-8")
    if hasattr(command, "commands"):
        section = page
    else:
        assert f"\n## {words}\n" in page
        section = page.partition(f"\n## {words}\n")[2].partition("\n## ")[0]
    missing = [name for parameter in command.params for name in long_names(parameter) if f"{name}" not in section]
    assert missing == []


def documented_examples() -> Iterator[tuple[str, str]]:
    """Each command of the page's console blocks, with the output that the page shows."""
    for block in re.findall(r"```console\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = example.partition("\n")
            yield command, output


def test_the_examples_of_the_page_print_what_it_shows(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for command, shown in documented_examples():
        program, *args = shlex.split(command)
        if program == "export":
            monkeypatch.setenv(*args[0].split("=", 1))
            continue
        printed = run(*args).stdout
        pattern = "".join(".*" if line == "...\n" else re.escape(line) for line in shown.splitlines(keepends=True))
        if shown:
            assert re.fullmatch(pattern, printed, re.DOTALL), f"{command}\n{printed}"
        ran += 1
    assert ran > 12


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys\nfrom loomflow.__main__ import main\nsys.argv = ['loomflow', '--help']\n"
        "try:\n    main()\nfinally:\n    print([m for m in ('numpy', 'pydantic', 'pydantic_ai', 'openai', 'sqlite3', "
        "'loomflow.memory') if m in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, encoding="utf-8", timeout=60
    )
    assert "inject" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "[]"


def test_version() -> None:
    assert run("--version").stdout == f"loomflow {loomflow.__version__}\n"


@pytest.mark.parametrize("args", [(), ("memory",)])
def test_no_command_shows_the_help(args: tuple[str, ...]) -> None:
    assert "Usage:" in run(*args, status=2).output


# Looking at a memory


def test_list_counts_each_user(url: str) -> None:
    fill(url, "alice", 2)
    fill(url, None, 1)
    listed = json.loads(run("memory", "list", "--json").stdout)
    assert listed == [
        {"user": None, "sessions": 1, "blocks": 1, "facts": 1, "episodes": 1},
        {"user": "alice", "sessions": 1, "blocks": 1, "facts": 1, "episodes": 2},
    ]
    table = run("memory", "list").stdout.splitlines()
    assert table[1].split() == ["(anonymous)", "1", "1", "1", "1"]
    assert table[2].split() == ["alice", "1", "1", "1", "2"]
    assert [row["user"] for row in json.loads(run("memory", "list", "--anonymous", "--json").stdout)] == [None]
    assert [row["user"] for row in json.loads(run("memory", "list", "--user", "alice", "--json").stdout)] == ["alice"]


def test_show_keeps_users_apart(url: str) -> None:
    fill(url, "alice", 7)
    shown = run("memory", "show", "--user", "alice", "--limit", "2").stdout
    assert "Vegetarian." in shown
    assert "Alice lives_in Lisbon" in shown
    assert "I ran 6 km" in shown
    assert "I ran 4 km" not in shown
    nobody = run("memory", "show")
    assert nobody.stdout == ""
    assert "the anonymous user" in nobody.stderr
    fields = json.loads(run("memory", "show", "--user", "alice", "--json").stdout)
    assert [len(fields[kind]) for kind in ("blocks", "facts", "episodes")] == [1, 1, 5]


def test_history_shows_what_is_over(url: str) -> None:
    run("memory", "add-fact", "Alice", "lives_in", "Porto", "--valid-from", "2019-03-01T00:00+02:00")
    added = run("memory", "add-fact", "Alice", "lives_in", "Lisbon", "--valid-from", "2025-06-01").stdout
    assert added.splitlines() == [
        "added: Alice lives_in Lisbon (since 2025-06-01)",
        "ended: Alice lives_in Porto (since 2019-02-28)",
    ]
    assert "Porto" not in run("memory", "show").stdout
    assert "Alice lives_in Porto (since 2019-02-28, until 2025-06-01)" in run("memory", "show", "--history").stdout


def test_search_says_how_each_was_found(url: str) -> None:
    fill(url, "alice", 3)
    found = run("memory", "search", "2 km along the river in Lisbon", "--user", "alice", "--limit", "2")
    assert "Alice lives_in Lisbon" in found.stdout
    assert "I ran 2 km along the river." in found.stdout
    assert "keyword 1" in " ".join(found.stdout.split())
    fields = json.loads(run("memory", "search", "river", "--user", "alice", "--limit", "2", "--json").stdout)
    assert [match["lexical_rank"] is not None for match in fields["episodes"]] == [True, True]
    assert "nothing found" in run("memory", "search", "river").stderr


def test_stats_are_of_everyone_or_of_one(url: str) -> None:
    fill(url, "alice", 2)
    fill(url, "bo", 3)
    assert json.loads(run("memory", "stats", "--json").stdout)["episodes"] == 5
    assert json.loads(run("memory", "stats", "--user", "bo", "--json").stdout)["episodes"] == 3
    assert json.loads(run("memory", "stats", "--anonymous", "--json").stdout)["episodes"] == 0
    assert re.search(r"^episodes +5$", run("memory", "stats").stdout, re.MULTILINE)


def test_inject_prints_the_block_and_why(url: str) -> None:
    fill(url, "alice", 3)
    tuning = Tuning(memory_token_budget=60)
    wanted = in_memory(url, lambda memory: memory.inject("How far did I run?", user_id="alice", tuning=tuning))
    args = ("inject", "How far did I run?", "--user", "alice", "--budget", "60")
    printed = run(*args)
    assert printed.stdout == f"{wanted.text}\n"
    assert f"{wanted.tokens} tokens (budget 60)" in printed.stderr
    assert "pinned: always in, in full" in printed.stderr
    fields = json.loads(run(*args, "--json").stdout)
    assert fields["block"] == wanted.text
    assert [item["id"] for item in fields["receipt"]["items"]] == [item.id for item in wanted.items]
    same_session = json.loads(run(*args, "--session", "s-1", "--json").stdout)
    assert [item["kind"] for item in same_session["receipt"]["items"]] == ["block", "fact"]


def test_inject_takes_every_setting(url: str) -> None:
    async def work(memory: Memory) -> None:
        await memory.facts.append([Fact("Alice", "likes", f"route {n}") for n in range(7)])
        await memory.remember([Episode(f"I ran route {n}.", "Good.", session_id=f"s-{n}") for n in range(7)])

    in_memory(url, work)
    question = "Which route did I run?"
    for args, tuning in (
        ((), Tuning()),
        (("--max-facts", "2", "--max-episodes", "0"), Tuning(memory_max_facts=2, memory_max_episodes=0)),
        (("--min-relevance", "1"), Tuning(memory_min_relevance=1)),
        (("--mode", "fill"), Tuning(memory_mode="fill")),
        (("--mode", "fill", "--budget", "60"), Tuning(memory_mode="fill", memory_token_budget=60)),
        (
            ("--mode", "fill", "--budget", "60", "--half-life", "9"),
            Tuning(memory_mode="fill", memory_token_budget=60, memory_decay_half_life_days=9),
        ),
    ):
        at = "2030-01-01"
        wanted = in_memory(
            url, lambda memory, tuning=tuning: memory.inject(question, tuning=tuning, at=datetime(2030, 1, 1))
        )
        printed = run("inject", question, "--at", at, *args)
        assert printed.stdout == f"{wanted.text}\n", args
        assert "note:" not in printed.stderr
        assert json.loads(run("inject", question, "--at", at, *args, "--json").stdout)["block"] == wanted.text


def test_a_setting_without_effect_is_named(url: str) -> None:
    fill(url)
    for args, note in (
        (("--half-life", "30"), "note: --half-life has no effect without --budget in --mode top"),
        (("--mode", "fill", "--max-facts", "5"), "note: --max-facts has no effect in --mode fill"),
        (("--mode", "fill", "--max-episodes", "0"), "note: --max-episodes has no effect in --mode fill"),
    ):
        assert note in run("inject", "How far?", *args).stderr
    for args in (
        ("--mode", "fill", "--half-life", "30"),
        ("--half-life", "30", "--budget", "90"),
        ("--max-facts", "1"),
    ):
        assert "note:" not in run("inject", "How far?", *args).stderr


@pytest.mark.parametrize("columns", [80, 100])
def test_the_receipt_of_mode_fill_shows_signals(url: str, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    async def work(memory: Memory) -> None:
        when = datetime(2026, 3, 14, tzinfo=UTC)
        said = [
            Episode(f"Where did I run on Monday, {n} km?", "Along the river.", session_id="s", user_name="Alice",
                    agent_name="Coach", occurred_at=when)
            for n in range(40)
        ]  # fmt: skip
        await memory.remember(said)
        await memory.facts.append(Fact("Alice", "runs", "along the river"))

    in_memory(url, work)
    args = ("inject", "When did Alice run along the river, on 14 March 2026?", "--mode", "fill", "--budget", "90")
    items = json.loads(run(*args, "--json").stdout)["receipt"]["items"]
    printed = run(*args).stderr.splitlines()
    assert max(map(len, printed)) <= columns
    assert printed[1].endswith("reason; under it signals and text")
    lines = [line.strip() for line in printed if re.match("    [a-z]+ -?[0-9]", line)]
    shown = [item for item in items if item["status"] != "dropped"]
    dropped = len(items) - len(shown)
    assert dropped > 10
    assert printed[-1] == f"… and {dropped - 10} more dropped"
    assert len(lines) == len(shown) + 10
    assert any(len(item["signals"]) > 5 for item in shown)
    for line, item in zip(lines, shown, strict=False):
        parts = line.split(", ")
        signals = item["signals"]
        if parts[-1].startswith("and "):
            assert parts.pop() == f"and {len(signals) - len(parts)} more"
        told = {name: float(value) for name, value in (part.split() for part in parts)}
        assert 3 <= len(told) <= len(signals)
        assert told == {name: pytest.approx(signals[name], abs=0.006) for name in told}


def test_inject_at_a_moment_sees_what_was_known_then(url: str) -> None:
    told = Episode("I ran 5 km.", "Good.", session_id="s", occurred_at=datetime(2026, 3, 1, tzinfo=UTC))
    in_memory(url, lambda memory: memory.remember(told))
    assert "5 km" in run("inject", "How far did I run?", "--at", "2026-03-02").stdout
    assert run("inject", "How far did I run?", "--at", "2026-02-02").stdout == ""


# Writing


def test_set_block_reads_stdin(url: str) -> None:
    assert "version 1" in run("memory", "set-block", "profile", "-", input="Vegetarian.\nTall.\n").stdout
    assert "version 2" in run("memory", "set-block", "profile", input="Vegan.\n").stdout
    (block,) = in_memory(url, lambda memory: memory.working())
    assert block.content == "Vegan."


def test_export_and_import_lose_nothing(url: str, tmp_path: Path) -> None:
    fill(url, "alice", 700)
    run("memory", "export", "--user", "alice", "-o", str(tmp_path / "alice.json"))
    exported = json.loads((tmp_path / "alice.json").read_text(encoding="utf-8"))
    assert exported == json.loads(run("memory", "export", "--user", "alice").stdout)
    other = f"sqlite:{tmp_path / 'other.db'}"
    args = ("memory", "import", str(tmp_path / "alice.json"), "--memory", other)
    assert "1 block, 1 fact version, 700 episodes" in run(*args).stdout
    assert "0 blocks, 0 fact versions, 0 episodes" in run(*args).stdout
    assert in_memory(other, lambda memory: memory.export("alice")) == exported
    run(*args, "--anonymous")
    assert set(in_memory(other, lambda memory: memory.users())) == {None, "alice"}
    assert in_memory(other, lambda memory: memory.stats(user_id=None)).episodes == 700


def test_import_shows_its_progress_on_a_terminal(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(url, "alice", 600)
    run("memory", "export", "--user", "alice", "-o", str(tmp_path / "alice.json"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run("memory", "import", str(tmp_path / "alice.json"), "--user", "copy").stderr
    assert "importing" in shown
    assert "1201/1201" in re.sub(r"\x1b\[[0-9;]*m", "", shown)


def test_forget_asks_first_and_names_whom(url: str) -> None:
    fill(url, "alice", 3)
    assert "--user ID or --anonymous" in run("memory", "forget", status=2).stderr
    run("memory", "forget", "--user", "alice", "--anonymous", status=2)
    for answer in ("n\n", "\n", ""):
        refused = run("memory", "forget", "--user", "alice", input=answer, status=1)
        assert "Forget everything of user 'alice' for good?" in refused.stderr
        assert refused.stderr.splitlines()[-1] == "error: not confirmed, nothing was deleted"
    assert "0 episodes" in run("memory", "forget", "--user", "alice", "--before", "2020-01-01", "--yes").stdout
    assert in_memory(url, lambda memory: memory.stats(user_id="alice")).episodes == 3
    assert "3 episodes" in run("memory", "forget", "--user", "alice", "--session", "s-1", input="y\n").stdout
    assert "1 block, 1 fact, 0 episodes" in run("memory", "forget", "--user", "alice", "--yes").stdout
