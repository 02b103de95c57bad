"""Shards that were damaged, swapped or forged: opening refuses each with a FormatError that names the file."""

import contextlib
import dataclasses
import os
import re
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_helpers import FORMATS, make_rows, read_all, write_shard

from packtool.errors import FormatError
from packtool.format import COLUMNS, FileEntry
from packtool.read.formats import open_shard

PACKS = [[3, 4], [8], [1, 1, 1], [2, 6]]
NPY_FILES = [f"shard-00000/{column}.npy" for column in (*COLUMNS, "seq_offsets")]
ALL_FILES = [
    *(("npy", "none", file) for file in NPY_FILES),
    ("parquet", "none", "shard-00000.parquet"),
    ("parquet", "none", "shard-00000.pages.npy"),
    ("parquet", "zstd", "shard-00000.parquet"),
]


@pytest.mark.parametrize(("storage", "compression", "file"), ALL_FILES)
class TestAnyFile:
    def test_missing(self, shard, storage, compression, file):
        shard.write(storage, compression)
        (shard.folder / file).unlink()
        shard.refuses(file, "can be read, got No such file")

    @pytest.mark.parametrize("size", [0, 1, 7, 100, -1])
    def test_truncated(self, shard, storage, compression, file, size):
        shard.write(storage, compression)
        data = (shard.folder / file).read_bytes()
        (shard.folder / file).write_bytes(data[:size])
        shard.refuses(file, f"expected {len(data)} bytes, got {len(data[:size])}")

    @pytest.mark.parametrize("size", [0, 1, 7, 100, -1])
    def test_truncated_and_forged(self, shard, storage, compression, file, size):
        shard.write(storage, compression)
        data = (shard.folder / file).read_bytes()
        (shard.folder / file).write_bytes(data[:size])
        shard.refuses(file, "expected", forge=True)

    def test_extended(self, shard, storage, compression, file):
        shard.write(storage, compression)
        with (shard.folder / file).open("ab") as out:
            out.write(bytes(8))
        shard.refuses(file, "bytes, got")
        shard.refuses(file, "expected", forge=True)

    def test_wrong_magic(self, shard, storage, compression, file):
        shard.write(storage, compression)
        with (shard.folder / file).open("r+b") as out:
            out.write(b"XX")
            out.seek(-2, os.SEEK_END)
            out.write(b"XX")
        shard.refuses(file, "expected")

    def test_a_folder_a_pipe_and_a_dangling_link(self, shard, storage, compression, file):
        shard.write(storage, compression)
        path = shard.folder / file
        path.unlink()
        path.mkdir()
        shard.refuses(file, "regular file, got d")
        path.rmdir()
        os.mkfifo(path)
        shard.refuses(file, "regular file, got p")
        path.unlink()
        path.symlink_to("nowhere")
        shard.refuses(file, "No such file")

    def test_not_permitted(self, shard, storage, compression, file, monkeypatch):
        """By patching: these tests may run as root, who may read everything."""
        shard.write(storage, compression)
        stat = Path.stat

        def refuse(path, **kwargs):
            if path == shard.folder / file:
                raise PermissionError(13, "Permission denied")
            return stat(path, **kwargs)

        monkeypatch.setattr(Path, "stat", refuse)
        with pytest.raises(FormatError, match=rf"{re.escape(file)}`: expected .* can be read, got Permission denied"):
            open_shard(shard.folder, shard.entry, shard.manifest)

    def test_not_listed_or_listed_twice(self, shard, storage, compression, file):
        shard.write(storage, compression)
        files = shard.entry.files
        for changed in (
            tuple(entry for entry in files if entry.path != file),
            (*files, dataclasses.replace(files[0], path="shard-00000.extra")),
            (*files, files[0]),
        ):
            shard.entry = dataclasses.replace(shard.entry, files=changed)
            shard.refuses("manifest.json", "the files shard-00000.* for shard-00000")


