"""CSV and TSV without a header, from the file to the dataset."""

import gzip

import pytest
from job_helpers import EOS, samples, tree, write_lines

import packtool
from packtool.errors import DataError, UsageError
from packtool.job import preview, read_config, run, settings_from
from packtool.sources import BLOCK_BYTES

N = -100
PAIR = {"prompt": "0", "completion": "1"}


def pack(folder, *names, **settings):
    settings = {
        "max_seq_len": 64,
        "tokenizer": "bytes",
        "workers": 1,
        "strategy": "greedy",
        "columns": PAIR,
        **settings,
    }
    summary = packtool.pack([folder / name for name in names], out=folder / "out", overwrite=True, **settings)
    return summary, samples(folder / "out")


def test_every_row_of_a_table_without_a_header_is_trained(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b'\xef\xbb\xbf00\t3.30\r\nq\t"a\tb"\r\n')
    summary, found = pack(tmp_path, "a.tsv")
    assert summary.outcomes == {"packed": 2}
    assert found == {
        0: ([*b"003.30", EOS], [N, N, *b"3.30", EOS]),
        1: ([*b"qa\tb", EOS], [N, *b"a\tb", EOS]),
    }
    (tmp_path / "b.csv").write_text("one\ntwo\n")
    _, found = pack(tmp_path, "b.csv", columns={"text": 0})
    assert [bytes(ids[:-1]) for ids, _ in found.values()] == [b"one", b"two"]


def test_a_row_that_is_bad_or_ragged_names_its_line(tmp_path):
    (tmp_path / "a.csv").write_text("q,a\nr\n")
    with pytest.raises(DataError) as caught:
        pack(tmp_path, "a.csv")
    assert caught.value.message == f"`{tmp_path / 'a.csv'}`, line 2: expected 2 cells as in the first row, got 1"
    summary, _ = pack(tmp_path, "a.csv", on_bad="skip")
    assert summary.outcomes == {"packed": 1, "bad": 1}


def test_a_column_that_is_not_there(tmp_path):
    (tmp_path / "a.csv").write_text("q,a\n")
    for columns, missing in (({"prompt": "0", "completion": "2"}, "2"), ({"prompt": "0", "completion": "b"}, "b")):
        with pytest.raises(UsageError) as caught:
            pack(tmp_path, "a.csv", columns=columns)
        assert caught.value.message == f"`--columns` names `{missing}`, which none of the first records has"
        assert caught.value.hint == "their columns: `0`, `1`"


def again(folder):
    """The dataset that the recorded settings give."""
    values = {**read_config(folder / "out" / "settings.yaml"), "root": str(folder), "out": str(folder / "again")}
    run(settings_from(values), progress=lambda *_: None, notice=lambda text: None)
    return tree(folder / "again")


def test_a_table_and_lines_with_the_same_numbers(tmp_path):
    """In JSON a number is a key; a column that only the lines have is recorded, and gives the table no header."""
    (tmp_path / "a.csv").write_text("q,a\n")
    write_lines(tmp_path / "b.jsonl", [{"0": "r", "1": "b", "input": "i"}])
    columns = {"instruction": "0", "output": "1"}
    _, found = pack(tmp_path, "b.jsonl", "a.csv", columns=columns, max_seq_len=512)
    assert [labels[-2:] for _, labels in found.values()] == [[*b"b", EOS], [*b"a", EOS]]
    assert b"### Input:\ni\n" in bytes(found[0][0][:-1])
    assert "input: input\n" in (tmp_path / "out" / "settings.yaml").read_text()
    assert again(tmp_path) == tree(tmp_path / "out")


def test_a_number_below_a_key_is_a_place_in_a_list(tmp_path):
    write_lines(tmp_path / "c.jsonl", [{"t": ["x", "y"]}])
    _, found = pack(tmp_path, "c.jsonl", columns={"prompt": "t.0", "completion": "t.1"})
    assert bytes(found[0][0][:-1]) == b"xy"


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_any_number_of_workers_and_the_recorded_settings_give_the_same(tmp_path, name):
    rows = b"".join(b"%05d\t%s\n" % (row, b"x" * 5000) for row in range(2 * BLOCK_BYTES // 5000))
    (tmp_path / name).write_bytes(gzip.compress(rows, 1) if name.endswith(".gz") else rows)
    summary, _ = pack(tmp_path, name, max_seq_len=8192)
    assert summary.records == rows.count(b"\n")
    first = tree(tmp_path / "out")
    pack(tmp_path, name, max_seq_len=8192, workers=2)
    assert tree(tmp_path / "out") == first
    assert again(tmp_path) == first


def test_show_sees_the_first_row(tmp_path):
    (tmp_path / "a.tsv").write_text("q\ta\n")
    values = {"inputs": [tmp_path / "a.tsv"], "tokenizer": "bytes", "columns": PAIR}
    (view,) = preview(settings_from(values, packs=False), 3, lambda text: None)
    assert (view.origin, view.parts) == ("a.tsv, line 1", ((False, "q"), (True, "a<eos>")))
