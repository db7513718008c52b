"""`loomflow chat`: a conversation in the terminal, or through a pipe."""

from __future__ import annotations

import asyncio
import importlib
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

import loomflow
from loomflow.items import MemoryBlock, new_id
from loomflow.locations import locate
from loomflow.receipt import Injection

from .display import one_line, say, say_blocks, tell, user_label
from .failures import FAILED, INTERRUPTED, misuse, tell_error
from .looping import LoopThread
from .opening import choose_model, open_memory
from .options import MEMORY_VARIABLE, BaseUrl, EmbedderName, User
from .receipts import say_receipt
from .tuning import Budget, HalfLife, MaxEpisodes, MaxFacts, MinRelevance, Mode, read_tuning

if TYPE_CHECKING:
    from loomflow.agent import Agent

INSTRUCTIONS = "Answer briefly, using what you know about the user."
CLOSING_SECONDS = 0.5
"""What has not ended after so long a time is told of."""

COMMANDS = {
    "/why": "what was recalled for the last answer, and why",
    "/blocks": "the working blocks",
    "/help": "these commands",
    "/quit": "leave; so do Ctrl-D, and Ctrl-C at the prompt",
}


def chat(
    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            metavar="URL",
            envvar=MEMORY_VARIABLE,
            help="Where the memory is; created if there is none. inmemory is gone when the chat ends.",
        ),
    ] = "inmemory",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="gpt-4.1-mini, claude-sonnet-4-5, provider:name, or echo. "
            "If omitted: gpt-4.1-mini where OPENAI_API_KEY is set, else echo.",
        ),
    ] = None,
    user: User = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="The conversation to go on with; a new one if omitted."),
    ] = None,
    mode: Mode = "top",
    budget: Budget = None,
    half_life: HalfLife = None,
    max_facts: MaxFacts = None,
    max_episodes: MaxEpisodes = None,
    min_relevance: MinRelevance = None,
    embedder: EmbedderName = "default",
    base_url: BaseUrl = None,
    distill: Annotated[
        bool | None,
        typer.Option(
            "--distill/--no-distill",
            help="Learn facts from what is said, after each answer. With real models it is on.",
        ),
    ] = None,
    distill_model: Annotated[
        str | None,
        typer.Option("--distill-model", metavar="NAME", help="The model that learns; that of the chat if omitted."),
    ] = None,
    instructions: Annotated[
        str, typer.Option("--instructions", metavar="TEXT", help="What the model is told in every run.")
    ] = INSTRUCTIONS,
) -> None:
    """Talk to a model that remembers. Answers go to stdout, everything else to stderr.

    At the prompt /why shows what was recalled for the last answer and /help lists the commands. Ctrl-C interrupts an
    answer. Lines from a pipe are answered one by one. Facts are learned from what is said while the chat goes on.
    """
    chosen, note = choose_model(model, base_url)
    if distill and distill_model is None and isinstance(chosen, loomflow.EchoModel):
        raise misuse("--distill needs a model that can read: give --model or --distill-model")
    tuning = read_tuning(
        mode=mode, budget=budget, half_life=half_life, max_facts=max_facts, max_episodes=max_episodes,
        min_relevance=min_relevance,
    )  # fmt: skip
    opened = open_memory(memory, embedder)
    tuning = replace(tuning, distill=distill, distill_model=distill_model)
    agent = loomflow.Agent(instructions, model=chosen, memory=opened, tuning=tuning, base_url=base_url)
    conversation = _Conversation(agent, user, session or new_id())
    with LoopThread() as loop:
        loop.run(opened.__aenter__())
        tell(note)
        tell(f"memory: {agent.memory.store.url}, {user_label(user)}, session {conversation.session}")
        try:
            status = _converse(conversation, loop)
        finally:
            with suppress(KeyboardInterrupt):  # it leaves what is still to be learned for later
                loop.run(_close(agent))
    if status:
        raise typer.Exit(status)


async def _close(agent: Agent) -> None:
    """Close the agent and the memory; says so where that takes a while, for then facts are being learned."""
    store = agent.memory.store
    otherwise = "leaves without" if locate(store.url).path is None else "leaves it for later"
    notice = asyncio.get_running_loop().call_later(
        CLOSING_SECONDS, tell, f"learning from the conversation; Ctrl-C {otherwise}"
    )
    try:
        await agent.aclose()
    finally:
        notice.cancel()
        await agent.memory.aclose()


def _converse(conversation: _Conversation, loop: LoopThread) -> int:
    """Read and answer lines until there are no more; the status to leave with."""
    interactive = sys.stdin.isatty()
    failures = 0
    if interactive:
        tell("/help lists the commands")
        with suppress(ImportError):
            importlib.import_module("readline")  # gives input() its line editing
    while (line := _read_line(interactive)) is not None:
        text = line.strip()
        if text == "/quit":
            break
        if not text:
            continue
        try:
            if text in COMMANDS:
                loop.run(conversation.command(text))
            elif text.startswith("/") and text[1:].isalpha():
                tell(f"unknown command {text}; /help lists the commands")
            else:
                failures += not loop.run(conversation.answer(text))
        except KeyboardInterrupt:
            if conversation.is_running:  # a second Ctrl-C, before the first had its effect
                return INTERRUPTED
            say()
            tell("[interrupted]")
    return FAILED if failures and not interactive else 0


def _read_line(interactive: bool) -> str | None:
    """The next line; None at the end, or when the user leaves with Ctrl-C or Ctrl-D."""
    if not interactive:
        return sys.stdin.readline() or None
    try:
        if sys.stdout.isatty():
            return input("you> ")
        print("you> ", end="", file=sys.stderr, flush=True)
        return input()
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return None


@dataclass
class _Conversation:
    """One session with an agent."""

    agent: Agent
    user: str | None
    session: str
    injection: Injection | None = None
    is_running: bool = False

    async def answer(self, prompt: str) -> bool:
        """Stream the answer to a prompt; whether there was one. What fails is told, and the session stays usable."""
        self.is_running = True
        try:
            async with self.agent.stream(prompt, user_id=self.user, session_id=self.session) as stream:
                self.injection = stream.injection
                async for text in stream:
                    say(text, end="")
                say()
                self.injection = stream.injection
        except BrokenPipeError:
            raise
        except Exception as error:
            tell_error(error)
            return False
        finally:
            self.is_running = False
        return True

    async def command(self, name: str) -> None:
        """Do what one of `COMMANDS` says."""
        if name == "/why":
            if self.injection is None:
                tell("nothing has been asked yet")
            else:
                say_receipt(self.injection)
        elif name == "/blocks":
            blocks: list[MemoryBlock] = await self.agent.memory.working(user_id=self.user)
            say_blocks(blocks)
            if not blocks:
                tell(f"{user_label(self.user)} has no working blocks")
        else:
            say("\n".join(f"{command:<8} {one_line(what)}" for command, what in COMMANDS.items()))
