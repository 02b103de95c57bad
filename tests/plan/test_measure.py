"""Bounds and measures by hand."""

import itertools

import numpy as np
import pytest
from plan_helpers import random_cases

from packtool.plan import STRATEGIES, lower_bound, packing_bound, square_spread, variance_share


@pytest.mark.parametrize(
    ("lengths", "bound"), [([], 0), ([1], 1), ([4], 1), ([4, 1], 2), ([3, 3, 3], 3), ([2, 2, 2, 2], 2)]
)
def test_lower_bound(lengths, bound):
    assert lower_bound(np.array(lengths, np.int64), 4) == bound


def test_lower_bound_counts_in_64_bits():
    assert lower_bound(np.full(3, 2**31 - 1, np.int32), 2) == -(-3 * (2**31 - 1) // 2)


@pytest.mark.parametrize(
    ("lengths", "size", "limit", "bound"),
    [
        ([], 4, None, 0),
        ([6, 6, 6], 10, None, 3),  # each above half a pack; ceil(18 / 10) is 2
        ([7, 7, 4, 4], 10, None, 3),  # a = 4: no 7 has room for a 4
        ([5, 5, 5], 10, None, 2),
        ([1] * 9, 10, 2, 5),
        ([10, 10], 10, None, 2),
        ([2, 2], 5, 1, 2),
    ],
)
def test_packing_bound_by_hand(lengths, size, limit, bound):
    assert packing_bound(np.array(lengths, np.int64), size, limit) == bound


def optimum(lengths, size):
    """The fewest packs, by trying them all."""
    for packs in range(1, len(lengths) + 1):
        for places in itertools.product(range(packs), repeat=len(lengths)):
            sums = [0] * packs
            for place, length in zip(places, lengths, strict=True):
                sums[place] += length
            if max(sums) <= size:
                return packs
    return 0


def test_packing_bound_is_a_bound_and_no_weaker_than_the_tokens():
    for size, number in ((5, 4), (7, 4), (10, 4)):
        for lengths in itertools.combinations_with_replacement(range(1, size + 1), number):
            bound = packing_bound(np.array(lengths), size)
            assert lower_bound(np.array(lengths), size) <= bound <= optimum(lengths, size), (lengths, size)


def test_no_strategy_beats_the_bound():
    for lengths, size in random_cases(8, 200):
        for name, limit in itertools.product(STRATEGIES, (None, 2)):
            layout = STRATEGIES[name](np.array(lengths), size, max_samples=limit)
            assert layout.num_packs >= packing_bound(np.array(lengths), size, limit)


def test_variance_share_by_hand():
    lengths = np.exp([1.0, 1.0, 3.0, 3.0])  # logs 1 1 3 3, mean 2, total 4
    assert variance_share(lengths, np.array([0, 0, 1, 1])) == pytest.approx(1.0)
    assert variance_share(lengths, np.array([0, 1, 0, 1])) == pytest.approx(0.0)
    assert variance_share(lengths, np.array([0, 1, 1, 1])) == pytest.approx((1 + 3 * (7 / 3 - 2) ** 2) / 4)
    assert variance_share(np.array([5, 5]), np.array([0, 1])) == 0.0
    assert variance_share(np.zeros(0), np.zeros(0, int)) == 0.0


def test_square_spread_by_hand():
    assert square_spread(np.array([3, 4, 1, 10, 2]), np.array([0, 0, 1, 2, 3]), 4) == (1, (4 + 25) // 2, 100)
