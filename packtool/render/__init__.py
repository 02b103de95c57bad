"""Records to text with trained characters (or to ids that were there already). One function a kind; no tokenizer here.

    make_renderer(...) -> render(record) -> Rendered | Tokenized

Built-in templates are data files in `templates/`: `*.jinja` for chats, `*.txt` for instruct records.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

from packtool.errors import RecordError, UsageError
from packtool.render.chat import ChatTemplate, ChatTemplates
from packtool.render.instruct import InstructTemplate, parse_instruct
from packtool.render.kinds import INSTRUCT, KINDS, Choice, choose_kind
from packtool.render.messages import read_messages
from packtool.render.rendered import Rendered, Tokenized
from packtool.render.tokens import read_tokens

__all__ = [
    "KINDS",
    "TRAIN_ON",
    "ChatTemplate",
    "Choice",
    "EmptyRecordError",
    "InstructTemplate",
    "Rendered",
    "Renderer",
    "Tokenized",
    "choose_kind",
    "list_templates",
    "make_renderer",
    "parse_instruct",
    "read_template",
]

TRAIN_ON = ("completion", "all", "last")
Renderer = Callable[[Any], Rendered | Tokenized]


class EmptyRecordError(Exception):
    """The record holds nothing to train on: it is counted as empty, and is no error."""


def list_templates() -> list[str]:
    """File names of the built-in templates."""
    folder = resources.files("packtool.render") / "templates"
    return sorted(item.name for item in folder.iterdir() if item.name.endswith((".txt", ".jinja")))


def read_template(name: str) -> str:
    """Text of a built-in template.

    Raises:
        UsageError: there is none by that name.
    """
    if name not in list_templates():
        raise UsageError(f"there is no built-in template `{name}`", hint="`packtool ls templates` lists them")
    return (resources.files("packtool.render") / "templates" / name).read_text("utf-8")


def make_renderer(
    kind: str,
    columns: Mapping[str, str],
    *,
    instruct: InstructTemplate | None = None,
    chat: ChatTemplate | ChatTemplates | None = None,
    size: int | None = None,
    train_on: str = "completion",
) -> Renderer:
    """The function that renders one record.

    Args:
        kind: one of KINDS.
        columns: field -> column of the records.
        instruct: the template, for `instruct`.
        chat: the template, for `chat` and for completions that are lists of messages.
        size: ids of the vocabulary, for `tokens`.
        train_on: `completion`, `all` for every token but the first, or `last` for a chat's last assistant turn.
    """
    renderers: dict[str, Renderer] = {
        "text": lambda record: _text(record, columns),
        "completion": lambda record: _completion(record, columns, chat, train_on),
        "instruct": lambda record: _instruct(record, columns, instruct, train_on),
        "chat": lambda record: _chat(record, columns, chat, train_on),
        "tokens": lambda record: read_tokens(record, columns, size, train_on),
    }
    render = renderers[kind]

    def checked(record: Any) -> Rendered | Tokenized:
        if not isinstance(record, Mapping):
            raise RecordError(f"the record is of type {type(record).__name__}, expected an object with named columns")
        return render(record)

    return checked


def _text(record: Mapping[str, Any], columns: Mapping[str, str]) -> Rendered:
    text = _string(record, columns.get("text", "text"))
    if not text.strip():
        raise EmptyRecordError
    return Rendered(text, ((0, len(text)),), bos=True, eos=True)


def _completion(
    record: Mapping[str, Any], columns: Mapping[str, str], chat: ChatTemplate | ChatTemplates | None, train_on: str
) -> Rendered:
    prompt_column, completion_column = columns.get("prompt", "prompt"), columns.get("completion", "completion")
    if isinstance(record.get(prompt_column), list) or isinstance(record.get(completion_column), list):
        prompt, _ = read_messages(_as_messages(record.get(prompt_column), "user"), prompt_column)
        completion, on = read_messages(_as_messages(record.get(completion_column), "assistant"), completion_column)
        return _conversation(prompt + completion, [False] * len(prompt) + on, record, columns, chat, train_on)
    prompt_text, completion_text = _string(record, prompt_column), _string(record, completion_column)
    return _joined(prompt_text, completion_text, train_on)


def _as_messages(value: Any, role: str) -> Any:
    return [{"role": role, "content": value}] if isinstance(value, str) else value


def _joined(prompt: str, completion: str, train_on: str) -> Rendered:
    if not completion.strip():
        raise EmptyRecordError
    text = prompt + completion
    return Rendered(text, ((0 if train_on == "all" else len(prompt), len(text)),), bos=True, eos=True)


def _instruct(
    record: Mapping[str, Any], columns: Mapping[str, str], template: InstructTemplate | None, train_on: str
) -> Rendered:
    if template is None:
        raise UsageError("instruct records need a template", hint="name one: `--template alpaca`")
    fields = {}
    for field in template.fields:
        names = (columns[field],) if field in columns else (field, *INSTRUCT.get(field, ()))
        column = next((name for name in names if record.get(name) is not None), names[0])
        fields[field] = _string(record, column, optional=field not in template.required)
    prompt, completion = template.fill(fields)
    return _joined(prompt, completion, train_on)


def _chat(
    record: Mapping[str, Any], columns: Mapping[str, str], chat: ChatTemplate | ChatTemplates | None, train_on: str
) -> Rendered:
    column = columns.get("messages", "messages")
    messages, on = read_messages(record.get(column), column)
    if not messages:
        raise EmptyRecordError
    return _conversation(messages, on, record, columns, chat, train_on)


def _conversation(
    messages: Sequence[Mapping[str, Any]],
    on: Sequence[bool],
    record: Mapping[str, Any],
    columns: Mapping[str, str],
    chat: ChatTemplate | ChatTemplates | None,
    train_on: str,
) -> Rendered:
    if chat is None:
        raise RecordError(
            "the record holds messages, and the first records hold text",
            hint="pack them apart, or bring them into one form",
        )
    tools = record.get(columns.get("tools", "tools")) or None
    if tools is not None and not isinstance(tools, list):
        raise RecordError(
            f"column `{columns.get('tools', 'tools')}` is of type {type(tools).__name__}, expected a list of tools"
        )
    result = chat.render(messages, tools)
    if train_on == "all":
        trained: tuple[tuple[int, int], ...] = ((0, len(result.text)),)
    else:
        spans = result.spans
        if train_on == "last":
            last = max((at for at, message in enumerate(messages) if message.get("role") == "assistant"), default=-1)
            spans = tuple(span for span in spans if span[2] == last) if spans and spans[-1][2] >= 0 else spans[-1:]
        trained = tuple((start, stop) for start, stop, message in spans if message < 0 or on[message])
    return Rendered(result.text, trained, result.template, warnings=result.warnings)


def _string(record: Mapping[str, Any], column: str, *, optional: bool = False) -> str:
    value = record.get(column)
    if isinstance(value, str):
        return value
    if value is None:
        if optional:
            return ""
        names = ", ".join(f"`{name}`" for name in record) or "none"
        state = "null" if column in record else "missing"
        raise RecordError(
            f"column `{column}` is {state}; the record's columns: {names}",
            hint="map columns with `--columns field=column`",
        )
    raise RecordError(f"column `{column}` is of type {type(value).__name__}, expected text")
