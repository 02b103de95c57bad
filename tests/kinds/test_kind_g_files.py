"""Kind G: files as they are; bytes in, ids out."""

import numpy as np
import pytest
from job_helpers import EOS, ledger_rows, pack, packed, samples

import packtool
from packtool.errors import DataError, FormatError

N = -100
TWO = b'{"text": "ab"}\n{"text": "c"}\n'


def read(folder, name, content, **settings):
    """The texts of a file's samples."""
    (folder / name).write_bytes(content)
    settings = {"max_seq_len": 64, "tokenizer": "bytes", "workers": 1, "overwrite": True, **settings}
    packtool.pack([folder / name], out=folder / "o", **settings)
    return [bytes(ids[:-1]).decode() for _, (ids, _) in sorted(samples(folder / "o").items())]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("lines.jsonl", TWO),
        ("lines.json", TWO),
        ("array.json", b'[{"text": "ab"}, {"text": "c"}]'),
        ("array.jsonl", b'[{"text": "ab"},\n{"text": "c"}]'),
        ("pretty.jsonl", b'[\n  {\n    "text": "ab"\n  },\n  {\n    "text": "c"\n  }\n]\n'),
        ("in_a_row.jsonl", b'{"text": "ab"}{"text": "c"}'),
        ("in_a_row.json", b'{\n "text": "ab"\n} {"text": "c"}'),
    ],
)
def test_content_decides_how_a_json_file_is_read_and_not_its_name(tmp_path, name, content):
    """Elsewhere: an array in .jsonl, lines in .json, or objects one after another stop the load or the loader."""
    assert read(tmp_path, name, content) == ["ab", "c"]


@pytest.mark.parametrize("content", [TWO, TWO.replace(b"\n", b"\r\n"), b"\n\n" + TWO.replace(b"\n", b"\n \n")])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_byte_order_mark_line_ends_and_blank_lines_are_no_data(tmp_path, content, mark):
    """Elsewhere: a BOM breaks the parser, CRs end up in the text, a blank line is a broken record."""
    assert read(tmp_path, "a.jsonl", mark + content) == ["ab", "c"]


def test_files_are_utf8_whatever_the_locale_says(tmp_path):
    """Elsewhere: the default encoding of the machine breaks the data."""
    assert read(tmp_path, "a.jsonl", '{"text": "中文 é"}\n'.encode()) == ["中文 é"]
    with pytest.raises(DataError, match=r"line 1: not UTF-8: byte 0xe9 at column 12 \(byte 12\)"):
        read(tmp_path, "a.jsonl", '{"text": "aé"}\n'.encode("latin-1"))


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (TWO.decode().encode("utf-16"), "`a.jsonl` is UTF-16, expected UTF-8", "iconv -f UTF-16 -t UTF-8"),
        (b"version https://git-lfs.github.com/spec/v1\n", "`a.jsonl` is a git-LFS pointer", "git lfs pull"),
    ],
)
def test_files_that_are_not_the_data_are_refused_with_what_to_do(tmp_path, content, message, hint):
    """Elsewhere: a parser's error on bytes that nobody recognises."""
    with pytest.raises(DataError) as caught:
        read(tmp_path, "a.jsonl", content)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_column_may_be_null_for_long_and_then_text(tmp_path):
    """Elsewhere: the first chunk is all null, and locks the column's type."""
    bare = {"instruction": "q", "input": None, "output": "a"}
    found = packed(tmp_path, [bare] * 300 + [{**bare, "input": "i"}], max_seq_len=1024)
    text = bytes(found[300][0][:-1]).decode()
    assert "### Input:\ni\n" in text
    assert all(found[n] == found[0] for n in range(300))


def test_every_record_is_typed_by_itself(tmp_path):
    """Elsewhere: text in one row and a list of parts in another, and the whole set cannot be loaded."""
    say = {"role": "assistant", "content": "a"}
    asked = ["q", [{"type": "text", "text": "q"}], ["q"]]
    records = [{"messages": [{"role": "user", "content": content}, say]} for content in asked]
    found = packed(tmp_path, records)
    assert found[0] == found[1] == found[2]


