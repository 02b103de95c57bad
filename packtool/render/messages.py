"""Conversations as chat templates want them: a list of messages with `role` and a text `content`.

    {"from": "human", "value": "hi"}                                   ->  {"role": "user", "content": "hi"}
    {"role": "user", "content": [{"type": "text", "text": "hi"}]}      ->  {"role": "user", "content": "hi"}

Everything else in a message (`tool_calls`, `reasoning_content`, `name`...) is handed on as it is. A switch that turns a
message off (`weight: 0`, `loss_weight: 0.0`, `train: false`...) is taken out and honoured.
"""

from collections.abc import Mapping
from typing import Any

from packtool.errors import RecordError

__all__ = ["read_messages"]

_ROLES = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "bot": "assistant",
    "model": "assistant", "chatgpt": "assistant", "system": "system", "developer": "developer", "tool": "tool",
    "observation": "tool", "function": "tool", "ipython": "tool",
}  # fmt: skip
# Switch -> whether its true value turns training on.
_SWITCHES = {
    "weight": True,
    "loss": True,
    "loss_weight": True,
    "loss_mask": True,
    "train": True,
    "trainable": True,
    "masked": False,
}
_KEYS = (("role", "content"), ("from", "value"))


def read_messages(value: Any, column: str) -> tuple[list[dict[str, Any]], list[bool]]:
    """Messages for the template, and for each whether its record lets it be trained.

    Raises:
        RecordError: the column is no list of messages, or a message is not understood.
    """
    if not isinstance(value, list):
        kind = "missing" if value is None else f"of type {type(value).__name__}"
        raise RecordError(f"column `{column}` is {kind}, expected a list of messages")
    messages, trained = [], []
    for place, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise RecordError(
                f"message {place} is of type {type(item).__name__}, expected an object with a role and content"
            )
        message, on = _message(item, place)
        messages.append(message)
        trained.append(on)
    return messages, trained


def _message(item: Mapping[str, Any], place: int) -> tuple[dict[str, Any], bool]:
    role_key, content_key = next((keys for keys in _KEYS if keys[0] in item), ("", ""))
    if not role_key:
        names = ", ".join(f"`{name}`" for name in item) or "none"
        raise RecordError(f"message {place} has no `role` (or `from`); its keys: {names}")
    role = item[role_key]
    known = _ROLES.get(str(role).strip().lower())
    if known is None:
        raise RecordError(f"message {place} has the role {role!r}, expected one of {', '.join(sorted(_ROLES))}")
    message: dict[str, Any] = {"role": known}
    content = item.get(content_key, item.get("content", item.get("value")))
    if content is not None or content_key in item:
        message["content"] = _content(content, place)
    on = True
    for name, entry in item.items():
        if name in _SWITCHES:
            on &= _switch(name, entry, place)
        elif name not in (role_key, content_key, "content", "value"):
            message[name] = entry
    return message, on


def _content(content: Any, place: int) -> Any:
    """Text parts are joined; other parts are refused by name."""
    if not isinstance(content, list):
        if content is None or isinstance(content, str):
            return content
        raise RecordError(f"message {place} has content of type {type(content).__name__}, expected text")
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type", "text") if isinstance(part, Mapping) else type(part).__name__
        text = (
            next((part[k] for k in ("text", "value", "content") if k in part), None)
            if isinstance(part, Mapping)
            else None
        )
        if kind != "text" or not isinstance(text, str):
            raise RecordError(f"message {place} has a part of type {kind!r}, expected text: packtool packs text only")
        texts.append(text)
    return "".join(texts)


def _switch(name: str, value: Any, place: int) -> bool:
    if value is None:
        return True
    if not isinstance(value, bool | int | float) or value not in (0, 1):
        raise RecordError(f"message {place} has `{name}` {value!r}, expected 0 or 1: a label is trained or it is not")
    return bool(value) == _SWITCHES[name]
