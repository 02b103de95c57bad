"""Next fit: samples stay in order; a pack is closed when the next sample does not fit. One pack is open at a time.

The boundaries come from a binary search on the cumulative lengths, one step a pack, so the cost is packs x
log(samples). `one_stream` cuts instead of closing: every pack but the last is full, and a sample may begin in one pack
and go on in the next.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packtool.plan.layout import Layout, checked_lengths

__all__ = ["next_fit", "one_stream"]


def next_fit(lengths: ArrayLike, max_seq_len: int, *, seed: int = 0) -> Layout:
    """Fill packs in sample order.

        next_fit([3, 3, 2, 5], max_seq_len=6)  ->  pack [0, 0, 1, 2]      3+3, 2, 5

    Raises:
        UsageError: a length is below 1 or above `max_seq_len`.
    """
    array = checked_lengths(lengths, max_seq_len)
    ends = np.cumsum(array)
    firsts = []  # the first sample of each pack
    sample, filled = 0, 0
    while sample < len(array):
        firsts.append(sample)
        sample = int(np.searchsorted(ends, filled + max_seq_len, side="right"))
        filled = int(ends[sample - 1])
    pack = np.zeros(len(array), np.int64)
    pack[firsts[1:]] = 1
    return Layout(
        sample=np.arange(len(array), dtype=np.int64),
        start=np.zeros(len(array), np.int64),
        length=array,
        pack=np.cumsum(pack),
        num_packs=len(firsts),
    )


def one_stream(lengths: NDArray[np.int64], max_seq_len: int) -> Layout:
    """One stream of all samples in order, cut every `max_seq_len` tokens; samples of any length.

    one_stream([3, 6, 1], max_seq_len=4)  ->  sample [0 1 1 1 2]  start [0 0 1 5 0]  length [3 1 4 1 1]
                                              pack   [0 0 1 2 2]
    """
    ends = np.cumsum(lengths)
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
