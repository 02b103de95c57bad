"""First-fit-decreasing by runs: exact, and its cost grows with distinct lengths x runs, not with samples.

First-fit-decreasing takes samples longest first and puts each into the earliest opened pack it fits. Lengths are small
integers, so equal lengths are placed together: neighbouring packs with the same space left form a run, and `count`
samples of one length fill the runs in order, `space // length` to a pack, until they are used up. Each length splits
at most one run, so there are few runs; numpy works on all of them at once.

Only packs that still have room for the shortest sample are kept among the open runs.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packtool.plan.layout import Layout, checked_lengths

__all__ = ["first_fit_decreasing"]


def first_fit_decreasing(lengths: ArrayLike, max_seq_len: int, *, seed: int = 0) -> Layout:
    """Longest sample first, each into the first pack with room for it.

        first_fit_decreasing([5, 3, 4, 2], max_seq_len=7)  ->  packs {5, 2} and {4, 3}

    Samples of equal length are taken in order. Inside a pack the longest comes first.

    Raises:
        UsageError: a length is below 1 or above `max_seq_len`.
    """
    array = checked_lengths(lengths, max_seq_len)
    if not array.size:
        empty = np.zeros(0, np.int64)
        return Layout(empty, empty, empty, empty, 0)
    order = np.argsort(-array, kind="stable")
    distinct, counts = np.unique(array, return_counts=True)
    first, packs, each = _placements(distinct[::-1], counts[::-1], max_seq_len)
    # Expand (first pack, packs, samples in each) to the pack of every sample, longest sample first.
    touched = np.repeat(first - (np.cumsum(packs) - packs), packs) + np.arange(int(packs.sum()), dtype=np.int64)
    pack_in_order = np.repeat(touched, np.repeat(each, packs))
    place = np.argsort(pack_in_order, kind="stable")
    sample = order[place]
    return Layout(
        sample=sample,
        start=np.zeros(len(array), np.int64),
        length=array[sample],
        pack=pack_in_order[place],
        num_packs=int(pack_in_order.max()) + 1,
    )


def _placements(
    distinct: NDArray[np.int64], counts: NDArray[np.int64], max_seq_len: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Where the samples go, longest first: rows of (first pack, how many packs, samples in each)."""
    shortest = int(distinct[-1])
    rows: list[NDArray[np.int64]] = []
    runs = np.zeros((3, 0), np.int64)  # first pack, packs, space left in each; in the order the packs were opened
    opened = 0
    for length, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        first, packs, space = runs
        fits = space // length
        room = np.cumsum(packs * fits)
        full = int(np.searchsorted(room, count, side="right"))  # runs that are filled wholly
        rows.append(np.stack([first[:full], packs[:full], fits[:full]])[:, fits[:full] > 0])
        space = space.copy()
        space[:full] -= fits[:full] * length
        left = count - (int(room[full - 1]) if full else 0)
        parts = [np.stack([first[:full], packs[:full], space[:full]])]
        if full < len(first):  # the samples end inside run `full`
            split = _fill(int(first[full]), int(packs[full]), int(space[full]), int(fits[full]), left, length, rows)
            parts += [split, np.stack([first[full + 1 :], packs[full + 1 :], space[full + 1 :]])]
        elif left:  # open new packs
            each = max_seq_len // length
            new = -(-left // each)
            parts.append(_fill(opened, new, max_seq_len, each, left, length, rows))
            opened += new
        runs = np.concatenate(parts, axis=1)
        runs = _merged(runs[:, runs[2] >= shortest])
    placed = np.concatenate(rows, axis=1)
    return placed[0], placed[1], placed[2]


def _fill(
    first: int, packs: int, space: int, fits: int, count: int, length: int, rows: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Put `count` samples into the front of a run that has room for all of them; returns the runs it falls into."""
    whole, rest = divmod(count, fits) if fits else (0, 0)
    pieces = [(first, whole, fits), (first + whole, 1 if rest else 0, rest)]
    rows.append(np.array([piece for piece in pieces if piece[1]], np.int64).reshape(-1, 3).T)
    used = whole + (1 if rest else 0)
    runs = [(start, number, space - each * length) for start, number, each in pieces if number]
    if used < packs:
        runs.append((first + used, packs - used, space))
    return np.array(runs, np.int64).reshape(-1, 3).T


def _merged(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Join neighbouring runs with equal space, so that their number stays small."""
    if runs.shape[1] < 2:
        return runs
    first, packs, space = runs
    same = (space[1:] == space[:-1]) & (first[:-1] + packs[:-1] == first[1:])
    heads = np.flatnonzero(np.concatenate([[True], ~same]))
    if len(heads) == len(first):
        return runs
    return np.stack([first[heads], np.add.reduceat(packs, heads), space[heads]])
