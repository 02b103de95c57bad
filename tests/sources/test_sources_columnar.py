import datetime
import hashlib
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_helpers import take

from packtool.errors import DataError
from packtool.sources import BLOCK_BYTES, BadRecord, BlockSplitter, Record, columnar, find_inputs, read_block

ROWS = [
    {
        "messages": [{"role": "user", "content": f"hi {i}"}],
        "meta": {"n": i, "when": None},
        "text": None if i == 3 else "é",
    }
    for i in range(25)
]


def write_rows(path, rows, container, group_rows=10):
    table = pa.Table.from_pylist(rows) if isinstance(rows, list) else rows
    if container == "parquet":
        pq.write_table(table, path, row_group_size=group_rows)
    else:
        new = pa.ipc.new_file if container == "arrow" else pa.ipc.new_stream
        with new(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=group_rows)
    return path


@pytest.mark.parametrize("container", ["parquet", "arrow", "arrow_stream"])
def test_rows_come_nested_and_numbered(tmp_path, container):
    path = write_rows(tmp_path / "data", ROWS, container)
    (file,) = find_inputs([path])
    assert (file.container, file.compression) == (container, "none")
    blocks, found, splitter = take(file)
    assert found == [Record(row, i + 1, -1) for i, row in enumerate(ROWS)]
    assert splitter.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert splitter.places == 25
    where = [(block.group, block.start, block.stop, block.first) for block in blocks]
    whole = [(0, 0, 25, 1)]
    assert where == (whole if container == "arrow_stream" else [(0, 0, 10, 1), (1, 0, 10, 11), (2, 0, 5, 21)])


@pytest.mark.parametrize("container", ["parquet", "arrow", "arrow_stream"])
def test_large_groups_are_cut_into_row_ranges(tmp_path, monkeypatch, container):
    monkeypatch.setattr(columnar, "BATCH_ROWS", 3)
    (file,) = find_inputs([write_rows(tmp_path / "data", ROWS, container)])
    blocks, found, _ = take(file, block_bytes=BLOCK_BYTES * 4 // 50_000 + 1)
    assert max(block.stop - block.start for block in blocks) == 4
    assert [record.place for record in found] == list(range(1, 26))
    assert [record.value for record in found] == ROWS
    shuffled = [list(read_block(pickle.loads(pickle.dumps(block)))) for block in reversed(blocks)]
    assert [record for part in reversed(shuffled) for record in part] == found


@pytest.mark.parametrize("container", ["parquet", "arrow", "arrow_stream"])
def test_keep_takes_rows(tmp_path, monkeypatch, container):
    monkeypatch.setattr(columnar, "BATCH_ROWS", 4)
    (file,) = find_inputs([write_rows(tmp_path / "data", ROWS, container, group_rows=25)])
    (block,) = BlockSplitter(file, 0)
    found = list(read_block(block, keep=lambda i: i in (0, 6, 24)))
    assert found == [Record(ROWS[i], i + 1, -1) if i in (0, 6, 24) else None for i in range(25)]


def test_values_python_cannot_hold_spoil_their_row_only(tmp_path):
    buffers = pa.array([b"a", b"\xff", b"c"]).buffers()
    text = pa.Array.from_buffers(pa.string(), 3, buffers)
    (file,) = find_inputs([write_rows(tmp_path / "data", pa.table({"text": text}), "arrow")])
    first, bad, last = take(file)[1]
    assert (first, last) == (Record({"text": "a"}, 1, -1), Record({"text": "c"}, 3, -1))
    assert isinstance(bad, BadRecord)
    assert bad.place == 2
    assert bad.message.startswith("a value cannot be read: 'utf-8' codec can't decode byte 0xff")
    (block,) = BlockSplitter(file, 0)
    assert [record.place for record in read_block(block, keep=lambda i: i > 0) if record] == [2, 3]


def test_types_without_json_come_as_python_has_them(tmp_path):
    row = {"when": datetime.datetime(2024, 1, 2), "raw": b"\0\xff", "big": 2**63 - 1, "list": [[1.5], []]}
    (file,) = find_inputs([write_rows(tmp_path / "a.parquet", [row], "parquet")])
    assert take(file)[1] == [Record(row, 1, -1)]


@pytest.mark.parametrize("container", ["parquet", "arrow", "arrow_stream"])
def test_a_cut_file_is_an_error_with_its_name(tmp_path, container):
    path = write_rows(tmp_path / "a.data", ROWS, container)
    path.write_bytes(path.read_bytes()[: 1400 if container == "arrow_stream" else -20])
    (file,) = find_inputs([path])
    splitter = BlockSplitter(file, 0)
    kind = {"parquet": "Parquet file", "arrow": "Arrow file", "arrow_stream": "Arrow stream"}[container]
    with pytest.raises(DataError, match=rf"`a\.data` is not a sound {kind}: ") as caught:
        list(splitter)
    assert "cut short" in caught.value.hint
    assert splitter.sha256 == "unread"


@pytest.mark.parametrize("container", ["parquet", "arrow", "arrow_stream"])
def test_two_columns_of_one_name_are_refused(tmp_path, container):
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    (file,) = find_inputs([write_rows(tmp_path / "a.data", table, container)])
    with pytest.raises(DataError, match=r"`a\.data`: two columns are named `a`"):
        list(BlockSplitter(file, 0))


@pytest.mark.parametrize("container", ["parquet", "arrow", "arrow_stream"])
def test_a_file_without_rows_has_no_blocks(tmp_path, container):
    (file,) = find_inputs([write_rows(tmp_path / "a.data", pa.table({"a": pa.array([], pa.string())}), container)])
    blocks, found, splitter = take(file)
    assert (blocks, found, splitter.places) == ([], [], 0)
    assert len(splitter.sha256) == 64
