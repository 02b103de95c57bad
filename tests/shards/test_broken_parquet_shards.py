"""Forged page offsets, and Parquet files with other contents: each refused with a FormatError that names the file."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shard_helpers import read_all, resized

from packtool.format import COLUMNS


def rewrite(path, change):
    """Change an array file in place."""
    array = np.load(path)
    change(array)
    np.save(path, array)


@pytest.mark.parametrize("column", range(5))
@pytest.mark.parametrize("value", ["end", "footer", 0, 3, -1, 2**62, 2**63 - 1, -(2**63), "before", "after"])
def test_page_offsets_out_of_range(shard, column, value):
    shard.write("parquet", "none")
    file = "shard-00000.pages.npy"
    size = (shard.folder / "shard-00000.parquet").stat().st_size

    def change(pages):
        previous, following = int(pages[0, column]), int(pages[2, column])
        known = {"end": size - 4, "footer": size - 40, "before": previous - 4, "after": following}
        pages[1, column] = known.get(value, value)

    rewrite(shard.folder / file, change)
    shard.refuses(file, f"`{COLUMNS[column]}` of every pack in order between bytes 4 and")


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([2, 1, 3, 0], "got 0 in pack 3"),
        ([2, 1, 4, 1], "1 to 3 pieces in every pack, got 4 in pack 2"),
        ([2, 1, 3, 1], "8 pieces, got 7"),
        ([2, 1, -3, 8], "in pack 2"),
        ([2**62, 2**62, 2**62, 2**62 + 8], "in pack 0"),
    ],
)
def test_page_piece_counts(shard, values, match):
    shard.write("parquet", "none")
    rewrite(shard.folder / "shard-00000.pages.npy", lambda pages: pages.__setitem__((slice(None), 5), values))
    shard.refuses("shard-00000.pages.npy", match)


def test_page_piece_counts_that_overflow_with_a_forged_manifest(shard):
    shard.write("parquet", "none")
    rewrite(shard.folder / "shard-00000.pages.npy", lambda pages: pages.__setitem__((slice(None), 5), 2**61))
    shard.entry = dataclasses.replace(shard.entry, pieces=2**63)
    shard.manifest = dataclasses.replace(shard.manifest, max_pieces=2**62)
    shard.refuses("shard-00000.pages.npy", "in pack 0")


def parquet_table(rows):
    ends = np.arange(len(rows.tokens) + 1) * rows.tokens.shape[1]
    columns = {}
    for column in COLUMNS:
        values = getattr(rows, column).ravel()
        kind = pa.list_(pa.field("element", pa.from_numpy_dtype(values.dtype), nullable=False))
        bounds = ends if getattr(rows, column).ndim == 2 else rows.seq_offsets
        columns[column] = pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(values), type=kind)
    fields = [pa.field(column, array.type, nullable=False) for column, array in columns.items()]
    return pa.table(columns, schema=pa.schema(fields))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda table: table.drop_columns("labels"), "the columns tokens"),
        (lambda table: table.select(["labels", "tokens", "input_pos", "seq_lens", "records"]), "the columns tokens"),
        (lambda table: table.append_column("more", table["tokens"]), "the columns tokens"),
        (lambda table: table.cast(pa.schema([f.with_nullable(True) for f in table.schema])), "not null"),
        (lambda table: table.set_column(1, "labels", table["records"]), "the columns tokens"),
        (lambda table: table.slice(0, 3), "4 packs"),
        (lambda table: table.slice(0, 0), "packs"),
        (
            lambda table: table.set_column(
                0,
                table.schema.field("tokens"),
                pa.ListArray.from_arrays(pa.array([0, 7, 16, 24, 32], pa.int32()), table["tokens"].chunk(0).values)
                .cast(table.schema.field("tokens").type),
            ),
            "8 values of `tokens` in every pack",
        ),
        (
            lambda table: table.set_column(4, table.schema.field("records"), table["records"].take([1, 0, 2, 3])),
            "a value for every piece of `records` in every pack",
        ),
        (
            lambda table: table.set_column(2, table.schema.field("input_pos"), table["seq_lens"]),
            "32 values of `input_pos` in 4 packs, got 8",
        ),
    ],
)  # fmt: skip
def test_other_parquet_contents(shard, change, match):
    shard.write("parquet", "zstd")
    table = parquet_table(shard.rows)
    path = shard.folder / "shard-00000.parquet"
    pq.write_table(table, path, compression="zstd")
    read_all(shard.folder, resized(shard.folder, shard.entry), shard.manifest)  # an equal table by another hand is fine
    pq.write_table(change(table), path, compression="zstd")
    shard.refuses("shard-00000.parquet", match, forge=True)
