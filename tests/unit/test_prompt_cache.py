"""The benchmark of prompt caches: it runs, and more of a request repeats where recalled memory stands at its end."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loomflow import Tuning

ROOT = Path(__file__).parents[2]
RESULTS = (ROOT / "benchmarks" / "results" / "prompt_cache.md").read_text(encoding="utf-8")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    return importlib.import_module("prompt_cache")


@pytest.mark.parametrize("wire", ["OpenAI chat", "Anthropic"])
async def test_more_of_a_request_repeats_with_recalled_memory_at_its_end(benchmark: Any, wire: str) -> None:
    shares: dict[str, float] = {}
    for placement in benchmark.PLACEMENTS:
        tuning = Tuning(memory_placement=placement, memory_token_budget=benchmark.BUDGET, distill=False)
        sent = await benchmark.played(wire, benchmark.session(benchmark.QUICK_TURNS), tuning)
        assert len(sent) == benchmark.QUICK_TURNS
        assert all(0 < one.repeated < one.tokens for one in sent)
        shares[placement] = sum(one.repeated for one in sent) / sum(one.tokens for one in sent)
    assert shares["tail"] > 1.5 * shares["system"]


async def test_all_before_recalled_memory_is_that_of_the_run_before(benchmark: Any) -> None:
    with benchmark.OpenAIServer() as server:
        agent = benchmark.Agent(
            "Be brief.", model="gpt-4.1-mini", base_url=server.base_url, api_key="unused",
            tuning=Tuning(memory_placement="tail", distill=False),
        )  # fmt: skip
        async with agent:
            for text in ("likes tea", "likes rye bread"):
                await agent.memory.facts.append(benchmark.Fact("ana", *text.split(" ", 1), user_id="ana"))
            for prompt in ("Does ana like tea?", "Does ana like rye bread?"):
                await agent.run(prompt, user_id="ana", session_id="s")
        before, now = ([block for block, _ in benchmark.blocks(request.body)] for request in server.requests)
    first = next(place for place, line in enumerate(before) if "likes tea" in line)
    assert before[:first] == now[:first]
    assert "likes" not in "".join(now[:first])
    assert ["ana likes rye bread" in line for line in now].count(True) == 1


@pytest.mark.slow
def test_quick_benchmark_prints_a_row_for_each_wire_and_place_and_writes_nothing(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "prompt_cache.py"
    done = subprocess.run(
        [sys.executable, str(script), "--quick"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    for row in RESULTS.splitlines():
        if row.startswith("| ") and '`"' in row:
            assert "|".join(row.split("|")[:4]) in done.stdout
    assert (ROOT / "benchmarks" / "results" / "prompt_cache.md").read_text(encoding="utf-8") == RESULTS
    assert list(tmp_path.iterdir()) == []
