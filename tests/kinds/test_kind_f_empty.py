"""Kind F: empty, null and degenerate records and sets."""

import pytest
from job_helpers import EOS, PAD, ledger_rows, pack, packed

import packtool
from packtool.errors import DataError
from packtool.read import read_ledger

N = -100
EMPTY = ("empty", "", 0, 0, 0)


def test_an_empty_text_is_counted_and_makes_no_sample(tmp_path):
    """Elsewhere: an empty first document crashes, or becomes BOS and EOS, or a segment of length zero."""
    summary, out = pack(tmp_path, [{"text": ""}, {"text": " \n"}, {"text": "a"}], bos="yes")
    assert ledger_rows(out) == [EMPTY, EMPTY, ("packed", "", 3, 0, 1)]
    assert read_ledger(out / "ledger.parquet").place.tolist() == [1, 2, 3]
    assert summary.outcomes == {"packed": 1, "empty": 2}


def test_an_empty_answer_is_counted_and_makes_no_sample(tmp_path):
    """Elsewhere: an empty response is an index error, or trains EOS right after the question."""
    _, out = pack(tmp_path, [{"prompt": "q", "completion": ""}, {"prompt": "q", "completion": "a"}])
    assert ledger_rows(out) == [EMPTY, ("packed", "", 3, 0, 1)]


def test_a_null_field_is_refused_with_its_line(tmp_path):
    """Elsewhere: None reaches the tokenizer, or is written out as the word."""
    records = [{"prompt": "q", "completion": "a"}, {"prompt": None, "completion": "a"}]
    with pytest.raises(
        DataError, match="line 2: column `prompt` is null; the record's columns: `prompt`, `completion`"
    ):
        pack(tmp_path, records)
    summary, out = pack(tmp_path, records, on_bad="skip")
    assert ledger_rows(out) == [("packed", "", 3, 0, 1), ("bad", "", 0, 0, 0)]
    assert summary.outcomes == {"packed": 1, "bad": 1}


def test_a_value_of_another_type_is_refused_by_its_type(tmp_path):
    """Elsewhere: an `output` that is an object makes every row invalid, without a word on why."""
    records = [{"instruction": "q", "output": {"a": 1}}]
    with pytest.raises(DataError, match="line 1: column `output` is of type dict, expected text"):
        pack(tmp_path, records)


def test_one_character_and_less_than_one_pack_are_enough(tmp_path):
    """Elsewhere: what does not fill a block is dropped, and a small set packs to nothing."""
    _, out = pack(tmp_path, [{"text": "a"}], max_seq_len=6)
    (row,) = packtool.open_dataset(out)
    assert row.tokens.tolist() == [97, EOS, PAD, PAD, PAD, PAD]
    assert row.labels.tolist() == [N, EOS, N, N, N, N]


def test_the_last_pack_may_be_partly_filled(tmp_path):
    """Elsewhere: the rest of the set is dropped with its last, unfilled batch."""
    _, out = pack(tmp_path, [{"text": "abcdefg"}], max_seq_len=3, strategy="greedy")
    assert [row.tokens.tolist() for row in packtool.open_dataset(out)] == [[*b"abc"], [*b"def"], [103, EOS, PAD]]


def test_a_set_that_became_empty_says_why(tmp_path):
    """Elsewhere: "Empty dataset!", with no reason."""
    records = [{"prompt": "q", "completion": " "}, {"prompt": "q" * 9, "completion": "a"},
               {"prompt": 1, "completion": "a"}]  # fmt: skip
    with pytest.raises(DataError) as caught:
        pack(tmp_path, records, max_seq_len=4, on_bad="skip")
    assert caught.value.message == (
        "nothing is left to pack: of 3 records, 1 are empty, 1 are bad, 1 have no trained token"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "`{name}` is empty"),
        (b"\n \n", "`{name}` has only blank lines"),
        (b"[]", "the inputs hold no record at all"),
    ],
)
def test_a_set_that_was_empty_says_so(tmp_path, content, message):
    """Elsewhere: a set that was empty and one that was filtered to nothing give the same error."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        packtool.pack([path], out=tmp_path / "o", max_seq_len=8, kind="text", tokenizer="bytes")
    assert caught.value.message == message.format(name=path.name)


def test_a_sample_whose_only_target_is_its_first_token_is_dropped(tmp_path):
    """Elsewhere: a sample of one token is packed, and nothing can be learnt from it."""
    records = [{"input_ids": [7], "labels": [7]}, {"input_ids": [7, 8], "labels": [7, 8]}]
    _, out = pack(tmp_path, records, tokenizer="")
    assert ledger_rows(out) == [("dropped", "no_target", 1, 1, 0), ("packed", "", 2, 0, 1)]


def test_the_kind_of_data_is_said_and_recorded(tmp_path):
    """Elsewhere: plain texts are dropped as invalid by a rule for conversations."""
    said = []
    summary, out = pack(tmp_path, [{"text": "a"}], notice=said.append)
    assert said == ["kind `text`: the records have `text`"]
    assert (summary.kind, packtool.open_dataset(out).manifest.settings["kind"]) == ("text", "text")


def test_an_optional_column_that_is_null_is_as_good_as_missing(tmp_path):
    """Elsewhere: `input: null` is rendered as the word None, or refused."""
    bare = {"instruction": "q", "output": "a"}
    found = packed(tmp_path, [bare, {**bare, "input": None}, {**bare, "input": ""}])
    assert found[0] == found[1] == found[2]