def test_one_wrong_value_costs_one_record_and_names_it(tmp_path):
    """Elsewhere: a number instead of a string at row 1232 stops the load, or the whole column is rejected."""
    records = [{"text": "a"}, {"text": 3.5}, {"text": "b"}]
    with pytest.raises(DataError, match="line 2: column `text` is of type float, expected text"):
        pack(tmp_path, records)
    summary, out = pack(tmp_path, records, on_bad="skip")
    assert [row[0] for row in ledger_rows(out)] == ["packed", "bad", "packed"]
    assert summary.outcomes == {"packed": 2, "bad": 1}


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (b'{"text": "a\nb"}', "not JSON: Unterminated string starting at column 10", "a string holds a raw line break"),
        (b'{"text": "a"}{"text": "b"}', "not JSON: Extra data at column 14", "write one record a line"),
        (b'{"text": NaN}', "not JSON: `NaN` is not a JSON number", "write null, or leave the key out"),
    ],
)
def test_a_broken_line_is_named_with_a_hint_before_training(tmp_path, line, message, hint):
    """Elsewhere: a broken line stops the loader in the middle of a run, or is misread."""
    with pytest.raises(DataError) as caught:
        read(tmp_path, "a.jsonl", b'{"text": "ab"}\n' + line + b"\n")
    assert f"line 2: {message}" in caught.value.message
    assert hint in caught.value.hint
    assert read(tmp_path, "a.jsonl", b'{"text": "ab"}\n' + line + b"\n", on_bad="skip") == ["ab"]


@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00"])
def test_half_of_a_surrogate_pair_is_replaced_and_counted(tmp_path, half):
    """Elsewhere: a lone surrogate raises UnicodeEncodeError deep in a run, or becomes a question mark."""
    line = f'{{"text": "a{half}b"}}\n{{"text": "\\ud83d\\ude00"}}\n'
    (tmp_path / "data.jsonl").write_text(line)
    summary = packtool.pack([tmp_path / "data.jsonl"], out=tmp_path / "o", max_seq_len=16, tokenizer="bytes", workers=1)
    found = samples(tmp_path / "o")
    assert found[0] == ([*"a\ufffdb".encode(), EOS], [N, *"\ufffdb".encode(), EOS])
    assert found[1][0] == [*"😀".encode(), EOS]
    assert summary.warnings == {"lone surrogates became U+FFFD": [1, "data.jsonl, line 1"]}


def test_cells_of_csv_stay_the_text_they_are(tmp_path):
    """Elsewhere: numbers are guessed, and 007 becomes 7."""
    (tmp_path / "a.csv").write_text("prompt,completion\n1 + 6,007\n2,1e3\n")
    packtool.pack([tmp_path / "a.csv"], out=tmp_path / "o", max_seq_len=16, tokenizer="bytes", workers=1)
    found = samples(tmp_path / "o")
    assert found[0] == ([*b"1 + 6007", EOS], [N] * 5 + [*b"007", EOS])
    assert found[1] == ([*b"21e3", EOS], [N, *b"1e3", EOS])


def test_ids_beyond_16_bits_are_stored_as_they_are(tmp_path):
    """Elsewhere: the writer ignores the type it was given, and ids wrap round."""
    for last, dtype in ((65_535, np.uint16), (65_536, np.uint32)):
        _, out = pack(tmp_path, [{"input_ids": [1, last]}], tokenizer="", max_seq_len=2)
        data = packtool.open_dataset(out, check="full")
        assert data[0].tokens.tolist() == [1, last]
        assert data[0].tokens.dtype == dtype


def test_a_file_of_another_type_than_the_manifest_says_is_refused(tmp_path):
    """Elsewhere: a file is read with the type that the reader assumes."""
    _, out = pack(tmp_path, [{"input_ids": [1, 2]}], tokenizer="", max_seq_len=2)
    path = out / "shard-00000" / "tokens.npy"
    np.save(path, np.load(path).astype(np.int16))
    with pytest.raises(FormatError, match=r"tokens\.npy`: expected uint16 \[1, 2\] in C order, got int16"):
        packtool.open_dataset(out)
