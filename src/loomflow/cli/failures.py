"""How a command fails: one line on stderr and a status, never a traceback, a password or a key."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import typer

from loomflow.errors import LoomflowError, ModelError
from loomflow.locations import without_password

from .display import one_line, tell

FAILED = 1
MISUSED = 2
INTERRUPTED = 130

EXPECTED = (LoomflowError, OSError, json.JSONDecodeError)
"""What a command may fail with; anything else is a bug and keeps its traceback."""

CommandLineError = cast("type[Exception]", typer.BadParameter.__mro__[2])
"""The base of typer's own errors. It has no public name there; the one below it is the error of usage."""

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
_SECRET_FORM = re.compile(r"\bsk-[\w-]{8,}|(?<=Bearer )\S+")
_MAX_CHARS = 500


def misuse(message: str) -> Exception:
    """The error of a command that is used in a way that cannot work."""
    usage_error = cast("type[Exception]", typer.BadParameter.__mro__[1])
    return usage_error(message)


def tell_error(error: BaseException | str) -> None:
    """Print the one line of an error."""
    tell(f"error: {error if isinstance(error, str) else explained(error)}")


def explained(error: BaseException) -> str:
    """What went wrong, in one line, without secrets."""
    cause = error.__cause__
    if isinstance(error, ModelError) and cause is not None and hasattr(cause, "status_code"):
        message = _of_the_model(cause)
    elif isinstance(error, LoomflowError):
        message = str(error)
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, json.JSONDecodeError):
        message = f"not JSON: {error}"
    else:
        message = _of_the_model(error)
    line = redacted(one_line(message))
    return line if len(line) <= _MAX_CHARS else f"{line[: _MAX_CHARS - 1]}…"


def _of_the_model(error: BaseException) -> str:
    """An error of a model's client, whose classes are not imported here: they cost a second."""
    status: Any = getattr(error, "status_code", None)
    if status is None:
        return f"{type(error).__name__}: {error}"
    body: Any = getattr(error, "body", None)
    said = body.get("message", body) if isinstance(body, dict) else body  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return f"the model {getattr(error, 'model_name', '')} answered with status {status}: {said}"


def redacted(text: str) -> str:
    """Text without the secrets of the environment, passwords of URLs, and what looks like a key."""
    for name, value in os.environ.items():
        if len(value) >= 6 and _SECRET_NAME.search(name.upper()):
            text = text.replace(value, "***")
    return _SECRET_FORM.sub("***", " ".join(without_password(word) for word in text.split(" ")))


class _OneLineHandler(logging.Handler):
    """Prints what the library logs, a line each; tracebacks are for programs that set up logging themselves."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(f"{record.levelname.lower()}: {redacted(one_line(record.getMessage()))}")


@contextmanager
def one_line_warnings() -> Generator[None]:
    """While it is open, the library's warnings are printed as lines."""
    logger = logging.getLogger("loomflow")
    handler = _OneLineHandler(logging.WARNING)
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
