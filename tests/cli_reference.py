"""Write docs/cli.md from the commands' own help, or check that it is up to date.

python tests/cli_reference.py [--check]
"""

import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
COMMANDS = ("pack", "plan", "verify", "show", "ls", "cp")


def help_text(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "packtool", *arguments, "--help"],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    return done.stdout.strip()


def page() -> str:
    parts = [
        "# Commands",
        "Made from `--help` by `python tests/cli_reference.py`; a test keeps it up to date.",
        "Exit codes: 0 done, 1 the data or a dataset is wrong, 2 the command is wrong, 3 unforeseen, 130 Ctrl-C, "
        "143 SIGTERM. stdout carries the answer (the summary, or with `--json` one object), stderr the conversation.",
        f"```\n{help_text()}\n```",
    ]
    for command in COMMANDS:
        parts += [f"## packtool {command}", f"```\n{help_text(command)}\n```"]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    text = page()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text("utf-8") != text:
            raise SystemExit("docs/cli.md is out of date: run `python tests/cli_reference.py`")
    else:
        PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
