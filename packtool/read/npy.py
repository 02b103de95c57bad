"""Reads npy shards: every array a read-only view of a mapped file. numpy and the standard library only.

Opening maps six files and proves, without touching tokens, that no later access can leave them: sizes, headers, offsets
and piece lengths. Price: one pass over `seq_lens` and `seq_offsets`, about 1 % of a shard. A shard keeps a file
descriptor for each of its files (none from Python 3.13 on) until it is garbage collected.
"""

import mmap
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packtool.errors import FormatError
from packtool.format import COLUMNS, FileEntry, Manifest, Pack, PackRows, ShardEntry

__all__ = [
    "SLOT_COLUMNS",
    "NpyShard",
    "advise_random",
    "advise_soon",
    "broken",
    "check_counts",
    "check_index",
    "check_range",
    "check_seq_lens",
    "check_size",
    "map_file",
    "map_npy",
    "read_only",
    "shard_files",
]

npy_format: Any = np.lib.format  # Any: its annotations lack max_header_size
SLOT_COLUMNS = ("tokens", "labels", "input_pos")
OFFSETS = np.dtype("<i8")
# A header of packtool takes 128 bytes; numpy evaluates the text, so a stranger's must not be long.
MAX_HEADER = 1024


class NpyShard:
    """One npy shard, opened; a ShardReader."""

    def __init__(self, directory: Path, entry: ShardEntry, manifest: Manifest) -> None:
        """Map and check the shard.

        Raises:
            FormatError: naming the file that is missing, unreadable or not what the manifest says.
        """
        names = [f"{entry.name}/{column}.npy" for column in (*COLUMNS, "seq_offsets")]
        files = shard_files(directory, entry, names)
        dtypes = manifest.dtypes
        slots = (entry.packs, manifest.max_seq_len)
        self._packs = entry.packs
        self._tokens = map_npy(directory, files[0], slots, dtypes["tokens"])
        self._labels = map_npy(directory, files[1], slots, dtypes["labels"])
        self._input_pos = map_npy(directory, files[2], slots, dtypes["input_pos"])
        # These three are read in order first, which is the opposite of what the advice says.
        self._seq_lens = map_npy(directory, files[3], (entry.pieces,), dtypes["seq_lens"], random=False)
        self._records = map_npy(directory, files[4], (entry.pieces,), dtypes["records"])
        self._offsets = map_npy(directory, files[5], (entry.packs + 1,), OFFSETS, random=False)
        check_offsets(directory / files[5].path, self._offsets, entry.pieces, manifest.max_pieces)
        check_seq_lens(directory / files[3].path, self._seq_lens, self._offsets[:-1], manifest.max_seq_len)
        for array in (self._seq_lens, self._offsets):
            advise_random(array.base)

    def pack(self, index: int) -> Pack:
        """Pack `index` of this shard, as views."""
        check_index(index, self._packs)
        pieces = slice(*self._offsets[index : index + 2].tolist())
        return Pack(
            self._tokens[index],
            self._labels[index],
            self._input_pos[index],
            self._seq_lens[pieces],
            self._records[pieces],
        )

    def rows(self, start: int, stop: int) -> PackRows:
        """Packs start..stop of this shard, as views."""
        check_range(start, stop, self._packs)
        offsets = self._offsets[start : stop + 1]
        pieces = slice(int(offsets[0]), int(offsets[-1]))
        for array in (self._tokens, self._labels, self._input_pos):
            data: Any = array.base  # the map, which ends where the array does
            row = array.strides[0]
            advise_soon(data, len(data) - array.nbytes + start * row, (stop - start) * row)
        return PackRows(
            self._tokens[start:stop],
            self._labels[start:stop],
            self._input_pos[start:stop],
            self._seq_lens[pieces],
            self._records[pieces],
            read_only(offsets - offsets[0]),
        )


# ------------------------------------------------------------------------------------------------------------- mapping


