"""First fit and best fit, one sample after the other in any order: O(samples x log packs), plain Python.

The slow forms, for orders and lengths that `decreasing` cannot take in runs. First fit walks down a tree of the most
space in each half of the packs; best fit looks up the least space that is enough in a bit set of the spaces that
occur, two levels of Python integers. About 3 microseconds a sample.
"""

import heapq
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from packtool.plan.layout import Layout, checked_lengths, in_order, no_packs, random_order

__all__ = ["best_fit_packs", "first_fit_packs", "shuffled_best_fit"]


def shuffled_best_fit(lengths: ArrayLike, max_seq_len: int, *, seed: int = 0, max_samples: int | None = None) -> Layout:
    """Samples in an order drawn with `seed`, each into the pack with the least room that is enough for it.

    Inside a pack samples lie in that order too.

    Raises:
        UsageError: a length is below 1 or above `max_seq_len`.
    """
    array = checked_lengths(lengths, max_seq_len, max_samples)
    if not array.size:
        return no_packs()
    order = random_order(len(array), seed)
    limit = len(array) if max_samples is None else max_samples
    packs = best_fit_packs(array[order], max_seq_len, limit)
    pack = np.empty(len(array), np.int32)
    pack[order] = packs
    return in_order(array, order[np.argsort(pack[order], kind="stable")], pack, max(packs) + 1)


def first_fit_packs(lengths: NDArray[np.int32], max_seq_len: int, limit: int, spaces: Iterable[int] = ()) -> list[int]:
    """The pack of every sample, taken one after the other.

    Args:
        lengths: [samples], at least one.
        max_seq_len: slots of a pack.
        limit: at most this many samples to a pack.
        spaces: space left in packs that are open already, which are numbered first.
    """
    given = list(map(int, spaces))
    # First fit leaves at most one pack that is half full or less, and at most one that has fewer than half its samples.
    tokens = int(lengths.sum(dtype=np.int64))
    most = min(len(lengths), 2 * (tokens // max_seq_len) + 2 * (len(lengths) // limit) + 3) + len(given)
    leaves = 1 << max(most - 1, 0).bit_length()
    # A pack that is not opened yet is one with all its space, behind those that are.
    tree = [0] * leaves + given + [max_seq_len] * (leaves - len(given))
    for node in range(leaves - 1, 0, -1):
        tree[node] = max(tree[2 * node], tree[2 * node + 1])
    taken = [0] * leaves
    packs = []
    for length in lengths.tolist():
        node = 1
        while node < leaves:
            node *= 2
            if tree[node] < length:
                node += 1
        pack = node - leaves
        packs.append(pack)
        taken[pack] += 1
        tree[node] = 0 if taken[pack] == limit else tree[node] - length
        while node > 1:
            node //= 2
            left, right = tree[2 * node], tree[2 * node + 1]
            most_space = left if left > right else right
            if tree[node] == most_space:
                break
            tree[node] = most_space
    return packs


def best_fit_packs(lengths: NDArray[np.int32], max_seq_len: int, limit: int, spaces: Iterable[int] = ()) -> list[int]:
    """The pack of every sample, taken one after the other; arguments as for `first_fit_packs`."""
    bits = 1 << (max_seq_len.bit_length() + 1) // 2  # spaces in one word of the lower level
    words = [0] * (max_seq_len // bits + 1)
    summary = 0  # which words have a bit set
    at: dict[int, list[int]] = {}  # space -> packs that have it, a heap
    taken: list[int] = []

    def put(space: int, pack: int) -> None:
        nonlocal summary
        heap = at.setdefault(space, [])
        if not heap:
            words[space // bits] |= 1 << space % bits
            summary |= 1 << space // bits
        heapq.heappush(heap, pack)

    for pack, space in enumerate(spaces):
        taken.append(0)
        if space:
            put(int(space), pack)
    packs = []
    for length in lengths.tolist():
        word = length // bits
        found = words[word] >> length % bits
        if found:
            space = length + (found & -found).bit_length() - 1
        else:
            later = summary >> word + 1
            if later:
                word += (later & -later).bit_length()
                space = word * bits + (words[word] & -words[word]).bit_length() - 1
            else:
                space = -1
        if space < 0:
            pack, space = len(taken), max_seq_len
            taken.append(0)
        else:
            heap = at[space]
            pack = heapq.heappop(heap)
            if not heap:
                words[word] &= ~(1 << space % bits)
                if not words[word]:
                    summary &= ~(1 << word)
        packs.append(pack)
        taken[pack] += 1
        if space > length and taken[pack] < limit:
            put(space - length, pack)
    return packs
