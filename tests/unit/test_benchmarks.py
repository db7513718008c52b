"""The benchmarks: they run and print every metric; the corpus of the one for latency is the same each time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
METRICS = [
    "recall_scored, 12 episodes",
    "recall_facts, 5 facts",
    "remember, one durable episode",
    "inject, top, budget 1,500 tokens",
    "inject, fill, budget 1,500 tokens",
    "inject, top, no budget",
    "inject, top, every time another user",
    "cold first inject",
    "first inject of a memory opened anew",
    "loading the embedder",
    "all of it as one process",
    "`import loomflow`",
    "CPU ms an episode",
    "CPU p99",
    "wall median",
    "CPU alone",
    "peak MB",
    "CPU with all that follows",
    "merging of it",
    "among all",
    "memory over the import",
    *(f"## {head}" for head in ("Calls", "Writing", "Cold start", "Many users", "Growth", "Bulk loading", "To reach")),
]
TABLES = [
    "## Data",
    "## Evidence, main categories",
    "## What each signal is worth",
    "### Embedder none",
    "### Embedder default",
    "### Evidence without each signal",
    "## Floor of relevance",
    "## Other measures, main categories",
    "## Evidence by category",
    "CPU ms",
    *(f"| {mode}, {embedder} |" for mode in ("fill", "top") for embedder in ("none", "default")),
    *(f"### {name}: single" for name in ("assistant_en", "personal_zh", "support_de", "worklog_en")),
]


@pytest.mark.slow
def test_quick_latency_benchmark_prints_every_metric_and_writes_only_where_told(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "latency.py"
    done = subprocess.run(
        [sys.executable, str(script), "--quick", "--output", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [metric for metric in METRICS if metric not in done.stdout] == []
    assert (tmp_path / "latency.md").read_text(encoding="utf-8") == done.stdout.rstrip("\n") + "\n"
    assert {path.name for path in tmp_path.iterdir()} == {"latency.md", "latency.json", "latency_growth.svg"}
    plot = ET.fromstring((tmp_path / "latency_growth.svg").read_text(encoding="utf-8"))
    assert len([part for part in plot if part.tag.endswith("polyline")]) == 7
    assert {"title", "desc"} <= {part.tag.rpartition("}")[2] for part in plot if part.text}


def test_corpus_is_the_same_in_every_process_and_questions_use_its_words() -> None:
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import corpus
turns = list(corpus.turns(200, 10))
assert {turn.user for turn in turns} == {f"user-{number}" for number in range(10)}
words = {}
for turn in turns:
    words.setdefault(turn.user, set()).update(f"{turn.input} {turn.output}".replace(".", "").replace("?", "").split())
asked = corpus.questions(50, 200, 10)
assert all(set(question.rstrip("?").split()) <= words[user] for user, question in asked)
assert all(5 <= len(question.split()) <= 9 for _, question in asked)
facts = list(corpus.statements(200, 10))
for user in range(10):
    name = corpus.user_name(user)
    assert list(corpus.turns_of(user, 200, 10)) == [turn for turn in turns if turn.user == name]
    assert list(corpus.statements_of(user, 200, 10)) == [fact for fact in facts if fact.user == name]
print(turns, facts, asked)
"""
    folder = str(ROOT / "benchmarks")
    command = [sys.executable, "-c", program, folder]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first == second
    assert len(first) > 10_000


def run_quality(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "benchmarks" / "recall_quality.py"
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_quick_recall_benchmark_prints_its_tables_and_writes_only_where_told(tmp_path: Path) -> None:
    wanted = ["--quick", "--embedders", "none,default", "--ablation", "--floor", "--output", str(tmp_path)]
    done = run_quality(str(ROOT / "benchmarks" / "data"), *wanted)
    assert done.returncode == 0, done.stderr
    assert [table for table in TABLES if table not in done.stdout] == []
    assert (tmp_path / "recall_quality.md").read_text(encoding="utf-8") == done.stdout.rstrip("\n") + "\n"
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".json", ".svg"}
    plot = ET.fromstring((tmp_path / "recall_quality.svg").read_text(encoding="utf-8"))
    assert {"title", "desc"} <= {part.tag.rpartition("}")[2] for part in plot if part.text}


def test_recall_benchmark_says_which_data_is_missing(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "locomo10.json", "LoCoMo is not part of it"), (tmp_path, "has no data set")):
        done = run_quality(str(path), "--embedders", "none")
        assert done.returncode == 1
        assert str(path) in done.stderr
        assert reason in done.stderr
        assert "Traceback" not in done.stderr
