r"""What a chat template puts around an assistant turn, found out once by rendering short conversations.

    [user "qqq", assistant "zzz", user "www"]      ...<|im_start|>assistant\nzzz<|im_end|>\n...
    head: the assistant's step before "zzz"        <|im_start|>assistant\n
    tail: after it                                 <|im_end|>\n       turn end: the added token in it, or the
                                                                      text that the user says ends a turn
    generation prompt, after the user's turn end   <|im_start|>assistant\n
    header: what head and generation prompt share

Whatever does not come out clearly is refused: a wrong guess here would be wrong in every record, in silence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from packtool.render.chat.trace import Trace, UnprovenError, turn_step
from packtool.render.rendered import Span

__all__ = ["UNPROTECTED_MARKS", "Calibration", "TurnEndError", "calibrate", "common_prefix", "written_tokens"]

UNPROTECTED_MARKS = frozenset(
    f"<{slash}{name}>"
    for name in ("think", "thinking", "reasoning", "thought", "reflection", "answer", "tools", "tool", "tool_call",
                 "tool_calls", "tool_response", "tool_responses", "tool_result", "function_call", "function")
    for slash in ("", "/")
)  # fmt: skip
"""Marks of reasoning and tool calls: reasoning data needs them, so they match as vocabulary, in data too."""

Render = Callable[..., Trace]
"""(messages, tools=None, add_generation_prompt=False) -> Trace."""

_SYSTEM = {"role": "system", "content": "sss"}
_USER = {"role": "user", "content": "qqq"}
_ASSISTANT = {"role": "assistant", "content": "zzz"}
_NEXT = {"role": "user", "content": "www"}
_TOOL = {"role": "tool", "content": "ttt", "name": "fff", "tool_call_id": "iiiiiiiii"}
_TOOLS = [{"type": "function", "function": {"name": "fff", "description": "ddd",
                                            "parameters": {"type": "object", "properties": {}}}}]  # fmt: skip


class TurnEndError(UnprovenError):
    """It is not clear what ends an assistant turn."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What goes around an assistant turn.

    Attributes:
        header: the start of the turn that the model is given.
        generation_prompt: what `add_generation_prompt` appends; starts with the header or the header with it.
        turn_end: the added token, or the text the user named, that ends the turn.
        rest: what follows the turn end in the turn.
        header_trained: there is a header, but no generation prompt, so the model is left to write it.
    """

    header: str = ""
    generation_prompt: str = ""
    turn_end: str = ""
    rest: str = ""
    header_trained: bool = False


def calibrate(render: Render, added_tokens: Sequence[str], turn_end: str = "") -> Calibration:
    """Find header and turn end, or prove the given one; raises UnprovenError, or what the template raises."""
    try:
        before: tuple[dict[str, Any], ...] = (_USER,)
        trace = render([*before, _ASSISTANT, _NEXT])
    except UnprovenError:
        raise
    except Exception as error:
        # A few templates insist on a system turn.
        before = (_SYSTEM, _USER)
        try:
            trace = render([*before, _ASSISTANT, _NEXT])
        except Exception:
            raise error from None
    user, assistant = len(before) - 1, len(before)
    step = turn_step(trace, assistant)
    if step is None:
        raise UnprovenError("does not print an assistant turn in a loop over the messages")
    start, stop = step
    content_start, content_stop = _content(trace, assistant)
    inside = [piece for piece in trace.foreign if piece[1] > start and piece[0] < stop]
    if not start <= content_start <= content_stop <= stop or len(inside) != 1:
        raise UnprovenError(
            "prints something besides the assistant's content in its turn, of which it is not known whose it is"
        )
    tail = trace.text[content_stop:stop]
    if turn_end:
        _check_turn_end(turn_end, tail, added_tokens)
    else:
        turn_end = _turn_end(tail, added_tokens)
    _, user_stop = _content(trace, user)
    if user_stop > start:
        raise UnprovenError("prints a user turn inside or after the assistant turn that answers it")
    closing = trace.text[user_stop:start]
    asked = render(list(before), add_generation_prompt=True)
    _, asked_stop = _content(asked, user)
    after = asked.text[asked_stop:]
    if not after.startswith(closing):
        raise UnprovenError(
            "ends a user turn otherwise when `add_generation_prompt` is set than when an assistant turn follows"
        )
    prompt, head = after[len(closing) :], trace.text[start:content_start]
    shared = common_prefix(prompt, head)
    if prompt and shared not in (len(prompt), len(head)):
        raise UnprovenError("starts an assistant turn otherwise than `add_generation_prompt` does")
    rest = tail[tail.find(turn_end) + len(turn_end) :]
    return Calibration(head[:shared], prompt, turn_end, rest, not prompt and bool(head.strip()))


def _content(trace: Trace, message: int) -> Span:
    found = trace.own.get(message, [])
    if len(found) != 1:
        raise UnprovenError("does not print the content of a message once and as it is")
    return found[0]


def _turn_end(tail: str, added_tokens: Sequence[str]) -> str:
    # White space can be an added token (Gemma's "\n"), and `</answer>` is no turn end.
    tokens = [token for token in added_tokens if token in tail and token.strip() and token not in UNPROTECTED_MARKS]
    if not tokens:
        raise TurnEndError("ends an assistant turn without an added token")
    turn_end = min(tokens, key=lambda token: (tail.find(token), -len(token)))
    if tail.count(turn_end) > 1:
        raise TurnEndError(f"ends an assistant turn with two turn ends `{turn_end}`")
    rest = tail[tail.find(turn_end) + len(turn_end) :]
    other = next((token for token in tokens if token in rest), None)
    if other is not None:
        raise TurnEndError(f"ends an assistant turn with two added tokens, `{turn_end}` and `{other}`")
    return turn_end


def _check_turn_end(given: str, tail: str, added_tokens: Sequence[str]) -> None:
    """Refuse a turn end that does not stand exactly once, and whole, in the tail."""
    place = tail.find(given)
    if place < 0:
        raise TurnEndError(f"ends an assistant turn with {tail!r}, in which there is no {given!r}")
    if tail.find(given, place + 1) >= 0:
        raise TurnEndError(f"ends an assistant turn with {tail!r}, in which {given!r} stands more than once")
    stop = place + len(given)
    cut = next((t for t in added_tokens if tail.find(t, max(0, stop - len(t) + 1), stop + len(t) - 1) >= 0), None)
    if cut is not None:
        raise TurnEndError(f"ends an assistant turn with {tail!r}, in which {given!r} ends inside the token {cut!r}")


def common_prefix(one: str, two: str) -> int:
    """Length of the longest start that both have."""
    if two.startswith(one):
        return len(one)
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def written_tokens(render: Render, added_tokens: Sequence[str]) -> frozenset[str]:
    """Added tokens that the template writes around user, assistant, system and tool turns; what fails is left out."""
    call = {"name": "fff", "arguments": {"aaa": "bbb"}}
    as_text = {"name": "fff", "arguments": '{"aaa": "bbb"}'}
    calls = [[{"id": "iiiiiiiii", "type": "function", "function": function}] for function in (call, as_text)]
    turns: list[dict[str, Any]] = [_ASSISTANT, {"role": "assistant"}, {"role": "assistant", "content": None}]
    probes: list[tuple[list[dict[str, Any]], list[Any] | None]] = [
        ([_USER, _ASSISTANT, _NEXT], None),
        ([_SYSTEM, _USER, _ASSISTANT, _NEXT], None),
    ]
    for turn in turns:
        for count in (1, 2):  # several calls may have marks that one has not
            probes.append(([_USER, turn | {"tool_calls": calls[0] * count}, *[_TOOL] * count, _ASSISTANT], _TOOLS))
            probes.append(([_USER, turn | {"tool_calls": calls[1] * count}, *[_TOOL] * count, _ASSISTANT], None))
    found: set[str] = set()
    for messages, tools in probes:
        for prompt in (False, True):
            try:
                trace = render(messages, tools, add_generation_prompt=prompt)
            except Exception:
                continue  # a template need not know tools, nor system turns
            ranges = [trace.text[start:stop] for start, stop in trace.template]
            found |= {token for token in added_tokens if token.strip() and any(token in text for text in ranges)}
    return frozenset(found)
