"""Shared by the tests of the command line."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import packtool

FILTERS = (
    (re.compile(r"in \d+\.\d s$", re.MULTILINE), "in [TIME]"),
    (re.compile(r"\(\d+(\.\d)? (B|kB|MB|GB)\)"), "([SIZE])"),
    (re.compile(r"(?<=packtool )\d+\.\d+\.\d+\S*"), "[VERSION]"),
)


@dataclass(frozen=True)
class Ran:
    """How a command ended, and all it said, with paths, times and sizes replaced."""

    code: int
    out: str
    err: str


def filtered(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "[DIR]")
    for pattern, instead in FILTERS:
        text = pattern.sub(instead, text)
    return text


def environment(**changed: str) -> dict[str, str]:
    root = str(Path(packtool.__file__).parent.parent)
    paths = [root, os.environ.get("PYTHONPATH", "")]
    base = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**base, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **changed}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "packtool", *map(str, arguments)]


def run_process(*arguments: object, cwd: Path, stdin: bytes | None = None, **changed: str) -> Ran:
    """A real process, for what cannot be seen from inside."""
    done = subprocess.run(
        command(*arguments), cwd=cwd, env=environment(**changed), input=stdin, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    return Ran(done.returncode, filtered(done.stdout.decode(), cwd), filtered(done.stderr.decode(), cwd))


def write_lines(path: Path, records) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf-8")
    return path


def die(task: object) -> None:
    """A task that takes its process with it."""
    os._exit(9)
