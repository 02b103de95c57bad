"""`mixed` keeps every promise of a layout, is as full as the decreasing packers, and as varied as random order."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_helpers import ADVERSARIAL, check_invariants, random_cases

from packtool.plan import STRATEGIES, packing_bound, variance_share
from packtool.plan.mixed import _matched, _renumbered

mixed = STRATEGIES["mixed"]


def lognormal(count, mean, sigma, size, seed=0):
    draws = np.random.default_rng(seed).lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    return np.clip(np.rint(draws), 1, size).astype(np.int64)


@pytest.mark.parametrize("limit", [None, 1, 2, 3])
@pytest.mark.parametrize(("lengths", "size"), ADVERSARIAL)
def test_promises_on_hard_cases(lengths, size, limit):
    layout = mixed(np.array(lengths, np.int64), size, max_samples=limit)
    packs = check_invariants(layout, lengths, size)
    assert all(len(pack) <= (limit or len(lengths)) for pack in packs)


def test_promises_on_random_cases():
    for seed, (lengths, size) in enumerate(random_cases(5, 250)):
        for limit in (None, 4):
            packs = check_invariants(mixed(np.array(lengths), size, seed=seed, max_samples=limit), lengths, size)
            assert all(len(pack) <= (limit or len(lengths)) for pack in packs)


@given(
    st.integers(2, 5000).flatmap(
        lambda size: st.tuples(st.just(size), st.lists(st.integers(1, size), min_size=1, max_size=400))
    ),
    st.integers(0, 2**63 - 1),
)
@settings(max_examples=100, deadline=None)
def test_promises_hold_for_any_lengths_and_seed(case, seed):
    size, lengths = case
    check_invariants(mixed(np.array(lengths), size, seed=seed), lengths, size)


@pytest.mark.parametrize(
    ("count", "mean", "sigma", "size"),
    [
        (20_000, 100, 0.8, 4096), (20_000, 300, 0.8, 4096), (20_000, 1200, 0.7, 4096), (20_000, 2000, 0.5, 4096),
        (20_000, 1000, 1.0, 131_072), (3_000, 1200, 0.7, 4096), (100_000, 100, 0.8, 4096),
    ],
)  # fmt: skip
def test_as_full_as_ffd_and_as_varied_as_random_order(count, mean, sigma, size):
    lengths = lognormal(count, mean, sigma, size)
    layout, ffd, shuffle = (STRATEGIES[name](lengths, size, seed=1) for name in ("mixed", "ffd", "shuffle"))
    assert packing_bound(lengths, size) <= layout.num_packs <= ffd.num_packs
    share, ffd_share, floor = (variance_share(one.length, one.pack) for one in (layout, ffd, shuffle))
    assert share < 1.2 * floor
    assert share < 0.9 * ffd_share


def test_the_seed_decides():
    lengths = lognormal(500, 100, 0.8, 1024)
    one, same, other = (mixed(lengths, 1024, seed=seed) for seed in (1, 1, 2))
    assert one.sample.tolist() == same.sample.tolist()
    assert one.sample.tolist() != other.sample.tolist()


_DIGEST = """
import hashlib, numpy as np
from packtool.plan import STRATEGIES
lengths = np.random.PCG64(5).random_raw(30000) % 900 + 1
lengths[::7] += 3000
whole = hashlib.sha256()
for name, strategy in STRATEGIES.items():
    layout = strategy(lengths.astype(np.int64), 4096, seed=9)
    for column in (layout.sample, layout.start, layout.length, layout.pack):
        whole.update(np.asarray(column, "<i8").tobytes())
print(whole.hexdigest())
"""


def test_layouts_are_the_same_for_ever_on_any_processor():
    """Without AVX2 and AVX512, under other hash seeds, and for other versions of numpy: this very digest."""
    expected = "018ba264618a2a5666199c21b672a1c2ddddc7bdc0d28b3f9f1445125241ae84"
    for features, hash_seed in (("", "0"), ("AVX512F AVX512CD AVX512_SKX AVX2 FMA3", "123")):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "NPY_DISABLE_CPU_FEATURES": features}
        command = [sys.executable, "-W", "ignore", "-c", _DIGEST]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert result.stdout.strip() == expected


def test_matched_takes_equal_values_first_and_no_place_twice():
    wanted, sums = np.array([3, 5, 5, 5, 9]), np.array([1, 2, 4, 5, 5, 8])
    # 5 and 5 take the two fives; 3 takes the 2 below it, the third 5 the 4, the 9 the 8.
    assert _matched(wanted, sums).tolist() == [1, 3, 4, 2, 5]
    assert _matched(np.array([2]), np.array([3])).tolist() == [-1]
    assert _matched(np.array([7, 7]), np.array([5])).tolist() in ([0, -1], [-1, 0])


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_matched_never_exceeds_what_is_wanted(wanted, sums):
    wanted, sums = np.sort(np.array(wanted)), np.sort(np.array(sums))
    at = _matched(wanted, sums)
    taken = at[at >= 0]
    assert len(set(taken.tolist())) == len(taken)
    assert (sums[taken] <= wanted[at >= 0]).all()
    for value in set(wanted.tolist()) & set(sums.tolist()):
        equal = np.count_nonzero(sums[taken] == wanted[at >= 0][np.arange(len(taken))])
        assert equal >= 1, value


@pytest.mark.parametrize(
    ("count", "freed", "free", "moved"),
    [(6, [1, 2], [1, 2], [4, 5]), (6, [4, 5], [], []), (6, [0, 5], [0], [4]), (3, [0, 1, 2], [], [])],
)
def test_renumbered_closes_the_holes(count, freed, free, moved):
    got = _renumbered(count, np.array(freed))
    assert (got[0].tolist(), got[1].tolist()) == (free, moved)
