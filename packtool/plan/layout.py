"""The plan's result, and what can be done to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packtool.errors import UsageError

__all__ = [
    "Layout",
    "checked_lengths",
    "from_packs",
    "no_packs",
    "random_order",
    "shuffle_packs",
    "sorted_places",
    "take_packs",
]


@dataclass(frozen=True, slots=True)
class Layout:
    """Pieces in the order in which they will lie on disk: by pack, then by place in the pack.

        sample  [2, 0, 1, 3]     pieces of samples 2, 0, 1 and 3
        start   [0, 0, 0, 0]     each from its first token
        length  [5, 2, 4, 3]     tokens of each
        pack    [0, 0, 1, 1]     two packs: 5+2 and 4+3

    Attributes:
        sample, start, length, pack: [pieces] int32, or int64 where a number does not fit; `pack` never falls and
            leaves no number out.
        num_packs: how many packs there are.
    """

    sample: NDArray[Any]
    start: NDArray[Any]
    length: NDArray[Any]
    pack: NDArray[Any]
    num_packs: int

    def pack_offsets(self) -> NDArray[np.int64]:
        """[packs + 1]: pack i has the pieces offsets[i]..offsets[i + 1]."""
        offsets = np.zeros(self.num_packs + 1, np.int64)
        np.cumsum(np.bincount(self.pack, minlength=self.num_packs), out=offsets[1:])
        return offsets


def checked_lengths(lengths: ArrayLike, max_seq_len: int, max_samples: int | None = None) -> NDArray[np.int32]:
    """`lengths` as int32, after checking that every sample fits into a pack.

    Raises:
        UsageError: a length is below 1 or above `max_seq_len`, or a limit is none.
    """
    array = np.asarray(lengths).reshape(-1)
    if not 1 <= max_seq_len < 2**31:
        raise UsageError(f"`max_seq_len` is {max_seq_len}, expected 1 to {2**31 - 1}")
    if max_samples is not None and max_samples < 1:
        raise UsageError(f"`max_samples` is {max_samples}, expected at least 1")
    if array.size and (int(array.min()) < 1 or int(array.max()) > max_seq_len):
        at = int(np.flatnonzero((array < 1) | (array > max_seq_len))[0])
        raise UsageError(
            f"sample {at} has {int(array[at])} tokens, expected 1 to {max_seq_len}",
            hint="apply `limit_lengths` first: it truncates, drops or splits what is too long",
        )
    return array.astype(np.int32, copy=False)


def from_packs(lengths: NDArray[np.int32], pack: NDArray[Any], num_packs: int) -> Layout:
    """The layout that has whole samples in given packs; inside a pack they keep their order.

    Args:
        lengths: [samples].
        pack: [samples] the pack of each; every pack has one at least.
        num_packs: how many packs there are.
    """
    return in_order(lengths, np.argsort(pack, kind="stable"), pack, num_packs)


def in_order(lengths: NDArray[np.int32], sample: NDArray[Any], pack: NDArray[Any], num_packs: int) -> Layout:
    """The layout of whole samples, given in the order in which they lie; `pack` is by sample."""
    sample = sample.astype(np.int32 if len(lengths) < 2**31 else np.int64)
    return Layout(sample, np.zeros(len(sample), np.int32), lengths[sample], pack[sample].astype(np.int32), num_packs)


def no_packs() -> Layout:
    """The layout of no sample."""
    empty = np.zeros(0, np.int32)
    return Layout(empty, empty, empty, empty, 0)


def random_order(count: int, seed: int) -> NDArray[np.int64]:
    """A permutation of 0..count - 1 that numpy promises to be the same for ever.

    numpy keeps the raw stream of PCG64 stable between versions, but not `permutation()`; so this sorts raw output.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable").astype(np.int64, copy=False)


def sorted_places(values: NDArray[Any], largest: int) -> NDArray[np.int64]:
    """Stable argsort of integers in 0..largest; numpy sorts 16-bit ones by radix, several times as fast."""
    narrow = np.uint16 if largest < 2**16 else values.dtype
    return np.argsort(values.astype(narrow, copy=False), kind="stable")


def shuffle_packs(layout: Layout, seed: int) -> Layout:
    """The same packs in an order drawn with `seed`; pieces keep their places inside a pack."""
    return take_packs(layout, random_order(layout.num_packs, seed))


def take_packs(layout: Layout, packs: NDArray[np.int64]) -> Layout:
    """The packs named by `packs`, in that order; the rest is left out."""
    offsets = layout.pack_offsets()
    counts = (offsets[1:] - offsets[:-1])[packs]
    total = int(counts.sum())
    first_of_pack = np.cumsum(counts) - counts
    pieces = np.repeat(offsets[:-1][packs] - first_of_pack, counts) + np.arange(total, dtype=np.int64)
    return Layout(
        sample=layout.sample[pieces],
        start=layout.start[pieces],
        length=layout.length[pieces],
        pack=np.repeat(np.arange(len(packs), dtype=np.int32), counts),
        num_packs=len(packs),
    )