@pytest.mark.parametrize("file", [*NPY_FILES, "shard-00000.pages.npy"])
class TestNpyHeaders:
    def change(self, shard, file, save):
        shard.write("parquet" if "pages" in file else "npy", "none")
        path = shard.folder / file
        save(path, np.load(path))
        shard.refuses(file, "expected", forge=True)

    def test_wrong_dtype(self, shard, file):
        self.change(shard, file, lambda path, array: np.save(path, array.astype(np.float64)))

    def test_same_size_other_dtype(self, shard, file):
        self.change(shard, file, lambda path, array: np.save(path, array.view(f"V{array.itemsize}")))

    def test_big_endian(self, shard, file):
        self.change(shard, file, lambda path, array: np.save(path, array.astype(array.dtype.newbyteorder(">"))))

    def test_wrong_shape(self, shard, file):
        self.change(shard, file, lambda path, array: np.save(path, array[:-1]))
        self.change(shard, file, lambda path, array: np.save(path, array[None]))
        self.change(shard, file, lambda path, array: np.save(path, array[..., None]))

    def test_transposed(self, shard, file):
        if file.split("/")[-1] in ("seq_lens.npy", "records.npy", "seq_offsets.npy"):
            pytest.skip("one axis has one order")
        self.change(shard, file, lambda path, array: np.save(path, array.T))
        self.change(shard, file, lambda path, array: np.save(path, np.asfortranarray(array)))

    def test_pickle(self, shard, file):
        class Bomb:
            def __reduce__(self):
                return os.system, ("touch exploded",)

        def save(path, array):
            bombs = np.full(array.shape, Bomb(), object)
            np.save(path, bombs, allow_pickle=True)

        self.change(shard, file, save)
        assert not Path("exploded").exists()

    @pytest.mark.parametrize(
        "text",
        [
            "{'descr': '<u4', 'fortran_order': False, 'shape': (1152921504606846976, 8), }",
            "{'descr': '<u4', 'fortran_order': False, 'shape': (-1, 8), }",
            "{'descr': '<u4', 'fortran_order': 0, 'shape': (4, 8), }",
            "{'descr': [('a', '<u4')], 'fortran_order': False, 'shape': (4, 8), }",
            "{'descr': 'nothing', 'fortran_order': False, 'shape': (4, 8), }",
            "{'descr': '<u4', 'shape': (4, 8), }",
            "[" * 300,
            "(" * 200 + "1" + ")" * 200,
            "__import__('os').system('touch exploded')",
            "'",
            "\\",
            "",
            "{'descr': '<u4', 'fortran_order': False, 'shape': (4, 8), }" + " " * 5000,
        ],
    )
    def test_strange_headers(self, shard, file, text):
        def save(path, array):
            header = text.encode("latin1")
            path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + array.tobytes())

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's advice on headers of Python 2
            self.change(shard, file, save)
        assert not Path("exploded").exists()

    def test_header_longer_than_the_file(self, shard, file):
        self.change(shard, file, lambda path, array: path.write_bytes(b"\x93NUMPY\x01\x00\xff\xff{"))

    def test_version_2(self, shard, file):
        def save(path, array):
            with path.open("wb") as out:
                np.lib.format.write_array(out, array, version=(2, 0))

        self.change(shard, file, save)


def test_a_huge_shape_in_the_manifest(shard):
    for storage, compression in FORMATS:
        shard.write(storage, compression)
        for change in ({"packs": 2**60}, {"pieces": 2**60}, {"packs": 5}, {"pieces": 7}):
            entry = dataclasses.replace(shard.entry, **change)
            with pytest.raises(FormatError, match="expected"):
                open_shard(shard.folder, entry, shard.manifest)
        for length in (4, 16, 2**31, 2**62, 2**63 - 1):
            manifest = dataclasses.replace(shard.manifest, max_seq_len=length, max_pieces=length)
            with pytest.raises(FormatError, match="expected"):
                open_shard(shard.folder, shard.entry, manifest)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([1, 2, 3, 6, 8], "offsets from 0 to 8, got 1 to 8"),
        ([0, 2, 3, 6, 9], "offsets from 0 to 8, got 0 to 9"),
        ([0, 2, 3, 6, 7], "got 0 to 7"),
        ([0, 3, 2, 6, 8], "1 to 3 pieces in every pack, got -1 in pack 1"),
        ([0, 2, 2, 6, 8], "got 0 in pack 1"),
        ([0, 1, 2, 3, 8], "got 5 in pack 3"),
        ([0, 2**62, -(2**62), 6, 8], "in pack 0"),
        ([0, -(2**63), 2**63 - 1, 6, 8], "in pack 0"),
    ],
)
def test_seq_offsets(shard, values, match):
    shard.write("npy", "none")
    file = "shard-00000/seq_offsets.npy"
    np.save(shard.folder / file, np.array(values, "<i8"))
    shard.refuses(file, match)


@pytest.mark.parametrize(
    ("piece", "value", "match"),
    [
        (0, 0, "at least 1 token, got 0 for piece 0"),
        (7, -5, "got -5 for piece 7"),
        (2, 9, "at most 8 tokens a pack, got 9"),
    ],
)
@pytest.mark.parametrize(("storage", "compression"), FORMATS)
def test_seq_lens(shard, storage, compression, piece, value, match):
    shard.write(storage, compression)
    lens = shard.rows.seq_lens.copy()
    lens[piece] = value
    rows = dataclasses.replace(shard.rows, seq_lens=lens)
    shard.entry, shard.manifest = write_shard(shard.folder, rows, storage, compression)
    file = "shard-00000/seq_lens.npy" if storage == "npy" else "shard-00000.parquet"
    shard.refuses(file, match)


def test_seq_lens_whose_sum_wraps_round(shard):
    shard.write("npy", "none")
    lens = np.full_like(shard.rows.seq_lens, 2**30)
    shard.entry, shard.manifest = write_shard(
        shard.folder, dataclasses.replace(shard.rows, seq_lens=lens), "npy", "none"
    )
    shard.refuses("shard-00000/seq_lens.npy", "at most 8 tokens a pack")


@pytest.mark.parametrize(("storage", "compression"), FORMATS)
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_changed_bytes_never_lead_out_of_the_files(storage, compression, data):
    """Whatever bytes change: a FormatError, or packs of the right shapes; never another error, never a crash."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        rows = make_rows(PACKS, 8, storage=storage)
        entry, manifest = write_shard(directory, rows, storage, compression)
        file: FileEntry = data.draw(st.sampled_from(entry.files))
        content = bytearray((directory / file.path).read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        (directory / file.path).write_bytes(content)
        with warnings.catch_warnings(), contextlib.suppress(FormatError):
            warnings.simplefilter("ignore")
            packs, run = read_all(directory, entry, manifest)
            assert run.tokens.shape == run.labels.shape == run.input_pos.shape == rows.tokens.shape
            assert all(len(pack.tokens) == 8 and 1 <= pack.seq_lens.sum() <= 8 for pack in packs)
            assert all(len(pack.seq_lens) == len(pack.records) for pack in packs)
