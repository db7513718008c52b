"""What learning from conversations costs in tokens, by the built-in estimate: no model is asked, no time is measured.

Every request to the model that reads is taken as it goes onto the wire of OpenAI's chat completions. Its fixed part are
the instructions and the schema of the answer; the rest is the turn. The turns are those of `tests/dialogues`.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

from pages import print_and_keep, table

from loomflow import estimate_tokens
from loomflow.distill.extraction import Extractor, turn_text
from loomflow.distill.guards import worth_reading
from loomflow.distill.statements import Said

ROOT = Path(__file__).parents[1]
DIALOGUES = ROOT / "tests" / "dialogues"
RESULTS = ROOT / "benchmarks" / "results" / "distill_cost.md"
MODEL = "gpt-4.1-mini"
SEVERAL_BLOCKS = ("profile", "preferences", "projects")

HEAD = """\
# What learning costs

Written by `benchmarks/distill_cost.py`. Tokens by the built-in estimate: narrow characters / 4, rounded up, and one for
each wide character (Chinese, Japanese, Korean, emoji). A model's own tokenizer counts otherwise, and each provider puts
the schema before its model in a form of its own.
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """A run of a dialogue: what was said, when, and what a good reading of it is."""

    said: Said
    at: datetime
    reading: dict[str, Any]


def turns(folder: Path = DIALOGUES) -> Iterator[Turn]:
    """Every run of every dialogue, as often as it takes place."""
    for path in sorted(folder.glob("*.json")):
        for dialogue in json.loads(path.read_text(encoding="utf-8")):
            for run in dialogue["runs"]:
                tools = tuple(tool["result"] for tool in run.get("tools", ()))
                turn = Turn(Said(run["user"], run["agent"], tools), datetime.fromisoformat(run["at"]), run["reading"])
                yield from [turn] * run.get("repeat", 1)


class Answering(BaseHTTPRequestHandler):
    """Answers every request with an empty reading, and keeps what it was sent."""

    bodies: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        call = {"name": body["tools"][0]["function"]["name"], "arguments": '{"facts": []}'}
        message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": call}]}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        whole = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
        answer = json.dumps(whole).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


async def request(blocks: Sequence[str]) -> dict[str, Any]:
    """The body of a request, as the client of OpenAI sends it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    Thread(target=server.serve_forever, daemon=True).start()
    extractor = Extractor(MODEL, f"http://127.0.0.1:{server.server_port}/v1", "unused", blocks)
    try:
        await extractor.read(Said("I live in Porto."), datetime(2026, 5, 4, tzinfo=UTC))
    finally:
        await extractor.aclose()
        server.shutdown()
        server.server_close()
    return Answering.bodies[-1]


def compact(value: object) -> str:
    """JSON as it is on the wire."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fixed(blocks: Sequence[str]) -> tuple[int, int]:
    """The tokens of the instructions, and of the schema."""
    body = asyncio.run(request(blocks))
    (instructions,) = [message["content"] for message in body["messages"] if message["role"] == "system"]
    return estimate_tokens(instructions), estimate_tokens(compact(body["tools"]))


def fixed_table() -> str:
    """The part that every request has."""
    rows: list[Sequence[object]] = []
    for name, blocks in (("none", ()), ("one", SEVERAL_BLOCKS[:1]), ("three", SEVERAL_BLOCKS)):
        instructions, schema = fixed(blocks)
        rows.append((name, instructions, schema, instructions + schema))
    return table(("blocks that may be learned", "instructions", "schema of the answer", "together"), rows)


def spread(name: str, values: Sequence[int]) -> tuple[object, ...]:
    """A row: how many, mean, median and highest value."""
    return name, len(values), round(statistics.mean(values)), round(statistics.median(values)), max(values)


def turn_table(told: Sequence[Turn]) -> str:
    """The part of a turn, and of the answer to it, over those that a model is asked for."""
    read = [turn for turn in told if worth_reading(turn.said)]
    asked = [estimate_tokens(turn_text(turn.said, turn.at)) for turn in read]
    answered = [estimate_tokens(compact(turn.reading)) for turn in read]
    rows = [spread("sent: the turn", asked), spread("answered: the reading", answered)]
    return table(("of a turn that is read", "turns", "mean", "median", "most"), rows)


def saved_table(told: Sequence[Turn]) -> str:
    """What it saves not to ask about turns that say nothing."""
    always = sum(fixed(()))
    skipped = [turn for turn in told if not worth_reading(turn.said)]
    saved = [always + estimate_tokens(turn_text(turn.said, turn.at)) for turn in skipped]
    each = round(statistics.mean(saved)) if saved else 0
    return table(("turns", "not asked about", "saved by each"), [(len(told), len(saved), each)])


def page() -> str:
    """All tables."""
    told = list(turns())
    parts = (
        ("What every request has", fixed_table()),
        ("What a turn adds", turn_table(told)),
        ("What is saved where nothing was said", saved_table(told)),
    )
    return HEAD + "".join(f"\n## {head}\n\n{text}\n" for head, text in parts)


def main() -> None:
    """Print the tables, and keep them."""
    print_and_keep(page, RESULTS, __doc__)


if __name__ == "__main__":
    main()
