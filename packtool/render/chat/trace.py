"""One rendering of a chat template with the origin of every character.

    run(template, variables, messages)  ->  Trace: text, who wrote which range, where each message's loop step lies

A step is what a `for` over messages, or over their indices, printed while it was at one message. The pieces that the
compiled template yields, joined, are the rendering; one pass over their parts gives the ranges.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from jinja2 import Template

from packtool.render.chat.provenance import CALL, CONTENT, TEMPLATE, THOUGHT, UNKNOWN, Mark, Traced, data, written
from packtool.render.rendered import Span

__all__ = [
    "REASONING",
    "ROLE_WORDS",
    "Trace",
    "UnprovenError",
    "constant",
    "inside_of",
    "record_messages",
    "record_tools",
    "run",
    "turn_step",
    "written_from",
]

ROLE_WORDS = frozenset(
    {"system", "developer", "user", "assistant", "model", "tool", "function", "ipython", "observation", "environment"}
)
"""Roles that count as the template's words: `'<|' + role + '|>'` writes a control token for these, for no other."""

REASONING = ("reasoning_content", "thinking", "reasoning")
"""Keys of a message that hold its thoughts, as transformers has them; the first that is filled counts."""
_KINDS = {"tool_calls": CALL, "function_call": CALL, **dict.fromkeys(REASONING, THOUGHT)}


class UnprovenError(Exception):
    """The trace does not show what must be shown; the text says what, without record content."""


@dataclass(slots=True)
class Trace:
    """A rendering.

    Attributes:
        text: what the template rendered.
        template: maximal ranges that the template wrote.
        foreign: (start, stop, message) of everything else, in order; message -1 for what is of no one message.
        kinds: the kind of each of `foreign`.
        unknown: the ranges of `foreign` whose origin was lost.
        own: message -> the ranges of its data (not its role).
        steps: message -> the ranges that loops printed at that message, empty ones left out.
        shared: messages that were set in one step with another.
        generations: (start, stop, message) of the generation blocks.
    """

    text: str
    template: list[Span] = field(default_factory=list)
    foreign: list[tuple[int, int, int]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    unknown: list[Span] = field(default_factory=list)
    own: dict[int, list[Span]] = field(default_factory=dict)
    steps: dict[int, list[Span]] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)
    generations: list[tuple[int, int, int]] = field(default_factory=list)

    def shares(self) -> list[tuple[int, int, int]]:
        """(start, stop, message) of what belongs to a message, sorted and disjoint.

        That is what loops printed at it, less what they printed at others meanwhile, and its data wherever that lies.
        """
        found = [(start, stop, message) for message, steps in self.steps.items() for start, stop in steps]
        for message, places in self.own.items():
            if message >= 0:  # tools are of no message
                steps = self.steps.get(message, [])
                found += [(*place, message) for place in places if not any(_holds(step, place) for step in steps)]
        found.sort(key=lambda share: (share[0], -share[1]))
        divided: list[tuple[int, int, int]] = []
        around: list[tuple[int, int]] = []  # (stop, message) of the shares that are open, each inside the one before
        at = 0

        def close(until: int) -> None:
            nonlocal at
            while around and at < until:
                stop, message = around[-1]
                if min(stop, until) > at:
                    at, start = min(stop, until), at
                    divided.append((start, at, message))
                if stop <= until:
                    around.pop()

        for start, stop, message in found:
            close(start)
            at = start
            around.append((stop, message))
        close(len(self.text))
        return divided


def run(template: Template, variables: Mapping[str, Any]) -> Trace:
    """Render; raises what the template raises, and UnprovenError."""
    context = template.new_context(dict(variables))
    return _read(list(template.root_render_func(context)))


def _read(pieces: list[str]) -> Trace:
    trace = Trace("".join(pieces))
    text = trace.text
    reader = _Marks(trace)
    at = 0
    wrote = 0  # the template's range that is open starts here
    for piece in pieces:
        if type(piece) is not Traced:
            length = len(piece)
            parts: Iterable[Any] = ((length, None, 0),)
        else:
            parts = piece._parts
        for length, origin, offset in parts:
            if origin is TEMPLATE:
                at += length
            elif type(origin) is Mark:
                reader.mark(origin, at)
            elif origin is not None and origin.written:
                at += length
            else:
                stop = at + length
                if length and at > wrote:
                    trace.template.append((wrote, at))
                if origin is None or origin is UNKNOWN:
                    if length:
                        trace.foreign.append((at, stop, -1))
                        trace.kinds.append("")
                        trace.unknown.append((at, stop))
                else:
                    if offset >= 0 and not text.startswith(origin.text[offset : offset + length], at):
                        raise UnprovenError("text that differs from where it should have come from")
                    trace.foreign.append((at, stop, origin.message))
                    trace.kinds.append(origin.kind)
                    if not origin.role:
                        trace.own.setdefault(origin.message, []).append((at, stop))
                at = stop
                if length:
                    wrote = at
    if at != len(text):
        raise UnprovenError("text whose origins do not add up to its length")
    if at > wrote:
        trace.template.append((wrote, at))
    reader.close()
    return trace


@dataclass(slots=True)
class _Step:
    """A step that goes on.

    Attributes:
        start: where the loop's body started.
        messages: which messages it is at; more than one cannot be told apart.
    """

    loop: int
    start: int
    messages: list[int]


