"""Switches of single messages: data sets say in many words whether a turn is trained.

    {"role": "assistant", "content": "...", "weight": 0}                       not trained
    {"role": "assistant", "content": "...", "metadata": {"masked": true}}      not trained
    {"role": "user", "content": "...", "train": true}                          stays untrained, and is counted

A switch has two positions, since a label is trained or it is not; any other number is refused.
"""

from collections.abc import Mapping
from typing import Any

from packtool.errors import RecordError

__all__ = ["SWITCHES", "read_switch"]

# Switch -> whether its true value turns training on.
SWITCHES: Mapping[str, bool] = {
    "weight": True,
    "loss": True,
    "loss_weight": True,
    "loss_mask": True,
    "train": True,
    "trainable": True,
    "masked": False,
}
_PARTIAL = ("train_detail", "training_detail")


def read_switch(item: Mapping[str, Any], place: int) -> bool | None:
    """Whether message `place` says that it is trained; None where it says nothing.

    Raises:
        RecordError: a switch is neither on nor off, two contradict each other, or a part of the text is switched.
    """
    said, first = None, ""
    for name, value in _found(item):
        if value is None:
            continue
        if not isinstance(value, bool | int | float) or value not in (0, 1):
            raise RecordError(
                f"message {place} has `{name}` {value!r}, expected 0 or 1: a label is trained or it is not"
            )
        on = bool(value) == SWITCHES[name.rpartition(".")[2]]
        if said is not None and said != on:
            raise RecordError(f"message {place} has `{first}` and `{name}`, and one says to train it, the other not to")
        said, first = on, name
    for name in _PARTIAL:
        if item.get(name):
            raise RecordError(f"message {place} has `{name}`: packtool trains a whole turn or nothing of it")
    return said


def _found(item: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found = [(name, value) for name, value in item.items() if name in SWITCHES]
    metadata = item.get("metadata")
    if isinstance(metadata, Mapping) and "masked" in metadata:
        found.append(("metadata.masked", metadata["masked"]))
    return found
