"""Slow definitions of plans, and the lengths to try them on."""

import itertools
import random

import numpy as np

from packtool.plan import Layout, lower_bound


def packs_of(layout):
    """A layout as lists of (sample, start, length), pack by pack; fails where packs are out of order or missing."""
    packs = [[] for _ in range(layout.num_packs)]
    before = 0
    for sample, start, length, pack in zip(
        layout.sample.tolist(), layout.start.tolist(), layout.length.tolist(), layout.pack.tolist(), strict=True
    ):
        assert before <= pack < layout.num_packs
        before = pack
        packs[pack].append((sample, start, length))
    assert all(packs), "a pack without pieces"
    return packs


def check_invariants(layout, lengths, max_seq_len, *, whole=True):
    """Every token of every sample is in the layout once, and no pack is over-full."""
    for array in (layout.sample, layout.start, layout.length, layout.pack):
        assert array.dtype in (np.int32, np.int64)
        assert array.shape == layout.sample.shape
    packs = packs_of(layout)
    assert all(sum(length for _, _, length in pack) <= max_seq_len for pack in packs)
    assert all(length >= 1 for pack in packs for _, _, length in pack)
    tokens = sorted((sample, token) for pack in packs for sample, start, n in pack for token in range(start, start + n))
    assert tokens == [(sample, token) for sample, n in enumerate(lengths) for token in range(n)]
    if whole:
        assert all((start, length) == (0, lengths[sample]) for pack in packs for sample, start, length in pack)
    assert layout.num_packs >= lower_bound(lengths, max_seq_len)
    return packs


def naive_fit(lengths, max_seq_len, order, *, best, max_samples=None):
    """The textbook: samples in `order`, each into the first pack with room, or into the one with the least of it."""
    packs, spaces = [], []
    for sample in order:
        length = lengths[sample]
        open_packs = [
            i for i, space in enumerate(spaces) if space >= length and (not max_samples or len(packs[i]) < max_samples)
        ]
        if open_packs:
            pack = min(open_packs, key=lambda i: (spaces[i], i)) if best else open_packs[0]
        else:
            pack = len(packs)
            packs.append([])
            spaces.append(max_seq_len)
        packs[pack].append((sample, 0, length))
        spaces[pack] -= length
    return packs


def naive_decreasing(lengths, max_seq_len, *, best, max_samples=None):
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    return naive_fit(lengths, max_seq_len, order, best=best, max_samples=max_samples)


def naive_next_fit(lengths, max_seq_len, max_samples=None):
    packs = []
    for sample, length in enumerate(lengths):
        full = not packs or sum(n for _, _, n in packs[-1]) + length > max_seq_len
        if full or (max_samples and len(packs[-1]) == max_samples):
            packs.append([])
        packs[-1].append((sample, 0, length))
    return packs


def naive_one_stream(lengths, max_seq_len):
    """Lay every token down by itself, then join neighbours of one sample in one pack."""
    stream = [(sample, token) for sample, length in enumerate(lengths) for token in range(length)]
    packs = []
    for begin in range(0, len(stream), max_seq_len):
        row = stream[begin : begin + max_seq_len]
        packs.append([])
        for sample, run in itertools.groupby(row, key=lambda item: item[0]):
            tokens = [token for _, token in run]
            packs[-1].append((sample, tokens[0], len(tokens)))
    return packs


def random_cases(seed, count):
    """Lengths of many shapes: even, skewed, all alike, around halves and thirds (where first fit is at its worst)."""
    rng = random.Random(seed)
    for _ in range(count):
        size = rng.choice([1, 2, 3, 7, 10, 16, 60, 100, 331])
        number = rng.choice([1, 2, 5, 30, 120])
        shape = rng.randrange(6)
        if shape == 0:
            lengths = [rng.randint(1, size) for _ in range(number)]
        elif shape == 1:
            lengths = [min(size, 1 + int(rng.expovariate(4 / size))) for _ in range(number)]
        elif shape == 2:
            lengths = [rng.choice([size, 1]) for _ in range(number)]
        elif shape == 3:
            near = [size // 2 + d for d in (-1, 0, 1)] + [size // 3 + d for d in (0, 1)] + [size // 6 + 1]
            lengths = [min(size, max(1, rng.choice(near))) for _ in range(number)]
        elif shape == 4:
            lengths = [rng.randint(1, size)] * number
        else:
            lengths = sorted((rng.randint(1, size) for _ in range(number)), reverse=rng.random() < 0.5)
        yield lengths, size


ADVERSARIAL = [
    ([], 5),
    ([5], 5),
    ([1] * 17, 4),
    ([4, 4, 4, 3, 3, 3, 1, 1, 1], 4),
    # Johnson's family: 11 OPT / 9. Six of each length but the last twelve.
    ([51] * 6 + [27] * 6 + [26] * 6 + [23] * 12, 101),
    # One run is split again and again: every length lands in the middle of a run of equal packs.
    ([60] * 9 + [33] * 4 + [31] * 3 + [20] * 2 + [7] * 11 + [6] * 5 + [1] * 30, 100),
    # Runs that became equal again must not change who comes first.
    ([50, 50, 50, 30, 30, 20, 20, 20, 10, 10, 10, 10], 100),
    (list(range(1, 41)), 41),
    (list(range(40, 0, -1)), 53),
]


def layout_of(packs):
    """A Layout from lists of (sample, start, length)."""
    pieces = [(*piece, number) for number, pack in enumerate(packs) for piece in pack]
    columns = [np.array([piece[i] for piece in pieces], np.int64) for i in range(4)]
    return Layout(*columns, num_packs=len(packs))
