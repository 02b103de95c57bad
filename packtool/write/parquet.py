"""The Parquet shard: one row a pack, in one of two dresses that any Parquet reader reads.

    <name>.parquet      tokens list<uint32>, labels list<int32>, input_pos list<int32>, seq_lens list<int32>,
                        records list<int64>; nothing is nullable
    <name>.pages.npy    compression "none" only: [packs, 6] int64, columns format.PAGES_COLUMNS

"none" is for training. Values are PLAIN, uncompressed and without dictionary, so a page is

    [page header][repetition levels][definition levels][the packs' values, one after another, little endian]

and a pack can be mapped where it lies, once its byte offset is known. pyarrow does not tell offsets: `close` scans the
page headers of the finished file for them, and compares a checksum over the bytes found there with one over the values
that were appended, so that a pyarrow that lays pages out in another way fails here and not in training. Version 2 pages
begin and end between rows: a pack is never cut, however long it is.

"zstd" is for storage and shuffled streaming: row groups of 131,072 slots (about 2 ms to decode), BYTE_STREAM_SPLIT
then zstd level 3. On 3.5 M tokens of instruct data (4,096 slots) that is 2.2 bytes a slot where PLAIN takes 2.4,
dictionaries 2.7 and DELTA_BINARY_PACKED 3.3; level 9 gains 2 % more for three times the time.
"""

import contextlib
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from packtool.format import COLUMNS, PAGES_COLUMNS, PackRows
from packtool.write.npy import SLOT_COLUMNS, check_counts, check_rows, publish, temporary, write_npy_header

__all__ = ["ParquetShardWriter"]

# Slots of a row group: 16 MiB of tokens keep the footer small; 131,072 slots keep a random pack's decoding short.
GROUP_SLOTS = {"none": 1 << 22, "zstd": 1 << 17}
SUFFIXES = {"none": (".parquet", ".pages.npy"), "zstd": (".parquet",)}
SETTINGS: dict[str, dict[str, Any]] = {
    # The page index only helps readers other than packtool to skip pages.
    "none": {"compression": "none", "data_page_size": 1 << 20, "write_batch_size": 4096, "write_page_index": True},
    "zstd": {
        "compression": "zstd",
        "compression_level": 3,
        "column_encoding": {f"{column}.list.element": "BYTE_STREAM_SPLIT" for column in COLUMNS},
    },
}
# Numbers of the Parquet format's PageType and Encoding.
DATA_PAGE_V2 = 3
PLAIN = 0


