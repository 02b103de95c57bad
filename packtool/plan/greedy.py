"""Next fit: samples stay in order; a pack is closed when the next sample does not fit. One pack is open at a time.

The boundaries come from a binary search on the cumulative lengths, one step a pack, so the cost is packs x
log(samples). `one_stream` cuts instead of closing: every pack but the last is full, and a sample may begin in one pack
and go on in the next.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packtool.plan.layout import Layout, checked_lengths, from_packs, no_packs

__all__ = ["consecutive", "next_fit", "one_a_pack", "one_stream"]


def next_fit(lengths: ArrayLike, max_seq_len: int, *, seed: int = 0, max_samples: int | None = None) -> Layout:
    """Fill packs in sample order.

        next_fit([3, 3, 2, 5], max_seq_len=6)  ->  pack [0, 0, 1, 2]      3+3, 2, 5

    Raises:
        UsageError: a length is below 1 or above `max_seq_len`.
    """
    array = checked_lengths(lengths, max_seq_len, max_samples)
    if not array.size:
        return no_packs()
    pack = consecutive(array, max_seq_len, max_samples)
    return from_packs(array, pack, int(pack[-1]) + 1)


def one_a_pack(lengths: ArrayLike, max_seq_len: int, *, seed: int = 0, max_samples: int | None = None) -> Layout:
    """No packing: every sample in a pack of its own, for comparisons.

    Raises:
        UsageError: a length is below 1 or above `max_seq_len`.
    """
    array = checked_lengths(lengths, max_seq_len, max_samples)
    return from_packs(array, np.arange(len(array)), len(array))


def consecutive(lengths: NDArray[np.int32], max_seq_len: int, max_samples: int | None) -> NDArray[np.int32]:
    """[samples] the pack of each, filled in the order given; at least one sample."""
    ends = np.cumsum(lengths, dtype=np.int64)
    count = len(lengths)
    limit = count if max_samples is None else max_samples
    firsts = []  # the first sample of each pack
    sample, filled = 0, 0
    while sample < count:
        firsts.append(sample)
        sample = min(int(ends.searchsorted(filled + max_seq_len, side="right")), sample + limit)
        filled = int(ends[sample - 1])
    pack = np.zeros(count, np.int32)
    pack[firsts[1:]] = 1
    return np.cumsum(pack, out=pack)


def one_stream(lengths: NDArray[Any], max_seq_len: int) -> Layout:
    """One stream of all samples in order, cut every `max_seq_len` tokens; samples of any length.

    one_stream([3, 6, 1], max_seq_len=4)  ->  sample [0 1 1 1 2]  start [0 0 1 5 0]  length [3 1 4 1 1]
                                              pack   [0 0 1 2 2]
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.arange(0, total, max_seq_len, dtype=np.int64)
    at = np.union1d(cuts, ends - lengths)  # where pieces begin in the stream: at cuts and at samples' starts
    sample = np.searchsorted(ends, at, side="right").astype(np.int64)
    return Layout(
        sample=sample,
        start=at - (ends - lengths)[sample],
        length=np.diff(at, append=total),
        pack=at // max_seq_len,
        num_packs=len(cuts),
    )
