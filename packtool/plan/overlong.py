"""What happens to samples longer than a pack, before anything is packed.

policy    a sample of 10 tokens, max_seq_len 4
truncate  [0..4)                       6 tokens lost
drop      -                           10 tokens lost
split     [0..4) [4..8) [8..10)        nothing lost; each piece's first target is
error     the job refuses, naming the first such record (that is the caller's part)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from packtool.errors import UsageError

__all__ = ["OVERLONG", "Items", "limit_lengths"]

OVERLONG = ("truncate", "drop", "split", "error")


@dataclass(frozen=True, slots=True)
class Items:
    """What is to be packed.

    Attributes:
        sample, start, length: [items] int64, in sample order; several items of one sample where it was split.
        too_long: [samples] bool: longer than a pack.
        untrained: [samples] bool: dropped because no trained token would be left.
    """

    sample: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    too_long: NDArray[np.bool_]
    untrained: NDArray[np.bool_]


def limit_lengths(lengths: NDArray[np.int64], first_trained: NDArray[np.int64], max_seq_len: int, policy: str) -> Items:
    """Cut or drop what is longer than a pack, and drop what would be left without a trained token.

    Args:
        lengths: [samples] tokens of each, at least 1.
        first_trained: [samples] place of each sample's first trained token, or its length where there is none.
        max_seq_len: slots of a pack.
        policy: one of OVERLONG; `error` is treated like `drop` here.

    Raises:
        UsageError: the policy is unknown.
    """
    if policy not in OVERLONG:
        raise UsageError(f"overlong policy `{policy}` is unknown, expected one of {', '.join(OVERLONG)}")
    too_long = lengths > max_seq_len
    if policy == "split":
        untrained = first_trained >= lengths
        keep = ~untrained
        kept = np.flatnonzero(keep)
        pieces = -(-lengths[kept] // max_seq_len)
        sample = np.repeat(kept, pieces)
        number = np.arange(len(sample), dtype=np.int64) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        start = number * max_seq_len
        length = np.minimum(lengths[sample] - start, max_seq_len)
        return Items(sample, start, length, too_long, untrained)
    untrained = first_trained >= np.minimum(lengths, max_seq_len)
    if policy != "truncate":
        untrained &= ~too_long  # a sample that is dropped for its length has that as its one reason
    kept = np.flatnonzero(~untrained & ~(too_long & (policy != "truncate")))
    length = np.minimum(lengths[kept], max_seq_len)
    return Items(kept, np.zeros(len(kept), np.int64), length, too_long, untrained)
