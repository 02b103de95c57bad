"""Orders, streams, policies and what is done to layouts, against slow definitions in plain Python."""

import random

import numpy as np
import pytest
from plan_helpers import (
    ADVERSARIAL,
    check_invariants,
    layout_of,
    naive_next_fit,
    naive_one_stream,
    packs_of,
    random_cases,
)

from packtool.errors import UsageError
from packtool.plan import (
    OVERLONG,
    STRATEGIES,
    limit_lengths,
    one_stream,
    random_order,
    shuffle_packs,
    take_packs,
)


def test_greedy_by_hand():
    layout = STRATEGIES["greedy"](np.array([3, 3, 2, 5]), 6)
    assert packs_of(layout) == [[(0, 0, 3), (1, 0, 3)], [(2, 0, 2)], [(3, 0, 5)]]


@pytest.mark.parametrize(("lengths", "size"), ADVERSARIAL)
def test_greedy_is_next_fit_on_hard_cases(lengths, size):
    layout = STRATEGIES["greedy"](np.array(lengths, np.int64), size)
    assert check_invariants(layout, lengths, size) == naive_next_fit(lengths, size)


def test_greedy_is_next_fit_and_keeps_order_on_random_cases():
    for lengths, size in random_cases(7, 400):
        for limit in (None, 1, 3):
            layout = STRATEGIES["greedy"](np.array(lengths, np.int64), size, max_samples=limit)
            expected = naive_next_fit(lengths, size, limit)
            assert check_invariants(layout, lengths, size) == expected, (lengths, size, limit)
        assert layout.sample.tolist() == list(range(len(lengths)))


def test_one_stream_by_hand():
    layout = one_stream(np.array([3, 6, 1]), 4)
    assert layout.sample.tolist() == [0, 1, 1, 1, 2]
    assert layout.start.tolist() == [0, 0, 1, 5, 0]
    assert layout.length.tolist() == [3, 1, 4, 1, 1]
    assert layout.pack.tolist() == [0, 0, 1, 2, 2]
    assert layout.num_packs == 3


