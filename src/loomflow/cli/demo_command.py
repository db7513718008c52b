"""`loomflow demo`: tells the story of `loomflow.demo`."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.rule import Rule
from rich.text import Text

import loomflow
from loomflow import demo as story
from loomflow.errors import LoomflowError, ModelError
from loomflow.locations import without_password

from .display import console, counted, heading, one_line, say, say_indented
from .failures import explained
from .opening import choose_model
from .options import MEMORY_VARIABLE
from .receipts import say_receipt

SHOWN_ROWS = 2
SHOWN_DROPPED = 3


def demo(
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="URL",
            help="Where to write the demo's memory; a new file in a temporary folder if omitted.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Which model answers. If omitted: gpt-4.1-mini where OPENAI_API_KEY is set, else one that echoes.",
        ),
    ] = None,
) -> None:
    """See it work on real stored data: no key, no network, under a minute.

    A year of memories is written to a database, which is closed and opened again. Then one question is asked under four
    settings, each time with the block that the model was sent and the receipt that says why. The memory is kept.
    """
    chosen, note = choose_model(model)
    if memory is not None:
        story.check_place(memory)
    url = memory or f"sqlite:{Path(tempfile.mkdtemp(prefix='loomflow-demo-')) / 'demo.db'}"
    asyncio.run(_write(url))
    _say_part("A new conversation")
    say(f'{story.USER} asks: "{story.QUESTION}"')
    say(note)
    asyncio.run(_play(url, chosen))
    _say_next(url)


async def _write(url: str) -> None:
    async with loomflow.Memory.open(url) as memory:
        written = await story.write(memory, datetime.now(UTC))
    _say_part("A year of memories")
    amounts = (
        counted(written.blocks, "working block"),
        counted(written.facts, "fact"),
        f"{counted(written.episodes, 'episode')} of {counted(written.sessions, 'session')}",
    )
    say_indented(
        f"Of user {story.USER}: {', '.join(amounts)}, the oldest a year old, one of them thousands of tokens long. "
        "One fact is over: she has moved.",
        by=0,
    )
    say("Written, closed, and opened again:")
    say(f"  {without_password(written.url)}")


async def _play(url: str, model: Any) -> None:
    async with loomflow.Memory.open(url) as memory:
        scenes = story.play(memory, model)
        number = 0
        while (scene := await _next_scene(scenes)) is not None:
            number += 1
            _say_scene(number, scene)


async def _next_scene(scenes: Any) -> story.Scene | None:
    """The next scene; what the model's client raises becomes a `ModelError`."""
    try:
        return await anext(scenes, None)
    except (LoomflowError, OSError):
        raise
    except Exception as error:
        raise ModelError(explained(error)) from error


def _say_scene(number: int, scene: story.Scene) -> None:
    _say_part(f"{number}. {scene.title}")
    say_indented(f"Look at: {scene.look_at}", by=0, style="italic")
    say(scene.settings)
    say()
    heading("What the model was sent, under its instructions")
    say_indented(scene.sent, max_rows=SHOWN_ROWS, style="cyan")
    say()
    heading("The receipt")
    say_receipt(scene.injection, max_dropped=SHOWN_DROPPED)
    say()
    heading("The answer")
    say_indented(scene.answer)


def _say_part(title: str) -> None:
    say()
    console().print(Rule(Text(one_line(title), style="bold"), align="left", characters="─"))


def _own_name() -> str:
    """What to type for this command: its path, if it is not on the search path."""
    here = Path(sys.argv[0])
    if shutil.which("loomflow") or here.name != "loomflow":
        return "loomflow"
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)


def _say_next(url: str) -> None:
    _say_part("What to try next")
    say_indented("The memory is kept; the last question is part of it now. These commands read it:", by=0)
    say()
    say(f"  export {MEMORY_VARIABLE}={shlex.quote(url)}")
    for command in (
        f"memory show --user {story.USER} --history",
        f'inject "Does Alice have a pet?" --user {story.USER} --budget 150',
        f'memory search "quiet dinner" --user {story.USER}',
        f"chat --user {story.USER} --budget 300",
        f"memory forget --user {story.USER}",
    ):
        say(f"  {_own_name()} {command}")