class _Marks:
    """Turns marks into steps and generation blocks."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.open: list[_Step] = []
        self.generations: list[int] = []

    def mark(self, mark: Mark, at: int) -> None:
        match mark.kind:
            case "step":
                self._leave(mark.loop, at)
                self.open.append(_Step(mark.loop, at, [mark.message] if mark.message >= 0 else []))
            case "at":
                step = next((step for step in reversed(self.open) if step.loop == mark.loop), None)
                if step and mark.message >= 0 and mark.message not in step.messages:
                    step.messages.append(mark.message)
            case "end":
                self._leave(mark.loop, at)
            case "open":
                self.generations.append(at)
            case _:
                if not self.generations:
                    raise UnprovenError("a generation block that ends before it starts")
                start = self.generations.pop()
                self.trace.generations.append((start, at, self._whose(start)))

    def _leave(self, loop: int, at: int) -> None:
        """End the step of `loop`, and those of loops inside it, if there is one."""
        if not any(step.loop == loop for step in self.open):
            return
        number = -1
        while number != loop:
            step = self.open.pop()
            number = step.loop
            if at > step.start:
                for message in step.messages:
                    self.trace.steps.setdefault(message, []).append((step.start, at))
                if len(step.messages) > 1:
                    self.trace.shared.update(step.messages)

    def _whose(self, start: int) -> int:
        """The message of a generation block from `start` on: the step's, unless its data is of others."""
        message = next((step.messages[-1] for step in reversed(self.open) if step.messages), -1)
        within = takewhile(lambda piece: piece[0] >= start, reversed(self.trace.foreign))
        found = {piece[2] for piece in within if piece[2] >= 0}
        if message < 0 or not found or message in found:
            return message
        return found.pop() if len(found) == 1 else -1

    def close(self) -> None:
        if self.generations or self.open:
            raise UnprovenError("a loop or generation block without its end")


def turn_step(trace: Trace, index: int) -> Span | None:
    """The one loop step that printed message `index`; None if nothing did."""
    if index in trace.shared:
        raise UnprovenError("sets two messages in one step of a loop")
    own = trace.own.get(index, [])
    steps = trace.steps.get(index, [])
    if len(steps) > 1:
        # A loop over the messages may print white space before another prints the turn.
        steps = [
            step for step in steps if trace.text[step[0] : step[1]].strip() or any(_holds(step, place) for place in own)
        ]
    if len(steps) > 1:
        raise UnprovenError("prints an assistant turn more than once")
    if not steps:
        if any(stop > start for start, stop in own):
            raise UnprovenError("prints an assistant turn outside a loop over the messages")
        return None
    if not all(_holds(steps[0], place) for place in own):
        raise UnprovenError("prints part of an assistant turn elsewhere")
    return steps[0]


def _holds(step: Span, place: Span) -> bool:
    return step[0] <= place[0] and place[1] <= step[1]


def inside_of(trace: Trace, begin: int, close: int) -> list[tuple[int, int, int]]:
    """What the template did not write in [begin, close]."""
    at = bisect_left(trace.foreign, (begin, begin, -1))
    found = []
    while at < len(trace.foreign) and trace.foreign[at][0] <= close:
        if trace.foreign[at][1] <= close:
            found.append(trace.foreign[at])
        at += 1
    return found


def written_from(trace: Trace, at: int) -> str:
    """What the template wrote from `at` on without a break."""
    place = bisect_left(trace.template, at, key=lambda span: span[1])
    if place < len(trace.template) and trace.template[place][0] <= at:
        return trace.text[at : trace.template[place][1]]
    return ""


def record_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages as the template sees them: keys with None dropped, names for reasoning filled in.

    A content of None stays: templates test for it, and whoever renders says which spelling of no content is meant.
    """
    return [_message(message, index) for index, message in enumerate(messages)]


def _message(message: Mapping[str, Any], index: int) -> dict[str, Any]:
    traced = {
        key: _value(value, index, _KINDS.get(key, CONTENT))
        for key, value in message.items()
        if value is not None or key == "content"
    }
    role = traced.get("role")
    if isinstance(role, str):
        traced["role"] = data(str.__str__(role), index, CONTENT, role=True, written=role in ROLE_WORDS)
    if any(key in traced for key in REASONING):
        reasoning = next(traced[key] for key in REASONING if key in traced)
        traced = {"thinking": reasoning, **traced, "reasoning_content": reasoning}
    return traced


def record_tools(tools: Sequence[Any]) -> list[Any]:
    """The tools as the template sees them."""
    return [_value(tool, -1, "") for tool in tools]


def _value(value: Any, message: int, kind: str) -> Any:
    """Plain JSON types whose strings remember the message and the kind; any other object becomes its type's name."""
    type_ = type(value)
    if type_ is str:
        return data(value, message, kind)
    if value is None or type_ is int or type_ is float or type_ is bool:
        return value
    if isinstance(value, Mapping):
        return {_key(key): _value(item, message, kind) for key, item in value.items()}
    if isinstance(value, list):
        return [_value(item, message, kind) for item in value]
    if isinstance(value, tuple):
        return tuple(_value(item, message, kind) for item in value)
    if isinstance(value, str):
        return data(str.__str__(value), message, kind)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return data(f"<{type_.__name__}>", message, kind)


def _key(key: Any) -> Any:
    return str.__str__(key) if isinstance(key, str) else key


def constant(value: Any) -> Any:
    """A template argument: its strings count as the template's own."""
    if isinstance(value, str):
        return written(str.__str__(value))
    if isinstance(value, Mapping):
        return {_key(key): constant(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(constant, value))
    return value
