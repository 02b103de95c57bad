"""One JSON value to a Record, or to a BadRecord that says what to mend.

The standard library parses, so that integers of any size and every escape mean what Python programs think they mean.
Three things differ: NaN and Infinity are refused (they are no JSON), half of a surrogate pair becomes U+FFFD (no
encoder accepts it; it would fail deep in a run), and nesting stops at MAX_DEPTH levels whatever the caller's stack.
"""

import json
import re
from typing import Any

from packtool.sources.records import BadRecord, Record

__all__ = ["MAX_DEPTH", "json_record", "not_utf8"]

MAX_DEPTH = 200
SURROGATE = re.compile("[\ud800-\udfff]")
# A string, a bracket, or the quote of a string that never ends; nothing after that quote is looked at again.
NESTING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}"]', re.DOTALL)
CLOSERS = b"]}"
QUOTE = b'"'[0]


class _ConstantError(ValueError):
    """NaN, Infinity or -Infinity."""


def _refuse(constant: str) -> Any:
    raise _ConstantError(constant)


DECODER = json.JSONDecoder(parse_constant=_refuse)


def json_record(raw: bytes, place: int, offset: int) -> Record | BadRecord:
    """Parse the bytes of one value."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        return not_utf8(error, place, offset)
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _depth(raw) > MAX_DEPTH:
        return BadRecord(place, offset, f"nested deeper than {MAX_DEPTH} levels")
    try:
        value = DECODER.decode(text)
    except json.JSONDecodeError as error:
        return BadRecord(place, offset, f"not JSON: {error.msg.removesuffix(' at')} at {_where(error)}", _hint(error))
    except _ConstantError as error:
        return BadRecord(place, offset, f"not JSON: `{error}` is not a JSON number", "write null, or leave the key out")
    except RecursionError:
        return BadRecord(place, offset, "nested too deeply")
    except ValueError:  # Python refuses to convert integers of more than 4,300 digits
        return BadRecord(place, offset, "a number has too many digits", "write it as a string")
    if b"\\u" in raw and (b"\\ud" in raw or b"\\uD" in raw):  # the first test alone costs half, and mostly decides
        value, replaced = _without_surrogates(value)
        return Record(value, place, offset, replaced)
    return Record(value, place, offset)


def not_utf8(error: UnicodeDecodeError, place: int, offset: int) -> BadRecord:
    """Name the first byte that is not UTF-8."""
    byte = error.object[error.start]
    column = len(error.object[: error.start].decode("utf-8")) + 1
    return BadRecord(
        place,
        offset,
        f"not UTF-8: byte 0x{byte:02x} at column {column} (byte {error.start + 1})",
        "convert the file to UTF-8",
    )


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    for match in NESTING.finditer(raw):
        token = raw[match.start()]
        if token in CLOSERS:
            depth -= 1
        elif token != QUOTE:
            depth += 1
            deepest = max(deepest, depth)
        elif match.end() == match.start() + 1:
            break
    return deepest


def _without_surrogates(value: Any) -> tuple[Any, int]:
    """Return the value with U+FFFD in place of each lone surrogate, keys included, and how many there were."""
    if isinstance(value, str):
        return SURROGATE.subn("\ufffd", value)
    if isinstance(value, list):
        items = [_without_surrogates(item) for item in value]
        return [item for item, _ in items], sum(count for _, count in items)
    if isinstance(value, dict):
        pairs = [(_without_surrogates(key), _without_surrogates(item)) for key, item in value.items()]
        return {key: item for (key, _), (item, _) in pairs}, sum(a + b for (_, a), (_, b) in pairs)
    return value, 0


def _where(error: json.JSONDecodeError) -> str:
    return f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno} column {error.colno} of the record"


def _hint(error: json.JSONDecodeError) -> str:
    """Say what usually lies behind the parser's message."""
    rest = error.doc[error.pos :].lstrip()
    if error.doc.startswith("\ufeff"):
        return "the record starts with a byte-order mark, as when files are joined: remove it"
    if error.msg.startswith("Extra data"):
        if rest.startswith(","):
            return "remove the comma after the record, or put all records between `[` and `]`"
        return "write one record a line"
    if error.msg.startswith("Unterminated string"):
        return "the line was cut, or a string holds a raw line break: write it as \\n"
    if error.msg.startswith("Invalid control character"):
        return "write line breaks and tabs inside strings as \\n and \\t"
    if error.msg.startswith("Invalid \\escape"):
        return "write a backslash inside a string as \\\\"
    if rest.startswith(("'", "None", "True", "False")):
        return "this looks like a Python dict: write it with json.dumps"
    if not error.doc.strip():
        return "there is a comma with no record after it"
    return ""
