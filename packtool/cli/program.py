"""The program: its commands, and how errors become exit codes."""

import errno
import os
import sys
import traceback
from typing import Annotated, Any

import typer

import packtool
from packtool.cli.console import say, say_error
from packtool.cli.copy import cp
from packtool.cli.listing import ls
from packtool.cli.pack import pack
from packtool.cli.plan import plan
from packtool.cli.show import show
from packtool.cli.verify import verify
from packtool.errors import DataError, FormatError, PackError, UsageError

__all__ = ["app", "run"]

app = typer.Typer(
    name="packtool",
    help="Pack training samples offline, once, on CPUs, into memory-mapped shards.",
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (pack, plan, verify, show, ls, cp):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"packtool {packtool.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _program(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Pack training samples offline, once, on CPUs, into memory-mapped shards."""
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(2)


# Some releases of typer carry their own copy of click, so the classes are found through typer's public names.
_CommandError: Any = typer.BadParameter.__base__
_ClickError: Any = _CommandError.__base__


def run(arguments: list[str] | None) -> int:
    """Run the command line and return its exit code; signals are the caller's."""
    try:
        outcome: Any = app(args=arguments, prog_name="packtool", standalone_mode=False)
        sys.stdout.flush()
        if outcome == 130:  # what newer releases of typer make of Ctrl-C
            raise KeyboardInterrupt
        return outcome if isinstance(outcome, int) else 0
    except UsageError as error:
        say_error(error.message, error.hint)
        return 2
    except (DataError, FormatError) as error:
        say_error(error.message, error.hint)
        return 1
    except PackError as error:
        say_error(error.message, error.hint)
        return 3
    except typer.Exit as error:
        return int(error.exit_code)
    except _CommandError as error:
        command = error.ctx.command_path if error.ctx is not None else "packtool"
        say_error(_plain(error.format_message()), f"`{command} --help` lists what it takes")
        return 2
    except _ClickError as error:
        say_error(_plain(error.format_message()), "")
        return 2
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        return _reader_is_gone()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # what typer makes of it
            return _reader_is_gone()
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            say_error(f"no space is left on the disk: {error}", "free some, or choose another `--out`")
            return 3
        traceback.print_exc()
        say_error(
            f"unforeseen: {type(error).__name__}: {error}",
            "this is a defect of packtool; please report it with the lines above",
        )
        return 3


def _reader_is_gone() -> int:
    """The reader of our output went away, as `head` does. Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _plain(message: str) -> str:
    """A click message in our style: no full stop at the end."""
    return message.strip().removesuffix(".")
