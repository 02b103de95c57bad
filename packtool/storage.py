"""The one seam to the file system: atomic writes, checksums, and publishing a finished folder.

A file appears whole or not at all: it is written beside its place under a temporary name and renamed. A dataset appears
the same way: it is built in a scratch folder beside the output and renamed when its manifest is written.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from packtool.errors import UsageError
from packtool.format import FileEntry

__all__ = [
    "file_entries",
    "free_place",
    "publish",
    "scratch_folder",
    "sha256_file",
    "sha256_text",
    "tree_size",
    "write_atomic",
]

_CHUNK = 1 << 20


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file under a temporary name beside its place, then rename it."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def sha256_file(path: Path) -> str:
    """sha256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def file_entries(folder: Path, names: Iterable[str]) -> tuple[FileEntry, ...]:
    """Size and sha256 of files below `folder`."""
    return tuple(FileEntry(name, (folder / name).stat().st_size, sha256_file(folder / name)) for name in names)


def tree_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def scratch_folder(out: Path) -> Path:
    """Where a run that makes `out` keeps its unfinished work: a hidden folder beside it, on the same file system."""
    return out.with_name(f".{out.name}.packing")


def free_place(out: Path, *, overwrite: bool, manifest: str) -> None:
    """Check that a dataset can be published as `out`.

    Raises:
        UsageError: something is there that must not be replaced, or the parent folder is missing.
    """
    if not out.parent.is_dir():
        raise UsageError(
            f"`{out.parent}` is no folder, so `{out.name}` cannot be made in it",
            hint="make it first, or choose another `--out`",
        )
    if not out.exists() and not out.is_symlink():
        return
    if not overwrite:
        raise UsageError(f"`{out}` is there already", hint="choose another `--out`, or replace it with `--overwrite`")
    if out.is_symlink() or not out.is_dir() or (any(out.iterdir()) and not (out / manifest).is_file()):
        raise UsageError(
            f"`{out}` is no packed dataset, so `--overwrite` does not replace it",
            hint="move it away yourself, or choose another `--out`",
        )


def publish(built: Path, out: Path) -> None:
    """Rename a finished folder to its place; a dataset that is there is moved aside first and then removed."""
    old = out.with_name(f".{out.name}.old")
    if out.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(out, old)
    os.rename(built, out)
    shutil.rmtree(old, ignore_errors=True)


def sha256_text(text: str) -> str:
    """sha256 of a text's UTF-8 bytes in hex."""
    return hashlib.sha256(text.encode()).hexdigest()
