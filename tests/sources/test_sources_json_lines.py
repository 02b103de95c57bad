import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from source_helpers import take

from packtool.errors import DataError, UsageError
from packtool.sources import BadRecord, Block, BlockSplitter, Record, find_inputs, read_block


def test_lines_become_records_with_their_line_and_offset(records):
    assert records("a.jsonl", '{"a": 1}\n\n  \t\r\n{"b": "é"}\r\n[1]\n"x"\nnull') == [
        Record({"a": 1}, 1, 0),
        Record({"b": "é"}, 4, 15),
        Record([1], 5, 28),
        Record("x", 6, 32),
        Record(None, 7, 36),
    ]


def test_line_numbers_and_offsets_hold_in_later_blocks_and_after_blank_lines(write):
    (file,) = find_inputs([write("a.jsonl", b'\n{"a": 1}\n\n\n{"a": 2}\n\n{"a": 3}\n')])
    blocks, found, splitter = take(file, block_bytes=8)
    assert [(block.number, block.start, block.stop, block.first, block.data) for block in blocks] == [
        (0, 0, 10, 1, None),
        (1, 10, 21, 3, None),
        (2, 21, 31, 6, None),
    ]
    assert [(record.place, record.offset) for record in found] == [(2, 1), (5, 12), (7, 22)]
    assert splitter.places == 7


def test_a_byte_order_mark_is_no_data(records):
    assert records("a.jsonl", b'\xef\xbb\xbf{"a": 1}\n{"a": 2}') == [Record({"a": 1}, 1, 3), Record({"a": 2}, 2, 12)]


def test_only_lf_ends_a_line_and_odd_characters_are_data(records):
    value = {"text": "a\u2028b\u2029c\x85d\x0be\x0cf\0g\x7f"}
    assert records("a.jsonl", json.dumps(value, ensure_ascii=False) + "\n") == [Record(value, 1, 0)]
    assert records("a.jsonl", b'{"nul": "\\u0000"}') == [Record({"nul": "\0"}, 1, 0)]


def test_numbers_are_the_standard_librarys(records):
    (record,) = records("a.jsonl", b'{"big": 123456789012345678901234567890, "f": 1e-3, "z": -0.0}')
    assert record.value == {"big": 123456789012345678901234567890, "f": 0.001, "z": 0.0}


def test_types_may_differ_from_row_to_row(records):
    content = b'{"a": null}\n' * 3 + b'{"a": "s"}\n{"a": 3.5}\n{"a": [{"b": 1}]}\n{"c": 1}\n'
    assert [record.value for record in records("a.jsonl", content)][3:] == [
        {"a": "s"},
        {"a": 3.5},
        {"a": [{"b": 1}]},
        {"c": 1},
    ]


@pytest.mark.parametrize(
    ("line", "value", "replaced"),
    [
        (rb'{"a": "x\ud83dy"}', {"a": "x\ufffdy"}, 1),
        (rb'{"a": ["\uDE00", "\ud83d\ud83d"]}', {"a": ["\ufffd", "\ufffd\ufffd"]}, 3),
        (rb'{"\ud800": {"b": "\udfff"}, "n": 1}', {"\ufffd": {"b": "\ufffd"}, "n": 1}, 2),
        (rb'{"a": "\ud83d\ude00"}', {"a": "😀"}, 0),
        (rb'{"a": "\\ud83d"}', {"a": "\\ud83d"}, 0),
    ],
)
def test_lone_surrogates_become_the_replacement_character(records, line, value, replaced):
    assert records("a.jsonl", line) == [Record(value, 1, 0, replaced)]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (b'{"a": "x"', "not JSON: Expecting ',' delimiter at column 10", ""),
        (
            b'{"a": "x',
            "not JSON: Unterminated string starting at column 7",
            "the line was cut, or a string holds a raw line break: write it as \\n",
        ),
        (b'{"a": 1}{"a": 2}', "not JSON: Extra data at column 9", "write one record a line"),
        (
            b'{"a": 1},',
            "not JSON: Extra data at column 9",
            "remove the comma after the record, or put all records between `[` and `]`",
        ),
        (
            b"{'a': 1}",
            "not JSON: Expecting property name enclosed in double quotes at column 2",
            "this looks like a Python dict: write it with json.dumps",
        ),
        (
            b'{"a": None}',
            "not JSON: Expecting value at column 7",
            "this looks like a Python dict: write it with json.dumps",
        ),
        (
            b'{"a": "x\ty"}',
            "not JSON: Invalid control character at column 9",
            "write line breaks and tabs inside strings as \\n and \\t",
        ),
        (
            rb'{"a": "C:\dir"}',
            "not JSON: Invalid \\escape at column 10",
            "write a backslash inside a string as \\\\",
        ),
        (
            b'\xef\xbb\xbf{"a": 1}',
            "not JSON: Expecting value at column 1",
            "the record starts with a byte-order mark, as when files are joined: remove it",
        ),
        (b'{"a": NaN}', "not JSON: `NaN` is not a JSON number", "write null, or leave the key out"),
        (b'{"a": -Infinity}', "not JSON: `-Infinity` is not a JSON number", "write null, or leave the key out"),
        (b'{"a": ' + b"1" * 5000 + b"}", "a number has too many digits", "write it as a string"),
        (
            '{"é": "'.encode() + b'\xff"}',
            "not UTF-8: byte 0xff at column 8 (byte 9)",
            "convert the file to UTF-8",
        ),
        (b'{"a": "\xed\xa0\xbd"}', "not UTF-8: byte 0xed at column 8 (byte 8)", "convert the file to UTF-8"),
        (b"[" * 201 + b"]" * 201, "nested deeper than 200 levels", ""),
        (b"[" * 1_000_000, "nested deeper than 200 levels", ""),
        (b"nonsense", "not JSON: Expecting value at column 1", ""),
    ],
)
def test_a_bad_line_says_where_and_what_and_the_others_are_read(records, line, message, hint):
    before, bad, after = records("a.jsonl", b'{"a": 0}\n' + line + b'\n{"a": 9}\n')
    assert (before, after) == (Record({"a": 0}, 1, 0), Record({"a": 9}, 3, 10 + len(line)))
    assert bad == BadRecord(2, 9, message, hint)


