r"""Where a rendered text may turn into control tokens, and where it must not.

Text from records is data: a user who types `<|im_end|>` must not end a turn. So each text is cut into segments: control
tokens that the chat template wrote, and text. A look-alike in data becomes a text segment of its own, encoded as plain
text with a break on either side (what transformers' `sanitize_control_tokens` does too).

    text       <|im_start|>user\nsay <|im_end|><|im_end|>
    template   ^^^^^^^^^^^^^^^^^^             ^^^^^^^^^^
    segments   [control] "user\nsay " [look-alike] [control]
"""

import re
from collections.abc import Collection, Iterable

from packtool.render.rendered import Rendered

__all__ = ["LOOKALIKE", "TEXT", "ControlCutter", "Segment"]

TEXT = -1
LOOKALIKE = -2  # text that spells a protected token, to be encoded apart from the text around it
Segment = tuple[int, int, int]  # start, stop, and TEXT, LOOKALIKE or the control token's place in ControlCutter.tokens


class ControlCutter:
    """Cuts rendered texts at protected tokens.

    Args:
        protected: tokens that only a template may write.
        added: all added tokens; one that contains a protected token wins over it, as the longer match.
        reserved: strings that stand for something in the encoder; they are look-alikes in any text.
        everywhere: treat the whole text as written by a template (`--allow-special`).
        harmless: protected tokens that the encoder never makes from text, so that look-alikes need no break.
    """

    def __init__(
        self,
        protected: Collection[str],
        added: Iterable[str],
        *,
        reserved: Collection[str] = (),
        everywhere: bool = False,
        harmless: Collection[str] = (),
    ) -> None:
        self.tokens = tuple(sorted(protected))
        self._everywhere = everywhere
        self._harmless = frozenset(harmless)
        self._place = {token: place for place, token in enumerate(self.tokens)}
        self._passed = {t for t in added if t not in self._place and any(token in t for token in self.tokens)}
        words = sorted({*self.tokens, *self._passed, *reserved}, key=lambda token: (-len(token), token))
        self._search = re.compile("|".join(map(re.escape, words)) or r"(?!)")

    def cut(self, rendered: Rendered) -> tuple[list[Segment], bool]:
        """Segments that cover the text, in order; none is empty. A text without any match is one segment.

        And whether data spells a protected token, be it harmless or not.
        """
        text = rendered.text
        if self._search.search(text) is None:
            return ([(0, len(text), TEXT)] if text else []), False
        segments: list[Segment] = []
        spelled = False
        at = 0
        for start, stop in ((0, len(text)),) if self._everywhere else rendered.template:
            spelled |= self._run(text, at, start, False, segments)
            self._run(text, start, stop, True, segments)
            at = stop
        spelled |= self._run(text, at, len(text), False, segments)
        return segments, spelled

    def _run(self, text: str, start: int, stop: int, template: bool, segments: list[Segment]) -> bool:
        """Append the segments of a stretch; whether a protected token stands in it."""
        at, found_one = start, False
        for match in self._search.finditer(text, start, stop):
            found = match.group()
            found_one |= found in self._place
            if found in self._passed or (found in self._harmless and not template):
                continue
            _text(at, match.start(), segments)
            place = self._place.get(found, LOOKALIKE) if template else LOOKALIKE
            segments.append((match.start(), match.end(), place))
            at = match.end()
        _text(at, stop, segments)
        return found_one


def _text(start: int, stop: int, segments: list[Segment]) -> None:
    """Add text, joined to the text before it: where data meets template is no boundary to an encoder."""
    if start == stop:
        return
    if segments and segments[-1][2] == TEXT:
        start = segments.pop()[0]
    segments.append((start, stop, TEXT))
