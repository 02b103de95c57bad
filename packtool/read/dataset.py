"""A dataset as a sequence of packs.

Opening reads and checks the manifest, and the size, header and offsets of every file. Files are mapped when one of
their packs is first asked for; the ones used last stay mapped.
"""

import hashlib
import operator
import os
from bisect import bisect_right
from collections import OrderedDict
from itertools import accumulate
from os import PathLike, fspath
from pathlib import Path

from packtool.errors import FormatError, UsageError
from packtool.format import FileEntry, Manifest, Pack, PackRows, manifest_from_bytes
from packtool.read.formats import open_shard
from packtool.read.shards import ShardReader

__all__ = ["CHECKS", "MANIFEST", "Dataset", "check_sums", "open_dataset"]


def _open_files() -> int:
    """How many files this process may have open."""
    try:
        import resource  # not on every platform
    except ImportError:
        return 512
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else min(soft, 4096)


MANIFEST = "manifest.json"
CHECKS = ("quick", "full")
_MOST_MANIFEST = 1 << 28  # bytes; a manifest has about 1 kB a shard
# Shards kept open: a quarter of the files that this process may open, at six a shard, so that several datasets fit;
# compressed ones are few, because each keeps decoded row groups.
_OPEN_SHARDS = {"none": max(4, _open_files() // 4 // 6), "zstd": 4}


class Dataset:
    """Packs by number. Made by `open_dataset`; pickled by path, so workers map the files themselves.

    Attributes:
        path: the dataset's folder.
        manifest: what it is; see packtool.format.Manifest.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._ends = list(accumulate(shard.packs for shard in manifest.shards))
        self._open: OrderedDict[int, ShardReader] = OrderedDict()

    def __len__(self) -> int:
        return self.manifest.packs

    def __getitem__(self, index: int) -> Pack:
        """Pack `index`; negative numbers count from the end.

        Raises:
            IndexError: there is no such pack.
            FormatError: the shard's files are not what the manifest says.
        """
        number = operator.index(index)
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"pack {index} of {len(self)}")
        at = bisect_right(self._ends, number)
        return self.shard(at).pack(number - (self._ends[at] - self.manifest.shards[at].packs))

    def __getstate__(self) -> tuple[str, Manifest]:
        return fspath(self.path), self.manifest

    def __setstate__(self, state: tuple[str, Manifest]) -> None:
        self.__init__(Path(state[0]), state[1])  # type: ignore[misc]

    def shard(self, index: int) -> ShardReader:
        """Reader of shard `index`, checked and mapped at first use; the ones used last stay open."""
        reader = self._open.pop(index, None)
        if reader is None:
            reader = open_shard(self.path, self.manifest.shards[index], self.manifest)
            while len(self._open) >= _OPEN_SHARDS[self.manifest.compression]:
                self._open.popitem(last=False)
        self._open[index] = reader
        return reader

    def rows(self, start: int, stop: int) -> PackRows:
        """Packs start..stop of one shard, stacked; `stop` must not pass the end of the shard of `start`.

        Raises:
            IndexError: the range leaves the dataset or the shard.
        """
        at = bisect_right(self._ends, start)
        if not 0 <= start < stop <= len(self) or stop > self._ends[at]:
            raise IndexError(f"packs {start}..{stop} are not within one shard")
        first = self._ends[at] - self.manifest.shards[at].packs
        return self.shard(at).rows(start - first, stop - first)


def open_dataset(path: str | PathLike[str], *, check: str = "quick") -> Dataset:
    """Open a packed dataset.

    Args:
        path: its folder.
        check: `quick` proves the manifest and every file's size, header and offsets, so that no later access can leave
            a file; `full` also proves the sha256 of every file.

    Raises:
        FormatError: it is no dataset, is not complete, or is damaged; the message names the file.
        UsageError: `check` is neither.
    """
    if check not in CHECKS:
        raise UsageError(f"`check`: expected one of {', '.join(f'`{c}`' for c in CHECKS)}, got `{check}`")
    folder = Path(os.path.abspath(fspath(path)))  # shards are opened later, maybe after a chdir
    manifest = _read_manifest(folder)
    data = Dataset(folder, manifest)
    for entry in manifest.files:
        _check_size(folder, entry)
    for index in range(len(manifest.shards)):
        data.shard(index)
    if check == "full":
        check_sums(folder, manifest)
    return data


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        if path.exists() and not path.is_file():
            raise FormatError(f"`{path}` is no ordinary file")
        if path.stat().st_size > _MOST_MANIFEST:
            raise FormatError(f"`{path}` has {path.stat().st_size} bytes, more than any manifest")
        data = path.read_bytes()
    except FileNotFoundError:
        what = "is not complete: it has no manifest.json" if folder.is_dir() else "does not exist"
        raise FormatError(
            f"`{folder}` {what}", hint="`packtool pack` writes the manifest last, when all the rest is there"
        ) from None
    except OSError as error:
        raise FormatError(f"`{path}` cannot be read: {error.strerror}") from None
    return manifest_from_bytes(data, str(path))


def _check_size(folder: Path, entry: FileEntry) -> None:
    path = folder / entry.path
    try:
        size = path.stat().st_size
    except OSError as error:
        raise FormatError(f"`{path}` cannot be read: {error.strerror}", hint="copy the dataset again") from None
    if size != entry.size:
        raise FormatError(f"`{path}` has {size} bytes, expected {entry.size}", hint="copy the dataset again")


def check_sums(folder: Path, manifest: Manifest) -> None:
    """Prove the sha256 of every file that the manifest lists.

    Raises:
        FormatError: naming the first file that differs.
    """
    for entry in [*manifest.files, *(file for shard in manifest.shards for file in shard.files)]:
        path = folder / entry.path
        digest = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
        except OSError as error:
            raise FormatError(f"`{path}` cannot be read: {error.strerror}") from None
        if digest.hexdigest() != entry.sha256:
            raise FormatError(
                f"`{path}` is damaged: its sha256 is {digest.hexdigest()}, expected {entry.sha256}",
                hint="copy the dataset again, or pack the sources again",
            )
