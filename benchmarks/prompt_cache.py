"""How much of each request a provider could take from its cache, with memory in its two places.

    python benchmarks/prompt_cache.py            # 30 turns on two wires
    python benchmarks/prompt_cache.py --quick    # 6 turns: does it run?

A session is played against local servers that speak the formats of OpenAI and Anthropic. What reached them is compared.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from conversations import load  # noqa: E402
from pages import table as markdown_table  # noqa: E402
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402
from tests.anthropic_server import AnthropicServer  # noqa: E402
from tests.openai_server import OpenAIServer, ToolCall  # noqa: E402

from loomflow import Agent, Episode, Fact, Memory, Tuning, estimate_tokens  # noqa: E402

DATA = ROOT / "benchmarks" / "data" / "assistant_en.json"
RESULTS = ROOT / "benchmarks" / "results" / "prompt_cache.md"
TURNS, QUICK_TURNS = 30, 6
CALL_EVERY = 5
"""In every fifth turn the model calls a tool, so the run makes two requests."""
WIRES = ("OpenAI chat", "Anthropic", MARKED := "Anthropic, up to a mark")
PLACEMENTS = ("system", "tail")
SHORT_HISTORY = 2_000
BUDGET = 1_500
INSTRUCTIONS = """\
You are the assistant of one household. Answer from what you know about the user and from the conversation; where you \
do not know, say so and ask. Keep answers short, name dates and amounts as they were told, and never make up a reading \
of a meter, a price or an appointment."""
BLOCKS = {
    "profile": "Lives in a house from 1934 with wife and two children. Runs. Works in logistics, four days a week.",
    "preferences": "Metric units. Short answers first, reasons after. No phone calls before nine.",
}
FACTS = (
    ("user", "allergic_to", "penicillin"),
    ("user", "takes", "candesartan, 8 mg"),
    ("user's wife", "is", "vegetarian, with eggs and cheese"),
    ("user's wife", "dislikes", "winding roads"),
    ("user's son", "allergic_to", "cashew and pistachio"),
    ("user's son", "birthday", "3 June"),
    ("user's daughter", "birthday", "17 May"),
    ("user", "trains_for", "the Cardiff 10k on 7 September"),
    ("user", "wears", "Hoka Clifton running shoes"),
    ("user's company", "has_warehouse_in", "Avonmouth"),
    ("user's company", "has_warehouse_in", "Swindon"),
    ("Imke", "is", "vegan"),
    ("user's parents", "lives_in", "Keynsham"),
    ("stopcock", "is_behind", "the washing machine in the utility room"),
)

HEAD = """\
# What a provider can take from its cache

Written by `benchmarks/prompt_cache.py`. A session of {turns} turns makes {requests} requests: in {calls} turns the
model calls a tool. The user has two working blocks, {facts} facts, and {episodes} episodes of other sessions, so what
is recalled differs from turn to turn. The ceiling of the block is {budget:,} tokens. Prompts and answers are questions
and turns of `data/assistant_en.json`.

"Repeated" is the beginning of a request that is the same, character by character, as that of the request before: tools,
then the system section, then the messages, as JSON. It is the most that a provider can take from its cache. Tokens by
the built-in estimate. The first request has none before it and is left out.

Anthropic keeps only what ends at a mark (`cache_control`). "Up to a mark" counts what is repeated up to the last mark
of the request before, with pydantic-ai's settings `anthropic_cache` and `anthropic_cache_instructions`: a mark under
the instructions and one at the end of the request.
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request: its tokens, and those of its beginning that are the same as in the request before."""

    tokens: int
    repeated: int


@dataclass(frozen=True, slots=True)
class Session:
    """A session to play: what is known of the user before it, what is said in it."""

    episodes: Sequence[Episode]
    prompts: Sequence[str]
    answers: Sequence[str]


def session(turns: int) -> Session:
    """A session of so many turns."""
    (talk,) = load(DATA)
    episodes = [
        Episode(one.input, one.output, user_id="ana", session_id=one.session, occurred_at=one.when)
        for one in talk.episodes
    ]
    answers = [one.output for one in talk.episodes if one.output]
    return Session(episodes, [question.text for question in talk.questions[:turns]], answers[:turns])


async def played(wire: str, told: Session, tuning: Tuning) -> list[Sent]:
    """The requests of the session on one of the `WIRES`."""

    def diary(day: str) -> str:
        """What the household's diary has for a day."""
        return f"{day}: dentist 8:30, school play 17:00, bins out"

    with OpenAIServer() if wire == "OpenAI chat" else AnthropicServer() as server:
        async with Memory.open("inmemory") as memory:
            for block, text in BLOCKS.items():
                await memory.update_block(block, text, user_id="ana")
            await memory.facts.append([Fact(*fact, user_id="ana") for fact in FACTS])
            await memory.remember(told.episodes)
            agent = Agent(
                INSTRUCTIONS, model=_model(wire, server.base_url), memory=memory, tools=[diary], tuning=tuning
            )
            async with agent:
                for number, (prompt, answer) in enumerate(zip(told.prompts, told.answers, strict=True), 1):
                    calls = [ToolCall("diary", {"day": f"day {number}"}, f"call_{number}")] * (number % CALL_EVERY == 0)
                    server.reply(*calls, answer)
                    await agent.run(prompt, user_id="ana", session_id="today")
        requests = [blocks(request.body) for request in server.requests]
    return [_compared(before, now, wire == MARKED) for before, now in itertools.pairwise(requests)]


