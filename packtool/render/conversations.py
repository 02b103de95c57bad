"""A record's conversation, whichever shape the data set keeps it in.

    [{"role": "user", "content": "a"}, ...]        messages; also the whole record may be such a list
    {"role": ["user", ...], "content": ["a", ...]} columns of messages, as Arrow writes structs of lists
    {"role": "user", "content": "a"}               one message
    [{"human": "a", "assistant": "b"}, ...]        one object a round
    [["a", "b"], ...]                              one pair a round: what was asked, what was answered
    history, instruction, input, output            earlier rounds as pairs, then this one

`system` or `system_prompt` beside any of them goes in front, and `mask` (NeMo) is held against what packtool trains.
"""

from collections.abc import Mapping
from typing import Any

from packtool.errors import RecordError
from packtool.render.columns import pick, text_column
from packtool.render.lint import MASK_LEAVES_USER
from packtool.render.messages import ROLES, Messages, read_messages, refuse_media
from packtool.render.rendered import EmptyRecordError

__all__ = ["is_conversation", "listed", "looks_like_messages", "read_conversation", "with_system"]

_FIRST = ("system", "developer", "user", "assistant")  # the order of one round's turns, whatever the order of its keys


def looks_like_messages(value: Any) -> bool:
    """Whether a list is one of messages, rounds or pairs, going by its first entry."""
    if not isinstance(value, list) or not value:
        return False
    first = value[0]
    return _is_pair(first) or (isinstance(first, Mapping) and ("role" in first or "from" in first or _is_round(first)))


def is_conversation(value: Any) -> bool:
    """Whether a column holds messages: a list, or an object with a role."""
    return isinstance(value, list) or (isinstance(value, Mapping) and ("role" in value or "from" in value))


def read_conversation(record: Any, columns: Mapping[str, str]) -> Messages:
    """The conversation of a chat record.

    Args:
        record: the raw record; a list is the messages themselves.
        columns: field (`messages`; or `prompt`, `input`, `completion`, `history`; `system`, `mask`) -> column.

    Raises:
        RecordError: it is no conversation, or says two things at once.
        EmptyRecordError: it has no message, or no answer.
    """
    if not isinstance(record, Mapping):
        return read_messages(listed(record, "messages"))
    refuse_media(record, "the record")
    if "messages" not in columns and {"prompt", "completion"} <= set(columns):
        messages = _asked(record, columns)
    else:
        column = columns.get("messages", "messages")
        messages = read_messages(listed(pick(record, column), column))
        if not messages.items:
            raise EmptyRecordError
    return _masked(with_system(messages, record, columns), record, columns)


def _asked(record: Mapping[str, Any], columns: Mapping[str, str]) -> Messages:
    """History, then the question with its input below it, then the answer."""
    rounds = _history(pick(record, columns.get("history", "history")), columns.get("history", "history"))
    question = text_column(record, columns["prompt"])
    more = text_column(record, columns["input"], optional=True) if "input" in columns else ""
    answer = text_column(record, columns["completion"])
    if not answer.strip():
        raise EmptyRecordError
    question = "\n".join(text for text in (question, more) if text)
    items = [*rounds, {"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return read_messages(items)


def _history(value: Any, column: str) -> list[Any]:
    return [] if value is None or value == "" else listed(value, column)


def listed(value: Any, column: str) -> list[Any]:
    """The entries of a column as a list of message objects, not yet looked into.

    Raises:
        RecordError: the column holds no list, or columns of different lengths.
    """
    if isinstance(value, Mapping):
        value = _rows(value, column) if any(isinstance(value.get(k), list) for k in ("role", "from")) else [value]
    if not isinstance(value, list):
        kind = "missing" if value is None else f"of type {type(value).__name__}"
        raise RecordError(f"column `{column}` is {kind}, expected a list of messages")
    items: list[Any] = []
    for place, item in enumerate(value):
        if _is_pair(item):
            items.extend(_pair(item, place, column))
        elif isinstance(item, Mapping) and _is_round(item):
            items.extend(_round(item))
        else:
            items.append(item)
    return items


def _rows(columns: Mapping[str, Any], column: str) -> list[dict[str, Any]]:
    filled = {name: values for name, values in columns.items() if values is not None}
    lengths = {name: len(values) if isinstance(values, list) else None for name, values in filled.items()}
    if len(set(lengths.values())) != 1:
        sizes = ", ".join(f"`{name}` {'no list' if size is None else size}" for name, size in lengths.items())
        raise RecordError(f"column `{column}` holds lists that differ in length: {sizes}")
    return [dict(zip(filled, row, strict=True)) for row in zip(*filled.values(), strict=True)]


def _is_pair(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and all(one is None or isinstance(one, str) for one in item)


def _pair(item: list[str | None], place: int, column: str) -> list[dict[str, Any]]:
    question, answer = item
    if answer is None:
        raise RecordError(f"column `{column}` has a pair {place} without an answer, expected two texts")
    asked = [] if question is None else [{"role": "user", "content": question}]
    return [*asked, {"role": "assistant", "content": answer}]


def _is_round(item: Mapping[str, Any]) -> bool:
    """Whether the object's keys are roles: `{"human": "a", "assistant": "b"}`."""
    if "role" in item or "from" in item:
        return False
    names = [name for name, value in item.items() if value is not None]
    roles = [ROLES.get(name.strip().lower()) for name in names]
    return "assistant" in roles and len(set(roles)) == len(roles) and all(role in _FIRST for role in roles)


def _round(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    turns = [
        {"role": ROLES[name.strip().lower()], "content": value} for name, value in item.items() if value is not None
    ]
    return sorted(turns, key=lambda turn: _FIRST.index(turn["role"]))


def with_system(messages: Messages, record: Mapping[str, Any], columns: Mapping[str, str]) -> Messages:
    """The conversation with the system text that stands beside it in front.

    Raises:
        RecordError: the columns, or a column and the first message, say different things.
    """
    names = list(dict.fromkeys((columns.get("system", "system"), "system_prompt")))
    texts = {name: text for name in names if (text := text_column(record, name, optional=True))}
    if not texts:
        return messages
    name, text = next(iter(texts.items()))
    if len(set(texts.values())) > 1:
        raise RecordError(f"the record has {' and '.join(f'`{one}`' for one in texts)}, and they differ")
    first = messages.items[0]
    if first["role"] in ("system", "developer"):
        if first.get("content") == text:
            return messages
        raise RecordError(f"column `{name}` and the first message are both system texts, and they differ")
    return Messages(({"role": "system", "content": text},), (None,)) + messages


def _masked(messages: Messages, record: Mapping[str, Any], columns: Mapping[str, str]) -> Messages:
    """NeMo's `mask` names the roles that are not trained."""
    column = columns.get("mask")
    mask = pick(record, column) if column is not None else None
    if mask is None or mask == "":
        return messages
    if not isinstance(mask, str):
        raise RecordError(f"column `{column}` is of type {type(mask).__name__}, expected roles such as `User`")
    roles = set()
    for name in mask.split(","):
        role = ROLES.get(name.strip().lower())
        if role is None:
            raise RecordError(f"column `{column}` names the role {name.strip()!r}, expected roles such as `User`")
        roles.add(role)
    if "assistant" in roles:
        raise RecordError(
            f"column `{column}` is {mask!r}, which leaves the assistant untrained, and the assistant is what is trained"
        )
    return messages if "user" in roles else messages + Messages(warnings=(MASK_LEAVES_USER,))
