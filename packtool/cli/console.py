"""What goes to stderr: errors, notices and progress. stdout is for answers only."""

import os
import sys
from typing import Any

from tqdm import tqdm

__all__ = ["Bars", "human_size", "paint", "say", "say_error", "say_note"]


def say(text: str) -> None:
    """One line of conversation."""
    print(text, file=sys.stderr)


def say_note(text: str) -> None:
    """Something that is good to know."""
    say(f"note: {text}")


def say_error(message: str, hint: str) -> None:
    """An error, and after a blank line what to do about it."""
    say(f"error: {message}")
    if hint:
        say(f"\nhint: {hint}")


def paint(text: str, code: str) -> str:
    """Text in a terminal colour, where stdout is a terminal and NO_COLOR is not set."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        return f"\x1b[{code}m{text}\x1b[0m"
    return text


def human_size(size: int) -> str:
    """Bytes for people."""
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


class Bars:
    """A progress bar for each stage, on a terminal only."""

    def __init__(self, *, quiet: bool) -> None:
        self._on = not quiet and sys.stderr.isatty()
        self._bar: tqdm[Any] | None = None
        self._stage = ""

    def update(self, stage: str, done: int, total: int) -> None:
        """Called by the job; see packtool.job.Progress."""
        if not self._on:
            return
        if stage != self._stage:
            self.close()
            self._stage = stage
            unit = " packs" if stage == "write" else "B"
            self._bar = tqdm(total=total, desc=stage, unit=unit, unit_scale=True, dynamic_ncols=True, leave=True)
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """End the bar that is drawn."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