def test_one_stream_fills_every_pack_but_the_last():
    rng = random.Random(3)
    for _ in range(300):
        size = rng.randint(1, 12)
        lengths = [rng.randint(1, 3 * size) for _ in range(rng.randint(0, 12))]
        layout = one_stream(np.array(lengths, np.int64), size)
        packs = check_invariants(layout, lengths, size, whole=False)
        assert packs == naive_one_stream(lengths, size), (lengths, size)
        assert layout.num_packs == -(-sum(lengths) // size)


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_empty_list_gives_an_empty_layout(name):
    layout = STRATEGIES[name](np.zeros(0, np.int64), 8)
    assert (layout.num_packs, len(layout.sample), layout.pack_offsets().tolist()) == (0, 0, [0])
    assert one_stream(np.zeros(0, np.int64), 8).num_packs == 0


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_leave_their_argument_alone_and_repeat_themselves(name):
    lengths = np.array([3, 1, 4, 1, 5, 2, 6], np.int64)
    one, other = STRATEGIES[name](lengths, 6, seed=1), STRATEGIES[name](lengths, 6, seed=1)
    assert lengths.tolist() == [3, 1, 4, 1, 5, 2, 6]
    assert packs_of(one) == packs_of(other)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(
    ("lengths", "size", "message"),
    [
        ([3, 9, 0], 8, "sample 1 has 9 tokens, expected 1 to 8"),
        ([3, 0, 9], 8, "sample 1 has 0 tokens, expected 1 to 8"),
        ([-2], 8, "sample 0 has -2 tokens, expected 1 to 8"),
        ([1], 0, "`max_seq_len` is 0, expected 1 to 2147483647"),
    ],
)
def test_lengths_that_do_not_fit_are_named(name, lengths, size, message):
    with pytest.raises(UsageError) as caught:
        STRATEGIES[name](np.array(lengths, np.int64), size)
    assert caught.value.message == message
    assert bool(caught.value.hint) == (size > 0)  # the remedy for samples; a wrong `size` needs none


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_limit_of_no_samples_is_refused(name):
    with pytest.raises(UsageError, match="`max_samples` is 0, expected at least 1"):
        STRATEGIES[name](np.array([1]), 4, max_samples=0)


def test_none_is_one_sample_a_pack():
    assert packs_of(STRATEGIES["none"](np.array([3, 1, 2]), 4)) == [[(0, 0, 3)], [(1, 0, 1)], [(2, 0, 2)]]


def test_the_registry_cannot_be_changed():
    assert list(STRATEGIES) == ["mixed", "ffd", "bfd", "shuffle", "greedy", "none"]
    with pytest.raises(TypeError):
        STRATEGIES["mine"] = None


# ------------------------------------------------------------------------------------------------- limit_lengths

# Six samples against packs of 4. The first trained token of each stands where the star is.
#   sample 0   .*.       sample 1   ..*.      sample 2   .*........   (10 tokens)
#   sample 3   .....*... (9 tokens, trained only beyond a pack)       sample 4   ... (never)   sample 5   ...... (never)
LENGTHS = [3, 4, 10, 9, 3, 6]
FIRSTS = [1, 2, 1, 5, 3, 6]


@pytest.mark.parametrize(
    ("policy", "items", "untrained"),
    [
        ("truncate", [(0, 0, 3), (1, 0, 4), (2, 0, 4)], [0, 0, 0, 1, 1, 1]),
        ("drop", [(0, 0, 3), (1, 0, 4)], [0, 0, 0, 0, 1, 0]),
        ("error", [(0, 0, 3), (1, 0, 4)], [0, 0, 0, 0, 1, 0]),
        (
            "split",
            [(0, 0, 3), (1, 0, 4), (2, 0, 4), (2, 4, 4), (2, 8, 2), (3, 0, 4), (3, 4, 4), (3, 8, 1)],
            [0, 0, 0, 0, 1, 1],
        ),
    ],
)
def test_policies_by_hand(policy, items, untrained):
    got = limit_lengths(np.array(LENGTHS), np.array(FIRSTS), 4, policy)
    assert list(zip(got.sample.tolist(), got.start.tolist(), got.length.tolist(), strict=True)) == items
    assert got.too_long.tolist() == [False, False, True, True, False, True]
    assert got.untrained.astype(int).tolist() == untrained
    assert all(array.dtype == np.int64 for array in (got.sample, got.start, got.length))


@pytest.mark.parametrize("policy", OVERLONG)
def test_a_sample_of_exactly_a_pack_is_not_too_long(policy):
    got = limit_lengths(np.array([4]), np.array([3]), 4, policy)
    assert (got.sample.tolist(), got.start.tolist(), got.length.tolist()) == ([0], [0], [4])
    assert not got.too_long.any()
    assert not got.untrained.any()


def test_truncation_that_cuts_off_the_first_trained_token_drops_the_sample():
    for first, kept in ((3, True), (4, False)):
        got = limit_lengths(np.array([5]), np.array([first]), 4, "truncate")
        assert (len(got.sample) == 1) == kept
        assert got.untrained.tolist() == [not kept]


@pytest.mark.parametrize("policy", OVERLONG)
def test_no_samples_no_items(policy):
    got = limit_lengths(np.zeros(0, np.int64), np.zeros(0, np.int64), 4, policy)
    assert [len(a) for a in (got.sample, got.start, got.length, got.too_long, got.untrained)] == [0] * 5


def test_an_unknown_policy_is_named():
    with pytest.raises(UsageError) as caught:
        limit_lengths(np.array([1]), np.array([0]), 4, "squeeze")
    assert caught.value.message == (
        "overlong policy `squeeze` is unknown, expected one of truncate, drop, split, error"
    )


# ------------------------------------------------------------------------------------------------------- shuffling

# numpy promises never to change the raw stream of PCG64; so these numbers, and the order they sort into, are pinned.
RAW_OF_SEED_0 = [
    11749869230777074271, 4976686463289251617, 755828109848996024, 304881062738325533, 15002187965291974971,
    16837368535893154894, 11190454901533422207, 13456836363123071557, 10028111089635196863, 17249041691996241901,
]  # fmt: skip


def test_random_order_is_the_sorted_raw_stream_of_pcg64():
    assert np.random.PCG64(0).random_raw(10).tolist() == RAW_OF_SEED_0
    assert random_order(10, 0).tolist() == [3, 2, 1, 8, 6, 0, 7, 4, 5, 9]


@pytest.mark.parametrize("seed", [0, 1, 17, 2**63 - 1])
@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_random_order_is_a_permutation(seed, count):
    order = random_order(count, seed)
    assert sorted(order.tolist()) == list(range(count))
    assert order.tolist() == random_order(count, seed).tolist()
    assert order.dtype == np.int64


def test_seeds_give_different_orders():
    assert len({tuple(random_order(20, seed).tolist()) for seed in range(50)}) == 50


PACKS = [[(0, 0, 3)], [(1, 0, 1), (2, 0, 1), (3, 5, 2)], [(4, 0, 2), (5, 0, 2)], [(6, 0, 1)], [(7, 2, 4), (8, 0, 1)]]


def test_shuffle_moves_packs_and_nothing_inside_them():
    got = packs_of(shuffle_packs(layout_of(PACKS), seed=0))
    # The first five raw numbers of seed 0, smallest first: places 3, 2, 1, 0, 4.
    assert got == [PACKS[3], PACKS[2], PACKS[1], PACKS[0], PACKS[4]]
    assert packs_of(shuffle_packs(layout_of(PACKS), seed=0)) == got
    assert sorted(packs_of(shuffle_packs(layout_of(PACKS), seed=5))) == sorted(PACKS)


def test_take_packs_keeps_the_order_it_is_given():
    assert packs_of(take_packs(layout_of(PACKS), np.array([4, 1]))) == [PACKS[4], PACKS[1]]
    assert packs_of(take_packs(layout_of(PACKS), np.array([0]))) == [PACKS[0]]
    assert take_packs(layout_of(PACKS), np.zeros(0, np.int64)).num_packs == 0


def test_pack_offsets():
    assert layout_of(PACKS).pack_offsets().tolist() == [0, 1, 4, 6, 7, 9]
