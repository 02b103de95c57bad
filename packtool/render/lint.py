"""What the summary warns of: the texts, each once, and the checks that need a record's messages or its own words.

A warning is a short fixed text, so that a summary can count it: what differs from record to record is no part of it.
Checks on tokens and on the ledger are in `packtool/job/lint.py`; docs/concepts.md says what to do about each.
"""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "CALLS_LEFT_OUT",
    "CUT",
    "DOUBLED_BOS",
    "DUPLICATE",
    "HEADER_TRAINED",
    "LEFT_OUT",
    "LITERAL_CONTROL",
    "MARKS_WITHOUT_END",
    "MASK_LEAVES_USER",
    "NOT_RENDERED",
    "NO_HEADER",
    "NO_TRAINED_END",
    "NO_TURN_END",
    "OTHER_REST",
    "OUT_OF_TURN",
    "REPEATED",
    "REPLACED",
    "STRADDLED",
    "SWITCHED_OFF",
    "SWITCHED_ON",
    "TURN_END_AS_EOS",
    "TURN_END_INSIDE",
    "UNBALANCED_THOUGHT",
    "UNKNOWN_CONTROL",
    "lint_messages",
    "lint_words",
]

# Of a record's text.
REPLACED = "lone surrogates became U+FFFD"
"""JSON can spell halves of UTF-16 pairs, and no UTF-8 text can hold one."""
LITERAL_CONTROL = "control tokens spelled out in the record's text, packed as plain characters"
"""A record that was rendered before, or text about templates; `--allow-special` makes tokens of them."""
UNBALANCED_THOUGHT = "think tags that do not pair up"
"""In an assistant message or a completion: a thought that never ends, or half of one that was cut off."""

# Of a conversation.
OUT_OF_TURN = "roles out of turn"
"""Not user, assistant, user, assistant... with tools between: see `lint_messages`."""
SWITCHED_ON = "a switch turns on a turn that is not the assistant's, which stays untrained"
"""As `weight: 1` does at a user's message."""
SWITCHED_OFF = "a switch turns a turn off, and `--train-on all` trains it"
"""As `weight: 0` does at an assistant's message."""
MASK_LEAVES_USER = "`mask` leaves the user's turns on, which stay untrained"
"""NeMo's `mask` names the roles that are off; packtool trains the assistant only."""
REPEATED = "the completion repeats the messages of the prompt, which were taken once"
"""A completion column that holds the whole conversation."""
LEFT_OUT = "`{}` is left out: {} records have no place for it (`--kind chat` has)"
"""(column, kind): `history` or `system` beside a prompt and its completion."""

# Of what the chat template makes of a conversation.
CALLS_LEFT_OUT = "the chat template leaves out tool calls"
"""It knows no tools, or none beside text."""
NO_TURN_END = "no turn end"
"""An assistant turn without the token that ends the others."""
NO_HEADER = "no header"
"""An assistant turn that does not start as the generation prompt would have it."""
HEADER_TRAINED = "no generation prompt, so the assistant header is trained"
"""The model is left to write the header itself."""
TURN_END_INSIDE = "turn end inside an assistant turn"
"""The template ends the turn, and goes on with it."""
OTHER_REST = "other text than usual after the turn end"
"""With `--turn-end`: the turn goes on after it, as with calls after the text, and that part is not trained."""
NOT_RENDERED = "assistant turn left out by the template"
"""As some templates do with turns before a tool call."""
UNKNOWN_CONTROL = "control token in text of unknown origin"
"""Neither the template's nor a record's for certain, so it stays plain characters."""
MARKS_WITHOUT_END = "generation marks leave the turn end out"
"""A model that is trained so never learns to stop."""

# Of tokens.
DOUBLED_BOS = "BOS stands twice at the start"
"""Text or ids that bring their own, in front of which another was put."""
NO_TRAINED_END = "no trained token ends the sample"
"""Neither EOS nor the turn end is trained, so the model does not learn to stop."""
STRADDLED = "a token straddles the start of what is trained, so it is not"
"""It starts in the prompt or header, as ` yes` does after "A: "; it belongs to the side where it starts."""
TURN_END_AS_EOS = "the EOS of plain text is the turn end of the chat template"
"""A model that is trained so on text chats badly."""

# Of the run.
CUT = "samples cut at the pack's length"
"""Truncated, or split although the kind is not plain text."""
DUPLICATE = "the same tokens as an earlier record"
"""Ids alone are compared, not what is trained of them."""

_TAGS = tuple(
    (f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "reasoning", "reflection")
)  # fmt: skip
# How calls look that stand in an assistant's text, where `tool_calls` would be (Hermes, Glaive, Llama, Mistral).
_CALLS = ("<tool_call", "<function", "<|tool_call", "<|python_tag|>", "[TOOL_CALLS]")


def lint_words(text: str) -> tuple[str, ...]:
    """Warnings of what an assistant writes."""
    wrong = "<" in text and any(text.count(opening) != text.count(closing) for opening, closing in _TAGS)
    return (UNBALANCED_THOUGHT,) if wrong else ()


def lint_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Warnings of a conversation: system or developer first, then user, assistant, user...; tools answer calls.

    user, assistant (a call), tool, tool, assistant        good
    user, assistant (a call), assistant                    good: the tool's answer was not kept
    user, user, assistant    user, assistant, assistant    one answer, or one question, is missing
    assistant, user, assistant                             nothing was asked
    user, assistant, tool                                  nothing was called
    user, assistant, system, user, assistant               a system message later than at the front
    user, assistant, user                                  the last user is not answered

    Args:
        messages: as read_messages gives them.
    """
    found = []
    if _out_of_turn(messages):
        found.append(OUT_OF_TURN)
    if any(lint_words(m["content"]) for m in messages if m["role"] == "assistant"):
        found.append(UNBALANCED_THOUGHT)
    return tuple(found)


def _out_of_turn(messages: Sequence[Mapping[str, Any]]) -> bool:
    before, calls = "", False  # the role of the message before, and whether a call waits for its answer
    for message in messages:
        role = message["role"]
        if role in ("system", "developer"):
            if before not in ("", "system", "developer") or before == role:
                return True
        elif role == "user":
            if before == "user":
                return True
        elif role == "assistant":
            if before not in ("user", "tool") and not calls:
                return True
        elif before != "tool" and not calls:  # a tool
            return True
        calls = role == "assistant" and _calls(message)
        before = role
    return before == "user"


def _calls(message: Mapping[str, Any]) -> bool:
    """Whether an assistant calls a tool, in the message's own key or in its text."""
    return bool(message.get("tool_calls")) or any(mark in message["content"] for mark in _CALLS)
