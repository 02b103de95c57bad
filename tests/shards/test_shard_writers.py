"""Writers: what they refuse, and what they leave behind."""

import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from shard_helpers import FORMATS, cut_rows, make_rows, start_shard, write_shard

from packtool.errors import FormatError, UsageError
from packtool.format import PackRows
from packtool.read.formats import open_shard
from packtool.write.formats import shard_writer
from packtool.write.parquet import read_thrift_struct

ROOT = Path(__file__).parents[2]


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_files_have_temporary_names_until_closed(tmp_path, storage, compression):
    rows = make_rows([[3], [4]], 8, storage=storage)
    writer = start_shard(tmp_path, rows, storage, compression)
    writer.append(rows)
    assert all(name.endswith(".tmp") or name == "shard-00000" for name in names(tmp_path))
    files = writer.close()
    assert sorted(files) == [name for name in names(tmp_path) if name != "shard-00000"]


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_abort_removes_what_is_unfinished(tmp_path, storage, compression):
    rows = make_rows([[3], [4]], 8, storage=storage)
    writer = start_shard(tmp_path, rows, storage, compression)
    writer.append(cut_rows(rows, 0, 1))
    writer.abort()
    writer.abort()
    assert names(tmp_path) == []


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_abort_after_close_keeps_the_files(tmp_path, storage, compression):
    rows = make_rows([[3], [4]], 8, storage=storage)
    writer = start_shard(tmp_path, rows, storage, compression)
    writer.append(rows)
    writer.close()
    before = names(tmp_path)
    writer.abort()
    assert names(tmp_path) == before


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
@pytest.mark.parametrize("times", [0, 1, 3])
def test_close_refuses_other_counts(tmp_path, storage, compression, times):
    rows = make_rows([[3], [4, 1]] * 2, 8, storage=storage)
    writer = start_shard(tmp_path, rows, storage, compression)
    for _ in range(times):
        writer.append(cut_rows(rows, 0, 2))
    with pytest.raises(RuntimeError, match=r"expected \(4, 6\) packs and pieces"):
        writer.close()
    writer.abort()
    assert names(tmp_path) == []


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("tokens", lambda a: a.astype(np.int64)),
        ("labels", lambda a: a.astype(np.float32)),
        ("input_pos", lambda a: a[:, :-1]),
        ("seq_lens", lambda a: a.astype(np.int64)),
        ("records", lambda a: a[:-1]),
        ("tokens", lambda a: a.astype(a.dtype.newbyteorder())),
        ("seq_offsets", lambda a: a + 1),
        ("seq_offsets", lambda a: a[:-1]),
    ],
)
def test_append_refuses_what_is_not_in_stored_form(tmp_path, storage, compression, column, change):
    rows = make_rows([[3], [4, 1]], 8, storage=storage)
    arrays = {name: getattr(rows, name) for name in PackRows.__dataclass_fields__}
    arrays[column] = change(arrays[column])
    writer = start_shard(tmp_path, rows, storage, compression)
    with pytest.raises(RuntimeError, match="expected"):
        writer.append(PackRows(**arrays))
    writer.abort()


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_arrays_that_are_not_contiguous_are_written_in_order(tmp_path, storage, compression):
    rows = make_rows([[3], [4, 1], [2, 2]], 8, storage=storage)
    fortran = PackRows(
        np.asfortranarray(rows.tokens),
        rows.labels.T.copy().T,
        np.repeat(rows.input_pos, 2, axis=1)[:, ::2],
        np.repeat(rows.seq_lens, 2)[::2],
        rows.records[::-1].copy()[::-1],
        rows.seq_offsets,
    )
    plain, _ = write_shard(tmp_path / "a", rows, storage, compression)
    write_shard(tmp_path / "b", fortran, storage, compression)
    for file in plain.files:
        assert (tmp_path / "a" / file.path).read_bytes() == (tmp_path / "b" / file.path).read_bytes()


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_a_failed_rename_leaves_no_half_shard(tmp_path, storage, compression):
    rows = make_rows([[3], [4]], 8, storage=storage)
    writer = start_shard(tmp_path, rows, storage, compression)
    writer.append(rows)
    blocked = tmp_path / ("shard-00000/records.npy" if storage == "npy" else "shard-00000.parquet")
    (blocked / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        writer.close()
    writer.abort()
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left == []


FULL_DISK = """
import resource, sys
from pathlib import Path
sys.path[:0] = [{root!r}, {here!r}]
from shard_helpers import make_rows, start_shard
rows = make_rows([[300]] * 64, 4096, storage={storage!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writer = start_shard(Path({folder!r}), rows, {storage!r}, {compression!r})
try:
    writer.append(rows)
    writer.close()
except OSError as error:
    print(type(error).__name__)
writer.abort()
"""


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_a_full_disk_is_an_os_error_and_leaves_nothing(tmp_path, storage, compression):
    code = FULL_DISK.format(
        root=str(ROOT), here=str(Path(__file__).parent), folder=str(tmp_path), storage=storage, compression=compression
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "OSError\n"
    assert result.stderr == ""
    assert names(tmp_path) == []


def test_pages_that_hold_other_values_are_never_published(tmp_path):
    """A pyarrow that lays pages out in another way must fail in the writer."""
    rows = make_rows([[3], [4]], 8, storage="parquet")
    writer = start_shard(tmp_path, rows, "parquet", "none")
    writer.append(rows)
    with (
        mock.patch("packtool.write.parquet._pack_offsets", lambda data, area, lengths, size: np.cumsum(lengths)),
        pytest.raises(RuntimeError, match="column `tokens`: expected plain pages, got other values"),
    ):
        writer.close()
    writer.abort()
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "setting",
    [{"compression": "snappy"}, {"use_dictionary": True}, {"data_page_version": "1.0"}],
    ids=["codec", "dictionary", "page version"],
)
def test_pages_that_cannot_be_mapped_are_never_published(tmp_path, setting):
    import pyarrow.parquet as pq

    rows = make_rows([[3], [4]] * 40, 64, storage="parquet")
    whole = pq.ParquetWriter

    def writer_with(*args, **kwargs):
        return whole(*args, **(kwargs | setting))

    with mock.patch("pyarrow.parquet.ParquetWriter", writer_with):
        writer = start_shard(tmp_path, rows, "parquet", "none")
        writer.append(rows)
        with pytest.raises(RuntimeError, match="expected plain pages"):
            writer.close()
    writer.abort()
    assert names(tmp_path) == []


def test_unknown_formats_are_refused(tmp_path):
    with pytest.raises(UsageError, match="npy with compression zstd"):
        shard_writer("npy", "zstd", tmp_path, "x", packs=1, pieces=1, max_seq_len=2, dtypes={})
    rows = make_rows([[3]], 8)
    entry, manifest = write_shard(tmp_path, rows, "npy", "none")
    object.__setattr__(manifest, "compression", "zstd")
    with pytest.raises(FormatError, match=r"manifest\.json.*npy with compression zstd"):
        open_shard(tmp_path, entry, manifest)


def test_shard_names_may_have_folders(tmp_path):
    for storage, compression in FORMATS:
        rows = make_rows([[3]], 8, storage=storage)
        folder = tmp_path / storage / compression
        entry, manifest = write_shard(folder, rows, storage, compression, name="part/shard")
        assert all(file.path.startswith("part/shard") for file in entry.files)
        open_shard(folder, entry, manifest)


def test_thrift_structs():
    """By hand from the compact protocol: delta and long field numbers, zigzag, booleans, lists, nested structs."""
    data = bytes(
        [
            0x15, 0x06,                          # field 1, i32: 3
            0x16, 0x01,                          # field 2, i64: -1
            0x11, 0x12,                          # fields 3 and 4: true, false
            0x18, 0x02, 0x61, 0x62,              # field 5, binary: "ab"
            0x19, 0x25, 0x02, 0x04,              # field 6, list of i32: 1, 2
            0x1C, 0x15, 0x80, 0x01, 0x00,        # field 7, struct: field 1 is 64
            0x05, 0xC8, 0x01, 0x02,              # field 100, i32: 1
            0x00,
        ]
    )  # fmt: skip
    expected = {1: 3, 2: -1, 3: True, 4: False, 5: b"ab", 6: [1, 2], 7: {1: 64}, 100: 1}
    assert read_thrift_struct(data, 0) == (expected, len(data))


@pytest.mark.parametrize("data", [b"\x1c" * 40, b"\x15" + b"\xff" * 20, b"\x17\x00", b"\x1b\x00"])
def test_what_is_no_thrift_struct_is_refused(data):
    with pytest.raises(RuntimeError, match="Thrift"):
        read_thrift_struct(data, 0)