def test_a_raw_line_break_in_a_string_is_two_bad_lines(records):
    first, second, third = records("a.jsonl", b'{"text": "a\nb"}\n{"a": 1}\n')
    assert isinstance(first, BadRecord)
    assert "a raw line break" in first.hint
    assert isinstance(second, BadRecord)
    assert third == Record({"a": 1}, 3, 16)


@pytest.mark.timeout(10)
def test_a_cut_line_full_of_escaped_quotes_takes_no_longer(records):
    (bad,) = records("a.jsonl", b'{"a": ' + b"[]," * 300 + b'"' + rb"\"[{" * 500_000)
    assert isinstance(bad, BadRecord)


def test_two_hundred_levels_are_read_whatever_they_hold(records):
    brackets_in_text = json.dumps({"code": "[{" * 5000 + '"]'}).encode()
    first, second = records("a.jsonl", b"[" * 200 + rb'"\ud800"' + b"]" * 200 + b"\n" + brackets_in_text)
    assert (type(first), first.replaced) == (Record, 1)
    assert second.value["code"].startswith("[{[{")


def test_a_line_longer_than_a_block_is_one_block(write):
    text = "wörd " * 1_200_000  # 7 MB
    content = b'{"a": 1}\n' + json.dumps({"text": text}, ensure_ascii=False).encode() + b'\n{"a": 2}\n'
    (file,) = find_inputs([write("a.jsonl", content)])
    blocks, found, _ = take(file, block_bytes=1000)
    assert [block.first for block in blocks] == [1, 3]
    assert [record.value for record in found] == [{"a": 1}, {"text": text}, {"a": 2}]


def test_the_sum_is_of_the_raw_file_and_only_after_all_of_it(write):
    for name, content in [("a.jsonl", b"{}\n" * 50), ("b.jsonl.gz", gzip.compress(b"{}\n" * 50))]:
        (file,) = find_inputs([write(name, content)])
        splitter = BlockSplitter(file, 0, block_bytes=9)
        assert splitter.sha256 == "unread"
        blocks = iter(splitter)
        next(blocks)
        assert splitter.sha256 == "unread"
        assert list(splitter)[-1].number == 16
        assert splitter.sha256 == hashlib.sha256(content).hexdigest()
        assert splitter.places == 50


