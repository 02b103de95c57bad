r"""What a template put into an assistant turn of its own accord: no message contributed it.

    <|im_start|>assistant\n  <think>\n\n</think>\n\n  The answer is:   4  <|im_end|>  \n
                             [         boilerplate          ]            turn end

Not boilerplate, being part of what the assistant says or of how it says it, is

1. white space, and text up to a turn end or the end of the trained part;
2. text that touches a call or thoughts (`<tool_call>\n{"name": "` before a name), or data that is not known to be a
   message's content: JSON that the template made, text of unknown origin;
3. a mark that opens thoughts right before data, and one that closes them right after: templates split thoughts off the
   content and write the marks anew.

A block of thoughts without any in it is boilerplate whatever it touches, also one that starts in the header.

Limit: a text that the template puts in place of another inside a content (`replace`) is the template's.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from packtool.render.chat.provenance import CONTENT
from packtool.render.chat.trace import Trace
from packtool.render.rendered import Span

__all__ = ["boilerplate"]

_NAMES = "think|thinking|thought|reasoning|reflection"
_EMPTY = re.compile(rf"<({_NAMES})>\s*</\1>\s*")
_OPENS = re.compile(rf"\s*<(?:{_NAMES})>\s*\Z")
_CLOSES = re.compile(rf"\s*</(?:{_NAMES})>\s*")


def boilerplate(trace: Trace, spans: Iterable[tuple[int, int, int]], turn_end: str) -> tuple[Span, ...]:
    """The boilerplate in `spans`, sorted and disjoint.

    Args:
        trace: the rendering.
        spans: (start, stop, message) of what the assistant wrote, sorted and disjoint.
        turn_end: the token that ends a turn; "" if that is not known.
    """
    text = trace.text
    ending: dict[int, str] = {}  # place -> kind of the data that ends there
    starting: dict[int, str] = {}
    silent: list[int] = []  # places of contents without text
    for (start, stop, _), kind in zip(trace.foreign, trace.kinds, strict=True):
        if stop > start:
            ending[stop] = starting[start] = kind
        elif kind == CONTENT:
            silent.append(start)
    found: list[Span] = []
    for start, stop, run in _runs(trace, spans):
        low, high = max(run[0], start), min(run[1], stop)
        empty = [match.span() for match in _EMPTY.finditer(text, *run)]
        cuts = {low, high, *silent[bisect_left(silent, low) : bisect_right(silent, high)]}
        cuts |= {at for block in empty for at in block if low < at < high}
        cuts |= _turn_ends(text, turn_end, low, high)
        for first, last in pairwise(sorted(cuts)):
            if any(begin <= first < end for begin, end in empty):
                found.append((first, last))
            elif last != stop and not text[first:last].isspace() and not _turn_ends(text, turn_end, first, last):
                found += _beside(text, first, last, ending.get(first), starting.get(last))
    return tuple(found)


def _runs(trace: Trace, spans: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, Span]]:
    """(start, stop, run) for every span and every range of the template that reaches into it."""
    for start, stop, _ in spans:
        at = bisect_right(trace.template, start, key=lambda run: run[1])
        while at < len(trace.template) and trace.template[at][0] < stop:
            yield start, stop, trace.template[at]
            at += 1


def _turn_ends(text: str, turn_end: str, first: int, last: int) -> set[int]:
    """Where the turn ends in text[first:last] end."""
    found: set[int] = set()
    at = text.find(turn_end, first, last) if turn_end else -1
    while at >= 0:
        found.add(at + len(turn_end))
        at = text.find(turn_end, at + len(turn_end), last)
    return found


def _beside(text: str, first: int, last: int, before: str | None, after: str | None) -> list[Span]:
    """What of the template's text[first:last] is boilerplate, by the kinds of the data that it touches (None: none)."""
    if not {before, after} <= {None, CONTENT}:
        return []
    closes = _CLOSES.match(text, first, last) if before else None
    opens = _OPENS.search(text, first, last) if after else None
    first, last = closes.end() if closes else first, opens.start() if opens else last
    return [(first, last)] if last > first else []
