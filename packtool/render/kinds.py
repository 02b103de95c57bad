"""What kind of data a record is: named by `--kind`, or told from the first records.

kind         needs                                              trained
text         text                                               everything but the first token, EOS included
completion   prompt, completion (strings, or lists of messages) the completion and EOS
instruct     the columns of an instruct template                what follows the template's mark, and EOS
chat         messages or conversations; or a prompt and its     what the assistant wrote, turn ends included
             answer beside a filled `history` or `system`
tokens       input_ids or tokens (+ labels or a mask)           what labels or mask say
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packtool.errors import UsageError
from packtool.render.columns import find_column, pick
from packtool.render.conversations import is_conversation, looks_like_messages

__all__ = ["INSTRUCT", "KINDS", "Choice", "choose_kind"]

KINDS = ("text", "completion", "instruct", "chat", "tokens")

# Column names that data sets use for the same thing, the first being our own. Order matters where both are there.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "text": ("text", "content"),
    "prompt": ("prompt", "query"),
    "completion": ("completion", "response"),
    "messages": ("messages", "conversations", "conversation"),
    "tokens": ("input_ids", "tokens"),
}
# Optional fields may turn up late, so instruct records are asked for them one by one.
INSTRUCT: Mapping[str, tuple[str, ...]] = {
    "instruction": ("instruction",),
    "output": ("output", "response"),
    "input": ("input", "context"),
}
# What a chat record without messages is made of.
_ASKED = {
    "prompt": ("instruction", "query", "prompt"),
    "completion": ("output", "response", "completion"),
    "input": ("input", "context"),
    "history": ("history",),
}
_BESIDE = {"tools": ("tools",), "system": ("system", "system_prompt"), "mask": ("mask",)}
_MANY = 64  # records that are looked at


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, and the sentence that says why.

    Attributes:
        kind: one of KINDS.
        columns: field -> column of the records, as far as it is known.
        template: name of the instruct template, or an empty string.
        why: one sentence for people.
        messages: whether the records hold messages, which a chat template renders.
    """

    kind: str
    columns: Mapping[str, str]
    template: str
    why: str
    messages: bool = False


def choose_kind(
    kind: str, columns: Mapping[str, str], template: str, records: Iterable[Any], *, limit: int = _MANY
) -> Choice:
    """Settle the kind and the columns it reads.

    Args:
        kind: `auto` or one of KINDS.
        columns: what `--columns` says, field -> column.
        template: what `--template` says, or an empty string.
        records: the first records of the input.
        limit: how many of them are looked at.

    Raises:
        UsageError: `auto` cannot tell, or two kinds are equally likely.
    """
    if kind != "auto" and kind not in KINDS:
        raise UsageError(f"kind `{kind}` is unknown, expected `auto` or one of {', '.join(f'`{k}`' for k in KINDS)}")
    looked_at = [record for _, record in zip(range(limit), records, strict=False)]
    seen = _seen(looked_at)
    choice = _chosen(kind, columns, template, seen, any(map(looks_like_messages, looked_at)))
    rows = [record for record in looked_at if isinstance(record, Mapping)]
    missing = [f"`{name}`" for name in columns.values() if rows and not any(find_column(r, name)[0] for r in rows)]
    if missing:
        raise UsageError(
            f"`--columns` names {', '.join(missing)}, which none of the first records has",
            hint=f"their columns: {', '.join(f'`{name}`' for name in seen)}",
        )
    unknown = sorted(set(columns) - set(FIELDS.get(choice.kind, columns)))
    if unknown:
        raise UsageError(
            f"`--columns` names the field `{unknown[0]}`, which kind `{choice.kind}` does not have",
            hint=f"its fields: {', '.join(f'`{field}`' for field in FIELDS[choice.kind])}",
        )
    sides = [choice.columns.get(field, field) for field in ("prompt", "completion")]
    messages = choice.kind == "chat" or (
        choice.kind == "completion" and any(is_conversation(pick(r, side)) for r in rows for side in sides)
    )
    return dataclasses.replace(choice, messages=messages)


# The fields of each kind; those of instruct are its template's.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "completion": ("prompt", "completion", "tools"),
    "chat": ("messages", *_BESIDE, *_ASKED),
    "tokens": ("tokens", "labels", "mask", "attention_mask"),
}


def _seen(records: Iterable[Any]) -> dict[str, Any]:
    """Column -> its first value that says something; columns of some records may be missing or empty in others."""
    seen: dict[str, Any] = {}
    for record in records:
        if isinstance(record, Mapping):
            for name, value in record.items():
                if name not in seen or _says(value) > _says(seen[name]):
                    seen[name] = value
    return seen


def _says(value: Any) -> int:
    """How much a value tells of its column: null nothing, an empty text or list only its type."""
    return 0 if value is None else 1 if value in ("", [], {}) else 2


