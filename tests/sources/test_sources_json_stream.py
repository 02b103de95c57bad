import gzip
import json

import pytest
from source_helpers import take

from packtool.errors import DataError
from packtool.sources import BadRecord, BlockSplitter, Record, find_inputs, json_stream, read_block, streams


def test_an_arrays_elements_are_records(records):
    content = '[\n  {"a": "],[\\"}{"},\n  {"b": [1, {"c": "é"}]} ,\n\n  3, "x", null\n]\n'
    assert records("a.json", content) == [
        Record({"a": '],["}{'}, 1, -1),
        Record({"b": [1, {"c": "é"}]}, 2, -1),
        Record(3, 3, -1),
        Record("x", 4, -1),
        Record(None, 5, -1),
    ]


@pytest.mark.parametrize("content", ["[]", " [ \n ] \n", "\ufeff[]"])
def test_an_empty_array_has_no_records(records, content):
    assert records("a.json", content) == []


def test_one_pretty_printed_object_is_one_record(records):
    assert records("a.json", '\ufeff{\n  "a": [\n    1\n  ]\n}\n') == [Record({"a": [1]}, 1, -1)]


@pytest.mark.parametrize("between", [" ", "\n", "", "\r\n\r\n"])
def test_objects_after_one_another_are_records(records, between):
    content = between.join(['{\n"a": "}"\n}', '{"b": 2}', '[{"c": 3}]', "{}"])
    assert [record.value for record in records("a.jsonl", content)] == [{"a": "}"}, {"b": 2}, [{"c": 3}], {}]


def test_blocks_hold_whole_elements_and_know_their_numbers(write):
    (file,) = find_inputs([write("a.json", '[{"a": 1}, {"a": 2},{"a": 3}\n]')])
    blocks, found, splitter = take(file, block_bytes=9)
    assert [(block.first, block.start, block.stop, block.data) for block in blocks] == [
        (1, 1, 19, b'{"a": 1}\x1e{"a": 2}'),
        (3, 20, 28, b'{"a": 3}'),
    ]
    assert [record.place for record in found] == [1, 2, 3]
    assert splitter.places == 3


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7])
def test_chunks_may_end_anywhere(write, monkeypatch, chunk_bytes):
    values = [{"a": 'quote " backslash \\ both \\" é\n'}, {"b": ["\\", "\\\\", ""]}, {"c": [[[]], {}]}]
    (file,) = find_inputs([write("a.json", json.dumps(values, ensure_ascii=False, indent=1))])
    monkeypatch.setattr(streams, "CHUNK_BYTES", chunk_bytes)
    assert [record.value for record in take(file, block_bytes=1)[1]] == values


@pytest.mark.parametrize(
    ("element", "message", "hint"),
    [
        ("{'a': 1}", "not JSON: Expecting property name enclosed in double quotes at column 2", "json.dumps"),
        ('{"a": NaN}', "not JSON: `NaN` is not a JSON number", "write null"),
        ('{"a": "x\ny"}', "not JSON: Invalid control character at column 9", "write line breaks"),
        ('{"a": "x\x1ey"}', "not JSON: Invalid control character at column 9", "write line breaks"),
        ('{"a": 1} {"b": 2}', "not JSON: Extra data at column 10", "one record a line"),
        ('{\n"a" 1}', "not JSON: Expecting ':' delimiter at line 2 column 5 of the record", ""),
        ("", "not JSON: Expecting value at column 1", "a comma with no record after it"),
        (b'{"a": "\xff"}', "not UTF-8: byte 0xff at column 8 (byte 8)", "convert the file"),
    ],
)
def test_a_bad_element_has_its_number_and_the_others_are_read(records, element, message, hint):
    raw = element if isinstance(element, bytes) else element.encode()
    first, bad, last = records("a.json", b'[{"a": 0},\n' + raw + b',\n{"a": 9}]')
    assert (first, last) == (Record({"a": 0}, 1, -1), Record({"a": 9}, 3, -1))
    assert isinstance(bad, BadRecord)
    assert (bad.place, bad.message) == (2, message)
    assert hint in bad.hint


def test_a_comma_before_the_end_is_a_bad_element(records):
    _, bad = records("a.json", '[{"a": 0},\n]')
    assert bad == BadRecord(2, -1, "not JSON: Expecting value at column 1", "there is a comma with no record after it")


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ('[{"a": 1},\n{"a": 2', "`a.json` ends inside its JSON array, in element 2", "record is wrong: not JSON: Exp"),
        ('[{"a": 1},\n{"a": "x', "`a.json` ends inside its JSON array, in element 2", "the file is cut short"),
        ('[{"a": 1},\n', "`a.json` ends inside its JSON array, in element 2", "the file is cut short: copy"),
        ('[{"a": 1}', "`a.json` ends inside its JSON array, in element 1", "the file is cut short: copy"),
        ('[{"a": [1}, {"a": 2}]', "`a.json` ends inside its JSON array, in element 1", "delimiter at column 9"),
        ('{\n"a": 1\n} {"b": [', "`a.json` ends inside record 2", "the file is cut short"),
        ('[\n{"a": 1}]\n[{"a": 2}', "`a.json` goes on after its JSON array, with '[' at byte 13", "one array a file"),
        (
            '{\n"a": 1\n},\n{"a": 2}',
            "`a.json` after record 1: expected a JSON object, got ',' at byte 11",
            "`[` and `]`",
        ),
    ],
)
def test_a_broken_structure_is_an_error_that_names_the_file_and_the_place(write, content, message, hint):
    (file,) = find_inputs([write("a.json", content)])
    splitter = BlockSplitter(file, 0)
    with pytest.raises(DataError) as caught:
        list(splitter)
    assert (file.container, caught.value.message, splitter.sha256) == ("json", message, "unread")
    assert hint in caught.value.hint


def test_a_quote_that_never_closes_does_not_eat_the_machine(write, monkeypatch):
    monkeypatch.setattr(json_stream, "MAX_VALUE_BYTES", 1000)
    monkeypatch.setattr(streams, "CHUNK_BYTES", 100)
    (file,) = find_inputs([write("a.json", '[{"a": 1},\n{"a": "x},\n' + '{"a": 22},\n' * 1000)])
    with pytest.raises(DataError) as caught:
        list(BlockSplitter(file, 0))
    assert caught.value.message == "`a.json` record 2: longer than 1,000 bytes"
    assert "never closed" in caught.value.hint


def test_an_element_of_many_megabytes(write):
    text = 'a "word" \\ \n é ' * 400_000
    (file,) = find_inputs([write("a.json.gz", gzip.compress(json.dumps([{"a": text}, {"a": 1}]).encode(), 1))])
    assert [record.value for record in take(file)[1]] == [{"a": text}, {"a": 1}]


def test_keep_skips_elements(write):
    (file,) = find_inputs([write("a.json", '[{"a": 1}, nonsense, {"a": 3}]')])
    (block,) = BlockSplitter(file, 0)
    assert list(read_block(block, keep=lambda i: i == 2)) == [None, None, Record({"a": 3}, 3, -1)]
