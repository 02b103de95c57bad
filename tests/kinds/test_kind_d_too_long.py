"""Kind D: samples longer than a pack; ids, labels and ledger by hand, a byte is its own id."""

import pytest
from job_helpers import EOS, PAD, ledger_rows, pack

import packtool
from packtool.errors import DataError
from packtool.read import read_ledger

N = -100


def rows(out):
    """(ids, labels) of every piece, in the order of the packs."""
    found = []
    for row in packtool.open_dataset(out, check="full"):
        start = 0
        for length in row.seq_lens.tolist():
            stop = start + length
            found.append((row.tokens[start:stop].tolist(), row.labels[start:stop].tolist()))
            start = stop
    return found


def test_a_sample_that_a_cut_leaves_without_a_target_is_dropped_with_its_reason(tmp_path):
    """Elsewhere: the prompt fills the window, all labels are -100, and the loss is NaN or its mean is skewed."""
    records = [{"prompt": "abcd", "completion": "e"}, {"prompt": "abc", "completion": "e"}]
    summary, out = pack(tmp_path, records, max_seq_len=4)
    assert rows(out) == [([*b"abce"], [N, N, N, 101])]
    assert ledger_rows(out) == [("dropped", "no_target", 6, 6, 0), ("packed", "truncated", 5, 1, 1)]
    assert summary.reasons == {"dropped/no_target": 1, "packed/truncated": 1}


@pytest.mark.parametrize("length", [3, 4, 5, 8, 9, 41])
def test_text_of_any_length_is_split_and_nothing_is_lost(tmp_path, length):
    """Elsewhere: a row longer than the window, or than two of them, crashes the packer or loses its rest."""
    text = "abcdefghijklmnopqrstuvwxyzabcdefghijklmno"[:length]
    summary, out = pack(tmp_path, [{"text": text}], max_seq_len=4, strategy="greedy")
    ids = [*text.encode(), EOS]
    assert [tokens for tokens, _ in rows(out)] == [ids[at : at + 4] for at in range(0, len(ids), 4)]
    assert (summary.tokens, summary.lost) == (length + 1, {})


def test_what_is_not_plain_text_is_never_split(tmp_path):
    """Elsewhere: the rest of a cut sample is queued as a sample of its own, an answer without its prompt."""
    _, out = pack(tmp_path, [{"prompt": "ab", "completion": "cdefgh"}], max_seq_len=4)
    assert rows(out) == [([*b"abcd"], [N, N, 99, 100])]


def test_a_cut_keeps_the_start_and_adds_nothing(tmp_path):
    """Elsewhere: which side is cut depends on the trainer, and the cut row gets an EOS that is not there."""
    _, out = pack(tmp_path, [{"text": "abcdef"}], max_seq_len=4, overlong="truncate")
    assert rows(out) == [([*b"abcd"], [N, 98, 99, 100])]


def test_every_token_that_is_lost_is_counted(tmp_path):
    """Elsewhere: one token over the window, and all of the overflow is cut without a word."""
    records = [{"text": "abcd"}, {"text": "ab"}]
    summary, out = pack(tmp_path, records, max_seq_len=4, overlong="truncate")
    assert ledger_rows(out) == [("packed", "truncated", 5, 1, 1), ("packed", "", 3, 0, 1)]
    assert (summary.tokens, summary.lost) == (7, {"truncated": 1})
    summary, _ = pack(tmp_path, records, max_seq_len=5, overlong="truncate")
    assert (summary.reasons, summary.lost) == ({}, {})


def test_drop_drops_the_whole_sample_and_names_its_line(tmp_path):
    """Elsewhere: rows are dropped in silence, or cut although they were to be dropped."""
    summary, out = pack(tmp_path, [{"text": "ab"}, {"text": "abcdef"}], max_seq_len=4, overlong="drop")
    assert rows(out) == [([97, 98, EOS], [N, 98, EOS])]
    assert ledger_rows(out) == [("packed", "", 3, 0, 1), ("dropped", "too_long", 7, 7, 0)]
    assert read_ledger(out / "ledger.parquet").place.tolist() == [1, 2]
    assert summary.lost == {"too_long": 7}


def test_error_refuses_the_first_one_by_its_line(tmp_path):
    """Elsewhere: a bare ValueError on the first long row."""
    with pytest.raises(DataError, match="line 2: the sample has 7 tokens, more than `max_seq_len` 4"):
        pack(tmp_path, [{"text": "ab"}, {"text": "abcdef"}], max_seq_len=4, overlong="error")


def test_targets_that_cuts_cost_are_counted(tmp_path):
    """Elsewhere: the first token of every later window is trained on the wrong context, or lost without a count."""
    summary, out = pack(tmp_path, [{"text": "abcdef"}], max_seq_len=3, strategy="greedy")
    assert rows(out) == [([*b"abc"], [N, 98, 99]), ([*b"def"], [N, 101, 102]), ([EOS], [N])]
    assert (summary.trained, summary.cut_targets, summary.packs_without_target) == (4, 2, 1)
    assert packtool.open_dataset(out)[2].tokens.tolist() == [EOS, PAD, PAD]


def test_a_run_that_loses_more_than_it_may_fails(tmp_path):
    """Elsewhere: most of the tokens are cut off, and the run ends well."""
    records = [{"prompt": "ab", "completion": "cdef"}]  # 7 tokens with EOS, of which 4 are kept
    with pytest.raises(DataError, match=r"3 of 7 tokens \(42.86%\): 3 were cut off .*data.jsonl, line 1"):
        pack(tmp_path, records, max_seq_len=4, max_lost="42%")
    assert pack(tmp_path, records, max_seq_len=4, max_lost="43%")[0].lost == {"truncated": 3}
