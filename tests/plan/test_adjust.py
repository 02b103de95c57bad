"""More packs for equal ranks, and batches of equal attention cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_helpers import check_invariants, layout_of, packs_of

from packtool.errors import UsageError
from packtool.plan import STRATEGIES, balance_batches, fill_multiple


def test_fill_multiple_by_hand():
    layout = layout_of([[(0, 0, 1), (1, 0, 2), (2, 0, 3)], [(3, 0, 4)]])
    assert packs_of(fill_multiple(layout, 3)) == [[(0, 0, 1), (1, 0, 2)], [(2, 0, 3)], [(3, 0, 4)]]
    assert packs_of(fill_multiple(layout, 4)) == [[(0, 0, 1)], [(1, 0, 2)], [(2, 0, 3)], [(3, 0, 4)]]
    assert fill_multiple(layout, 2) is layout
    assert fill_multiple(layout, 1) is layout


def test_too_few_pieces_for_the_multiple_are_refused():
    layout = layout_of([[(0, 0, 1), (1, 0, 2), (2, 0, 3)], [(3, 0, 4)]])
    with pytest.raises(UsageError, match="4 pieces cannot fill 5 packs, the next multiple of 5"):
        fill_multiple(layout, 5)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=100), st.integers(1, 30), st.sampled_from(list(STRATEGIES)))
@settings(max_examples=200, deadline=None)
def test_fill_multiple_loses_nothing_and_keeps_the_order(lengths, multiple, name):
    before = STRATEGIES[name](np.array(lengths), 20)
    wanted = -(-before.num_packs // multiple) * multiple
    if wanted > len(lengths):
        with pytest.raises(UsageError):
            fill_multiple(before, multiple)
        return
    after = fill_multiple(before, multiple)
    check_invariants(after, lengths, 20)
    assert after.num_packs == wanted
    assert after.sample.tolist() == before.sample.tolist()


def test_balanced_batches_by_hand():
    # Costs 100, 64, 36, 16, 4, 1: in twos, dealt 100 64 36 | 16 4 1, the dearest of the second layer to the least sum.
    layout = layout_of([[(i, 0, length)] for i, length in enumerate([4, 10, 1, 8, 2, 6])])
    packs = packs_of(balance_batches(layout, 2, seed=0))
    batches = [sorted(piece[2] for pack in packs[at : at + 2] for piece in pack) for at in (0, 2, 4)]
    assert sorted(batches) == [[1, 10], [2, 8], [4, 6]]


@given(st.integers(1, 60), st.integers(1, 9), st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_balancing_only_reorders(count, batch, seed):
    lengths = (np.random.PCG64(count).random_raw(count) % 50 + 1).astype(np.int64)
    layout = STRATEGIES["none"](lengths, 50)
    assert sorted(packs_of(balance_batches(layout, batch, seed))) == sorted(packs_of(layout))


def test_batches_cost_nearly_the_same():
    lengths = np.clip(np.random.default_rng(0).lognormal(6, 1, 40_000), 1, 4096).astype(np.int64)
    layout = STRATEGIES["ffd"](lengths, 4096)

    def spread(order):
        cost = np.bincount(order.pack, weights=order.length.astype(float) ** 2)
        sums = cost[: len(cost) // 16 * 16].reshape(-1, 16).sum(axis=1)
        return sums.std() / sums.mean()

    assert spread(balance_batches(layout, 16, seed=1)) < 0.05 * spread(layout)
