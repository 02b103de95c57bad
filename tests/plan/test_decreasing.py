"""Fit packers by runs and by trees are exactly the textbook's, sample by sample."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_helpers import ADVERSARIAL, check_invariants, naive_decreasing, naive_fit, packs_of, random_cases

from packtool.plan import STRATEGIES, random_order
from packtool.plan.decreasing import longest_first, place_decreasing
from packtool.plan.online import best_fit_packs, first_fit_packs

BEST = {"ffd": False, "bfd": True}
LIMITS = (None, 1, 2, 3)
by_name = pytest.mark.parametrize("name", BEST)


def expect(name, lengths, size, limit=None):
    layout = STRATEGIES[name](np.array(lengths, np.int64), size, max_samples=limit)
    expected = naive_decreasing(lengths, size, best=BEST[name], max_samples=limit)
    assert check_invariants(layout, lengths, size) == expected, (lengths, size, limit)


@by_name
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(("lengths", "size"), ADVERSARIAL)
def test_exact_on_hard_cases(name, lengths, size, limit):
    expect(name, lengths, size, limit)


@by_name
def test_exact_on_random_cases(name):
    for number, (lengths, size) in enumerate(random_cases(20240, 600)):
        expect(name, lengths, size, LIMITS[number % 4] if number % 3 == 0 else None)


@by_name
def test_exact_on_every_tiny_case(name):
    for size, number in ((4, 6), (5, 5), (7, 4)):
        for lengths in itertools.product(range(1, size + 1), repeat=number):
            layout = STRATEGIES[name](np.array(lengths, np.int64), size)
            assert packs_of(layout) == naive_decreasing(lengths, size, best=BEST[name]), (lengths, size)


def test_ffd_by_hand():
    layout = STRATEGIES["ffd"](np.array([5, 3, 4, 2]), 7)
    assert layout.sample.tolist() == [0, 3, 2, 1]
    assert layout.start.tolist() == [0, 0, 0, 0]
    assert layout.length.tolist() == [5, 2, 4, 3]
    assert layout.pack.tolist() == [0, 0, 1, 1]
    assert layout.num_packs == 2
    assert layout.pack_offsets().tolist() == [0, 2, 4]


def test_bfd_by_hand_where_it_differs_from_ffd():
    lengths = np.array([60, 55, 43, 1, 1])
    # 60, and 55 with 43: 40 and 2 are left. The ones go to the earliest pack, or to the tightest.
    assert packs_of(STRATEGIES["ffd"](lengths, 100)) == [[(0, 0, 60), (3, 0, 1), (4, 0, 1)], [(1, 0, 55), (2, 0, 43)]]
    assert packs_of(STRATEGIES["bfd"](lengths, 100)) == [[(0, 0, 60)], [(1, 0, 55), (2, 0, 43), (3, 0, 1), (4, 0, 1)]]


lists = st.integers(1, 60).flatmap(
    lambda size: st.tuples(st.just(size), st.lists(st.integers(1, size), min_size=1, max_size=80))
)


@given(lists, st.sampled_from(LIMITS), st.booleans())
@settings(max_examples=300, deadline=None)
def test_trees_are_exact_in_any_order(case, limit, best):
    size, lengths = case
    order = random_order(len(lengths), 3)
    packer = best_fit_packs if best else first_fit_packs
    packs = packer(np.array(lengths, np.int32)[order], size, limit or len(lengths))
    expected = naive_fit(lengths, size, order.tolist(), best=best, max_samples=limit)
    got = [[] for _ in range(max(packs) + 1)]
    for sample, pack in zip(order.tolist(), packs, strict=True):
        got[pack].append((sample, 0, lengths[sample]))
    assert got == expected


@given(lists, st.lists(st.integers(0, 60), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_packs_that_are_open_already_are_filled_first(case, spaces):
    """Runs and trees agree with the textbook that begins with those packs, the fuller ones being the older."""
    size, lengths = case
    spaces = [min(space, size) for space in spaces]
    array = np.array(lengths, np.int32)
    order = longest_first(array, size)
    age = {int(pack): place for place, pack in enumerate(np.argsort(spaces, kind="stable"))}
    left = list(spaces)
    expected = []
    for sample in order.tolist():
        fitting = [i for i, space in enumerate(left) if space >= lengths[sample]]
        place = min(fitting, key=lambda i: (left[i], age.get(i, i)), default=len(left))
        if place == len(left):
            left.append(size)
        left[place] -= lengths[sample]
        expected.append(place)
    for cost in (200, 1):  # by runs, and one by one
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("packtool.plan.decreasing._SAMPLE_COST", cost)
            patch.setattr("packtool.plan.decreasing._LENGTH_COST", 0 if cost > 1 else 2000)
            pack, count = place_decreasing(array, order, size, best=True, spaces=np.array(spaces, np.int64))
        assert pack[order].tolist() == expected
        assert count == len(left)


@by_name
def test_too_many_lengths_go_one_by_one_with_the_same_result(name, monkeypatch):
    called = []
    for packer in ("first_fit_packs", "best_fit_packs"):
        real = getattr(__import__("packtool.plan.online", fromlist=[packer]), packer)
        monkeypatch.setattr(
            f"packtool.plan.decreasing.{packer}", lambda *a, real=real, **k: (called.append(1), real(*a, **k))[1]
        )
    rng = random.Random(4)
    lengths = [rng.randint(1, 100_000) for _ in range(900)]
    by_trees = STRATEGIES[name](np.array(lengths), 100_000)
    assert called.pop()
    monkeypatch.setattr("packtool.plan.decreasing._SAMPLE_COST", 10_000)
    by_runs = STRATEGIES[name](np.array(lengths), 100_000)
    assert not called
    assert packs_of(by_runs) == packs_of(by_trees) == naive_decreasing(lengths, 100_000, best=BEST[name])


def test_shuffle_is_best_fit_in_an_order_of_the_seed():
    for seed, (lengths, size) in enumerate(random_cases(99, 200)):
        layout = STRATEGIES["shuffle"](np.array(lengths, np.int64), size, seed=seed)
        expected = naive_fit(lengths, size, random_order(len(lengths), seed).tolist(), best=True)
        assert check_invariants(layout, lengths, size) == expected


@pytest.mark.slow
@by_name
def test_exact_on_many_samples_with_few_lengths(name):
    rng = random.Random(11)
    for size in (64, 257):
        lengths = [min(size, 1 + int(rng.expovariate(5 / size))) for _ in range(4000)]
        expect(name, lengths, size)
