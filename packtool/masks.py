"""Piece lengths to positions, ids, cumulative lengths and masks, in plain numpy.

All functions take `seq_lens`, the lengths of a pack's pieces in order, and `max_seq_len`, the pack's length. What is
left after the last piece is padding: one run with its own positions 0, 1, 2..., belonging to no piece.

    seq_lens = [3, 2]   max_seq_len = 7
    slot         0  1  2  3  4  5  6
    input_pos    0  1  2  0  1  0  1
    piece_ids    1  1  1  2  2  0  0      padding is 0
    cu_seqlens   0        3     5     7   the padding tail is the last segment

Nothing here reads a file or allocates more than its result needs. Sources: flash-attention's varlen convention for
cu_seqlens (int32, starts at 0), torchtune's packed layout for input_pos and the block-causal mask.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packtool.errors import UsageError

__all__ = ["block_causal_mask", "cu_seqlens", "input_pos", "piece_ids"]


def cu_seqlens(seq_lens: ArrayLike, max_seq_len: int) -> NDArray[np.int32]:
    """Cumulative segment ends, for flash-attention's varlen functions.

    Args:
        seq_lens: [pieces] tokens of each piece.
        max_seq_len: slots of the pack.

    Returns:
        [segments + 1] int32, from 0 to `max_seq_len`; the padding tail, if any, is the last segment.

    Raises:
        UsageError: the pieces do not fit, or one is empty.
    """
    lengths = _checked(seq_lens, max_seq_len)
    used = int(lengths.sum())
    tail = [max_seq_len - used] if used < max_seq_len else []
    ends = np.zeros(len(lengths) + 1 + len(tail), np.int32)
    np.cumsum(np.concatenate([lengths, np.array(tail, np.int64)]), out=ends[1:])
    return ends


def input_pos(seq_lens: ArrayLike, max_seq_len: int) -> NDArray[np.int64]:
    """Position of each slot inside its piece; the padding tail counts from 0 on its own.

    Returns:
        [max_seq_len] int64.

    Raises:
        UsageError: the pieces do not fit, or one is empty.
    """
    ends = cu_seqlens(seq_lens, max_seq_len)
    return np.arange(max_seq_len, dtype=np.int64) - np.repeat(ends[:-1].astype(np.int64), np.diff(ends))


def piece_ids(seq_lens: ArrayLike, max_seq_len: int) -> NDArray[np.int32]:
    """Which piece each slot belongs to: 1 for the first, 2 for the second, 0 for padding.

    Returns:
        [max_seq_len] int32.

    Raises:
        UsageError: the pieces do not fit, or one is empty.
    """
    lengths = _checked(seq_lens, max_seq_len)
    ids = np.zeros(max_seq_len, np.int32)
    ids[: int(lengths.sum())] = np.repeat(np.arange(1, len(lengths) + 1, dtype=np.int32), lengths)
    return ids


def block_causal_mask(seq_lens: ArrayLike, max_seq_len: int) -> NDArray[np.bool_]:
    """Which slot may attend to which: earlier slots, and itself, of its own piece only.

        seq_lens = [2, 1]   max_seq_len = 4      query slots go down, key slots go right

            1 . . .
            1 1 . .
            . . 1 .
            . . . 1     padding attends to itself: a row without any True would be NaN after softmax

    Returns:
        [max_seq_len, max_seq_len] bool, a fresh array; True means "may attend".

    Raises:
        UsageError: the pieces do not fit, or one is empty.
    """
    ends = cu_seqlens(seq_lens, max_seq_len)
    mask = np.zeros((max_seq_len, max_seq_len), np.bool_)
    longest = int(np.diff(ends).max())
    triangle = np.tri(longest, dtype=np.bool_)
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        mask[start:stop, start:stop] = triangle[: stop - start, : stop - start]
    return mask


def _checked(seq_lens: ArrayLike, max_seq_len: int) -> NDArray[np.int64]:
    lengths = np.asarray(seq_lens, np.int64).reshape(-1)
    if max_seq_len < 1:
        raise UsageError(f"`max_seq_len` is {max_seq_len}, expected at least 1")
    if lengths.size and int(lengths.min()) < 1:
        raise UsageError(f"`seq_lens` holds {int(lengths.min())}, expected lengths of at least 1")
    if int(lengths.sum()) > max_seq_len:
        raise UsageError(f"`seq_lens` add up to {int(lengths.sum())}, more than `max_seq_len` {max_seq_len}")
    return lengths