def map_file(directory: Path, entry: FileEntry) -> mmap.mmap:
    """Map a file of the dataset, read-only.

    Raises:
        FormatError: it is missing, unreadable, no regular file, or not of the size in the manifest.
    """
    path = directory / entry.path
    try:
        check_size(path, entry.size)
        with path.open("rb") as file:
            if sys.version_info >= (3, 13):
                return mmap.mmap(file.fileno(), entry.size, access=mmap.ACCESS_READ, trackfd=False)
            return mmap.mmap(file.fileno(), entry.size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: the file shrank since its size was checked
        if isinstance(error, FormatError):
            raise
        raise broken(path, "a file that can be read", error) from None


def check_size(path: Path, size: int) -> None:
    """Refuse what is no regular file of `size` bytes, before anything opens it: opening a pipe would wait for ever."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise broken(path, "a regular file", stat.filemode(info.st_mode))
    if info.st_size != size or size == 0:
        raise broken(path, f"{max(size, 1)} bytes", info.st_size)


def map_npy(
    directory: Path, entry: FileEntry, shape: tuple[int, ...], dtype: np.dtype[Any], *, random: bool = True
) -> NDArray[Any]:
    """Map a .npy file whose header and size must be exactly what is expected; `base` of the result is the map.

    Raises:
        FormatError: naming the file and what differs.
    """
    path = directory / entry.path
    data = map_file(directory, entry)
    try:
        version = npy_format.read_magic(data)
        if version != (1, 0):
            raise broken(path, ".npy version 1.0", ".".join(map(str, version)))
        found = npy_format.read_array_header_1_0(data, max_header_size=MAX_HEADER)
    except FormatError:
        raise
    except Exception as error:  # a stranger's bytes: whatever numpy stumbles over, the file is not ours
        raise broken(path, "a .npy header", error) from None
    expected = (shape, False, dtype)
    if found != expected:
        raise broken(path, _header(*expected), _header(*found))
    start, count = data.tell(), int(np.prod(shape, dtype=object))
    if start + count * dtype.itemsize != entry.size:
        raise broken(path, f"{start + count * dtype.itemsize} bytes", entry.size)
    if random:
        advise_random(data)
    array: NDArray[Any] = np.ndarray(shape, dtype, data, start)
    return array


def _header(shape: tuple[int, ...], fortran: bool, dtype: np.dtype[Any]) -> str:
    return f"{dtype} {list(shape)} in {'Fortran' if fortran else 'C'} order"


def advise_random(data: object) -> None:
    """Ask the system, where it can be asked, not to read ahead: a cold pack then costs 0.2 ms, not 5 ms."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
        data.madvise(mmap.MADV_RANDOM)


def advise_soon(data: mmap.mmap, start: int, size: int) -> None:
    """Ask the system to read a run of bytes at once: without read-ahead, cold packs in order come at 150 MB/s."""
    if hasattr(mmap, "MADV_WILLNEED") and size:
        page = start - start % mmap.PAGESIZE
        data.madvise(mmap.MADV_WILLNEED, page, start + size - page)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, so that no caller can change what another one sees."""
    array.setflags(write=False)
    return array


# -------------------------------------------------------------------------------------------------------------- checks


def broken(path: Path, expected: str, got: object) -> FormatError:
    """The error for a file that is not what the manifest says."""
    if isinstance(got, OSError):
        got = got.strerror or got
    return FormatError(
        f"`{path}`: expected {expected}, got {got}", hint="copy the dataset again, or pack the sources again"
    )


def shard_files(directory: Path, entry: ShardEntry, names: Sequence[str]) -> tuple[FileEntry, ...]:
    """The shard's files, which must be `names` and nothing else.

    Raises:
        FormatError: the manifest lists others.
    """
    listed = {file.path: file for file in entry.files}
    if sorted(listed) != sorted(names) or len(listed) != len(entry.files):
        got = ", ".join(file.path for file in entry.files) or "none"
        raise broken(directory / "manifest.json", f"the files {', '.join(names)} for {entry.name}", got)
    return tuple(listed[name] for name in names)


def check_offsets(path: Path, offsets: NDArray[np.int64], pieces: int, max_pieces: int) -> None:
    """Refuse offsets that do not go from 0 to `pieces` in steps of 1..max_pieces.

    Raises:
        FormatError: naming the file.
    """
    if offsets[0] != 0 or offsets[-1] != pieces:
        raise broken(path, f"offsets from 0 to {pieces}", f"{offsets[0]} to {offsets[-1]}")
    check_counts(path, np.diff(offsets), min(max_pieces, pieces))  # at most pieces: so no difference wrapped round


def check_counts(path: Path, counts: NDArray[np.int64], max_pieces: int) -> None:
    """Refuse packs with other than 1..max_pieces pieces.

    Raises:
        FormatError: naming the file and the pack.
    """
    wrong = (counts < 1) | (counts > max_pieces)
    if wrong.any():
        pack = int(wrong.argmax())
        raise broken(path, f"1 to {max_pieces} pieces in every pack", f"{counts[pack]} in pack {pack}")


def check_seq_lens(path: Path, seq_lens: NDArray[Any], firsts: NDArray[np.int64], max_seq_len: int) -> None:
    """Refuse pieces that are empty, and packs that are over-full.

    Args:
        path: for the message.
        seq_lens: [pieces] length of each piece.
        firsts: [packs] the first piece of each pack.
        max_seq_len: slots of a pack.

    Raises:
        FormatError: naming the file and the pack.
    """
    if seq_lens.min() < 1:
        raise broken(path, "pieces of at least 1 token", f"{seq_lens.min()} for piece {int(seq_lens.argmin())}")
    used = np.add.reduceat(seq_lens, firsts, dtype=np.int64)
    if used.max() > max_seq_len:
        raise broken(path, f"at most {max_seq_len} tokens a pack", f"{used.max()} in pack {int(used.argmax())}")


def check_index(index: int, packs: int) -> None:
    """Refuse a pack that is not there: numpy would count a negative one from the end.

    Raises:
        IndexError: saying what there is.
    """
    if not 0 <= index < packs:
        raise IndexError(f"pack {index} of a shard of {packs} packs")


def check_range(start: int, stop: int, packs: int) -> None:
    """Refuse packs that are not there: numpy would shorten the run.

    Raises:
        IndexError: saying what there is.
    """
    if not 0 <= start <= stop <= packs:
        raise IndexError(f"packs {start} to {stop} of a shard of {packs} packs")
