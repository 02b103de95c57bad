"""One way to write JSON, so that equal content has equal bytes and a changed byte is noticed."""

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["canonical_json", "parse_canonical"]


def canonical_json(body: Mapping[str, Any]) -> bytes:
    """Sorted keys, two spaces, ASCII only, one final newline."""
    return (json.dumps(body, sort_keys=True, indent=2, ensure_ascii=True) + "\n").encode("ascii")


def parse_canonical(data: bytes) -> Any:
    """Parse JSON whose numbers are integers and whose keys are there once.

    Raises:
        ValueError: it is not such JSON (RecursionError for absurd depth is turned into one).
    """
    try:
        return json.loads(data, object_pairs_hook=_no_duplicates, parse_float=_no_float, parse_constant=_no_float)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} is there twice")
    return body


def _no_float(text: str) -> Any:
    raise ValueError(f"numbers are integers, got {text}")
