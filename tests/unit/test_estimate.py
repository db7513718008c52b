"""The estimate of tokens beside real tokenizers: it is under them by no more than the table of the benchmark says.

Llama 2's tokenizer comes with the default embedder; those of OpenAI are measured where `bpe-openai` is installed.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loomflow import estimate_tokens

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "benchmarks" / "results" / "estimate.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?P<name>[^|]+) \| (?P<characters>[\d,]+) \| (?P<estimate>[\d,]+) \|(?P<rest>.*)\|$", re.MULTILINE
)
KINDS = [row["name"] for row in ROW.finditer(RESULTS)]

Count = Callable[[str], int]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    return importlib.import_module("estimate")


def test_every_kind_of_text_is_in_the_results_with_its_estimate(benchmark: Any) -> None:
    kinds = benchmark.kinds()
    assert list(kinds) == KINDS
    for row in ROW.finditer(RESULTS):
        kind = kinds[row["name"]]
        assert row["characters"] == f"{len(kind.text):,}"
        assert row["estimate"] == f"{estimate_tokens(kind.text):,}", "run: python benchmarks/estimate.py"
        assert row["rest"].rpartition("|")[2].strip() == f"{kind.most:.2f} / {kind.most_llama:.2f}"


@pytest.mark.parametrize("name", KINDS)
def test_estimate_is_not_further_under_llama_than_the_table_says(benchmark: Any, name: str) -> None:
    kind, count = benchmark.kinds()[name], benchmark.counters()[benchmark.LLAMA]
    real, share, _ = benchmark.shares(kind, count)
    assert f"{real:,} ({share:.2f})" in RESULTS
    assert share <= kind.most_llama


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("vocabulary", ["o200k_base", "cl100k_base"])
def test_no_part_is_further_under_openai_than_the_table_says(benchmark: Any, vocabulary: str, name: str) -> None:
    pytest.importorskip("bpe_openai")
    kind, count = benchmark.kinds()[name], benchmark.counters()[vocabulary]
    real, share, worst = benchmark.shares(kind, count)
    assert f"{real:,} ({share:.2f})" in RESULTS
    assert worst <= kind.most


@pytest.mark.parametrize("name", ["English prose", "Japanese", "Korean"])
def test_estimate_is_high_for_these_with_the_vocabulary_of_today(benchmark: Any, name: str) -> None:
    pytest.importorskip("bpe_openai")
    _, share, _ = benchmark.shares(benchmark.kinds()[name], benchmark.counters()["o200k_base"])
    assert share < 1
