"""Records to text with trained characters (or to ids that were there already). One function a kind; no tokenizer here.

    make_renderer(...) -> render(record) -> Rendered | Tokenized

Built-in templates are data files in `templates/`: `*.jinja` for chats, `*.txt` for instruct records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from packtool.errors import RecordError, UsageError
from packtool.render.chat import ChatTemplate, ChatTemplates
from packtool.render.columns import pick, text_column
from packtool.render.conversations import is_conversation, listed, read_conversation, with_system
from packtool.render.instruct import InstructTemplate, parse_instruct
from packtool.render.kinds import INSTRUCT, KINDS, Choice, choose_kind
from packtool.render.lint import CALLS_LEFT_OUT, LEFT_OUT, REPEATED, SWITCHED_OFF, lint_messages, lint_words
from packtool.render.messages import Messages, read_messages, refuse_media
from packtool.render.rendered import EmptyRecordError, Rendered, Span, Tokenized
from packtool.render.tokens import read_tokens
from packtool.render.tool_calls import read_tools, spell, spelling_of

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
    train_template_text: bool = True,
) -> Renderer:
    """The function that renders one record.

    Args:
        kind: one of KINDS.
        columns: field -> column of the records.
        instruct: the template, for `instruct`.
        chat: the template, for `chat` and for completions that are lists of messages.
        size: ids of the vocabulary, for `tokens`.
        train_on: `completion`, `all` for every token but the first, or `last` for a chat's last assistant turn.
        train_template_text: train in assistant turns also what the chat template wrote of its own accord.
    """
    renderers: dict[str, Renderer] = {
        "text": lambda record: _text(record, columns),
        "completion": lambda record: _completion(record, columns, chat, train_on, train_template_text),
        "instruct": lambda record: _instruct(record, columns, instruct, train_on),
        "chat": lambda record: _chat(record, columns, chat, train_on, train_template_text),
        "tokens": lambda record: read_tokens(record, columns, size, train_on),
    }
    render = renderers[kind]

    def checked(record: Any) -> Rendered | Tokenized:
        if not isinstance(record, Mapping) and not (kind == "chat" and isinstance(record, list)):
            raise RecordError(f"the record is of type {type(record).__name__}, expected an object with named columns")
        return render(record)

    return checked


def _text(record: Mapping[str, Any], columns: Mapping[str, str]) -> Rendered:
    text = text_column(record, columns.get("text", "text"))
    if not text.strip():
        raise EmptyRecordError
    return Rendered(text, ((0, len(text)),), roles=((0, len(text), "text"),), bos=True, eos=True)


def _completion(
    record: Mapping[str, Any],
    columns: Mapping[str, str],
    chat: ChatTemplate | ChatTemplates | None,
    train_on: str,
    train_template_text: bool,
) -> Rendered:
    prompt_column, completion_column = columns.get("prompt", "prompt"), columns.get("completion", "completion")
    sides = pick(record, prompt_column), pick(record, completion_column)
    if not any(map(is_conversation, sides)):
        warnings = _left_out(record, "completion", frozenset((prompt_column, completion_column)))
        prompt_text, completion_text = text_column(record, prompt_column), text_column(record, completion_column)
        return _joined(prompt_text, completion_text, train_on, warnings)
    if chat is None:
        which = prompt_column if is_conversation(sides[0]) else completion_column
        raise RecordError(
            f"column `{which}` holds messages, and no chat template is at hand: the first records held text",
            hint="pack the records with messages by themselves, or write all of them as messages",
        )
    refuse_media(record, "the record")
    prompt = read_messages(listed(_as_messages(sides[0], "user"), prompt_column))
    completion = read_messages(listed(_as_messages(sides[1], "assistant"), completion_column))
    if not completion.items:
        raise EmptyRecordError
    prompt = Messages(prompt.items, (False,) * len(prompt.items), prompt.warnings)
    size = len(prompt.items)
    if size and completion.items[:size] == prompt.items:
        completion = Messages(completion.items[size:], completion.switches[size:], (*completion.warnings, REPEATED))
    whole = with_system(prompt + completion, record, {})
    return _conversation(whole, record, columns, chat, train_on, train_template_text)


def _as_messages(value: Any, role: str) -> Any:
    return [{"role": role, "content": value}] if isinstance(value, str) else value


def _left_out(record: Mapping[str, Any], kind: str, used: frozenset[str]) -> tuple[str, ...]:
    """A warning for each column that says what was said before, and that this kind cannot hold."""
    return tuple(LEFT_OUT.format(name, kind) for name in ("history", "system") if record.get(name) and name not in used)


def _joined(prompt: str, completion: str, train_on: str, warnings: tuple[str, ...] = ()) -> Rendered:
    if not completion.strip():
        raise EmptyRecordError
    text, cut = prompt + completion, len(prompt)
    trained = ((0 if train_on == "all" else cut, len(text)),)
    roles = ((0, cut, "prompt"), (cut, len(text), "completion"))
    warnings = (*warnings, *lint_words(completion))
    return Rendered(text, trained, roles=roles, bos=True, eos=True, warnings=warnings)


def _instruct(
    record: Mapping[str, Any], columns: Mapping[str, str], template: InstructTemplate | None, train_on: str
) -> Rendered:
    if template is None:
        raise UsageError("instruct records need a template", hint="name one: `--template alpaca`")
    fields = {}
    for field in template.fields:
        names = (columns[field],) if field in columns else (field, *INSTRUCT.get(field, ()))
        column = next((name for name in names if pick(record, name) is not None), names[0])
        fields[field] = text_column(record, column, optional=field not in template.required)
    prompt, completion = template.fill(fields)
    used = frozenset(columns.get(field, field) for field in template.fields)
    return _joined(prompt, completion, train_on, _left_out(record, "instruct", used))


def _chat(
    record: Any,
    columns: Mapping[str, str],
    chat: ChatTemplate | ChatTemplates | None,
    train_on: str,
    train_template_text: bool,
) -> Rendered:
    messages = read_conversation(record, columns)
    beside = record if isinstance(record, Mapping) else {}
    return _conversation(messages, beside, columns, chat, train_on, train_template_text)


def _conversation(
    messages: Messages,
    record: Mapping[str, Any],
    columns: Mapping[str, str],
    chat: ChatTemplate | ChatTemplates | None,
    train_on: str,
    train_template_text: bool,
) -> Rendered:
    if not messages.items:
        raise EmptyRecordError
    if chat is None:
        raise RecordError(
            "the record holds messages, and the first records hold text",
            hint="pack them apart, or bring them into one form",
        )
    column = columns.get("tools", "tools")
    tools = read_tools(pick(record, column), column)
    items, warnings = _spelled(messages, chat if isinstance(chat, ChatTemplate) else chat.chosen(tools))
    result = chat.render(items, tools, find_boilerplate=not train_template_text)
    on = [switch is not False for switch in messages.switches]
    if train_on == "all":
        trained: tuple[tuple[int, int], ...] = ((0, len(result.text)),)
        if not all(on):
            warnings = (*warnings, SWITCHED_OFF)
    else:
        spans = result.spans
        if train_on == "last":
            last = max((at for at, message in enumerate(items) if message.get("role") == "assistant"), default=-1)
            spans = tuple(span for span in spans if span[2] == last) if spans and spans[-1][2] >= 0 else spans[-1:]
        trained = tuple(
            _less([(start, stop) for start, stop, message in spans if message < 0 or on[message]], result.boilerplate)
        )
    warnings = (*warnings, *lint_messages(messages.items), *result.warnings)
    return Rendered(result.text, trained, result.template, result.roles, warnings=warnings)


def _less(spans: Iterable[Span], holes: Sequence[Span]) -> Iterator[Span]:
    """What is left of the spans without the holes; both sorted and disjoint."""
    at = 0
    for start, stop in spans:
        while at < len(holes) and holes[at][0] < stop:
            begin, end = holes[at]
            if begin > start:
                yield start, begin
            start = max(start, end)
            at += 1
        if stop > start:
            yield start, stop


def _spelled(messages: Messages, chat: ChatTemplate) -> tuple[Sequence[Mapping[str, Any]], tuple[str, ...]]:
    """The messages with their calls as this template takes them."""
    if not any("tool_calls" in item for item in messages.items):
        return messages.items, messages.warnings
    spelling = spelling_of(chat)
    items = [spell(item, spelling) if "tool_calls" in item else item for item in messages.items]
    shown = {True: spelling.beside_text, False: spelling.alone}
    lost = not all(shown[bool(item.get("content"))] for item in messages.items if "tool_calls" in item)
    return items, (*messages.warnings, CALLS_LEFT_OUT) if lost else messages.warnings
