r"""Strings that remember where their characters came from.

A `Traced` is a `str` that carries a list of parts (length, origin, offset in the origin's text). The operations that
chat templates use (`+`, slices, strip, split, replace, join) carry the parts along; every other operation of `str`
gives a plain `str`, which counts as text of unknown origin. So what says TEMPLATE provably descends from the
template's own constants; nothing else does.

    "<|im_start|>" + message.role + "\n"     ->  parts (12, TEMPLATE, 0) (4, role of message 0, 0) (1, TEMPLATE, 0)

A part of length zero is kept when it is data (an empty content has a place too) or a mark: loop steps and
`{% generation %}` blocks travel through the text as empty strings.

Price: one Python call an operation, one tuple a part. Nothing is shared between renderings, so threads do not meet.
"""
# ruff: noqa: D102  the methods of `str` are documented elsewhere

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex

__all__ = [
    "CALL",
    "CONTENT",
    "TEMPLATE",
    "THOUGHT",
    "UNKNOWN",
    "Mark",
    "Origin",
    "Part",
    "Traced",
    "concat",
    "data",
    "written",
]

CONTENT, CALL, THOUGHT = "content", "call", "thought"
"""Kinds of a message's data: of a tool call, of its thoughts, and whatever else it says."""


@dataclass(slots=True, eq=False)  # not frozen: that triples the price of making one
class Origin:
    """Where characters came from; told apart by identity, never changed.

    Attributes:
        message: index of the message, -1 for the template, the tools and what is unknown.
        text: the source, to prove the characters against.
        role: it is the message's role, not its content.
        written: it counts as written by the template.
        kind: CONTENT, CALL or THOUGHT; "" if it is of no one field, as JSON of a whole message is.
    """

    message: int
    text: str = ""
    role: bool = False
    written: bool = False
    kind: str = ""


@dataclass(slots=True, eq=False)
class Mark:
    """A place in the text; never changed.

    Attributes:
        kind: "step" (a loop's body starts), "at" (it has set its message), "end" (the loop is over), "open" and
            "close" (a generation block).
        loop: number of the loop in the template.
        message: index of the message that the loop is at, -1 if its variable is none.
    """

    kind: str
    loop: int = -1
    message: int = -1


TEMPLATE = Origin(-1, written=True)
UNKNOWN = Origin(-1)

Part = tuple[int, Origin | Mark, int]
"""Length, origin, offset in the origin's text (-1: derived from it, as by `upper`)."""

_new = str.__new__


