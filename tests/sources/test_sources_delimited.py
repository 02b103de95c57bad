import csv
import gzip
import io

import pytest
from source_helpers import take

from packtool.errors import DataError
from packtool.sources import BadRecord, BlockSplitter, Record, find_inputs, read_block


def test_cells_stay_the_strings_they_are(records):
    assert records("a.csv", '\ufeffn,f,e,s\r\n00000,3.30,, a \r\n\r\nNaN,1e5,null,"x""y"\r\n') == [
        Record({"n": "00000", "f": "3.30", "e": "", "s": " a "}, 2, -1),
        Record({"n": "NaN", "f": "1e5", "e": "null", "s": 'x"y'}, 4, -1),
    ]


def test_tabs_separate_tsv(records):
    assert records("a.tsv", 'a\tb\n1,2\t"x\ty"\n') == [Record({"a": "1,2", "b": "x\ty"}, 2, -1)]


def test_quoted_line_breaks_and_the_line_a_record_begins_on(write):
    (file,) = find_inputs([write("a.csv", 'a,b\n1,"x\ny\r\n\nz"\n2,y\n\n"3\n",\u2028\n')])
    for block_bytes in (1, 16, 1000):
        blocks, found, splitter = take(file, block_bytes=block_bytes)
        assert found == [
            Record({"a": "1", "b": "x\ny\r\n\nz"}, 2, -1),
            Record({"a": "2", "b": "y"}, 6, -1),
            Record({"a": "3\n", "b": "\u2028"}, 8, -1),
        ]
        assert splitter.places == 9
        assert b"".join(block.data for block in blocks) == 'a,b\n1,"x\ny\r\n\nz"\n2,y\n\n"3\n",\u2028\n'.encode()[4:]
        assert {block.header for block in blocks} == {("a", "b")}
        assert blocks[0].start == 4


def test_a_header_may_have_quoted_line_breaks_and_blank_lines_before_it(records):
    assert records("a.csv", '\n\n"a\nb",c\n1,2\n') == [Record({"a\nb": "1", "c": "2"}, 5, -1)]


def test_one_column_with_an_empty_cell(records):
    assert records("a.csv", 'a\n""\n\n  \nx\n') == [Record({"a": ""}, 2, -1), Record({"a": "x"}, 5, -1)]


def test_a_header_alone_has_no_records(records):
    assert records("a.csv", "a,b\n") == []


@pytest.mark.parametrize(
    ("row", "message", "hint"),
    [
        ("1", "expected 2 cells as in the header, got 1", "put quotes around cells"),
        ("1,2,3", "expected 2 cells as in the header, got 3", "put quotes around cells"),
        ('1,"2"3', "not a row: ',' expected after '\"'", "put quotes around cells"),
        ("1,2\r3,4", "not a row: a lone carriage return outside quotes", "end lines with LF or CRLF"),
        (b"1,\xff", "cell `b`: not UTF-8: byte 0xff at column 1 (byte 1)", "convert the file to UTF-8"),
    ],
)
def test_a_bad_row_has_its_line_and_the_others_are_read(write, row, message, hint):
    raw = row if isinstance(row, bytes) else row.encode()
    (file,) = find_inputs([write("a.csv", "a,b\né,ü\n".encode() + raw + b'\n5" pipe,9\n')])
    for block_bytes in (1, 1000):
        first, bad, last = take(file, block_bytes=block_bytes)[1]
        assert (first, last) == (Record({"a": "é", "b": "ü"}, 2, -1), Record({"a": '5" pipe', "b": "9"}, 4, -1))
        assert isinstance(bad, BadRecord)
        assert (bad.place, bad.message) == (3, message)
        assert hint in bad.hint


def test_a_quote_that_never_closes(records):
    first, bad = records("a.csv", 'a,b\n1,2\n3,"4\n5,6\n')
    assert first == Record({"a": "1", "b": "2"}, 2, -1)
    assert bad == BadRecord(
        3, -1, "not a row: unexpected end of data", "a quote that opens on this line is never closed"
    )


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (",text\n0,a\n", "`a.csv` header: column 1 of 2 has no name", "index=False"),
        ("a, \n0,a\n", "`a.csv` header: column 2 of 2 has no name", "name every column"),
        ("a,b,a\n", "`a.csv` header: two columns are named `a`", "differently"),
        ('a,"b"c\n', "`a.csv` header: ',' expected after '\"'", "first row must name the columns, or be a record"),
        (b"a,\xff\n", "`a.csv` header: column 2 is not UTF-8", "convert the file to UTF-8"),
    ],
)
def test_a_header_that_names_no_columns_is_refused(write, content, message, hint):
    (file,) = find_inputs([write("a.csv", content)])
    with pytest.raises(DataError) as caught:
        list(BlockSplitter(file, 0))
    assert caught.value.message == message
    assert hint in caught.value.hint


def test_huge_cells_and_compressed_files(write):
    text = 'line "quoted", more\n' * 100_000
    buffer = io.StringIO()
    csv.writer(buffer).writerows([["a", "b"], ["1", text], ["2", ""]])
    (file,) = find_inputs([write("a.csv.gz", gzip.compress(buffer.getvalue().encode()))])
    blocks, found, _ = take(file, block_bytes=1000)
    assert [record.value for record in found] == [{"a": "1", "b": text}, {"a": "2", "b": ""}]
    assert [block.first for block in blocks] == [2, 100_003]


