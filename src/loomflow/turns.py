"""The turns of a session: which of them count, and what was said in them."""

from __future__ import annotations

from collections.abc import Sequence

from .items import SessionMessage
from .records import Turn


def said(turn: Turn) -> str:
    """What the user said in a turn."""
    if turn.interrupted is not None:
        return turn.interrupted.prompt
    return turn.episode.input if turn.episode is not None else ""


def without_retries(turns: Sequence[Turn], prompt: str | None = None) -> list[Turn]:
    """The turns without first tries: interrupted ones that were followed by the same words.

    What tools returned in a first try is carried on by the next one, see `loomflow.context.sessions.rehydrate`.

    Args:
        turns: of a session, in order.
        prompt: what the user says now, if it is text alone.
    """
    following = [*(None if _is_more_than_text(turn) else said(turn) for turn in turns[1:]), prompt]
    return [turn for turn, next_said in zip(turns, following, strict=False) if not is_first_try(turn, next_said)]


def is_first_try(turn: Turn, next_said: str | None) -> bool:
    """Whether a turn was interrupted and then said again. Pictures and files are not compared: they never were."""
    run = turn.interrupted
    return run is not None and run.is_text and run.prompt == next_said


def _is_more_than_text(turn: Turn) -> bool:
    return turn.interrupted is not None and not turn.interrupted.is_text


def messages_of(turn: Turn) -> list[SessionMessage]:
    """A turn as chat messages: what the user said and, if the run finished, what the agent answered."""
    if turn.interrupted is not None:
        run = turn.interrupted
        return [SessionMessage("user", run.prompt, run.started_at, run.run_id)]
    episode = turn.episode
    assert episode is not None
    assert episode.id is not None
    assert episode.occurred_at is not None
    both = [
        SessionMessage("user", episode.input, episode.occurred_at, episode.id),
        SessionMessage("assistant", episode.output, episode.occurred_at, episode.id),
    ]
    return [message for message in both if message.content.strip()]