def _chosen(kind: str, columns: Mapping[str, str], template: str, seen: Mapping[str, Any], bare: bool) -> Choice:
    names = ", ".join(f"`{name}`" for name in seen) or "none"
    if kind != "auto":
        return Choice(
            kind, {**_columns(kind, seen), **columns}, template or _default_template(kind), "as `--kind` says"
        )
    if template:
        return Choice("instruct", dict(columns), template, f"an instruct template was given; columns: {names}")
    by_columns = _by_fields(columns)
    if by_columns:
        found = {**_columns(by_columns, seen), **columns}
        return Choice(by_columns, found, _default_template(by_columns), "as the fields of `--columns` say")
    if bare and not seen:
        return Choice("chat", {"messages": "messages", **columns}, "", "the records are lists of messages")
    _refuse_preferences(seen, names)
    fitting = [candidate for candidate in KINDS if _fits(candidate, seen)]
    if {"instruct", "completion"} <= set(fitting):
        fitting.remove("completion" if "instruction" in seen else "instruct")
    if len(fitting) == 1:
        return _settled(fitting[0], columns, seen)
    if not fitting:
        if len(seen) > 1 and all(isinstance(value, Mapping) for value in seen.values()):
            raise UsageError(
                f"the columns are all objects: {names}",
                hint="if these are records by their names, write them as a list or one a line; else name what to read, "
                "for example `--kind text --columns text=body.text`",
            )
        raise UsageError(
            f"what kind of data this is cannot be told from its columns: {names}",
            hint="name it and its columns, for example `--kind completion --columns prompt=question,completion=answer`",
        )
    raise UsageError(
        f"these records could be {' or '.join(f'`{k}`' for k in fitting)} (columns: {names})",
        hint=f"say which: `--kind {fitting[0]}` or `--kind {fitting[1]}`",
    )


def _settled(kind: str, columns: Mapping[str, str], seen: Mapping[str, Any]) -> Choice:
    """The one kind that fits; a question with a system text or earlier rounds beside it is a conversation."""
    found = {**_columns(kind, seen), **columns}
    used = ", ".join(f"`{column}`" for column in found.values())
    beside = [name for name in ("history", *_BESIDE["system"]) if _says(seen.get(name)) == 2]
    sides = [pick(seen, found[field]) for field in ("prompt", "completion") if field in found]
    if beside and kind in ("instruct", "completion") and not any(map(is_conversation, sides)):
        others = ", ".join(f"`{name}`" for name in beside)
        return Choice("chat", {**_columns("chat", seen), **columns}, "", f"the records have {used} beside {others}")
    return Choice(kind, found, _default_template(kind), f"the records have {used}")


def _refuse_preferences(seen: Mapping[str, Any], names: str) -> None:
    """Refuse records of which one half is no example to follow, and say how to take the other.

    Raises:
        UsageError: there are two answers, or a verdict.
    """
    if "chosen" in seen and ("rejected" in seen or not any(_fits(kind, seen) for kind in KINDS)):
        raise UsageError(
            f"these look like preference records (columns: {names}), which have two answers to choose from",
            hint=f"say which to train on, for example `{_chosen_side(seen)}`",
        )
    verdict = next((name for name in ("label", "kto_tag") if isinstance(seen.get(name), bool)), None)
    if verdict and (_fits("completion", seen) or _fits("chat", seen)):
        kind = "chat" if _fits("chat", seen) else "completion"
        found = ",".join(f"{field}={column}" for field, column in _columns(kind, seen).items())
        raise UsageError(
            f"these look like KTO records (columns: {names}), whose answers are good or bad as `{verdict}` says",
            hint=f"keep those whose `{verdict}` is true, then say `--kind {kind} --columns {found}`, which trains all",
        )


def _chosen_side(seen: Mapping[str, Any]) -> str:
    chosen = seen["chosen"]
    first = chosen[0] if isinstance(chosen, list) and chosen else None
    role = (first.get("role") or first.get("from")) if isinstance(first, Mapping) else None
    prompt = next((name for name in ("prompt", *ALIASES["messages"], "instruction", "question") if name in seen), None)
    if isinstance(chosen, list) and (prompt is None or str(role).lower() in ("user", "human", "system")):
        return "--kind chat --columns messages=chosen"
    if prompt is None:
        return "--kind text --columns text=chosen"
    return f"--kind completion --columns prompt={prompt},completion=chosen"


def _default_template(kind: str) -> str:
    return "alpaca" if kind == "instruct" else ""


def _by_fields(columns: Mapping[str, str]) -> str:
    fields = set(columns)
    if {"prompt", "completion"} <= fields and fields & {"history", "system"}:
        return "chat"
    for kind, needed in (("chat", {"messages"}), ("tokens", {"tokens"}), ("completion", {"prompt", "completion"})):
        if needed <= fields:
            return kind
    if "output" in fields or "instruction" in fields:
        return "instruct"
    return "text" if fields == {"text"} else ""


def _fits(kind: str, seen: Mapping[str, Any]) -> bool:
    found = _columns(kind, seen)
    if kind == "text":
        return isinstance(seen.get(found.get("text", "")), str)
    if kind == "completion":
        return {"prompt", "completion"} <= set(found)
    if kind == "instruct":
        return {"instruction", "output"} <= set(found)
    if kind == "chat":
        return is_conversation(seen.get(found.get("messages", "")))
    return isinstance(seen.get(found.get("tokens", "")), list)


def _columns(kind: str, seen: Mapping[str, Any]) -> dict[str, str]:
    """Field -> the column that the records have for it."""
    fields: Mapping[str, Mapping[str, tuple[str, ...]]] = {
        "text": {"text": ALIASES["text"]},
        "completion": {"prompt": ALIASES["prompt"], "completion": ALIASES["completion"]},
        "instruct": INSTRUCT,
        "chat": {"messages": ALIASES["messages"], **_BESIDE},
        "tokens": {
            "tokens": ALIASES["tokens"],
            "labels": ("labels",),
            "mask": ("loss_mask", "completion_mask", "assistant_masks", "label_mask"),
            "attention_mask": ("attention_mask",),
        },
    }
    wanted = fields[kind]
    if kind == "chat" and not any(name in seen for name in ALIASES["messages"]):
        wanted = {**_ASKED, **_BESIDE}
    found = {}
    for field, names in wanted.items():
        column = next((name for name in names if name in seen), None)
        if column is not None:
            found[field] = column
    return found
