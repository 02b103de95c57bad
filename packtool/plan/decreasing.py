"""First-fit-decreasing and best-fit-decreasing by runs: exact, and the cost grows with distinct lengths x runs.

Both take samples longest first. First fit puts each into the earliest opened pack with room for it, best fit into the
one with the least room that is enough, the earliest of those. Lengths are small integers, so equal lengths are placed
together: neighbouring packs with the same space left form a run, and `count` samples of one length fill the runs in
order (of opening, or of space), `space // length` to a pack, until they are used up. That is what taking them one by
one does, for a pack that took one sample still comes first for the next: in first fit it is the earliest that fits,
in best fit its space has only become less. Each length splits at most one run, so there are few runs, and numpy works
on all of them at once. Only packs that still have room for the shortest sample stay open.

Where there are nearly as many lengths as samples (a million lengths up to 1,048,576) this is quadratic; the work is
counted, and beyond a budget the samples go one by one through the trees of `online`, with the same result.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packtool.plan.layout import Layout, checked_lengths, in_order, no_packs, sorted_places
from packtool.plan.online import best_fit_packs, first_fit_packs

__all__ = ["best_fit_decreasing", "first_fit_decreasing", "place_decreasing"]

# Work is counted in elements of numpy arrays: a length costs as much as this many, however few runs there are.
_LENGTH_COST = 2000
_SAMPLE_COST = 200  # what one sample costs in the trees, in the same unit

_Runs = NDArray[np.int64]  # [4, runs]: first pack, packs, space left in each, samples that each may still take


def first_fit_decreasing(
    lengths: ArrayLike, max_seq_len: int, *, seed: int = 0, max_samples: int | None = None
) -> Layout:
    """Longest sample first, each into the first pack with room for it.

        first_fit_decreasing([5, 3, 4, 2], max_seq_len=7)  ->  packs {5, 2} and {4, 3}

    Samples of equal length are taken in order. Inside a pack the longest comes first.

    Raises:
        UsageError: a length is below 1 or above `max_seq_len`.
    """
    return _decreasing(lengths, max_seq_len, max_samples, best=False)


def best_fit_decreasing(
    lengths: ArrayLike, max_seq_len: int, *, seed: int = 0, max_samples: int | None = None
) -> Layout:
    """Longest sample first, each into the pack with the least room that is enough for it.

        best_fit_decreasing([6, 5, 3, 2], max_seq_len=8)  ->  packs {6, 2} and {5, 3}

    After `limit_lengths(..., "split")` this is the best-fit packing of Ding et al., "Fewer Truncations Improve
    Language Modeling" (arXiv 2404.10830): long samples are cut at the pack's length, and all pieces packed whole.
    Samples of equal length are taken in order. Inside a pack the longest comes first.

    Raises:
        UsageError: a length is below 1 or above `max_seq_len`.
    """
    return _decreasing(lengths, max_seq_len, max_samples, best=True)


def _decreasing(lengths: ArrayLike, max_seq_len: int, max_samples: int | None, *, best: bool) -> Layout:
    array = checked_lengths(lengths, max_seq_len, max_samples)
    if not array.size:
        return no_packs()
    order = longest_first(array, max_seq_len)
    pack, num_packs = place_decreasing(array, order, max_seq_len, best=best, max_samples=max_samples)
    # A second stable sort, by pack, leaves the longest first inside each.
    return in_order(array, order[np.argsort(pack[order], kind="stable")], pack, num_packs)


def longest_first(lengths: NDArray[np.int32], max_seq_len: int) -> NDArray[np.int64]:
    """Samples by falling length; equal ones in order."""
    return sorted_places(max_seq_len - lengths, max_seq_len)


def place_decreasing(
    lengths: NDArray[np.int32],
    order: NDArray[np.int64],
    max_seq_len: int,
    *,
    best: bool,
    max_samples: int | None = None,
    spaces: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int32], int]:
    """The pack of every sample, and how many packs there are.

    Args:
        lengths: [samples], at least one, all checked.
        order: the samples, longest first.
        max_seq_len: slots of a pack.
        best: best fit; else first fit.
        max_samples: at most this many to a pack.
        spaces: [open] space left in packs that are open already, with best fit only; they are numbered first, and
            count as opened in the order of rising space.
    """
    counts = np.bincount(lengths)
    distinct = np.flatnonzero(counts)[::-1]
    limit = len(lengths) if max_samples is None else max_samples
    names = np.zeros(0, np.int64) if spaces is None else np.argsort(spaces, kind="stable")
    opened = np.zeros(0, np.int64) if spaces is None else spaces[names]
    rows = _placements(distinct, counts[distinct], max_seq_len, limit, opened, best=best)
    pack = np.empty(len(lengths), np.int32)
    if rows is None:
        pack[order] = (best_fit_packs if best else first_fit_packs)(lengths[order], max_seq_len, limit, opened)
    else:
        first, packs, each = rows
        # Expand (first pack, packs, samples in each) to the pack of every sample, longest sample first.
        touched = np.repeat(first - (np.cumsum(packs) - packs), packs) + np.arange(int(packs.sum()), dtype=np.int64)
        pack[order] = np.repeat(touched.astype(np.int32), np.repeat(each, packs))
    num_packs = max(len(opened), int(pack.max()) + 1)
    if len(names):
        pack = np.append(names, np.arange(len(names), num_packs)).astype(np.int32)[pack]
    return pack, num_packs


def _open_runs(spaces: NDArray[np.int64], limit: int) -> _Runs:
    """Runs of packs that are numbered by rising space."""
    heads = np.flatnonzero(np.diff(spaces, prepend=-1))
    packs = np.diff(heads, append=len(spaces))
    return np.stack([heads, packs, spaces[heads], np.full(len(heads), limit)])


def _placements(
    distinct: NDArray[np.int64],
    counts: NDArray[np.int64],
    max_seq_len: int,
    limit: int,
    spaces: NDArray[np.int64],
    *,
    best: bool,
) -> NDArray[np.int64] | None:
    """Where the samples go, longest first: rows of (first pack, how many packs, samples in each).

    None if that would cost more than the trees do.
    """
    runs, opened = _open_runs(spaces, limit), len(spaces)
    shortest = int(distinct[-1])
    budget = _SAMPLE_COST * int(counts.sum()) + 50 * _LENGTH_COST
    rows: list[NDArray[np.int64]] = []
    for length, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        first, packs, space, free = runs
        budget -= _LENGTH_COST + len(first)
        if budget < 0:
            return None
        fits = np.minimum(space // length, free)
        room = np.cumsum(packs * fits)
        full = int(np.searchsorted(room, count, side="right"))  # runs that are filled wholly
        used = fits[:full] > 0
        rows.append(np.stack([first[:full][used], packs[:full][used], fits[:full][used]]))
        left = count - (int(room[full - 1]) if full else 0)
        filled = runs[:, :full].copy()
        filled[2] -= fits[:full] * length
        filled[3] -= fits[:full]
        parts = [filled]
        if full < len(first):  # the samples end inside run `full`
            parts += [_fill(runs[:, full].tolist(), int(fits[full]), left, length, rows), runs[:, full + 1 :]]
        elif left:  # open new packs
            each = min(max_seq_len // length, limit)
            new = -(-left // each)
            parts.append(_fill([opened, new, max_seq_len, limit], each, left, length, rows))
            opened += new
        runs = np.concatenate(parts, axis=1)
        runs = runs[:, (runs[2] >= shortest) & (runs[3] > 0)]
        if best:
            runs = runs[:, np.lexsort((runs[0], runs[2]))]
        runs = _merged(runs)
    return np.concatenate(rows, axis=1)


def _fill(run: list[int], fits: int, count: int, length: int, rows: list[NDArray[np.int64]]) -> _Runs:
    """Put `count` samples into the front of a run that has room for all of them; returns the runs it falls into."""
    first, packs, space, free = run
    whole, rest = divmod(count, fits) if fits else (0, 0)
    pieces = [(first, whole, fits), (first + whole, 1 if rest else 0, rest)]
    rows.append(np.array([piece for piece in pieces if piece[1]], np.int64).reshape(-1, 3).T)
    used = whole + (1 if rest else 0)
    runs = [(start, number, space - each * length, free - each) for start, number, each in pieces if number]
    if used < packs:
        runs.append((first + used, packs - used, space, free))
    return np.array(runs, np.int64).reshape(-1, 4).T


def _merged(runs: _Runs) -> _Runs:
    """Join neighbouring runs with equal space, so that their number stays small."""
    if runs.shape[1] < 2:
        return runs
    first, packs, space, free = runs
    same = (space[1:] == space[:-1]) & (free[1:] == free[:-1]) & (first[:-1] + packs[:-1] == first[1:])
    heads = np.flatnonzero(np.concatenate([[True], ~same]))
    if len(heads) == len(first):
        return runs
    return np.stack([first[heads], np.add.reduceat(packs, heads), space[heads], free[heads]])
