"""The command line: one program, subcommands, one file each. Commands parse, call the library, print, and exit.

stdout carries the answer, stderr the conversation. Exit codes:

    0    done                              3    unforeseen: a defect of packtool, or a worker that died
    1    the data or a dataset is wrong    130  Ctrl-C
    2    the command is wrong              143  SIGTERM
"""

import signal
import sys
from types import FrameType
from typing import NoReturn

__all__ = ["main"]


class _Terminated(BaseException):
    """SIGTERM arrived; unwinds like Ctrl-C does, so that scratch is removed and workers are ended."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    # Before the imports, which take half a second: process 1 of a container ignores signals that nobody handles.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        from packtool.cli.program import run

        return run(arguments)
    except KeyboardInterrupt:
        print("error: interrupted; nothing was changed", file=sys.stderr)
        return 130
    except _Terminated:
        print("error: terminated; nothing was changed", file=sys.stderr)
        return 143
