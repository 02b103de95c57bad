"""The npy shard: a folder of plain .npy files, written by appending.

    <name>/tokens.npy  labels.npy  input_pos.npy     [packs, max_seq_len]
    <name>/seq_lens.npy  records.npy                 [pieces]
    <name>/seq_offsets.npy                           [packs + 1] int64

The counts are known before the first pack, so each header is written first and values follow as they come: memory is
the run of packs at hand. Every file is .npy version 1.0, C order, little endian, as `np.load(mmap_mode="r")` reads it.
"""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from packtool.format import COLUMNS, PackRows

__all__ = ["NpyShardWriter", "check_counts", "check_rows", "publish", "temporary", "write_npy_header"]

npy_format: Any = np.lib.format  # Any: it has no annotations
SLOT_COLUMNS = ("tokens", "labels", "input_pos")
OFFSETS = np.dtype("<i8")


class NpyShardWriter:
    """Writes one npy shard; a ShardWriter."""

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        packs: int,
        pieces: int,
        max_seq_len: int,
        dtypes: Mapping[str, np.dtype[Any]],
    ) -> None:
        self._name = name
        self._folder = directory / name
        self._expected = (packs, pieces)
        self._written = (0, 0)
        self._max_seq_len = max_seq_len
        self._dtypes = dict(dtypes)
        self._files: dict[str, BinaryIO] = {}
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(COLUMNS, (pieces,))
        shapes |= dict.fromkeys(SLOT_COLUMNS, (packs, max_seq_len))
        shapes["seq_offsets"] = (packs + 1,)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for column, shape in shapes.items():
                self._files[column] = temporary(self._path(column)).open("wb")
                write_npy_header(self._files[column], shape, self._dtypes.get(column, OFFSETS))
            self._files["seq_offsets"].write(np.zeros(1, OFFSETS).data)
        except BaseException:
            self.abort()
            raise

    def append(self, rows: PackRows) -> None:
        """Write the next run of packs.

        Raises:
            RuntimeError: an array has another dtype or shape than this shard stores.
        """
        check_rows(rows, self._max_seq_len, self._dtypes)
        packs, pieces = self._written
        for column in COLUMNS:
            self._files[column].write(np.ascontiguousarray(getattr(rows, column)).data)
        self._files["seq_offsets"].write((rows.seq_offsets[1:] + pieces).astype(OFFSETS, copy=False).data)
        self._written = packs + len(rows.tokens), pieces + len(rows.seq_lens)

    def close(self) -> tuple[str, ...]:
        """Finish the files, give them their names and return those.

        Raises:
            RuntimeError: other counts were appended than the headers promise.
        """
        for file in self._files.values():
            file.close()
        check_counts(self._name, self._expected, self._written)
        publish(self._path(column) for column in self._files)
        return tuple(f"{self._name}/{column}.npy" for column in self._files)

    def abort(self) -> None:
        """Remove what is unfinished; files that `close` named stay."""
        for column, file in self._files.items():
            with contextlib.suppress(OSError):  # a full disk fails again when the last buffer is flushed
                file.close()
            temporary(self._path(column)).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty: an earlier try was published
            self._folder.rmdir()

    def _path(self, column: str) -> Path:
        return self._folder / f"{column}.npy"


def write_npy_header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Start a .npy file, version 1.0, C order."""
    npy_format.write_array_header_1_0(
        file, {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    )


def temporary(path: Path) -> Path:
    """The name that `path` has until it is finished."""
    return path.with_name(f"{path.name}.tmp")


def publish(paths: Iterable[Path]) -> None:
    """Give finished files their names: all of them or none."""
    done: list[Path] = []
    try:
        for path in paths:
            os.replace(temporary(path), path)
            done.append(path)
    except OSError:
        for path in done:
            path.unlink(missing_ok=True)
        raise


def check_rows(rows: PackRows, max_seq_len: int, dtypes: Mapping[str, np.dtype[Any]]) -> None:
    """Refuse a run of packs that is not in the stored form: written as raw bytes, it would be silently wrong.

    Raises:
        RuntimeError: naming the array; only packtool itself can cause it.
    """
    packs, pieces = len(rows.seq_offsets) - 1, len(rows.seq_lens)
    for column in COLUMNS:
        array = getattr(rows, column)
        expected = (packs, max_seq_len) if column in SLOT_COLUMNS else (pieces,)
        if array.dtype != dtypes[column] or array.shape != expected:
            raise RuntimeError(
                f"`{column}`: expected {dtypes[column]} {list(expected)}, got {array.dtype} {list(array.shape)}"
            )
    if packs < 0 or rows.seq_offsets[0] != 0 or rows.seq_offsets[-1] != pieces:
        raise RuntimeError(f"`seq_offsets`: expected 0 to {pieces}, got {rows.seq_offsets}")


def check_counts(name: str, expected: tuple[int, int], written: tuple[int, int]) -> None:
    """Refuse to finish a shard with other counts than were announced.

    Raises:
        RuntimeError: naming the counts of packs and pieces; only packtool itself can cause it.
    """
    if written != expected:
        raise RuntimeError(f"`{name}`: expected {expected} packs and pieces, got {written}")
