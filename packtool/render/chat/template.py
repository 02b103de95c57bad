r"""A conversation to text with trained spans, by the tokenizer's own chat template, in one rendering.

With `{% generation %}` blocks in the template, they are followed exactly. Without, a span starts where the generation
prompt would stop giving the model its turn, and ends after the turn-end token:

    <|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\nso</think>\nhello<|im_end|>\n
    [    template   ]  [               template                 ]  [template]     [ template  ]
                                                        [            trained                 ]

Header and turn end are looked for in what the template wrote, never in data, so no content can move a boundary
(provenance.py says how that is known). What cannot be proven is refused, what is odd is warned of.

Price: about twice the plain rendering. Limits: a template must loop over the messages; the guarantee is about
characters, and tokens that straddle a boundary are the tokenizer step's business.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from jinja2 import TemplateSyntaxError

from packtool.errors import RecordError, UsageError
from packtool.render.chat.boilerplate import boilerplate
from packtool.render.chat.calibrate import (
    UNPROTECTED_MARKS,
    Calibration,
    TurnEndError,
    calibrate,
    common_prefix,
    written_tokens,
)
from packtool.render.chat.environment import compile_template
from packtool.render.chat.trace import (
    Trace,
    UnprovenError,
    constant,
    inside_of,
    record_messages,
    record_tools,
    run,
    turn_step,
    written_from,
)
from packtool.render.lint import (
    HEADER_TRAINED,
    MARKS_WITHOUT_END,
    NO_HEADER,
    NO_TURN_END,
    NOT_RENDERED,
    OTHER_REST,
    TURN_END_INSIDE,
    UNKNOWN_CONTROL,
)
from packtool.render.rendered import Span

__all__ = ["RESERVED_ARGUMENTS", "ChatTemplate", "ChatText"]

RESERVED_ARGUMENTS = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template", "tokenize"}
)
"""Names that a template argument cannot have: records, or `apply_chat_template` itself, give these."""

_MARK_HINT = "mark what the assistant writes with `{% generation %}` and `{% endgeneration %}` in the template"
_END_HINT = ", or name what ends an assistant turn: `--turn-end TEXT`"


@dataclass(frozen=True, slots=True)
class ChatText:
    """A rendered conversation.

    Attributes:
        text: what the template rendered.
        spans: (start, stop, message) of the trained characters, sorted and disjoint; message -1 where a generation
            block is in no loop over messages.
        template: maximal character ranges that the template wrote, sorted and disjoint.
        roles: (start, stop, role) of the messages' characters, header and turn end included, sorted and disjoint.
        warnings: short fixed texts.
        boilerplate: what of the spans the template wrote of its own accord, if that was asked for, sorted and disjoint.
    """

    text: str
    spans: tuple[tuple[int, int, int], ...]
    template: tuple[Span, ...]
    roles: tuple[tuple[int, int, str], ...]
    warnings: tuple[str, ...]
    boilerplate: tuple[Span, ...] = ()


class ChatTemplate:
    """A compiled chat template; made once, used for every record, by any number of threads.

    Attributes:
        name: for messages.
        has_marks: it has generation blocks.
        header: what the model is given of an assistant turn; "" if there is none or it cannot be told.
        generation_prompt: what the template appends when asked for one.
        turn_end: the token or text that ends an assistant turn; "" if it has marks and that cannot be told.
        uses_date: it calls `strftime_now`.
        protected: added tokens that the template writes around turns, which data must not make.
    """

    def __init__(
        self,
        source: str,
        *,
        name: str,
        added_tokens: Sequence[str],
        special: Mapping[str, str],
        arguments: Mapping[str, Any] | None = None,
        turn_end: str = "",
        now: datetime | None = None,
        not_protected: frozenset[str] = UNPROTECTED_MARKS,
    ) -> None:
        """Compile and calibrate.

        Args:
            source: the Jinja text.
            name: what to call the template in messages, such as "chat template `t`".
            added_tokens: contents of the tokenizer's added tokens.
            special: `bos_token`, `eos_token`... as transformers passes them.
            arguments: more variables for the template.
            turn_end: what ends an assistant turn, where that is no added token or not the right one.
            now: what `strftime_now` tells; when the template was made where not given.
            not_protected: added tokens that data may make.
        """
        reserved = sorted(RESERVED_ARGUMENTS.intersection(arguments or ()))
        if reserved:
            raise UsageError(f"chat template argument `{reserved[0]}` cannot be set", hint="it comes from the records")
        self.name = name
        try:
            compiled = compile_template(source, now or datetime.now())
        except TemplateSyntaxError as error:
            raise UsageError(f"{name} does not compile: line {error.lineno}: {error.message}") from error
        except Exception as error:
            raise UsageError(f"{name} does not compile: {_why(error)}") from error
        self._template, self.has_marks, self.uses_date = compiled.template, compiled.has_marks, compiled.uses_date
        self._variables = {key: constant(value) for key, value in {**special, **(arguments or {})}.items()}
        found = self._calibrate(added_tokens, turn_end)
        self.header, self.generation_prompt, self.turn_end = found.header, found.generation_prompt, found.turn_end
        self._header_trained = found.header_trained
        self._rest = found.rest if turn_end else None
        self.protected = written_tokens(self._trace, added_tokens) - not_protected
        # Text that the user named is no control token, unless it is one of those anyway.
        self._controls = self.protected | ({found.turn_end} if found.turn_end and not turn_end else set())

    def _calibrate(self, added_tokens: Sequence[str], turn_end: str) -> Calibration:
        if turn_end and self.has_marks:
            raise UsageError(
                f"`--turn-end` was given, and {self.name} has `{{% generation %}}` marks, which decide",
                hint="leave it out: what the marks enclose is trained",
            )
        try:
            return calibrate(self._trace, added_tokens, turn_end)
        except Exception as error:
            if self.has_marks:
                return Calibration()
            if isinstance(error, UnprovenError):
                reason = str(error)
            else:
                reason = f"raises on a plain conversation of user, assistant, user: {_why(error)}"
            raise UsageError(
                f"cannot tell what the assistant writes: {self.name} {reason}",
                hint=_MARK_HINT + (_END_HINT if isinstance(error, TurnEndError) else ""),
            ) from error

    def _trace(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        *,
        add_generation_prompt: bool = False,
    ) -> Trace:
        return run(
            self._template,
            {
                "messages": record_messages(messages),
                "tools": None if tools is None else record_tools(tools),
                "documents": None,
                "add_generation_prompt": add_generation_prompt,
                **self._variables,
            },
        )

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        *,
        find_boilerplate: bool = False,
    ) -> ChatText:
        """Render one conversation with its trained spans.

        Raises:
            RecordError: the template raises, or the spans cannot be proven, or assistant turns leave none.
        """
        _check(messages, tools)
        try:
            trace = self._trace(messages, tools)
            assistants = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
            warnings: dict[str, None] = {}  # a set in order
            if self.has_marks:
                spans = self._marked(trace, warnings)
            else:
                found = [self._span(trace, index, warnings) for index in assistants]
                spans = sorted(span for span in found if span is not None)
            if any(one[1] > two[0] for one, two in pairwise(spans)):
                raise UnprovenError("assistant turns that lie inside each other")
        except MemoryError:
            raise
        except UnprovenError as error:
            raise RecordError(
                f"cannot tell what the assistant wrote: the chat template {error}; {_roles(messages)}"
            ) from error
        except Exception as error:
            raise RecordError(f"the chat template raised: {_why(error)}; {_roles(messages)}") from error
        if assistants and not spans:
            raise RecordError(f"the chat template left nothing of the assistant turns to train; {_roles(messages)}")
        if any(token in trace.text[start:stop] for start, stop in trace.unknown for token in self._controls):
            warnings[UNKNOWN_CONTROL] = None
        roles = tuple((start, stop, str(messages[message].get("role"))) for start, stop, message in trace.shares())
        own = boilerplate(trace, spans, self.turn_end) if find_boilerplate else ()
        if own and {start for start, _, _ in spans} <= {start for start, _ in own}:
            warnings.pop(HEADER_TRAINED, None)
        return ChatText(trace.text, tuple(spans), tuple(trace.template), roles, tuple(warnings), own)

    def _marked(self, trace: Trace, warnings: dict[str, None]) -> list[tuple[int, int, int]]:
        """The generation blocks, nested ones as one."""
        spans: list[tuple[int, int, int]] = []
        for start, stop, message in sorted(trace.generations):
            if spans and start < spans[-1][1]:
                first, last, outer = spans[-1]
                spans[-1] = (first, max(last, stop), outer)
            elif stop > start:
                spans.append((start, stop, message))
        end = self.turn_end
        for start, stop, _ in spans if end else ():
            data = [piece[1] for piece in inside_of(trace, start, stop)]
            if end not in trace.text[max(data, default=start) : stop] and end in written_from(trace, stop):
                warnings[MARKS_WITHOUT_END] = None
        return spans

    def _span(self, trace: Trace, index: int, warnings: dict[str, None]) -> tuple[int, int, int] | None:
        """Where assistant message `index` is trained; None if the template left the whole turn out."""
        step = turn_step(trace, index)
        if step is None:
            warnings[NOT_RENDERED] = None
            return None
        begin, close = step
        inside = inside_of(trace, begin, close)
        mine = [number for number, piece in enumerate(inside) if piece[2] in (index, -1)]
        here, there = (mine[0], mine[-1] + 1) if mine else (0, 0)
        turn = inside[here:there]
        if any(message not in (index, -1) and stop > start for start, stop, message in turn):
            raise UnprovenError("prints another message inside an assistant turn")
        begin = max((stop for start, stop, _ in inside[:here] if stop > start), default=begin)
        limit = min((start for start, stop, _ in inside[there:] if stop > start), default=close)
        start = self._start(trace.text, begin, turn[0][0] if turn else limit, warnings)
        turn.insert(0, (start, start, index))
        stop = self._stop(trace, turn, limit, warnings)
        if stop is None:
            if limit < close:
                raise UnprovenError("goes on to another message in an assistant turn that has no turn end")
            stop = close
            warnings[NO_TURN_END] = None
        return (start, stop, index) if stop > start else None

    def _start(self, text: str, begin: int, first: int, warnings: dict[str, None]) -> int:
        """The end of what the generation prompt gives; the model writes the rest of text[begin:first]."""
        head = text[begin:first]
        if self._header_trained:
            warnings[HEADER_TRAINED] = None
        shared = common_prefix(self.generation_prompt, head)
        if shared >= len(self.header):
            return begin + shared
        place = head.rfind(self.header)
        if place >= 0:
            return begin + place + common_prefix(self.generation_prompt, head[place:])
        warnings[NO_HEADER] = None
        return first

    def _stop(
        self, trace: Trace, turn: list[tuple[int, int, int]], limit: int, warnings: dict[str, None]
    ) -> int | None:
        """After the turn end that follows the pieces of a turn; None if there is no turn end at all."""
        text, end = trace.text, self.turn_end
        place = text.find(end, turn[-1][1], limit)
        if place >= 0 and text.find(end, place + 1, limit) >= 0:
            raise UnprovenError("prints two turn ends after an assistant turn")
        within = any(text.find(end, one[1], two[0]) >= 0 for one, two in pairwise(turn))
        if place >= 0:
            if within:
                warnings[TURN_END_INSIDE] = None
            if self._rest is not None and text[place + len(end) : limit] not in ("", self._rest):
                warnings[OTHER_REST] = None  # it may be that of a call, or of something else
            return place + len(end)
        unknown = trace.unknown and any(message == -1 and end in text[start:stop] for start, stop, message in turn)
        if within or unknown:
            raise UnprovenError("prints the turn end before, or in one piece with, the last text of an assistant turn")
        return None


def _check(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None) -> None:
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise RecordError(f"`messages[{index}]`: expected an object, got {type(message).__name__}")
    for index, tool in enumerate(tools or ()):
        if not isinstance(tool, Mapping):
            raise RecordError(f"`tools[{index}]`: expected an object, got {type(tool).__name__}")


def _roles(messages: Sequence[Mapping[str, Any]]) -> str:
    roles = [str(message.get("role"))[:20] for message in messages[:12]]
    return f"the roles are {', '.join(roles)}{', ...' if len(messages) > 12 else ''}"


def _why(error: Exception) -> str:
    text = str(getattr(error, "message", None) or error)
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
