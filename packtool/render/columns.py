"""A record's column by its name, or by a path into what the column holds.

    {"response": {"text": "a"}, "messages": [{"content": "b"}]}      response.text       ->  a
                                                                     messages.0.content  ->  b

A column whose own name has a dot in it comes before the path. Every record is judged by itself: a column may be text in
one and a list in the next.
"""

from collections.abc import Mapping
from typing import Any

from packtool.errors import RecordError

__all__ = ["find_column", "pick", "text_column"]

_DIGITS = 9  # more than any list has entries


def find_column(record: Mapping[str, Any], column: str) -> tuple[bool, Any]:
    """Whether the record has the column, and its value."""
    if column in record:
        return True, record[column]
    if "." not in column:
        return False, None
    value: Any = record
    for step in column.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and _is_index(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return False, None
    return True, value


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdecimal() and len(step) <= _DIGITS


def pick(record: Mapping[str, Any], column: str) -> Any:
    """The column's value, None where there is none."""
    return record[column] if column in record else find_column(record, column)[1]


def text_column(record: Mapping[str, Any], column: str, *, optional: bool = False) -> str:
    """The column's text; an empty string for an optional one that is null or missing.

    Raises:
        RecordError: it is missing, null or no text.
    """
    found, value = find_column(record, column)
    if isinstance(value, str):
        return value
    if value is None:
        if optional:
            return ""
        names = ", ".join(f"`{name}`" for name in record) or "none"
        state = "null" if found else "missing"
        raise RecordError(
            f"column `{column}` is {state}; the record's columns: {names}",
            hint="map columns with `--columns field=column`, nested ones by a path such as `output=response.text`",
        )
    raise RecordError(f"column `{column}` is of type {type(value).__name__}, expected text")
