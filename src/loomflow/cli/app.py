"""The command line as a whole: its commands, and how it ends: with one line and a status when something fails."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import loomflow

from . import transfer_commands
from .chat import chat
from .check import check
from .copy_command import copy
from .demo_command import demo
from .display import say
from .distill import distill
from .fact_commands import correct, history, merge, retract
from .failures import EXPECTED, FAILED, INTERRUPTED, CommandLineError, one_line_warnings, tell_error
from .inject import inject
from .reembed import reembed


class CommandLine(TyperGroup):
    """The group of all commands. It turns what fails into one line on stderr and a status."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        _replace_what_cannot_be_encoded()
        os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # it would stand in the middle of the chat
        try:
            with one_line_warnings():
                status = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except CommandLineError as error:
            status = _tell_misuse(error)
        except EXPECTED as error:
            tell_error(error)
            status = FAILED
        if not standalone_mode:
            return status
        sys.exit(status)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Ctrl-C ends it without a word, as typer does when the reader of a pipe has left."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _tell_misuse(error: Any) -> int:
    context: Any = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        hint = f" (see {context.command_path} --help)" if context is not None else ""
        tell_error(f"{error.format_message().rstrip('.')}{hint}")
    return error.exit_code


def _replace_what_cannot_be_encoded() -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


app = typer.Typer(
    cls=CommandLine,
    name="loomflow",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command()(demo)
app.command()(chat)
app.command()(inject)
for command in (retract, correct, merge, history, reembed, distill, check, copy):
    transfer_commands.memory_app.command()(command)
app.add_typer(transfer_commands.memory_app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"loomflow {loomflow.__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Memory for LLM agents that fits: the right memories, under a token ceiling, with a receipt."""
