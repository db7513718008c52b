"""Every example in README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Coroutine
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from pytest_examples import CodeExample, find_examples

from loomflow import Agent, Memory
from tests.minilm import lay_minilm
from tests.openai_server import OpenAIServer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OUTPUT = re.compile(r"```\n\n```text\n(.*?)```", re.DOTALL)


def examples() -> list[CodeExample]:
    return [example for example in find_examples(*map(str, PAGES)) if example.prefix.startswith("python")]


def promised_output(example: CodeExample) -> str | None:
    """The text block right behind the example, if there is one: what the page says it prints."""
    page = Path(example.path).read_text(encoding="utf-8")
    end = page.index(example.source) + len(example.source)
    match = OUTPUT.match(page, end)
    return match[1] if match else None


def run(code: CodeType) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    outcome: Any = eval(code, names)

    async def to_the_end(coroutine: Coroutine[Any, Any, None]) -> None:
        await coroutine
        for value in names.values():
            if isinstance(value, Agent | Memory):
                await value.aclose()

    if inspect.iscoroutine(outcome):
        asyncio.run(to_the_end(outcome))


@pytest.mark.parametrize("example", examples(), ids=str)
def test_example_runs_and_prints_what_the_page_says(
    example: CodeExample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    lay_minilm(tmp_path / "models" / "all-MiniLM-L6-v2")
    code = compile(example.source, str(example), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = StringIO()
    with OpenAIServer() as server, redirect_stdout(printed):
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        run(code)
    promised = promised_output(example)
    if promised is not None:
        assert printed.getvalue() == promised


def test_there_are_examples_with_promised_output() -> None:
    assert sum(promised_output(example) is not None for example in examples()) >= 4