@pytest.mark.parametrize(
    "compressed",
    [
        lambda parts: b"".join(gzip.compress(part) for part in parts),
        lambda parts: b"\0\0\0".join(gzip.compress(part) for part in parts) + b"\0" * 512,
        lambda parts: b"".join(zstandard.compress(part) for part in parts),
        lambda parts: b"\x50\x2a\x4d\x18\x04\0\0\0skip".join(zstandard.compress(part) for part in parts),
    ],
    ids=["gzip", "gzip padded", "zstd", "zstd with a skippable frame"],
)
def test_all_members_and_frames_are_read_and_cut_as_the_plain_file_is(write, compressed):
    parts = [b"".join(b'{"n": %d}\n' % n for n in range(start, start + 100)) for start in (0, 100, 200)] + [b'{"n": 3']
    (plain,) = find_inputs([write("plain/a.jsonl", b"".join(parts))])
    (packed,) = find_inputs([write("packed/a.jsonl.gz", compressed(parts))])
    blocks, found, _ = take(packed, block_bytes=64)
    plain_blocks, plain_found, _ = take(plain, block_bytes=64)
    assert found == plain_found
    assert len(found) == 301
    where = [(block.start, block.stop, block.first) for block in blocks]
    assert where == [(block.start, block.stop, block.first) for block in plain_blocks]
    assert b"".join(block.data for block in blocks) == b"".join(parts)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.gz", gzip.compress(b"{}\n" * 900_000, 1), "`a.gz` ends inside its gzip stream"),
        ("a.zst", zstandard.compress(os.urandom(900_000).hex().encode()), "`a.zst` ends inside its zstd stream"),
    ],
)
def test_a_cut_stream_is_an_error_with_the_files_name(write, name, content, message):
    path = write(name, b"")
    path.write_bytes(content[:-5])
    from packtool.sources import InputFile

    file = InputFile(str(path), name, "jsonl", {"a.gz": "gzip", "a.zst": "zstd"}[name], len(content) - 5)
    splitter = BlockSplitter(file, 0)
    with pytest.raises(DataError) as caught:
        list(splitter)
    assert (caught.value.message, splitter.sha256) == (message, "unread")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl.gz", gzip.compress(b"{}\n") + b"junk", "`a.jsonl.gz` is not a sound gzip file: "),
        (
            "a.jsonl.zst",
            zstandard.compress(b"{}\n") + b"any other junk",
            "`a.jsonl.zst` is not a sound zstd file: ",
        ),
    ],
)
def test_a_damaged_stream_is_an_error_with_the_files_name(write, name, content, message):
    with pytest.raises(DataError) as caught:
        find_inputs([write(name, content)])
    assert caught.value.message.startswith(message)


def test_keep_skips_without_parsing_and_never_counts_blank_lines(write):
    (file,) = find_inputs([write("a.jsonl", b'{"a": 0}\n\nnonsense\n\n{"a": 2}\n{"a": 3}\n')])
    (block,) = BlockSplitter(file, 0)
    asked = []

    def keep(number: int) -> bool:
        asked.append(number)
        return number in (0, 3)

    assert list(read_block(block, keep=keep)) == [Record({"a": 0}, 1, 0), None, None, Record({"a": 3}, 6, 29)]
    assert asked == [0, 1, 2, 3]


def test_a_file_that_shrank_or_went_after_splitting_is_an_error(write):
    path = write("a.jsonl", b"{}\n" * 10)
    (file,) = find_inputs([path])
    (block,) = BlockSplitter(file, 0)
    path.write_bytes(b"{}\n")
    with pytest.raises(DataError, match="changed while it was read: expected bytes up to 30, it ends at 3"):
        list(read_block(block))
    path.unlink()
    with pytest.raises(DataError, match=r"cannot read .*: No such file"):
        list(read_block(block))
    with pytest.raises(DataError, match=r"cannot read .*: No such file"):
        list(BlockSplitter(file, 0))


def test_wrong_options_are_refused(write):
    (file,) = find_inputs([write("a.jsonl", b"{}\n")])
    with pytest.raises(UsageError, match="`text_by`: expected one of `line`, `paragraph`, `file`, got `word`"):
        list(BlockSplitter(file, 0, text_by="word"))
    with pytest.raises(UsageError, match="`text_by`: expected one of"):
        list(read_block(Block(0, 0, file.path, "text", 0, 3, 1), text_by="word"))
    with pytest.raises(UsageError, match="`block_bytes`: expected at least 1, got 0"):
        list(BlockSplitter(file, 0, block_bytes=0))


def test_the_locale_changes_nothing(write):
    content = '{"text": "中文 é 😀"}\n'
    write("dir/中.jsonl", content)
    path = write("dir/é.csv", "text\n中文\n")
    program = (
        "import sys\n"
        "from packtool.sources import *\n"
        "files = find_inputs([sys.argv[1]])\n"
        "out = [(f.name, [r.value for b in BlockSplitter(f, 0) for r in read_block(b)]) for f in files]\n"
        "print(ascii(out))\n"
        "print('pyarrow' in sys.modules, 'zstandard' in sys.modules)\n"
    )
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run = subprocess.run(
        [sys.executable, "-c", program, str(path.parent)],
        env=env,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
    )
    expected = [("é.csv", [{"text": "中文"}]), ("中.jsonl", [{"text": "中文 é 😀"}])]
    assert run.stdout.decode() == ascii(expected) + "\nFalse False\n"
