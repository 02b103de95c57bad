"""What rendering hands to the tokenizer: text with trained spans, or ids that were there already."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["EmptyRecordError", "Rendered", "Span", "Tokenized"]

Span = tuple[int, int]


class EmptyRecordError(Exception):
    """The record holds nothing to train on: it is counted as empty, and is no error."""


@dataclass(frozen=True, slots=True)
class Rendered:
    r"""One record as the text that the model will see.

        text      "Q: 1+1?\nA: 2"      the whole of it, encoded once
        trained   ((11, 12),)          the tokens that start in these characters are trained
        template  ()                   characters written by a chat template: only there are control tokens recognised

    Attributes:
        text: the rendered record.
        trained: character ranges [start, stop) of `text`, sorted and disjoint.
        template: character ranges that a chat template wrote, sorted and disjoint; everything else is data, where
            protected tokens are never recognised.
        bos: put the tokenizer's BOS in front, if it has that habit (chat templates write their own).
        eos: put one EOS at the end, trained.
        warnings: short texts, counted by the summary.
    """

    text: str
    trained: tuple[Span, ...]
    template: tuple[Span, ...] = ()
    bos: bool = False
    eos: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tokenized:
    """One record that came as token ids.

    Attributes:
        ids: [tokens] int64.
        trained: [tokens] bool.
    """

    ids: NDArray[np.int64]
    trained: NDArray[np.bool_]
