"""What was written is what is read, for every shard format, by packtool's readers and by others'."""

import json
import pickle
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_helpers import (
    FORMATS,
    SLOTS,
    assert_pack,
    assert_rows,
    cut_rows,
    is_mapped,
    make_rows,
    write_shard,
)

from packtool.format import COLUMNS, PAGES_COLUMNS
from packtool.read.formats import open_shard
from packtool.write.formats import WRITERS
from packtool.write.parquet import GROUP_SLOTS


@st.composite
def shards(draw):
    """max_seq_len, pieces of each pack, vocabulary size, and cut points for the appended runs."""
    max_seq_len = draw(st.integers(2, 70))
    pack_lens = []
    for _ in range(draw(st.integers(1, 12))):
        cuts = sorted(draw(st.sets(st.integers(1, max_seq_len), min_size=1, max_size=8)))
        pack_lens.append([stop - start for start, stop in zip([0, *cuts], cuts, strict=False)])
    cuts = sorted(draw(st.lists(st.integers(0, len(pack_lens)), max_size=4)))
    return max_seq_len, pack_lens, draw(st.sampled_from([300, 65_536, 65_537, 150_000])), cuts


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
@settings(deadline=None)
@given(shards(), st.integers(0, 2**32), st.sampled_from([1, 100, 1 << 20]))
def test_reading_gives_what_was_written(storage, compression, shard, seed, group_slots):
    max_seq_len, pack_lens, vocab, cuts = shard
    rows = make_rows(pack_lens, max_seq_len, vocab=vocab, storage=storage, seed=seed)
    groups = mock.patch.dict(GROUP_SLOTS, dict.fromkeys(GROUP_SLOTS, group_slots))
    with tempfile.TemporaryDirectory() as folder, groups:
        entry, manifest = write_shard(Path(folder), rows, storage, compression, vocab=vocab, cuts=cuts)
        reader = open_shard(Path(folder), entry, manifest)
        packs = len(pack_lens)
        for index in range(packs):
            assert_pack(reader.pack(index), rows, index)
        for start in range(packs + 1):
            for stop in (start, (start + packs + 1) // 2, packs):
                assert_rows(reader.rows(start, stop), cut_rows(rows, start, stop))


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_bytes_do_not_depend_on_the_appended_runs(tmp_path, storage, compression):
    rows = make_rows([[3, 4], [8], [1, 1, 1], [2]] * 20, 8, storage=storage)
    written = []
    with mock.patch.dict(GROUP_SLOTS, {"none": 100, "zstd": 100}):
        for i, cuts in enumerate([(), (1,), (0, 33, 33, 79), tuple(range(80))]):
            entry, _ = write_shard(tmp_path / str(i), rows, storage, compression, cuts=cuts)
            written.append({file.path: (tmp_path / str(i) / file.path).read_bytes() for file in entry.files})
    assert all(files == written[0] for files in written)


def test_npy_files_are_what_numpy_loads(tmp_path):
    rows = make_rows([[3, 4], [8], [1, 1, 1]], 8, vocab=500)
    entry, _ = write_shard(tmp_path, rows, "npy", "none", vocab=500)
    assert [file.path for file in entry.files] == [f"shard-00000/{c}.npy" for c in (*COLUMNS, "seq_offsets")]
    for column in (*COLUMNS, "seq_offsets"):
        loaded = np.load(tmp_path / f"shard-00000/{column}.npy", mmap_mode="r", allow_pickle=False)
        np.testing.assert_array_equal(loaded, getattr(rows, column))
        assert loaded.dtype == getattr(rows, column).dtype
        assert loaded.flags.c_contiguous
        saved = tmp_path / "saved.npy"
        np.save(saved, getattr(rows, column))
        assert saved.read_bytes() == (tmp_path / f"shard-00000/{column}.npy").read_bytes()


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_parquet_files_are_what_pyarrow_reads(tmp_path, compression):
    rows = make_rows([[3, 4], [8], [1, 1, 1]] * 50, 8, storage="parquet")
    with mock.patch.dict(GROUP_SLOTS, {"none": 256, "zstd": 256}):
        entry, _ = write_shard(tmp_path, rows, "parquet", compression)
    extra = ["shard-00000.pages.npy"] if compression == "none" else []
    assert [file.path for file in entry.files] == ["shard-00000.parquet", *extra]
    file = pq.ParquetFile(tmp_path / "shard-00000.parquet")
    assert file.metadata.num_row_groups == 5
    table = file.read()
    for column in COLUMNS:
        kind = table.schema.field(column)
        assert not kind.nullable
        assert not kind.type.value_field.nullable
        lists = table.column(column).to_pylist()
        if column in SLOTS:
            assert lists == getattr(rows, column).tolist()
        else:
            pieces = np.split(getattr(rows, column), rows.seq_offsets[1:-1])
            assert lists == [part.tolist() for part in pieces]
    chunk = file.metadata.row_group(0).column(0)
    assert chunk.compression == ("UNCOMPRESSED" if compression == "none" else "ZSTD")
    assert not chunk.has_dictionary_page


def test_pages_point_at_the_values(tmp_path):
    rows = make_rows([[3, 4], [8], [1, 1, 1]] * 50, 8, storage="parquet")
    write_shard(tmp_path, rows, "parquet", "none")
    pages = np.load(tmp_path / "shard-00000.pages.npy", allow_pickle=False)
    data = (tmp_path / "shard-00000.parquet").read_bytes()
    assert pages.dtype == np.int64
    assert pages.shape == (150, len(PAGES_COLUMNS))
    for index, offsets in enumerate(pages.tolist()):
        for column, offset in zip(COLUMNS, offsets, strict=False):
            values = getattr(cut_rows(rows, index, index + 1), column)
            assert data[offset : offset + values.nbytes] == values.tobytes()


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
@pytest.mark.parametrize("max_seq_len", [262_144, 131_072, 65_536])
def test_long_packs(tmp_path, storage, compression, max_seq_len):
    """A pack is longer than a data page should be, and must still be in one piece."""
    rows = make_rows([[max_seq_len], [1] * 5000, [max_seq_len - 1, 1]], max_seq_len, storage=storage)
    entry, manifest = write_shard(tmp_path, rows, storage, compression)
    reader = open_shard(tmp_path, entry, manifest)
    for index in range(3):
        assert_pack(reader.pack(index), rows, index)
    assert_rows(reader.rows(0, 3), rows)
    expected = np.uint16 if storage == "npy" and max_seq_len == 65_536 else None
    assert expected is None or reader.pack(0).input_pos.dtype == expected


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_one_pack_of_one_piece(tmp_path, storage, compression):
    rows = make_rows([[1]], 2, vocab=256, storage=storage)
    entry, manifest = write_shard(tmp_path, rows, storage, compression, vocab=256)
    reader = open_shard(tmp_path, entry, manifest)
    assert_pack(reader.pack(0), rows, 0)
    assert_rows(reader.rows(0, 0), cut_rows(rows, 0, 0))


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_packs_outside_the_shard_are_refused(tmp_path, storage, compression):
    rows = make_rows([[3], [4]], 8, storage=storage)
    entry, manifest = write_shard(tmp_path, rows, storage, compression)
    reader = open_shard(tmp_path, entry, manifest)
    for index in (-1, 2, 2**40):
        with pytest.raises(IndexError, match="2 packs"):
            reader.pack(index)
    for start, stop in ((-1, 1), (1, 0), (0, 3)):
        with pytest.raises(IndexError, match="2 packs"):
            reader.rows(start, stop)


@pytest.mark.parametrize("storage", ["npy", "parquet"])
def test_packs_are_views_of_the_mapped_files(tmp_path, storage):
    rows = make_rows([[300, 4]] * 300, 1024, storage=storage)
    entry, manifest = write_shard(tmp_path, rows, storage, "none")
    reader = open_shard(tmp_path, entry, manifest)
    tracemalloc.start()
    pack = reader.pack(17)
    run = reader.rows(3, 9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all(is_mapped(getattr(pack, column)) for column in COLUMNS)
    if storage == "npy":
        assert all(is_mapped(getattr(run, column)) for column in COLUMNS)
        assert peak < 16_000
    assert_pack(pack, rows, 17)


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_rows_keep_after_the_shard_is_gone(tmp_path, storage, compression):
    rows = make_rows([[3], [4]], 8, storage=storage)
    entry, manifest = write_shard(tmp_path, rows, storage, compression)
    reader = open_shard(tmp_path, entry, manifest)
    pack, run = reader.pack(1), reader.rows(0, 2)
    del reader
    assert_pack(pack, rows, 1)
    assert_rows(run, rows)


def test_zstd_keeps_a_few_row_groups(tmp_path):
    rows = make_rows([[3, 2]] * 40, 8, storage="parquet")
    with mock.patch.dict(GROUP_SLOTS, {"zstd": 16}):
        entry, manifest = write_shard(tmp_path, rows, "parquet", "zstd")
    reader = open_shard(tmp_path, entry, manifest)
    for index in [*range(40), 3, 39, 3]:
        assert_pack(reader.pack(index), rows, index)
    with mock.patch.object(pq.ParquetFile, "read_row_group", side_effect=AssertionError):
        assert_pack(reader.pack(38), rows, 38)
        assert_pack(reader.pack(2), rows, 2)


CHILD = """
import json, pickle, sys
from pathlib import Path
from packtool.read.formats import open_shard
entry, manifest = pickle.loads(Path("job.pickle").read_bytes())
shard = open_shard(Path("."), entry, manifest)
total = int(shard.pack(1).tokens.sum()) + int(shard.rows(0, 2).records.sum() % 1000)
print(json.dumps([total, sorted(set(sys.modules) & {"pyarrow", "torch", "zstandard", "tokenizers", "typer", "tqdm"})]))
"""


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_reading_imports_pyarrow_for_zstd_only(tmp_path, storage, compression):
    rows = make_rows([[3], [4]], 8, storage=storage)
    job = write_shard(tmp_path, rows, storage, compression)
    (tmp_path / "job.pickle").write_bytes(pickle.dumps(job))
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r})\n{CHILD}"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    total, modules = json.loads(result.stdout)
    assert total == int(rows.tokens[1].sum()) + int(rows.records.sum() % 1000)
    assert modules == (["pyarrow"] if compression == "zstd" else [])


@pytest.mark.parametrize(("storage", "compression", "limit"), [(*FORMATS[0], 3), (*FORMATS[1], 60), (*FORMATS[2], 8)])
def test_writing_takes_bounded_memory(tmp_path, storage, compression, limit):
    """A shard of 192 MiB; limits: the run at hand, a row group of 48 MiB and its levels, a row group of 1.5 MiB."""
    packs, run = 4096, 64
    rows = make_rows([[4000, 96]] * run, 4096, storage=storage)
    dtypes = {column: getattr(rows, column).dtype for column in COLUMNS}
    held = pa.total_allocated_bytes()
    tracemalloc.start()
    start = WRITERS[storage, compression]
    writer = start(tmp_path, "big", packs=packs, pieces=2 * packs, max_seq_len=4096, dtypes=dtypes)
    for _ in range(packs // run):
        writer.append(rows)
    writer.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < limit * 2**20
    assert pa.total_allocated_bytes() - held < limit * 2**20