class ParquetShardWriter:
    """Writes one Parquet shard; a ShardWriter. Memory: one row group, whatever the size of the appended runs."""

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        packs: int,
        pieces: int,
        max_seq_len: int,
        dtypes: Mapping[str, np.dtype[Any]],
        compression: str,
    ) -> None:
        self._name = name
        self._files = tuple(f"{name}{suffix}" for suffix in SUFFIXES[compression])
        self._paths = [directory / file for file in self._files]
        self._expected = (packs, pieces)
        self._written = (0, 0)
        self._max_seq_len = max_seq_len
        self._dtypes = dict(dtypes)
        self._group_packs = min(packs, max(1, GROUP_SLOTS[compression] // max_seq_len))
        # The row group being filled: slots in place, pieces as they came.
        self._slots = {c: np.empty((self._group_packs, max_seq_len), self._dtypes[c]) for c in SLOT_COLUMNS}
        self._pieces: dict[str, list[NDArray[Any]]] = {c: [] for c in COLUMNS if c not in SLOT_COLUMNS}
        self._counts: list[NDArray[np.int64]] = []
        self._filled = 0
        self._group_counts: list[NDArray[np.int64]] = []  # pieces of each pack, one array a finished row group
        self._sums = dict.fromkeys(COLUMNS, 0)
        schema = _schema(self._dtypes)
        self._paths[0].parent.mkdir(parents=True, exist_ok=True)
        self._sink = pa.OSFile(str(temporary(self._paths[0])), "wb")
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            version="2.6",
            data_page_version="2.0",
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
            **SETTINGS[compression],
        )

    def append(self, rows: PackRows) -> None:
        """Take the next run of packs; row groups are cut at the same packs whatever the runs are.

        Raises:
            RuntimeError: an array has another dtype or shape than this shard stores.
        """
        check_rows(rows, self._max_seq_len, self._dtypes)
        packs, start = len(rows.tokens), 0
        while start < packs:
            stop = min(packs, start + self._group_packs - self._filled)
            into = slice(self._filled, self._filled + stop - start)
            for column, slots in self._slots.items():
                slots[into] = getattr(rows, column)[start:stop]
            pieces = slice(int(rows.seq_offsets[start]), int(rows.seq_offsets[stop]))
            for column, runs in self._pieces.items():
                runs.append(getattr(rows, column)[pieces].copy())
            self._counts.append(np.diff(rows.seq_offsets[start : stop + 1]))
            self._filled, start = into.stop, stop
            if self._filled == self._group_packs:
                self._flush()
        self._written = self._written[0] + packs, self._written[1] + len(rows.seq_lens)

    def close(self) -> tuple[str, ...]:
        """Finish the files, give them their names and return those.

        Raises:
            RuntimeError: other counts were appended than announced, or pyarrow laid the values out in a way that cannot
                be mapped.
        """
        if self._filled:
            self._flush()
        self._writer.close()
        self._sink.close()
        check_counts(self._name, self._expected, self._written)
        if len(self._paths) > 1:
            pages = self._locate()
            with temporary(self._paths[1]).open("wb") as file:
                write_npy_header(file, pages.shape, pages.dtype)
                file.write(pages.data)
        publish(self._paths)
        return self._files

    def abort(self) -> None:
        """Remove what is unfinished; files that `close` named stay."""
        with contextlib.suppress(OSError, pa.ArrowException):  # a full disk fails again when the footer is written
            self._writer.close()
        self._writer.is_open = False  # or its destructor would try once more
        with contextlib.suppress(OSError, pa.ArrowException):
            self._sink.close()
        for path in self._paths:
            temporary(path).unlink(missing_ok=True)

    def _flush(self) -> None:
        """Write the row group at hand."""
        counts = np.concatenate(self._counts)
        columns: dict[str, NDArray[Any]] = {c: slots[: self._filled].ravel() for c, slots in self._slots.items()}
        columns |= {c: np.concatenate(runs) for c, runs in self._pieces.items()}
        bounds = _bounds(counts)
        slot_bounds = np.arange(self._filled + 1, dtype=np.int64) * self._max_seq_len
        schema = self._writer.schema
        arrays = []
        for column in COLUMNS:
            kind = schema.field(column).type
            ends = pa.array((slot_bounds if column in SLOT_COLUMNS else bounds).astype(np.int32))
            arrays.append(pa.ListArray.from_arrays(ends, pa.array(columns[column], kind.value_type), type=kind))
            self._sums[column] = zlib.crc32(columns[column].data, self._sums[column])
        table = pa.Table.from_arrays(arrays, schema=schema)
        self._writer.write_table(table, row_group_size=self._filled)
        self._group_counts.append(counts)
        self._counts, self._filled = [], 0
        self._pieces = {column: [] for column in self._pieces}

    def _locate(self) -> NDArray[np.int64]:
        """Find and prove each pack's place in the finished file: [packs, 6], as PAGES_COLUMNS says."""
        path = temporary(self._paths[0])
        metadata = pq.read_metadata(path)
        counts = np.concatenate(self._group_counts)
        pages = np.empty((len(counts), len(PAGES_COLUMNS)), "<i8")
        pages[:, -1] = counts
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for place, column in enumerate(COLUMNS):
                itemsize = self._dtypes[column].itemsize
                lengths = np.full_like(counts, self._max_seq_len) if column in SLOT_COLUMNS else counts
                found, first = 0, 0
                for group in range(metadata.num_row_groups):
                    chunk = metadata.row_group(group).column(place)
                    if chunk.path_in_schema != f"{column}.list.element" or chunk.has_dictionary_page:
                        raise _unmapped(path, column, "another column or a dictionary page")
                    stop = first + metadata.row_group(group).num_rows
                    area = slice(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size)
                    try:
                        offsets = _pack_offsets(data, area, lengths[first:stop], itemsize)
                    except (RuntimeError, LookupError) as error:
                        raise _unmapped(path, column, str(error)) from error
                    pages[first:stop, place] = offsets
                    first = stop
                for start, size in _runs(pages[:, place], lengths * itemsize):
                    found = zlib.crc32(memoryview(data)[start : start + size], found)
                if first != len(counts) or found != self._sums[column]:
                    raise _unmapped(path, column, "other values than were written")
        return pages


def _schema(dtypes: Mapping[str, np.dtype[Any]]) -> Any:
    """All columns are lists in which nothing can be null."""
    kinds = {column: pa.field("element", pa.from_numpy_dtype(dtypes[column]), nullable=False) for column in COLUMNS}
    return pa.schema([pa.field(column, pa.list_(kind), nullable=False) for column, kind in kinds.items()])


def _bounds(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[3, 1] -> [0, 3, 4]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def _runs(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Start and size of the areas that packs fill without a gap: [10, 14, 30], [4, 4, 4] -> [(10, 8), (30, 4)]."""
    breaks = np.flatnonzero(starts[1:] != starts[:-1] + sizes[:-1]) + 1
    firsts = np.concatenate([np.zeros(1, np.int64), breaks])
    return list(zip(starts[firsts].tolist(), np.add.reduceat(sizes, firsts).tolist(), strict=True))


def _unmapped(path: Path, column: str, found: str) -> RuntimeError:
    return RuntimeError(
        f"`{path}`, column `{column}`: expected plain pages, got {found}; pyarrow {pa.__version__} cannot write what "
        "packtool maps"
    )


def _pack_offsets(data: mmap.mmap, area: slice, lengths: NDArray[np.int64], itemsize: int) -> NDArray[np.int64]:
    """Byte offset of each pack's first value in one column chunk, from its page headers.

    lengths  [packs]  values of each pack of the row group
    """
    offsets = np.empty(len(lengths), np.int64)
    at, row = area.start, 0
    while at < area.stop:
        header, at = read_thrift_struct(data, at)
        if header[1] != DATA_PAGE_V2:
            raise RuntimeError(f"a page of type {header[1]}")
        page = header[8]
        values, nulls, rows, encoding, levels = page[1], page[2], page[3], page[4], page[5] + page[6]
        here = lengths[row : row + rows]
        plain = encoding == PLAIN and nulls == 0 and levels + values * itemsize == header[2] == header[3]
        if not plain or len(here) != rows or int(here.sum()) != values or at + header[3] > area.stop:
            raise RuntimeError(f"the page header {header}")
        offsets[row : row + rows] = at + levels + itemsize * _bounds(here)[:-1]
        at, row = at + header[3], row + rows
    if row != len(lengths):
        raise RuntimeError(f"pages for {row} of {len(lengths)} packs")
    return offsets


# ---------------------------------------------------------------------------------------------- Thrift compact protocol


def read_thrift_struct(data: mmap.mmap | bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """A struct in Thrift's compact protocol, as {field number: value}, and where it ends.

    Of the protocol, what page headers use: integers, booleans, binaries, lists and structs.

    Raises:
        RuntimeError: it is something else.
    """
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        kind = head & 15
        if kind in (1, 2):  # booleans are in the kind itself
            fields[number] = kind == 1
        else:
            fields[number], at = _thrift_value(data, at, kind, depth)


def _thrift_value(data: mmap.mmap | bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > 8:
        raise RuntimeError(f"no Thrift struct ends at byte {at}")
    match kind:
        case 1 | 2 | 3:  # inside lists booleans take a byte
            return data[at], at + 1
        case 4 | 5 | 6:
            return _zigzag(data, at)
        case 8:
            size, at = _varint(data, at)
            return data[at : at + size], at + size
        case 9 | 10:
            size, at = data[at] >> 4, at + 1
            inner = data[at - 1] & 15
            if size == 15:
                size, at = _varint(data, at)
            items = []
            for _ in range(size):
                item, at = _thrift_value(data, at, inner, depth + 1)
                items.append(item)
            return items, at
        case 12:
            return read_thrift_struct(data, at, depth + 1)
    raise RuntimeError(f"unknown Thrift type {kind} at byte {at}")


def _zigzag(data: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise RuntimeError(f"no Thrift integer ends at byte {at}")
