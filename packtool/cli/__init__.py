"""The command line: one program, subcommands, one file each. Commands parse, call the library, print, and exit.

stdout carries the answer, stderr the conversation. Exit codes:

    0    done                              3    unforeseen: a defect of packtool, or a worker that died
    1    the data or a dataset is wrong    130  Ctrl-C
    2    the command is wrong              143  SIGTERM
"""

from packtool.cli.main import main

__all__ = ["main"]
