"""However a file is cut, chunked or compressed, its records are the same."""

import csv
import gzip
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from source_helpers import take

from packtool.errors import DataError
from packtool.sources import InputFile, streams

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=6
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=8)
BYTES = {"none": bytes, "gzip": gzip.compress, "zstd": zstandard.compress}
SIZES = st.sampled_from([1, 2, 16, 33, 100])
COMPRESSION = st.sampled_from(sorted(BYTES))
# Characters that decide something somewhere, so that short texts meet every rule.
ODD = st.text(st.sampled_from(list('ab"\\,\t\n\r {}[]:\u2028\x1e\0é')), max_size=40)


def all_ways(content: bytes, container: str, compression: str, block_bytes: int, chunk_bytes: int, text_by="line"):
    """Read in one block, then in small ones; return both, and check what all containers promise."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "file"
        path.write_bytes(BYTES[compression](content))
        file = InputFile(str(path), "file", container, compression, os.path.getsize(path))
        _, whole, one = take(file, text_by=text_by)
        patch.setattr(streams, "CHUNK_BYTES", chunk_bytes)
        patch.setattr(streams, "ZSTD_INPUT_BYTES", chunk_bytes)
        blocks, cut, many = take(file, text_by=text_by, block_bytes=block_bytes)
        again, _, _ = take(file, text_by=text_by, block_bytes=block_bytes)
        assert blocks == again
        assert [block.number for block in blocks] == list(range(len(blocks)))
        assert cut == whole
        assert (one.sha256, one.places) == (many.sha256, many.places)
        patch.setattr(streams, "CHUNK_BYTES", 1 << 20)
        patch.setattr(streams, "ZSTD_INPUT_BYTES", 1 << 20)
        assert take(file, text_by=text_by, block_bytes=block_bytes)[0] == blocks
    return whole


@given(OBJECTS, st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n", " \n\t\r\n"]), COMPRESSION, SIZES, SIZES)
def test_json_lines(values, ascii_only, end, compression, block_bytes, chunk_bytes):
    content = "".join(json.dumps(value, ensure_ascii=ascii_only) + end for value in values).encode()
    found = all_ways(content, "jsonl", compression, block_bytes, chunk_bytes)
    assert [record.value for record in found] == values
    for record in found:
        assert json.loads(content[record.offset :].split(b"\n")[0]) == record.value
        assert content.count(b"\n", 0, record.offset) + 1 == record.place


@given(OBJECTS, st.sampled_from([None, 1]), COMPRESSION, SIZES, SIZES)
def test_json_arrays(values, indent, compression, block_bytes, chunk_bytes):
    found = all_ways(json.dumps(values, indent=indent).encode(), "json", compression, block_bytes, chunk_bytes)
    assert [record.value for record in found] == values
    assert [record.place for record in found] == list(range(1, len(values) + 1))


@given(OBJECTS, st.sampled_from([None, 1]), st.sampled_from(["", " ", "\n\n"]), COMPRESSION, SIZES, SIZES)
def test_json_values_in_a_row(values, indent, between, compression, block_bytes, chunk_bytes):
    content = between.join(json.dumps(value, indent=indent) for value in values).encode()
    assert [record.value for record in all_ways(content, "json", compression, block_bytes, chunk_bytes)] == values


@given(
    st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(ODD, min_size=width, max_size=width), max_size=8)),
    st.sampled_from(["csv", "tsv"]),
    st.sampled_from(["\n", "\r\n"]),
    COMPRESSION,
    SIZES,
    SIZES,
)
def test_delimited(rows, container, end, compression, block_bytes, chunk_bytes):
    header = [f"c{i}" for i in range(len(rows[0]) if rows else 1)]
    buffer = io.StringIO()
    writer = csv.writer(
        buffer, delimiter={"csv": ",", "tsv": "\t"}[container], lineterminator=end, quoting=csv.QUOTE_ALL
    )
    writer.writerows([header, *rows])
    found = all_ways(buffer.getvalue().encode(), container, compression, block_bytes, chunk_bytes)
    blank = [row for row in rows if len(row) == 1 and row[0].isspace()]
    assert [list(record.value.values()) for record in found] == [row for row in rows if row not in blank]


@given(ODD | st.binary(max_size=60), st.sampled_from(["jsonl", "text", "csv", "tsv"]), COMPRESSION, SIZES, SIZES)
def test_any_bytes_at_all_give_the_same_records_and_bad_records(
    content, container, compression, block_bytes, chunk_bytes
):
    raw = content if isinstance(content, bytes) else content.encode()
    if container in ("csv", "tsv"):
        raw = b"head\n" + raw
    all_ways(raw, container, compression, block_bytes, chunk_bytes)


@given(st.sampled_from(["", "[", "{", "[{},"]), ODD, SIZES, SIZES)
def test_any_text_read_as_json_fails_or_reads_the_same(start, content, block_bytes, chunk_bytes):
    def outcome(chunk_bytes: int, block_bytes: int) -> list[Any] | str:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(streams, "CHUNK_BYTES", chunk_bytes)
            path = Path(folder) / "file"
            path.write_text(start + content, "utf-8", newline="")
            try:
                return take(InputFile(str(path), "file", "json", "none", 0), block_bytes=block_bytes)[1]
            except DataError as error:
                return error.message + error.hint

    assert outcome(chunk_bytes, block_bytes) == outcome(1 << 20, 8 << 20)


@given(st.lists(ODD), st.sampled_from(["line", "paragraph", "file"]), COMPRESSION, SIZES, SIZES)
def test_text(lines, text_by, compression, block_bytes, chunk_bytes):
    content = "\n".join(lines).encode()
    found = all_ways(content, "text", compression, block_bytes, chunk_bytes, text_by)
    for record in found:
        text = record.value["text"].encode()
        assert content[record.offset : record.offset + len(text)] == text
        assert content.count(b"\n", 0, record.offset) + 1 == record.place
    kept = "".join(record.value["text"] for record in found)
    assert "".join(kept.split()) == "".join(content.decode().split())


@given(
    st.lists(st.fixed_dictionaries({"a": st.none() | st.text(), "b": st.lists(st.integers(0, 9))}), max_size=12), SIZES
)
def test_parquet(rows, block_bytes):
    schema = pa.schema([("a", pa.string()), ("b", pa.list_(pa.int64()))])
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), buffer, row_group_size=5)
    assert [record.value for record in all_ways(buffer.getvalue(), "parquet", "none", block_bytes, 100)] == rows
