"""The account of a request: how the tokens that a model was sent were spent."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class ContextAccount:
    """What the last request of a run cost, in tokens by the counter of the agent.

    Attributes:
        instructions: what the agent is told in every run.
        blocks: working blocks, with the line above them.
        recall: recalled facts and episodes.
        summary: what stands for older parts of the conversation that were compacted.
        history: earlier turns of the session.
        prompt: what the user said in this run.
        transcript: what the run has done since: answers, tool calls and their results.
        tools: definitions of tools and of structured output.
        window: tokens that the model can take; None if that is not known.
        compact_at: total above which the oldest part is compacted; None if that is off.
        requests: how many requests the run made.
        compactions: how often the conversation was compacted in the run.
        shortened: tool results that were shortened in this request.
        deferred: tools whose definitions were left out, and can be searched for.
    """

    instructions: int = 0
    blocks: int = 0
    recall: int = 0
    summary: int = 0
    history: int = 0
    prompt: int = 0
    transcript: int = 0
    tools: int = 0
    window: int | None = None
    compact_at: int | None = None
    requests: int = 0
    compactions: int = 0
    shortened: int = 0
    deferred: int = 0

    @property
    def total(self) -> int:
        """All that was sent."""
        return sum(self.shares.values())

    @property
    def shares(self) -> dict[str, int]:
        """The parts of the request by name, in the order in which they are sent."""
        return {field.name: getattr(self, field.name) for field in fields(self)[:8]}

    def explain(self) -> str:
        """The account as a table in plain text."""
        of = f" of {self.window:,}" if self.window else ""
        lines = [f"{self.total:,} tokens{of} in request {self.requests}"]
        width = max(len(f"{cost:,}") for cost in self.shares.values())
        for name, cost in self.shares.items():
            share = f"{100 * cost / self.total:4.0f} %" if self.total else ""
            lines.append(f"  {name:<12} {cost:>{width},}  {share}".rstrip())
        notes = [
            (self.compactions, f"compactions of the conversation: {self.compactions}"),
            (self.shortened, f"tool results shortened: {self.shortened}"),
            (self.deferred, f"tool definitions deferred: {self.deferred}"),
        ]
        return "\n".join([*lines, *(f"  {note}" for number, note in notes if number)])
