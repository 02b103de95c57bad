"""What kind of data a record is: named by `--kind`, or told from the first records.

kind         needs                                              trained
text         text                                               everything but the first token, EOS included
completion   prompt, completion (strings, or lists of messages) the completion and EOS
instruct     the columns of an instruct template                what follows the template's mark, and EOS
chat         messages or conversations                          what the assistant wrote, turn ends included
tokens       input_ids or tokens (+ labels or a mask)           what labels or mask say
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packtool.errors import UsageError

__all__ = ["INSTRUCT", "KINDS", "Choice", "choose_kind"]

KINDS = ("text", "completion", "instruct", "chat", "tokens")

# Column names that data sets use for the same thing, the first being our own. Order matters where both are there.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "text": ("text", "content"),
    "prompt": ("prompt",),
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
    seen: dict[str, Any] = {}
    for _, record in zip(range(limit), records, strict=False):
        if isinstance(record, Mapping):
            for name, value in record.items():
                if seen.get(name) is None:
                    seen[name] = value
    choice = _chosen(kind, columns, template, seen)
    missing = [f"`{column}`" for column in columns.values() if seen and column not in seen]
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
    sides = [seen.get(choice.columns.get(field, field)) for field in ("prompt", "completion")]
    messages = choice.kind == "chat" or (choice.kind == "completion" and any(isinstance(s, list) for s in sides))
    return dataclasses.replace(choice, messages=messages)


# The fields of each kind; those of instruct are its template's.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "completion": ("prompt", "completion", "tools"),
    "chat": ("messages", "tools"),
    "tokens": ("tokens", "labels", "mask", "attention_mask"),
}


def _chosen(kind: str, columns: Mapping[str, str], template: str, seen: Mapping[str, Any]) -> Choice:
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
    fitting = [candidate for candidate in KINDS if _fits(candidate, seen)]
    if {"instruct", "completion"} <= set(fitting):
        fitting.remove("completion" if "instruction" in seen else "instruct")
    if len(fitting) == 1:
        found = {**_columns(fitting[0], seen), **columns}
        used = ", ".join(f"`{column}`" for column in found.values())
        return Choice(fitting[0], found, _default_template(fitting[0]), f"the records have {used}")
    if not fitting:
        if {"chosen", "rejected"} & set(seen):
            raise UsageError(
                f"these look like preference records (columns: {names}), which have two answers to choose from",
                hint="say which to train on, for example `--kind completion --columns prompt=prompt,completion=chosen`",
            )
        raise UsageError(
            f"what kind of data this is cannot be told from its columns: {names}",
            hint="name it and its columns, for example `--kind completion --columns prompt=question,completion=answer`",
        )
    raise UsageError(
        f"these records could be {' or '.join(f'`{k}`' for k in fitting)} (columns: {names})",
        hint=f"say which: `--kind {fitting[0]}` or `--kind {fitting[1]}`",
    )


def _default_template(kind: str) -> str:
    return "alpaca" if kind == "instruct" else ""


def _by_fields(columns: Mapping[str, str]) -> str:
    fields = set(columns)
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
        return isinstance(seen.get(found.get("messages", "")), list)
    return isinstance(seen.get(found.get("tokens", "")), list)


def _columns(kind: str, seen: Mapping[str, Any]) -> dict[str, str]:
    """Field -> the column that the records have for it."""
    fields: Mapping[str, Mapping[str, tuple[str, ...]]] = {
        "text": {"text": ALIASES["text"]},
        "completion": {"prompt": ALIASES["prompt"], "completion": ALIASES["completion"]},
        "instruct": INSTRUCT,
        "chat": {"messages": ALIASES["messages"], "tools": ("tools",)},
        "tokens": {
            "tokens": ALIASES["tokens"],
            "labels": ("labels",),
            "mask": ("loss_mask", "completion_mask", "assistant_masks", "label_mask"),
            "attention_mask": ("attention_mask",),
        },
    }
    found = {}
    for field, names in fields[kind].items():
        column = next((name for name in names if name in seen), None)
        if column is not None:
            found[field] = column
    return found
