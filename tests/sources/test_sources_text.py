import gzip

import pytest
from source_helpers import take

from packtool.sources import BadRecord, Record, find_inputs

CONTENT = b"\xef\xbb\xbf\n one\r\ntwo \xc2\x85\n \t\n\r\nthree\nfour\n\n\n"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.txt.gz"])
@pytest.mark.parametrize("block_bytes", [1, 12, 1000])
@pytest.mark.parametrize(
    ("text_by", "expected"),
    [
        (
            "line",
            [
                Record({"text": " one"}, 2, 4),
                Record({"text": "two \x85"}, 3, 10),
                Record({"text": "three"}, 6, 22),
                Record({"text": "four"}, 7, 28),
            ],
        ),
        ("paragraph", [Record({"text": " one\r\ntwo \x85"}, 2, 4), Record({"text": "three\nfour"}, 6, 22)]),
        ("file", [Record({"text": CONTENT[3:].decode()}, 1, 3)]),
    ],
)
def test_text_by_line_paragraph_and_file(write, name, block_bytes, text_by, expected):
    (file,) = find_inputs([write(name, gzip.compress(CONTENT) if name.endswith("gz") else CONTENT)])
    _, found, splitter = take(file, block_bytes=block_bytes, text_by=text_by)
    assert found == expected
    assert splitter.places == 9


def test_a_paragraph_is_never_cut_and_blocks_count_lines(write):
    (file,) = find_inputs([write("a.txt", b"a\nb\nc\n\nd\n\n\n\ne\nf")])
    blocks, found, _ = take(file, block_bytes=1, text_by="paragraph")
    assert [(block.start, block.stop, block.first) for block in blocks] == [
        (0, 7, 1),
        (7, 10, 5),
        (10, 12, 7),
        (12, 15, 9),
    ]
    assert [(record.value["text"], record.place) for record in found] == [("a\nb\nc", 1), ("d", 5), ("e\nf", 9)]


def test_text_that_is_not_utf8_is_a_bad_record(records):
    assert records("a.txt", b"good\ncaf\xe9\n")[1] == BadRecord(
        2, 5, "not UTF-8: byte 0xe9 at column 4 (byte 4)", "convert the file to UTF-8"
    )


@pytest.mark.timeout(10)
def test_a_blank_line_of_a_million_spaces(records):
    content = b"a\n" + b" " * 1_000_000 + b"\nb"
    assert records("a.txt", content, text_by="paragraph") == [
        Record({"text": "a"}, 1, 0),
        Record({"text": "b"}, 3, 1_000_003),
    ]


def test_json_in_a_text_file_stays_text(records):
    assert records("a.txt", b'{"a": 1}\n') == [Record({"text": '{"a": 1}'}, 1, 0)]
