"""What a layout is worth: lower bounds to hold it against, and how varied its packs are."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["lower_bound", "packing_bound", "square_spread", "variance_share"]


def lower_bound(lengths: ArrayLike, max_seq_len: int) -> int:
    """ceil(tokens / max_seq_len): no packing can have fewer packs."""
    return -(-int(np.asarray(lengths).sum(dtype=np.int64)) // max_seq_len)


def packing_bound(lengths: ArrayLike, max_seq_len: int, max_samples: int | None = None) -> int:
    """No packing of whole samples can have fewer packs: the bound L2 of Martello and Toth (1990).

    For each size a up to half a pack: samples above max_seq_len - a (J1) and those above half a pack (J2) take a pack
    each, and what samples of a and more (J3) need beyond the space that J2 leaves takes more. The best over all a.

    Args:
        lengths: [samples], all in 1..max_seq_len.
        max_seq_len: slots of a pack.
        max_samples: at most this many to a pack.
    """
    array = np.asarray(lengths)
    if not array.size:
        return 0
    counts = np.bincount(array, minlength=max_seq_len + 1)
    number = np.cumsum(counts)  # samples up to each length
    tokens = np.cumsum(counts * np.arange(max_seq_len + 1, dtype=np.int64))
    half = max_seq_len // 2
    a = np.arange(half + 1, dtype=np.int64)
    above = number[-1] - number[max_seq_len - a]
    middle = number[max_seq_len - a] - number[half]
    middle_tokens = tokens[max_seq_len - a] - tokens[half]
    below = np.maximum(a - 1, 0)
    small_tokens = tokens[half] - tokens[below]
    more = -(-(small_tokens - (middle * max_seq_len - middle_tokens)) // max_seq_len)
    best = int((above + middle + np.maximum(more, 0)).max())
    return best if max_samples is None else max(best, -(-len(array) // max_samples))


def variance_share(lengths: NDArray[Any], pack: NDArray[Any]) -> float:
    """The part of the variance of log length that lies between packs: 1 where every pack has samples of one length.

    Random order has about packs / samples. 0 where all samples have one length.

    Args:
        lengths: [pieces].
        pack: [pieces] the pack of each.
    """
    logs = np.log(lengths)
    logs -= logs.mean() if len(logs) else 0.0
    total = float((logs * logs).sum())
    count = np.bincount(pack)
    sums = np.bincount(pack, weights=logs)
    return float((sums[count > 0] ** 2 / count[count > 0]).sum() / total) if total > 1e-9 * len(logs) else 0.0


def square_spread(lengths: NDArray[Any], pack: NDArray[Any], num_packs: int) -> tuple[int, int, int]:
    """Least, median and most sum of squared lengths of a pack: what its attention costs.

    Args:
        lengths: [pieces].
        pack: [pieces] the pack of each.
        num_packs: how many packs there are, one at least.
    """
    squares = np.bincount(pack, weights=lengths.astype(np.float64) ** 2, minlength=num_packs)
    return int(squares.min()), int(np.median(squares)), int(squares.max())
