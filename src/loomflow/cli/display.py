"""What commands print. Stored text is shown as it is: it is no markup, and nothing in it steers the terminal.

Results go to stdout, everything about them (progress, notes, errors) to stderr.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loomflow.items import Episode, Fact, MemoryBlock

MAX_WIDTH = 100

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HIDDEN_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    r"""Text that a terminal shows and does not obey; only tab and newline keep their effect.

    Control characters become their pictures, C1 controls, lone surrogates and bidirectional overrides the replacement
    character. It works character by character, so a text may be cleaned in pieces.

    >>> clean("\x1b[31mred\r\n")
    '␛[31mred\n'
    """
    return _STEERING.sub(_picture, text)


def _picture(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\r":
        return ""
    if character < " ":
        return chr(0x2400 + ord(character))
    return "␡" if character == "\x7f" else "\ufffd"


def one_line(text: str) -> str:
    """Text in one line, cleaned."""
    return " ".join(clean(text).split())


def say(text: str = "", *, end: str = "\n") -> None:
    """Print a result, or a piece of one."""
    print(clean(text), end=end, flush=True)


def tell(text: str) -> None:
    """Print a line about what happens."""
    print(one_line(text), file=sys.stderr, flush=True)


def say_json(value: object) -> None:
    """Print a value as JSON."""
    print(to_json(value), flush=True)


def to_json(value: object) -> str:
    """JSON for people and programs: characters as themselves, but for those that a terminal would obey."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=_plain)
    return _HIDDEN_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"not a JSON value: {value!r}")


def console(*, stderr: bool = False) -> Console:
    """A console for styled output, at most `MAX_WIDTH` wide. What is printed on it has to be cleaned before."""
    made = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    made.width = min(made.width, MAX_WIDTH)
    return made


def heading(text: str) -> None:
    """Print the heading of a part."""
    console().print(Text(one_line(text), style="bold"))


def say_indented(text: str, *, by: int = 2, max_rows: int | None = None, style: str = "") -> None:
    """Print a text wrapped and indented; with `max_rows`, of each long line only the beginning and the end."""
    output = console()
    width = output.width - by
    for line in clean(text).expandtabs(4).split("\n"):
        rows = _wrapped(output, line, width) if max_rows is None else _ends_of(output, line, width, max_rows)
        for row in rows:
            output.print(Text(" " * by).append(row, style=style), soft_wrap=True)


def _wrapped(output: Console, line: str, width: int) -> list[str]:
    return [row.plain.rstrip() for row in Text(line).wrap(output, width)]


def _ends_of(output: Console, line: str, width: int, max_rows: int) -> list[str]:
    """At most `max_rows` rows of the beginning of a line, what is hidden, and half a row of its end."""
    beginning = line[: (max_rows + 2) * width]
    rows = _wrapped(output, beginning, width)
    if beginning == line and len(rows) <= max_rows + 2:
        return rows
    shown = rows[:max_rows]
    end = line[-(width // 2) :]
    end = end.partition(" ")[2] or end
    hidden = len(line) - len(end) - sum(len(row) for row in shown)
    return [*shown, f"… ({hidden:,} characters not shown) …", end]


def say_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: numbers to the right, everything else to the left."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    cells = [list(row) for row in rows]
    for column, name in enumerate(headings):
        numeric = bool(cells) and all(isinstance(row[column], int) for row in cells)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else one_line(str(cell))) for cell in row))
    console().print(table)


def fact_line(fact: Fact) -> str:
    """A fact in one line: the statement, then what qualifies it."""
    notes = [
        f"since {_day(fact.valid_from)}" if fact.valid_from else "",
        f"until {_day(fact.valid_until)}" if fact.valid_until else "",
        f"confidence {fact.confidence:g}" if fact.confidence != 1 else "",
        f"no longer believed since {_day(fact.retired_at)}" if fact.retired_at else "",
    ]
    noted = ", ".join(note for note in notes if note)
    return f"{fact.text} ({noted})" if noted else fact.text


def episode_head(episode: Episode) -> str:
    """When an episode took place and in which session."""
    at = f"{episode.occurred_at:%Y-%m-%d %H:%M}" if episode.occurred_at else "no date"
    return f"{at}  session {episode.session_id}"


def episode_said(episode: Episode) -> str:
    """What was said in an episode, a line for each party."""
    said = ((episode.user_name or "User", episode.input), (episode.agent_name or "Agent", episode.output))
    return "\n".join(f"{name}: {' '.join(text.split())}" for name, text in said if text.strip())


def say_blocks(blocks: Sequence[MemoryBlock]) -> None:
    """Print working blocks."""
    for block in blocks:
        written = f", {_day(block.updated_at)}" if block.updated_at else ""
        say_indented(f"{one_line(block.name)} (version {block.version}{written})")
        say_indented(block.content, by=4)


def user_label(user_id: str | None) -> str:
    """A user as it is named in sentences."""
    return "the anonymous user" if user_id is None else f"user {user_id!r}"


def counted(number: int, noun: str) -> str:
    """A number with its noun, which takes an s.

    >>> counted(1, "fact"), counted(1200, "episode")
    ('1 fact', '1,200 episodes')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _day(moment: datetime | None) -> str:
    return "" if moment is None else moment.date().isoformat()
