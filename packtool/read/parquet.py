"""Reads Parquet shards, in the two dresses that write/parquet.py describes.

MappedParquetShard: uncompressed pages, mapped. `<name>.pages.npy` has the byte offset of each pack's values, so a pack
is five views of the mapped file: numpy and the standard library only. Values lie behind page headers of any length, so
views may be unaligned, which numpy handles. Opening proves that all offsets stay inside the file.

ZstdParquetShard: row groups decoded by pyarrow, which is imported when the first such shard is opened. A random pack
costs the decoding of its row group (131,072 slots: about 2 ms); the last few row groups are kept, 1.6 MB each.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packtool.errors import FormatError
from packtool.format import COLUMNS, PAGES_COLUMNS, Manifest, Pack, PackRows, ShardEntry
from packtool.read.npy import (
    SLOT_COLUMNS,
    advise_random,
    advise_soon,
    broken,
    check_counts,
    check_index,
    check_range,
    check_seq_lens,
    check_size,
    map_file,
    map_npy,
    read_only,
    shard_files,
)

__all__ = ["MappedParquetShard", "ZstdParquetShard"]

MAGIC = b"PAR1"
GROUPS_KEPT = 4


class MappedParquetShard:
    """One uncompressed Parquet shard, opened; a ShardReader."""

    def __init__(self, directory: Path, entry: ShardEntry, manifest: Manifest) -> None:
        """Map and check the shard.

        Raises:
            FormatError: naming the file that is missing, unreadable or not what the manifest says.
        """
        data_file, pages_file = shard_files(directory, entry, [f"{entry.name}.parquet", f"{entry.name}.pages.npy"])
        path, pages_path = directory / data_file.path, directory / pages_file.path
        self._packs = entry.packs
        self._max_seq_len = manifest.max_seq_len
        self._dtypes = manifest.dtypes
        self._data = map_file(directory, data_file)
        head, tail = self._data[:4], self._data[-4:]
        if data_file.size < 12 or head != MAGIC or tail != MAGIC:
            raise broken(path, f"a Parquet file: {MAGIC!r} at both ends", f"{head!r} and {tail!r}")
        footer = int.from_bytes(self._data[-8:-4], "little")
        shape = (entry.packs, len(PAGES_COLUMNS))
        self._pages = map_npy(directory, pages_file, shape, np.dtype("<i8"), random=False)
        if manifest.max_seq_len > data_file.size:  # with counts held to the file's size too, nothing below overflows
            raise broken(path, f"packs of {manifest.max_seq_len} slots", f"{data_file.size} bytes")
        check_counts(pages_path, self._pages[:, -1], min(manifest.max_pieces, data_file.size))
        pieces = int(self._pages[:, -1].sum())
        if pieces != entry.pieces:
            raise broken(pages_path, f"{entry.pieces} pieces", pieces)
        for place, column in enumerate(COLUMNS):
            self._check_places(pages_path, place, column, data_file.size - 8 - footer)
        firsts = np.cumsum(self._pages[:, -1]) - self._pages[:, -1]
        check_seq_lens(path, self._gather("seq_lens", 0, entry.packs), firsts, manifest.max_seq_len)
        advise_random(self._data)
        advise_random(self._pages.base)

    def pack(self, index: int) -> Pack:
        """Pack `index` of this shard, as views."""
        check_index(index, self._packs)
        tokens, labels, input_pos, seq_lens, records, pieces = self._pages[index].tolist()
        data, slots, dtypes = self._data, self._max_seq_len, self._dtypes
        return Pack(
            np.frombuffer(data, dtypes["tokens"], slots, tokens),
            np.frombuffer(data, dtypes["labels"], slots, labels),
            np.frombuffer(data, dtypes["input_pos"], slots, input_pos),
            np.frombuffer(data, dtypes["seq_lens"], pieces, seq_lens),
            np.frombuffer(data, dtypes["records"], pieces, records),
        )

    def rows(self, start: int, stop: int) -> PackRows:
        """Packs start..stop of this shard, copied."""
        check_range(start, stop, self._packs)
        columns = {column: read_only(self._gather(column, start, stop)) for column in COLUMNS}
        for column in SLOT_COLUMNS:
            columns[column] = columns[column].reshape(stop - start, self._max_seq_len)
        return PackRows(**columns, seq_offsets=read_only(_bounds(self._pages[start:stop, -1])))

    def _sizes(self, column: str, start: int, stop: int) -> NDArray[np.int64]:
        """Bytes of each pack's values."""
        counts = np.full(stop - start, self._max_seq_len) if column in SLOT_COLUMNS else self._pages[start:stop, -1]
        sizes: NDArray[np.int64] = counts * self._dtypes[column].itemsize
        return sizes

    def _check_places(self, path: Path, place: int, column: str, limit: int) -> None:
        """Refuse offsets outside the file's pages, or of packs that overlap or are out of order."""
        starts, sizes = self._pages[:, place], self._sizes(column, 0, self._packs)
        wrong = (starts < len(MAGIC)) | (starts > limit - sizes)
        if not wrong.any():  # or the sums below could overflow
            wrong[1:] = starts[1:] < starts[:-1] + sizes[:-1]
        if wrong.any():
            pack = int(wrong.argmax())
            raise broken(
                path,
                f"`{column}` of every pack in order between bytes {len(MAGIC)} and {limit}",
                f"{sizes[pack]} bytes at {starts[pack]} for pack {pack}",
            )

    def _gather(self, column: str, start: int, stop: int) -> NDArray[Any]:
        """A copy of the values of packs start..stop; those that follow one another in the file are copied at once."""
        dtype = self._dtypes[column]
        starts, sizes = self._pages[start:stop, COLUMNS.index(column)], self._sizes(column, start, stop)
        out = np.empty(int(sizes.sum()) // dtype.itemsize, dtype)
        if start == stop:
            return out
        breaks = np.flatnonzero(starts[1:] != starts[:-1] + sizes[:-1]) + 1
        firsts = np.concatenate([np.zeros(1, np.int64), breaks])
        counts = np.add.reduceat(sizes, firsts) // dtype.itemsize
        at = 0
        places = list(zip(starts[firsts].tolist(), counts.tolist(), strict=True))
        for place, count in places:
            advise_soon(self._data, place, count * dtype.itemsize)
        for place, count in places:
            out[at : at + count] = np.frombuffer(self._data, dtype, count, place)
            at += count
        return out


class ZstdParquetShard:
    """One compressed Parquet shard, opened; a ShardReader. Threads may share it."""

    def __init__(self, directory: Path, entry: ShardEntry, manifest: Manifest) -> None:
        """Open and check the shard; decodes its `seq_lens`.

        Raises:
            FormatError: naming the file that is missing, unreadable or not what the manifest says.
        """
        (file,) = shard_files(directory, entry, [f"{entry.name}.parquet"])
        self._path = directory / file.path
        self._packs = entry.packs
        self._max_seq_len = manifest.max_seq_len
        self._dtypes = manifest.dtypes
        self._groups: dict[int, PackRows] = {}  # the last used one last
        self._lock = threading.Lock()
        self._file, lists = self._open(file.size)
        self._firsts = self._check_groups()
        bounds, seq_lens = _flat(lists)
        if len(seq_lens) != entry.pieces:
            raise broken(self._path, f"{entry.pieces} pieces", len(seq_lens))
        check_counts(self._path, np.diff(bounds), manifest.max_pieces)
        check_seq_lens(self._path, seq_lens, bounds[:-1], manifest.max_seq_len)

    def pack(self, index: int) -> Pack:
        """Pack `index` of this shard, as views of its decoded row group."""
        check_index(index, self._packs)
        group = self._group_of(index)
        rows = self._group(group)
        row = index - int(self._firsts[group])
        pieces = slice(*rows.seq_offsets[row : row + 2].tolist())
        return Pack(
            rows.tokens[row], rows.labels[row], rows.input_pos[row], rows.seq_lens[pieces], rows.records[pieces]
        )

    def rows(self, start: int, stop: int) -> PackRows:
        """Packs start..stop of this shard, copied."""
        check_range(start, stop, self._packs)
        parts = list(self._parts(start, stop)) or [_cut(self._group(0), 0, 0)]
        columns = {c: read_only(np.concatenate([getattr(part, c) for part in parts])) for c in COLUMNS}
        counts = np.concatenate([np.diff(part.seq_offsets) for part in parts])
        return PackRows(**columns, seq_offsets=read_only(_bounds(counts)))

    def _group_of(self, index: int) -> int:
        return int(np.searchsorted(self._firsts, index, side="right")) - 1

    def _parts(self, start: int, stop: int) -> Iterator[PackRows]:
        """Packs start..stop, cut at row groups."""
        while start < stop:
            group = self._group_of(start)
            first, last = int(self._firsts[group]), min(stop, int(self._firsts[group + 1]))
            yield _cut(self._group(group), start - first, last - first)
            start = last

    def _open(self, size: int) -> tuple[Any, Any]:
        """The open Parquet file and its `seq_lens`, after its schema was checked."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        expected = pa.schema(
            pa.field(
                column,
                pa.list_(pa.field("element", pa.from_numpy_dtype(self._dtypes[column]), nullable=False)),
                nullable=False,
            )
            for column in COLUMNS
        )
        try:
            check_size(self._path, size)
            file = pq.ParquetFile(self._path, memory_map=True)
            if not file.schema_arrow.equals(expected):
                raise broken(self._path, f"the columns {_one_line(expected)}", _one_line(file.schema_arrow))
            return file, file.read(["seq_lens"], use_threads=False).column(0)
        except FormatError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise broken(self._path, "a Parquet file that can be read", error) from None

    def _check_groups(self) -> NDArray[np.int64]:
        """The first pack of each row group, and the number of packs, after the footer's counts were checked."""
        metadata, slots = self._file.metadata, self._max_seq_len
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        counts = [group.num_rows for group in groups]
        if sum(counts) != self._packs or min(counts) < 1:
            raise broken(self._path, f"row groups of {self._packs} packs together", f"{counts[:4]}... of {sum(counts)}")
        for place, column in enumerate(SLOT_COLUMNS):
            for group in groups:
                if group.column(place).num_values != group.num_rows * slots:
                    expected = f"{group.num_rows * slots} values of `{column}` in {group.num_rows} packs"
                    raise broken(self._path, expected, group.column(place).num_values)
        return _bounds(np.array(counts))

    def _group(self, group: int) -> PackRows:
        """A decoded row group, from those kept or from the file."""
        with self._lock:
            rows = self._groups.pop(group, None)
            if rows is None:
                rows = self._decode(group)
            self._groups[group] = rows
            if len(self._groups) > GROUPS_KEPT:
                del self._groups[next(iter(self._groups))]
            return rows

    def _decode(self, group: int) -> PackRows:
        import pyarrow as pa

        try:
            table = self._file.read_row_group(group, list(COLUMNS), use_threads=False)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise broken(self._path, f"row group {group} to be readable", error) from None
        columns, bounds = {}, {}
        for column in COLUMNS:
            bounds[column], columns[column] = _flat(table.column(column))
        slots = np.arange(table.num_rows + 1, dtype=np.int64) * self._max_seq_len
        for column in COLUMNS:
            expected = slots if column in SLOT_COLUMNS else bounds["seq_lens"]
            if not np.array_equal(bounds[column], expected):
                what = f"{self._max_seq_len} values" if column in SLOT_COLUMNS else "a value for every piece"
                raise broken(self._path, f"{what} of `{column}` in every pack", f"others in row group {group}")
        for column in SLOT_COLUMNS:
            columns[column] = columns[column].reshape(-1, self._max_seq_len)
        return PackRows(**columns, seq_offsets=read_only(bounds["seq_lens"]))


def _flat(lists: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Bounds and values of a column of lists: [[5, 6], [7]] -> [0, 2, 3], [5, 6, 7]."""
    counts = [chunk.value_lengths().to_numpy(zero_copy_only=False) for chunk in lists.chunks]
    values = [chunk.flatten().to_numpy(zero_copy_only=True) for chunk in lists.chunks]
    return _bounds(np.concatenate(counts)), values[0] if len(values) == 1 else read_only(np.concatenate(values))


def _bounds(counts: NDArray[Any]) -> NDArray[np.int64]:
    """[3, 1] -> [0, 3, 4]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _cut(rows: PackRows, start: int, stop: int) -> PackRows:
    """Packs start..stop of a run, as views."""
    offsets = rows.seq_offsets[start : stop + 1]
    pieces = slice(int(offsets[0]), int(offsets[-1]))
    return PackRows(
        rows.tokens[start:stop],
        rows.labels[start:stop],
        rows.input_pos[start:stop],
        rows.seq_lens[pieces],
        rows.records[pieces],
        offsets - offsets[0],
    )


def _one_line(schema: Any) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)
