"""The public face: names, signatures, lazy loading, size of modules."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import loomflow

SOURCES = sorted(Path(loomflow.__file__).parent.rglob("*.py"))

PUBLIC_NAMES = [
    "Agent",
    "AgentStream",
    "ConfigError",
    "ConflictError",
    "ContextAccount",
    "ContextError",
    "EchoModel",
    "EmbedderError",
    "Episode",
    "EpisodeMatch",
    "Fact",
    "InjectedItem",
    "Injection",
    "LoomflowError",
    "Memory",
    "MemoryBlock",
    "ModelError",
    "RunResult",
    "SchemaError",
    "SessionError",
    "SessionMessage",
    "StoreError",
    "Tuning",
    "estimate_tokens",
]


def test_public_names_are_frozen() -> None:
    assert loomflow.__all__ == PUBLIC_NAMES
    assert dir(loomflow) == sorted([*PUBLIC_NAMES, "__version__"])


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_public_name_loads_and_is_documented(name: str) -> None:
    value = getattr(loomflow, name)
    assert (inspect.getdoc(value) or "").strip()


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Agnet'"):
        _ = loomflow.Agnet  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("run", ["self", "prompt", "user_id", "session_id", "metadata"]),
        ("run_sync", ["self", "prompt", "user_id", "session_id", "metadata"]),
        ("stream", ["self", "prompt", "user_id", "session_id", "metadata"]),
        ("preview", ["self", "prompt", "user_id", "session_id", "at"]),
    ],
)
def test_agent_signatures_are_frozen(method: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(loomflow.Agent, method)).parameters) == parameters


def loaded_after(code: str) -> set[str]:
    """Names of the modules in memory after `code` has run in a fresh process."""
    script = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"numpy", "pydantic", "pydantic_ai", "tokenizers", "safetensors", "openai", "rich", "typer", "sqlite3"}


def test_import_loads_nothing_heavy() -> None:
    loaded = loaded_after("import loomflow")
    assert not loaded & (HEAVY | {"asyncio", "loomflow.memory"})


def test_making_an_agent_loads_nothing_heavy() -> None:
    code = (
        "from loomflow import Agent, Tuning\nAgent('Hi', model='gpt-4.1-mini', memory='sqlite:./x.db', tuning=Tuning())"
    )
    assert not loaded_after(code) & HEAVY


def test_preview_loads_the_embedder_but_not_the_model_client() -> None:
    code = (
        "import asyncio\nfrom loomflow import Agent, EchoModel\n"
        "asyncio.run(Agent(model=EchoModel()).preview('What does Bo like?', user_id='bo'))"
    )
    loaded = loaded_after(code)
    assert {"numpy", "tokenizers"} <= loaded
    assert not loaded & {"pydantic_ai", "openai"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_module_fits_in_the_head(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 500


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_module_says_what_lives_there(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith('"""')
    assert len(first) > 20
