"""Messages as chat templates want them: `role`, a text `content`, and calls as OpenAI spells them.

    {"from": "human", "value": "hi"}                                   ->  {"role": "user", "content": "hi"}
    {"role": "user", "content": [{"type": "text", "text": "hi"}]}      ->  {"role": "user", "content": "hi"}
    {"from": "function_call", "value": '{"name": "f", ...}'}           ->  {"role": "assistant", "tool_calls": [...]}

Calls in a row that are turns of their own (ShareGPT has no other way to write parallel calls) become one turn.
Everything else in a message (`reasoning_content`, `name`...) is handed on as it is; switches are taken out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packtool.errors import RecordError
from packtool.render.chat import REASONING
from packtool.render.lint import SWITCHED_ON
from packtool.render.switches import SWITCHES, read_switch
from packtool.render.tool_calls import called, read_calls

__all__ = ["ROLES", "Messages", "read_messages", "refuse_media", "role_of"]

ROLES: Mapping[str, str] = {
    "user": "user", "human": "user", "prompter": "user",
    "assistant": "assistant", "gpt": "assistant", "bot": "assistant", "model": "assistant", "chatgpt": "assistant",
    "chatbot": "assistant", "ai": "assistant",
    "system": "system", "developer": "developer",
    "tool": "tool", "observation": "tool", "function": "tool", "ipython": "tool", "tool_response": "tool",
    "tool_result": "tool", "function_response": "tool", "environment": "tool",
    "function_call": "call", "tool_call": "call",
}  # fmt: skip

_NAMED = ("role", "from")
_WORDS = ("content", "value")
_TEXTS = ("text", "value", "content")
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_MEDIA = ("image", "images", "image_url", "audio", "audios", "input_audio", "video", "videos")
_TAKEN = frozenset((*_NAMED, *_WORDS, *SWITCHES, "tool_calls", "function_call"))


@dataclass(frozen=True, slots=True)
class Messages:
    """A conversation.

    Attributes:
        items: messages for the template.
        switches: for each, whether it says that it is trained; None where it says nothing.
        warnings: short fixed texts.
    """

    items: tuple[dict[str, Any], ...] = ()
    switches: tuple[bool | None, ...] = ()
    warnings: tuple[str, ...] = ()

    def __add__(self, other: "Messages") -> "Messages":
        return Messages(
            self.items + other.items,
            self.switches + other.switches,
            tuple(dict.fromkeys(self.warnings + other.warnings)),
        )


def read_messages(items: Sequence[Any]) -> Messages:
    """Read a list of message objects.

    Raises:
        RecordError: a message is not understood, or calls of one turn are switched differently.
    """
    messages: list[dict[str, Any]] = []
    switches: list[bool | None] = []
    calling = False  # the message before this one is only a call
    for place, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise RecordError(
                f"message {place} is of type {type(item).__name__}, expected an object with a role and content"
            )
        role = _role(item, place)
        message, switch = _message(item, place, role), read_switch(item, place)
        # A call that was thought about anew is another turn.
        if calling and role == "call" and not any(message.get(name) for name in REASONING):
            if (switches[-1] is False) != (switch is False):
                raise RecordError(
                    f"message {place} is a call of the same turn as message {place - 1}, "
                    "and one says to train it, the other not to"
                )
            messages[-1] = {**message, **messages[-1], "tool_calls": messages[-1]["tool_calls"] + message["tool_calls"]}
            switches[-1] = switch if switches[-1] is None else switches[-1]
        else:
            messages.append(message)
            switches.append(switch)
        calling = role == "call"
    stray = any(on and item["role"] != "assistant" for item, on in zip(messages, switches, strict=True))
    return Messages(tuple(messages), tuple(switches), (SWITCHED_ON,) if stray else ())


def role_of(name: Any, place: int) -> str:
    """The role that a data set calls `name`; `call` for a turn that is only a call.

    Raises:
        RecordError: no role is called so.
    """
    known = ROLES.get(str(name).strip().lower())
    if known is None:
        raise RecordError(f"message {place} has the role {name!r}, expected one of {', '.join(sorted(ROLES))}")
    return known


def refuse_media(record: Mapping[str, Any], what: str) -> None:
    """Refuse pictures, sound and film that lie beside text.

    Raises:
        RecordError: a column or key of that kind is filled.
    """
    for name in _MEDIA:
        if record.get(name):
            raise RecordError(f"{what} has `{name}`: packtool packs text only")


def _role(item: Mapping[str, Any], place: int) -> str:
    names = [item[key] for key in _NAMED if item.get(key) is not None]
    if not names:
        keys = ", ".join(f"`{name}`" for name in item) or "none"
        raise RecordError(f"message {place} has no `role` (or `from`); its keys: {keys}")
    role = role_of(names[0], place)
    if len(names) > 1 and role_of(names[1], place) != role:
        raise RecordError(f"message {place} has the role {names[0]!r} and is from {names[1]!r}")
    return role


def _message(item: Mapping[str, Any], place: int, role: str) -> dict[str, Any]:
    words = [item[key] for key in _WORDS if item.get(key) is not None]
    if len(words) > 1 and words[0] != words[1]:
        raise RecordError(f"message {place} has `content` and `value`, and they differ")
    refuse_media(item, f"message {place}")
    message: dict[str, Any] = {"role": role}
    if role == "call":
        message["role"] = "assistant"
        calls = called(_content(words[0], place) if words and not _is_call(words[0]) else (words or [None])[0], place)
        words = []
    else:
        calls = _calls(item, place, role)
    if words:
        message["content"] = _content(words[0], place)
    elif calls or role == "tool" or (role == "assistant" and item.get("reasoning_content")):
        message["content"] = ""
    else:
        state = "null" if any(key in item for key in _WORDS) else "missing"
        more = ", and it calls no tool" if role == "assistant" else ""
        raise RecordError(f"message {place} ({role}) has content that is {state}{more}")
    message.update((name, value) for name, value in item.items() if name not in _TAKEN)
    if calls:
        message["tool_calls"] = calls
    return message


def _is_call(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and all(_names_one(one) for one in value))


def _names_one(value: Any) -> bool:
    return isinstance(value, Mapping) and ("name" in value or "function" in value)


def _calls(item: Mapping[str, Any], place: int, role: str) -> list[dict[str, Any]]:
    calls = read_calls(item.get("tool_calls"), place)
    legacy = read_calls(item.get("function_call"), place, "function_call")
    if calls and legacy:
        raise RecordError(f"message {place} has `tool_calls` and `function_call`, expected one of them")
    if (calls or legacy) and role != "assistant":
        raise RecordError(f"message {place} ({role}) calls a tool, which only the assistant does")
    return calls or legacy


def _content(content: Any, place: int) -> str:
    """Text parts are joined; other parts are refused by name."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        raise RecordError(f"message {place} has content of type {type(content).__name__}, expected text")
    return "".join(part if isinstance(part, str) else _part(part, place) for part in content)


def _part(part: Any, place: int) -> str:
    if isinstance(part, Mapping):
        media = next((name for name in _MEDIA if part.get(name) is not None), None)
        text = next((part[key] for key in _TEXTS if part.get(key) is not None), None)
        kind = part.get("type") or media or ("text" if text is not None else "unknown")
        if kind in _TEXT_PARTS and isinstance(text, str):
            return text
    else:
        kind = type(part).__name__
    raise RecordError(f"message {place} has a part of type {kind!r}, expected text: packtool packs text only")