class Traced(str):
    """A string with the origin of its characters; equal to the plain string in every other way."""

    __slots__ = ("_parts",)
    _parts: tuple[Part, ...]

    def __new__(cls, value: object = "", parts: tuple[Part, ...] | None = None) -> "Traced":
        self = _new(cls, value)
        # Jinja's `format` wrapper makes one from text alone.
        self._parts = ((len(self), UNKNOWN, 0),) if parts is None else parts
        return self

    def __str__(self) -> "Traced":
        # Compiled templates print `str(value)`: this is how parts reach the output.
        return self

    def __add__(self, other: str, /) -> "Traced":
        if type(other) is Traced:
            parts = self._parts + other._parts
        elif type(other) is str:
            parts = (*self._parts, (len(other), UNKNOWN, 0))
        else:
            return NotImplemented  # a Markup escapes its left neighbour
        return _make(str.__add__(self, other), parts)

    def __radd__(self, other: str, /) -> "Traced":
        if type(other) is not str:
            return NotImplemented
        return _make(str.__add__(other, self), ((len(other), UNKNOWN, 0), *self._parts))

    def __mul__(self, count: SupportsIndex, /) -> "Traced":
        text = str.__mul__(self, count)
        return _make(text, self._parts * max(count.__index__(), 0))

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice, /) -> str:
        text = str.__getitem__(self, key)
        if not isinstance(key, slice):
            start = key.__index__()
            start += len(self) if start < 0 else 0
            return self._cut(start, start + 1)
        start, _, step = key.indices(len(self))
        return self._cut(start, start + len(text)) if step == 1 else text

    def __iter__(self) -> Iterator[str]:  # type: ignore[override,unused-ignore]  # a str iterates over str
        return (self._cut(at, at + 1) for at in range(len(self)))

    def _cut(self, start: int, stop: int, *, marks: bool = False) -> "Traced":
        """The characters [start, stop); `marks` keeps marks from outside, moved to the nearer edge."""
        text = str.__getitem__(self, slice(start, stop))
        if len(self._parts) == 1:
            length, origin, offset = self._parts[0]
            if type(origin) is Origin:
                return _make(text, ((len(text), origin, offset + start if offset >= 0 else -1),))
        kept: list[Part] = []
        at = 0
        for part in self._parts:
            length, origin, offset = part
            first, last = max(at, start), min(at + length, stop)
            if last > first:
                kept.append((last - first, origin, offset + first - at if offset >= 0 else -1))
            elif length == 0 and (start <= at <= stop or (marks and type(origin) is Mark)):
                kept.append(part)
            elif start == stop and length and at <= start <= at + length and origin is not TEMPLATE:
                kept.append((0, origin, offset + start - at if offset >= 0 else -1))
            at += length
        return _make(text, tuple(kept))

    def strip(self, chars: str | None = None, /) -> "Traced":
        start = len(self) - len(str.lstrip(self, chars))
        stop = max(start, len(str.rstrip(self, chars)))
        return self if stop - start == len(self) else self._cut(start, stop, marks=True)

    def lstrip(self, chars: str | None = None, /) -> "Traced":
        start = len(self) - len(str.lstrip(self, chars))
        return self._cut(start, len(self), marks=True) if start else self

    def rstrip(self, chars: str | None = None, /) -> "Traced":
        stop = len(str.rstrip(self, chars))
        return self if stop == len(self) else self._cut(0, stop, marks=True)

    def removeprefix(self, prefix: str, /) -> "Traced":
        return self._cut(len(prefix), len(self)) if prefix and self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> "Traced":
        return self._cut(0, len(self) - len(suffix)) if suffix and self.endswith(suffix) else self

    def _place(self, pieces: Iterable[str], gap: int | None) -> list[str]:
        """Cut `pieces` out of this string, `gap` characters apart (None: wherever the next one is found)."""
        placed: list[str] = []
        at = 0
        for piece in pieces:
            start = self.find(piece, at) if gap is None else at
            placed.append(self._cut(start, start + len(piece)))
            at = start + len(piece) + (gap or 0)
        return placed

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._place(str.split(self, sep, maxsplit), None if sep is None else len(sep))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._place(str.rsplit(self, sep, maxsplit), None if sep is None else len(sep))

    def splitlines(self, keepends: bool = False) -> list[str]:
        whole = self._place(str.splitlines(self, True), 0)
        if keepends:
            return whole
        return [line[: len(bare)] for line, bare in zip(whole, str.splitlines(self), strict=True)]

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        head, middle, tail = self._place(str.partition(self, sep), 0)
        return head, middle, tail

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        head, middle, tail = self._place(str.rpartition(self, sep), 0)
        return head, middle, tail

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        text = str.replace(self, old, new, count)
        if not old or type(old) not in (str, Traced) or type(new) not in (str, Traced):
            return text
        if old not in self:
            return self
        pieces = str.split(self, old, count)
        return (new if type(new) is Traced else Traced(new)).join(self._place(pieces, len(old)))

    def _derived(self, text: str) -> str:
        """`text`, whose characters were all made from those of one origin; else a plain string."""
        if len(self._parts) != 1:
            return text
        return _make(text, ((len(text), self._parts[0][1], -1),))

    def upper(self) -> str:
        return self._derived(str.upper(self))

    def lower(self) -> str:
        return self._derived(str.lower(self))

    def capitalize(self) -> str:
        return self._derived(str.capitalize(self))

    def title(self) -> str:
        return self._derived(str.title(self))

    def swapcase(self) -> str:
        return self._derived(str.swapcase(self))

    def casefold(self) -> str:
        return self._derived(str.casefold(self))

    def join(self, iterable: Iterable[str], /) -> "Traced":
        items = list(iterable)
        text = str.join(self, items)
        parts: list[Part] = []
        for number, item in enumerate(items):
            if number:
                parts += self._parts
            parts += item._parts if type(item) is Traced else ((len(item), UNKNOWN, 0),)
        return _make(text, tuple(parts))


def _make(text: str, parts: tuple[Part, ...]) -> Traced:
    # A third of the price of Traced(text, parts).
    made = _new(Traced, text)
    made._parts = parts
    return made


def data(text: str, message: int, kind: str, *, role: bool = False, written: bool = False) -> Traced:
    """A string of a record."""
    return _make(text, ((len(text), Origin(message, text, role, written, kind), 0),))


def written(text: str) -> Traced:
    """A string of the template."""
    return _make(text, ((len(text), TEMPLATE, 0),) if text else ())


def concat(pieces: Iterable[Any]) -> Traced:
    """What Jinja does with `"".join` in macros, set blocks and `~`."""
    return _EMPTY.join(pieces)


_EMPTY = written("")
