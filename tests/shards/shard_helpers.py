"""Shards for the tests of this folder: made-up packs, written, and the manifest that a job would write for them."""

import dataclasses
import itertools
import mmap
from pathlib import Path

import numpy as np

from packtool.format import (
    COLUMNS,
    FileEntry,
    Manifest,
    Pack,
    PackRows,
    ShardEntry,
    TokenizerEntry,
    column_dtypes,
)
from packtool.read.formats import open_shard
from packtool.write.formats import shard_writer

FORMATS = [("npy", "none"), ("parquet", "none"), ("parquet", "zstd")]
SLOTS = ("tokens", "labels", "input_pos")


def make_rows(pack_lens, max_seq_len, *, vocab=100_000, storage="npy", seed=0):
    """Packs with pieces of the given lengths: [[3, 1], [4]] is two packs of two and one pieces."""
    rng = np.random.default_rng(seed)
    dtypes = column_dtypes(storage, vocab, max_seq_len)
    shape = (len(pack_lens), max_seq_len)
    tokens = rng.integers(0, vocab, shape).astype(dtypes["tokens"])
    labels = np.where(rng.random(shape) < 0.3, -100, tokens.astype(np.int64)).astype(dtypes["labels"])
    input_pos = rng.integers(0, max_seq_len, shape).astype(dtypes["input_pos"])
    seq_lens = np.array([length for lens in pack_lens for length in lens], dtypes["seq_lens"])
    records = rng.integers(0, 2**62, len(seq_lens)).astype(dtypes["records"])
    seq_offsets = np.cumsum([0, *map(len, pack_lens)]).astype(np.int64)
    return PackRows(tokens, labels, input_pos, seq_lens, records, seq_offsets)


def cut_rows(rows, start, stop):
    """Packs start..stop as a run of their own."""
    offsets = rows.seq_offsets[start : stop + 1]
    pieces = slice(offsets[0], offsets[-1])
    slots = (getattr(rows, column)[start:stop] for column in SLOTS)
    return PackRows(*slots, rows.seq_lens[pieces], rows.records[pieces], offsets - offsets[0])


def make_manifest(storage, compression, entry, rows, *, vocab=100_000):
    """A manifest with the fields that shards are checked against; the rest is filled in plausibly."""
    packs, max_seq_len = rows.tokens.shape
    tokens = int(rows.seq_lens.sum())
    return Manifest(
        max_seq_len=max_seq_len,
        storage=storage,
        compression=compression,
        packs=packs,
        pieces=len(rows.seq_lens),
        samples=len(rows.seq_lens),
        records=len(rows.seq_lens),
        tokens=tokens,
        trained=tokens,
        max_pieces=int(np.diff(rows.seq_offsets).max()),
        lower_bound=-(-tokens // max_seq_len),
        lost={},
        outcomes={"packed": len(rows.seq_lens)},
        reading="all",
        settings={},
        inputs=(),
        tokenizer=TokenizerEntry("none", "", vocab, -1, -1, -1, "", ()),
        shards=(entry,),
        files=(),
        content_sha256="0" * 64,
    )


def start_shard(directory, rows, storage, compression, *, vocab=100_000, name="shard-00000"):
    """A writer for all of `rows`, nothing appended yet."""
    packs, max_seq_len = rows.tokens.shape
    dtypes = column_dtypes(storage, vocab, max_seq_len)
    return shard_writer(
        storage,
        compression,
        directory,
        name,
        packs=packs,
        pieces=len(rows.seq_lens),
        max_seq_len=max_seq_len,
        dtypes=dtypes,
    )


def file_entries(directory, files):
    return tuple(FileEntry(file, (directory / file).stat().st_size, "0" * 64) for file in files)


def write_shard(directory: Path, rows, storage, compression, *, vocab=100_000, cuts=(), name="shard-00000"):
    """Write `rows`, appended in runs that end at `cuts`; returns the shard's entry and the manifest."""
    writer = start_shard(directory, rows, storage, compression, vocab=vocab, name=name)
    bounds = [0, *cuts, len(rows.tokens)]
    for start, stop in itertools.pairwise(bounds):
        writer.append(cut_rows(rows, start, stop))
    entry = ShardEntry(name, len(rows.tokens), len(rows.seq_lens), file_entries(directory, writer.close()))
    return entry, make_manifest(storage, compression, entry, rows, vocab=vocab)


def resized(directory, entry):
    """The entry with the sizes that the files have now: what a forger would write into the manifest."""
    return dataclasses.replace(entry, files=file_entries(directory, [file.path for file in entry.files]))


def read_all(directory, entry, manifest):
    """Everything that a shard can give, so that whatever is wrong with it shows."""
    shard = open_shard(directory, entry, manifest)
    packs = [shard.pack(i) for i in range(entry.packs)]
    return packs, shard.rows(0, entry.packs)


def assert_pack(pack: Pack, rows: PackRows, index: int):
    for column in SLOTS:
        np.testing.assert_array_equal(getattr(pack, column), getattr(rows, column)[index], column)
    pieces = slice(rows.seq_offsets[index], rows.seq_offsets[index + 1])
    np.testing.assert_array_equal(pack.seq_lens, rows.seq_lens[pieces])
    np.testing.assert_array_equal(pack.records, rows.records[pieces])
    for column in COLUMNS:
        assert getattr(pack, column).dtype == getattr(rows, column).dtype, column
        assert not getattr(pack, column).flags.writeable, column


def assert_rows(got: PackRows, expected: PackRows):
    for column in (*COLUMNS, "seq_offsets"):
        a, b = getattr(got, column), getattr(expected, column)
        np.testing.assert_array_equal(a, b, column)
        assert a.dtype == b.dtype, column
        assert not a.flags.writeable, column


def is_mapped(array):
    """Whether an array is a view of a mapped file."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)
