"""How tables of words become patterns. One line is about one language or one idea; alternatives stand between bars."""

from __future__ import annotations

import re


def alternatives(table: str) -> str:
    """The parts of a table as one pattern; a line that ends in a backslash goes on in the next one."""
    table = re.sub(r"\\\n\s*", "", table)
    return "|".join(part.strip() for line in table.splitlines() for part in line.split(" | ") if part.strip())


def words(table: str, parts: str = "") -> re.Pattern[str]:
    """A pattern of whole words, and of parts of words for scripts without spaces."""
    whole = rf"\b(?:{alternatives(table)})\b"
    return re.compile(f"{whole}|{alternatives(parts)}" if parts else whole)


def opening(table: str, parts: str = "") -> re.Pattern[str]:
    """A pattern of words that a clause begins with, after words such as "so" and "please"."""
    end = rf"|{alternatives(parts)}" if parts else ""
    return re.compile(rf"{LEAD_IN}(?:(?:{alternatives(table)})\b{end})")


LEAD_IN = (
    r"[\W_]*(?:(?:so|and|but|or|hey|hi|hello|ok|okay|well|now|then|just|please|also|oh|und|aber|also|bitte|et"
    r"|mais|alors"
    r"|y|pero|entonces|por favor|e|mas|então|ma|allora|en|maar|а|и|но|ну|пожалуйста|ale|请)\b[\s,:]*){0,4}"
)
