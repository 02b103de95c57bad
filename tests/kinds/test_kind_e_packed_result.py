"""Kind E: what a pack of several samples looks like; every array by hand, a byte is its own id."""

import pytest
from job_helpers import EOS, PAD, pack, packed, samples

import packtool
from packtool.plan import STRATEGIES

N = -100


def as_lists(pack):
    return {name: getattr(pack, name).tolist() for name in ("tokens", "labels", "input_pos", "seq_lens", "records")}


def packs(out):
    return [as_lists(row) for row in packtool.open_dataset(out)]


def test_the_last_token_of_a_piece_is_not_trained_to_predict_the_next_piece(tmp_path):
    """Elsewhere: labels run on over the boundary, and EOS of one document is trained to give the start of the next."""
    records = [{"input_ids": [5, 6], "labels": [5, 6]}, {"input_ids": [7, 8, 9], "labels": [7, 8, 9]}]
    _, out = pack(tmp_path, records, tokenizer="", max_seq_len=6, strategy="ffd")
    assert packs(out)[0]["tokens"] == [7, 8, 9, 5, 6, 0]
    assert packs(out)[0]["labels"] == [N, 8, 9, N, 6, N]


def test_a_piece_that_a_cut_begins_starts_untrained_too(tmp_path):
    """Elsewhere: the first token of a later window is a target that nothing before it leads to."""
    _, out = pack(tmp_path, [{"text": "abcd"}], max_seq_len=3, strategy="greedy")
    assert [row["labels"] for row in packs(out)] == [[N, 98, 99], [N, EOS, N]]


def test_labels_are_the_tokens_of_their_own_slots(tmp_path):
    """Elsewhere: labels are shifted once more, over the whole pack."""
    records = [{"prompt": "ab", "completion": "cd"}, {"prompt": "e", "completion": "f"}]
    _, out = pack(tmp_path, records, max_seq_len=9, strategy="greedy")
    (row,) = packs(out)
    assert row["tokens"] == [*b"abcd", EOS, *b"ef", EOS, PAD]
    assert row["labels"] == [N, N, 99, 100, EOS, N, 102, EOS, N]


def test_positions_start_again_at_every_piece_and_all_arrays_have_one_length(tmp_path):
    """Elsewhere: positions run on through the pack, or are shorter than the padded ids."""
    _, out = pack(tmp_path, [{"text": "abc"}, {"text": "d"}], max_seq_len=8, strategy="greedy")
    (row,) = packs(out)
    assert row["input_pos"] == [0, 1, 2, 3, 0, 1, 0, 1]
    assert {len(row[name]) for name in ("tokens", "labels", "input_pos")} == {8}


def test_lengths_are_stored_and_padding_is_in_no_piece(tmp_path):
    """Elsewhere: lengths are found by the first EOS, dropped as an unused column, or count the padding."""
    _, out = pack(
        tmp_path, [{"text": "a<eos>b<eos>cd"}, {"text": "e"}], max_seq_len=12, strategy="greedy", allow_special=True
    )
    (row,) = packs(out)
    assert row["tokens"] == [97, EOS, 98, EOS, 99, 100, EOS, 101, EOS, PAD, PAD, PAD]
    assert (row["seq_lens"], row["records"]) == ([7, 2], [0, 1])


def test_packs_are_planned_with_the_lengths_that_are_stored(tmp_path):
    """Elsewhere: bins are planned with one token less a row, and two rows of 9 are put into a bin of 16."""
    _, out = pack(tmp_path, [{"text": "abcdefgh"}, {"text": "abcdefgh"}], max_seq_len=16)
    assert [(row["seq_lens"], row["tokens"]) for row in packs(out)] == [([9], [*b"abcdefgh", EOS] + [PAD] * 7)] * 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_record_is_in_the_packs_once_and_in_full(tmp_path, strategy):
    """Elsewhere: the packer loses rows, or the last batch, among many of one length."""
    records = [{"text": chr(97 + n % 26) * (1 + n % 5)} for n in range(60)]
    summary, out = pack(tmp_path, records, max_seq_len=7, strategy=strategy)
    expected = {n: [*record["text"].encode(), EOS] for n, record in enumerate(records)}
    assert {n: ids for n, (ids, _) in samples(out).items()} == expected
    assert (summary.samples, summary.tokens) == (60, sum(map(len, expected.values())))


def test_a_sample_has_the_labels_in_a_pack_that_it_has_alone(tmp_path):
    """Elsewhere: packing changes the loss."""
    records = [{"prompt": "p" * n, "completion": "c" * (4 - n)} for n in range(4)]
    together = packed(tmp_path, records, max_seq_len=64)
    for number, record in enumerate(records):
        assert together[number] == packed(tmp_path, [record], max_seq_len=5, name=f"alone{number}")[0]
        labels = [N] * max(number, 1) + [*b"c" * (4 - max(number, 1)), EOS]
        assert together[number] == ([*b"p" * number, *b"c" * (4 - number), EOS], labels)


def test_greedy_keeps_the_order_of_the_input(tmp_path):
    """Elsewhere: the order inside and among the packs is not documented and not kept."""
    _, out = pack(tmp_path, [{"text": "a" * n} for n in (3, 1, 4, 1, 5, 2, 6)], max_seq_len=8, strategy="greedy")
    assert [row["records"] for row in packs(out)] == [[0, 1], [2, 3], [4], [5], [6]]
