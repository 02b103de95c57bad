r"""Tools and tool calls as chat templates want them, however a data set spells them.

    arguments  {"x": 1}    '{"x":1}'    '"{\\"x\\":1}"'     all become the object {"x": 1}

The rule for arguments: text that is a JSON object, or JSON text that holds one, becomes that object; an empty text or
null is {}; any other text (the code of an interpreter call) stays as it is. The template then gets the object, or, if
it can only join text, the object as JSON written by `json.dumps`; so one call gives one text in all its spellings.

Which of the two, and how a turn that only calls spells its content, is found out once a template by rendering a small
conversation with every spelling, until one shows the calls and no literal None:

    content  null       what OpenAI has; templates that ask `content is none` print something else without it
             ""         for templates that take any content as text, and print None or raise
             missing    for templates that ask `content is defined`, and leave the calls out for the others

However the record spells it: one call gives one text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from packtool.errors import RecordError
from packtool.render.chat import ChatTemplate

__all__ = ["Spelling", "called", "parsed", "read_calls", "read_tools", "spell", "spelling_of"]

CONTENTS: Mapping[str, Mapping[str, Any]] = {"null": {"content": None}, "text": {"content": ""}, "missing": {}}
"""Ways to spell the content of a turn that only calls, in the order in which they are tried."""
_EMPTY = (None, "", "null", "[]", "{}")


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a template takes a call.

    Attributes:
        content: what a turn that has only calls has as `content`: one of CONTENTS.
        as_text: arguments are given as JSON text.
        alone: calls in a turn without words are rendered.
        beside_text: calls in a turn that has words too are rendered.
    """

    content: str = "text"
    as_text: bool = False
    alone: bool = True
    beside_text: bool = True


def parsed(text: str) -> Any:
    """The JSON value of a text; the text itself where it is none."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def read_tools(value: Any, column: str) -> list[Any] | None:
    """The tools of a record: a list, or JSON text of one; None where there are none.

    Raises:
        RecordError: it is neither, or a tool is no object.
    """
    if value is None or (isinstance(value, str) and value.strip() in _EMPTY) or value == []:
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RecordError(
                f"column `{column}` is text that is not JSON ({error}), expected a list of tools"
            ) from None
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list):
        raise RecordError(f"column `{column}` is of type {type(value).__name__}, expected a list of tools")
    return [_tool(parsed(tool) if isinstance(tool, str) else tool, place, column) for place, tool in enumerate(value)]


def _tool(tool: Any, place: int, column: str) -> dict[str, Any]:
    if not isinstance(tool, Mapping):
        raise RecordError(f"column `{column}` has a tool {place} of type {type(tool).__name__}, expected an object")
    made = dict(tool)
    if isinstance(made.get("function"), Mapping):
        made["function"] = _with_parameters(made["function"])
    return _with_parameters(made)


def _with_parameters(function: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(function)
    if isinstance(made.get("parameters"), str):
        made["parameters"] = parsed(made["parameters"])
    return made


def read_calls(value: Any, place: int, key: str = "tool_calls") -> list[dict[str, Any]]:
    """The calls of message `place`, as OpenAI spells them: a list, one object, or JSON text of either.

    Raises:
        RecordError: a call has no name, or is none of these.
    """
    if isinstance(value, str):
        value = None if value.strip() in _EMPTY else parsed(value)
    if value is None or value in ([], {}):
        return []
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, list):
        raise RecordError(f"message {place} has `{key}` {_short(value)}, expected a list of calls")
    return [_call(parsed(call) if isinstance(call, str) else call, place, key) for call in value]


def called(value: Any, place: int) -> list[dict[str, Any]]:
    """The calls of a turn whose whole text is JSON of one call or of a list of them."""
    calls = read_calls(value, place, "function_call")
    if not calls:
        raise RecordError(f"message {place} is a function call without a call, expected JSON with `name`, `arguments`")
    return calls


def _call(call: Any, place: int, key: str) -> dict[str, Any]:
    function = call.get("function", call) if isinstance(call, Mapping) else call
    if isinstance(function, str):
        function = parsed(function)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise RecordError(
            f"message {place} has `{key}` {_short(call)}, expected an object with the `name` of a function"
        )
    arguments = function.get("arguments", function.get("parameters"))
    inner = {key: value for key, value in function.items() if key != "parameters"} | {
        "arguments": _arguments(arguments)
    }
    outer = {k: v for k, v in call.items() if k != "function" and v is not None} if "function" in call else {}
    return {"type": "function", **outer, "function": inner}


def _arguments(value: Any) -> Any:
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    found = value
    for _ in range(2):  # JSON text in JSON text
        if isinstance(found, str):
            found = parsed(found)
    return found if isinstance(found, Mapping) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def spell(message: Mapping[str, Any], spelling: Spelling) -> dict[str, Any]:
    """A message with calls, as the template takes it."""
    made = dict(message)
    if not made.get("content"):
        made.pop("content", None)
        made |= CONTENTS[spelling.content]
    if spelling.as_text:
        made["tool_calls"] = [_as_text(call) for call in message["tool_calls"]]
    return made


def _as_text(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call["function"])
    if not isinstance(function["arguments"], str):
        function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": function}


@lru_cache(maxsize=4)
def spelling_of(chat: ChatTemplate) -> Spelling:
    """How this template takes a call; the plain spelling where it takes none, so that a record shows its error."""
    for turns in (6, 4):  # a template may treat the last turn otherwise, or refuse a call there
        for as_text in (False, True):
            for content in CONTENTS:
                tried = Spelling(content, as_text)
                if _shows_calls(chat, "", tried, turns):
                    return Spelling(content, as_text, True, _shows_calls(chat, "words", tried, turns))
    return Spelling(alone=False, beside_text=_shows_calls(chat, "words", Spelling(), 4))


def _shows_calls(chat: ChatTemplate, content: str, spelling: Spelling, turns: int) -> bool:
    """Whether the template shows every call of a conversation, as JSON and without None; with 6 turns one ends it."""
    call = {"id": "call00001", "type": "function", "function": {"name": "probed", "arguments": {"where": "here"}}}
    calling = spell({"role": "assistant", "content": content, "tool_calls": [call]}, spelling)
    messages = [
        {"role": "user", "content": "go"},
        calling,
        {"role": "tool", "name": "tested", "tool_call_id": "call00001", "content": "gone"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "go"},
        calling,
    ][:turns]
    try:
        result = chat.render(messages)
    except RecordError:
        return False
    # The template's own words may well have a null in them.
    edges = [0, *(edge for span in result.template for edge in span), len(result.text)]
    printed = " ".join(result.text[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True))
    shown = all(printed.count(word) >= messages.count(calling) for word in ("probed", "where"))
    return shown and not any(bad in printed for bad in ("None", "null", "'where'", '\\"where'))