def blocks(body: dict[str, Any]) -> list[tuple[str, bool]]:
    """What a model reads of a request, block by block, as JSON, and whether the block has a mark."""
    system = body.get("system") or ()
    parts = [*body.get("tools", ()), *([system] if isinstance(system, str) else system)]
    for message in body["messages"]:
        content = message.get("content")
        parts += [{"role": message["role"], **one} for one in content] if isinstance(content, list) else [message]
    found = [(_json(part), "cache_control" in part) for part in parts]
    if "cache_control" in body:
        found[-1] = (found[-1][0], True)
    return found


def _compared(before: Sequence[tuple[str, bool]], now: Sequence[tuple[str, bool]], to_mark: bool) -> Sent:
    text, earlier = ("\n".join(block for block, _ in request) for request in (now, before))
    same = next((place for place, both in enumerate(zip(text, earlier, strict=False)) if both[0] != both[1]), None)
    repeated = min(len(text), len(earlier)) if same is None else same
    if to_mark:
        ends = itertools.accumulate(len(block) + 1 for block, _ in before)
        marks = [end - 1 for end, (_, is_marked) in zip(ends, before, strict=True) if is_marked]
        repeated = max((mark for mark in marks if mark <= repeated), default=0)
    return Sent(estimate_tokens(text), estimate_tokens(text[:repeated]))


def _json(part: Any) -> str:
    plain = {key: value for key, value in part.items() if key != "cache_control"} if isinstance(part, dict) else part
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _model(wire: str, url: str) -> Any:
    if wire == "OpenAI chat":
        return OpenAIChatModel("gpt-4.1-mini", provider=OpenAIProvider(base_url=url, api_key="unused"))
    settings = AnthropicModelSettings(anthropic_cache=True, anthropic_cache_instructions=True)
    provider = AnthropicProvider(base_url=url, api_key="unused")
    return AnthropicModel("claude-sonnet-4-5", provider=provider, settings=settings if wire == MARKED else None)


def cases() -> dict[str, dict[str, Any]]:
    """What is set besides the place of memory, by name."""
    return {
        "all of it": {},
        f"budget {SHORT_HISTORY:,}": {"history_token_budget": SHORT_HISTORY},
    }


def table(turns: int) -> tuple[str, int]:
    """The table in Markdown, and how many requests a session has."""
    told, requests = session(turns), 0
    head = ("history", "wire", "`memory_placement`", "tokens sent", "repeated", "median", "new in a request, median")
    rows: list[Sequence[str]] = []
    for case, settings in cases().items():
        for wire in WIRES:
            for placement in PLACEMENTS:
                tuning = Tuning(memory_placement=placement, memory_token_budget=BUDGET, distill=False, **settings)
                sent = asyncio.run(played(wire, told, tuning))
                requests = len(sent) + 1
                total, repeated = sum(one.tokens for one in sent), sum(one.repeated for one in sent)
                median = statistics.median(one.repeated / one.tokens for one in sent)
                new = statistics.median(one.tokens - one.repeated for one in sent)
                shares = (f"{repeated / total:.0%}", f"{median:.0%}", f"{new:,.0f}")
                rows.append((case, wire, f'`"{placement}"`', f"{total:,}", *shares))
    return f"{markdown_table(head, rows, texts=3)}\n", requests


def page(turns: int) -> str:
    """The page."""
    text, requests = table(turns)
    told = session(turns)
    head = HEAD.format(
        turns=turns, requests=requests, calls=turns // CALL_EVERY, facts=len(FACTS), episodes=len(told.episodes),
        budget=BUDGET,
    )  # fmt: skip
    return f"{head}\n{text}"


def main() -> None:
    """Print the table, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few turns, nothing is written: does it run?")
    parser.add_argument("--output", type=Path, help=f"where the page is written (default: {RESULTS.relative_to(ROOT)})")
    options = parser.parse_args()
    text = page(QUICK_TURNS if options.quick else TURNS)
    output = options.output or (None if options.quick else RESULTS)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
