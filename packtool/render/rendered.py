"""What rendering hands to the tokenizer: text with trained spans, or ids that were there already."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CODES", "ROLES", "STRADDLES", "EmptyRecordError", "Rendered", "Span", "Tokenized", "by_role", "code_of"]

Span = tuple[int, int]

ROLES = (
    "template", "system", "developer", "user", "assistant", "tool", "prompt", "completion", "text", "ids"
)  # fmt: skip
"""Whose a token can be; `template` is what nobody said. A token's code is twice the place in here, + 1 if trained."""
CODES = 2 * len(ROLES)
STRADDLES = 0x80
"""Bit of a code: the token starts before a trained range and ends in it."""
_CODE = {role: 2 * place for place, role in enumerate(ROLES)}


class EmptyRecordError(Exception):
    """The record holds nothing to train on: it is counted as empty, and is no error."""


@dataclass(frozen=True, slots=True)
class Rendered:
    r"""One record as the text that the model will see.

        text      "Q: 1+1?\nA: 2"      the whole of it, encoded once
        trained   ((11, 12),)          the tokens that start in these characters are trained
        template  ()                   characters written by a chat template: only there are control tokens recognised
        roles     ((0, 11, "prompt"), (11, 12, "completion"))

    Attributes:
        text: the rendered record.
        trained: character ranges [start, stop) of `text`, sorted and disjoint.
        template: character ranges that a chat template wrote, sorted and disjoint; everything else is data, where
            protected tokens are never recognised.
        roles: (start, stop, role) of whose the characters are, sorted and disjoint; the rest is `template`.
        bos: put the tokenizer's BOS in front, if it has that habit (chat templates write their own).
        eos: put one EOS at the end, trained; it has the role of the last range.
        warnings: short texts, counted by the summary.
    """

    text: str
    trained: tuple[Span, ...]
    template: tuple[Span, ...] = ()
    roles: tuple[tuple[int, int, str], ...] = ()
    bos: bool = False
    eos: bool = False
    warnings: tuple[str, ...] = ()

    def changes(self) -> list[tuple[int, int]]:
        """(character, by how much the code of what starts from there on changes), in no order; they sum to 0."""
        found = []
        for start, stop in self.trained:
            found += [(start, 1), (stop, -1)]
        for start, stop, role in self.roles:
            found += [(start, _CODE[role]), (stop, -_CODE[role])]
        return found

    @property
    def eos_code(self) -> int:
        """The code of the EOS at the end."""
        return code_of(self.roles[-1][2] if self.roles else "template", trained=True)


@dataclass(frozen=True, slots=True)
class Tokenized:
    """One record that came as token ids.

    Attributes:
        ids: [tokens] int64.
        trained: [tokens] bool.
    """

    ids: NDArray[np.int64]
    trained: NDArray[np.bool_]


def code_of(role: str, *, trained: bool) -> int:
    """The code of a token."""
    return _CODE[role] + trained


def by_role(counts: NDArray[np.int64]) -> dict[str, tuple[int, int]]:
    """Role -> (tokens, trained tokens), for the roles that have any.

    Args:
        counts: [CODES] tokens of each code.
    """
    pairs = zip(ROLES, counts[0::2].tolist(), counts[1::2].tolist(), strict=True)
    return {role: (untrained + trained, trained) for role, untrained, trained in pairs if untrained + trained}
