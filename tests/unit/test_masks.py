"""Masks against hand-drawn tables and a slow definition: one slot at a time, from the words of the specification."""

import itertools

import numpy as np
import pytest

from packtool.errors import UsageError
from packtool.masks import block_causal_mask, cu_seqlens, input_pos, piece_ids


def every_pack(max_seq_len):
    """All ways to fill a pack of `max_seq_len` slots with pieces, the empty one included."""
    for count in range(max_seq_len + 1):
        for lengths in itertools.product(range(1, max_seq_len + 1), repeat=count):
            if sum(lengths) <= max_seq_len:
                yield list(lengths)


def slots_of(seq_lens, max_seq_len):
    """(segment, position) of each slot, counted out; the padding is segment -1."""
    slots = [(piece, place) for piece, length in enumerate(seq_lens) for place in range(length)]
    return slots + [(-1, place) for place in range(max_seq_len - len(slots))]


def test_the_drawn_example():
    assert input_pos([3, 2], 7).tolist() == [0, 1, 2, 0, 1, 0, 1]
    assert piece_ids([3, 2], 7).tolist() == [1, 1, 1, 2, 2, 0, 0]
    assert cu_seqlens([3, 2], 7).tolist() == [0, 3, 5, 7]
    assert block_causal_mask([2, 1], 4).astype(int).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]


def test_a_full_pack_has_no_padding_segment():
    assert cu_seqlens([4, 3], 7).tolist() == [0, 4, 7]
    assert piece_ids([4, 3], 7).tolist() == [1, 1, 1, 1, 2, 2, 2]
    assert input_pos([4, 3], 7).tolist() == [0, 1, 2, 3, 0, 1, 2]


def test_a_pack_without_pieces_is_all_padding():
    assert cu_seqlens([], 3).tolist() == [0, 3]
    assert piece_ids([], 3).tolist() == [0, 0, 0]
    assert input_pos([], 3).tolist() == [0, 1, 2]
    assert block_causal_mask([], 2).tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("max_seq_len", [1, 2, 3, 5, 6])
def test_every_small_pack_follows_the_slow_definition(max_seq_len):
    tried = 0
    for seq_lens in every_pack(max_seq_len):
        tried += 1
        slots = slots_of(seq_lens, max_seq_len)
        assert input_pos(seq_lens, max_seq_len).tolist() == [place for _, place in slots]
        assert piece_ids(seq_lens, max_seq_len).tolist() == [segment + 1 for segment, _ in slots]
        bounds = [0, *itertools.accumulate(seq_lens)]
        assert cu_seqlens(seq_lens, max_seq_len).tolist() == bounds + [max_seq_len] * (bounds[-1] < max_seq_len)
        mask = block_causal_mask(seq_lens, max_seq_len)
        for query, key in itertools.product(range(max_seq_len), repeat=2):
            expected = key <= query and slots[key][0] == slots[query][0]
            assert mask[query, key] == expected, (seq_lens, query, key)
    assert tried == 2**max_seq_len  # compositions of 0..n: nothing was left out


def test_dtypes_and_shapes():
    seq_lens = np.array([2, 3], np.int32)
    assert cu_seqlens(seq_lens, 8).dtype == np.int32  # what flash-attention takes
    assert input_pos(seq_lens, 8).dtype == np.int64
    assert piece_ids(seq_lens, 8).dtype == np.int32
    mask = block_causal_mask(seq_lens, 8)
    assert mask.dtype == np.bool_
    assert mask.shape == (8, 8)


def test_no_row_of_a_mask_is_empty():
    for seq_lens in ([], [1], [3, 2], [5]):
        assert block_causal_mask(seq_lens, 5).any(axis=1).all()


def test_a_mask_is_a_fresh_array_and_arguments_stay_as_they_were():
    seq_lens = np.array([2, 1], np.int64)
    mask = block_causal_mask(seq_lens, 4)
    mask[:] = False
    assert block_causal_mask(seq_lens, 4)[0, 0]
    assert seq_lens.tolist() == [2, 1]


FUNCTIONS = [cu_seqlens, input_pos, piece_ids, block_causal_mask]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("seq_lens", "max_seq_len", "message"),
    [
        ([1], 0, "`max_seq_len` is 0, expected at least 1"),
        ([], -3, "`max_seq_len` is -3, expected at least 1"),
        ([2, 0, 1], 5, "`seq_lens` holds 0, expected lengths of at least 1"),
        ([2, -1], 5, "`seq_lens` holds -1, expected lengths of at least 1"),
        ([3, 3], 5, "`seq_lens` add up to 6, more than `max_seq_len` 5"),
    ],
)
def test_what_cannot_be_a_pack_is_refused(function, seq_lens, max_seq_len, message):
    with pytest.raises(UsageError) as caught:
        function(seq_lens, max_seq_len)
    assert caught.value.message == message