def test_keep_skips_rows(write):
    (file,) = find_inputs([write("a.csv", "a\n1\n\n2\n3\n")])
    (block,) = BlockSplitter(file, 0)
    assert list(read_block(block, keep=lambda i: i > 1)) == [None, None, Record({"a": "3"}, 5, -1)]


# --------------------------------------------------------------------------------------------------- without a header


@pytest.mark.parametrize("block_bytes", [1, 12, 1000])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_numbered_columns_make_every_row_a_record(write, block_bytes, packed):
    raw = b'\xef\xbb\xbf\r\n00000\t3.30\r\n"x\ty"\t"line\r\nbreak"\r\n  \r\n1e5\t\r\n"""q"\tlast'
    (file,) = find_inputs([write("a.tsv.gz", gzip.compress(raw)) if packed else write("a.tsv", raw)])
    blocks, found, splitter = take(file, block_bytes=block_bytes, columns=("0", "1"))
    assert found == [
        Record({"0": "00000", "1": "3.30"}, 2, -1),
        Record({"0": "x\ty", "1": "line\r\nbreak"}, 3, -1),
        Record({"0": "1e5", "1": ""}, 6, -1),
        Record({"0": '"q', "1": "last"}, 7, -1),
    ]
    assert (splitter.places, blocks[0].start, blocks[0].first) == (7, 3, 1)
    assert b"".join(block.data for block in blocks) == raw[3:]
    assert {block.header for block in blocks} == {("0", "1")}
    assert len(blocks) == {1: 5, 12: 3, 1000: 1}[block_bytes]


def test_one_column_without_a_name(write):
    (file,) = find_inputs([write("a.csv", 'first\n\n""\n" "\nsecond\n')])
    assert take(file, columns=["0"])[1] == [
        Record({"0": "first"}, 1, -1), Record({"0": ""}, 3, -1), Record({"0": "second"}, 5, -1)
    ]  # fmt: skip
    (file,) = find_inputs([write("b.csv", "only")])
    assert take(file, columns=["0"])[1] == [Record({"0": "only"}, 1, -1)]


@pytest.mark.parametrize(
    ("content", "columns", "is_header"),
    [
        ("a,b\n", ["0", "1"], False),
        ("a,b\n", ["0", "7"], False),  # that there is no column 7 is for others to say
        ("a,a\n", ["1"], False),  # no names, so they need not differ
        (",b\n", ["1"], False),
        ("0,b\n", ["0", "1"], False),
        ("1,0,b\n", ["2"], False),
        ("a,b\n", [], True),
        ("a,b\n", ["a"], True),
        ("a,b\n", ["0", "b"], True),  # it holds a name that was given
        ("a,b\n", ["0", "c"], False),
        ("0,1\n", ["0", "1"], True),  # as pandas writes columns that have no names
        ("id,1,2\n", ["1", "2"], True),
        ("a,b\n", ["-1"], True),
        ("a,b\n", ["²"], True),
    ],
)
def test_when_the_first_row_is_a_record(write, content, columns, is_header):
    (file,) = find_inputs([write("a.csv", content)])
    found = take(file, columns=columns)[1]
    cells = content.rstrip("\n").split(",")
    assert found == ([] if is_header else [Record({str(i): cell for i, cell in enumerate(cells)}, 1, -1)])


@pytest.mark.parametrize(
    ("content", "columns", "cell"),
    [("1,good\n0,bad\n", ["1"], "cell 1 is `1`"), (",0,1\n0,a,b\n", ["0", "1"], "cell 2 is `0`")],
)
def test_a_number_in_another_column_of_the_first_row_may_mean_two_things(write, content, columns, cell):
    (file,) = find_inputs([write("a.csv", content)])
    with pytest.raises(DataError) as caught:
        list(BlockSplitter(file, 0, columns=columns))
    assert caught.value.message == (
        f"`a.csv` first row: {cell}, which `--columns` names: is that a column's name, or is the row a record?"
    )
    assert caught.value.hint == "put a row with names in front of it, and name the columns by those"


def test_bad_rows_without_a_header(write):
    (file,) = find_inputs([write("a.csv", b'a,\xff\nb\nc,d,e\n1,"2"3\nf,g\n')])
    found = take(file, columns=["0"])[1]
    assert [(record.place, record.message) for record in found[:-1]] == [
        (1, "cell `1`: not UTF-8: byte 0xff at column 1 (byte 1)"),
        (2, "expected 2 cells as in the first row, got 1"),
        (3, "expected 2 cells as in the first row, got 3"),
        (4, "not a row: ',' expected after '\"'"),
    ]
    assert found[-1] == Record({"0": "f", "1": "g"}, 5, -1)
    (file,) = find_inputs([write("b.csv", 'a,"b"c\n')])
    with pytest.raises(DataError, match=r"^`b.csv` header: ',' expected after '\"'$"):
        list(BlockSplitter(file, 0, columns=["0"]))


def test_numbers_mean_nothing_to_other_files(write):
    (file,) = find_inputs([write("a.jsonl", '{"0": "a"}\n')])
    assert take(file, columns=["0"])[1] == [Record({"0": "a"}, 1, 0)]
