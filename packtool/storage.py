"""The one seam to the file system: atomic writes, checksums, and publishing a finished folder.

A file appears whole or not at all: it is written beside its place under a temporary name and renamed. A dataset appears
the same way: it is built in a scratch folder beside the output and renamed when its manifest is written.
"""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from packtool.errors import UsageError
from packtool.format import FileEntry

__all__ = [
    "claimed_scratch",
    "file_entries",
    "free_place",
    "publish",
    "sha256_file",
    "sha256_text",
    "tree_size",
    "write_atomic",
]

_CHUNK = 1 << 20
# Names at the top of a dataset's folder, and the mark of a run's scratch folder.
_OWN = re.compile(r"manifest\.json|ledger\.parquet|settings\.yaml|build\.json|tokenizer|shard-.*")
_MARK = "packtool-scratch"


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


@contextmanager
def claimed_scratch(out: Path) -> Iterator[Path]:
    """A run's scratch folder: hidden, beside `out`, on its file system, empty, this run's alone, removed at the end.

    What a killed run left there is swept. A lock on the folder tells it from one that is in use.

    Raises:
        UsageError: another run makes the same `out`, or the place cannot be written to.
    """
    scratch = out.with_name(f".{out.name}.packing")
    handle = _locked(scratch, out)
    ours = False
    try:
        left = list(scratch.iterdir())
        if left and not (scratch / _MARK).is_file():
            raise UsageError(f"`{scratch}` is in the way, and it is none of packtool's", hint="move it away")
        (scratch / _MARK).touch()
        ours = True
        for path in left:
            if path.name == _MARK:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        yield scratch
    finally:
        if ours:
            shutil.rmtree(scratch, ignore_errors=True)
        os.close(handle)


def _locked(scratch: Path, out: Path) -> int:
    while True:
        try:
            scratch.mkdir(exist_ok=True)
            handle = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise UsageError(
                f"`{scratch.parent}` cannot be written to: {error.strerror}", hint="choose another `--out`"
            ) from None
        kept = False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kept = os.path.samestat(os.fstat(handle), os.stat(scratch))
        except BlockingIOError:
            raise UsageError(
                f"another run is making `{out}` at this moment", hint="wait for it, or choose another `--out`"
            ) from None
        except FileNotFoundError:
            pass  # the run before removed it between our opening and our lock: take a new one
        finally:
            if not kept:
                os.close(handle)
        if kept:
            return handle


def _aside(out: Path) -> Path:
    """Where a dataset lies while another takes its place."""
    return out.with_name(f".{out.name}.old")


def free_place(out: Path, *, overwrite: bool) -> None:
    """Check that a dataset can be published as `out`.

    Raises:
        UsageError: something is there that must not be replaced, or the parent folder is missing.
    """
    if not out.parent.is_dir():
        raise UsageError(
            f"`{out.parent}` is no folder, so `{out.name}` cannot be made in it",
            hint="make it first, or choose another `--out`",
        )
    old = _aside(out)
    if (old.exists() or old.is_symlink()) and not _is_dataset(old):
        raise UsageError(f"`{old}` is in the way: a dataset that is replaced is moved there", hint="move it away")
    if not out.exists() and not out.is_symlink():
        return
    if not overwrite:
        raise UsageError(f"`{out}` is there already", hint="choose another `--out`, or replace it with `--overwrite`")
    if not _is_dataset(out):
        raise UsageError(
            f"`{out}` is no packed dataset, so `--overwrite` does not replace it",
            hint="move it away yourself, or choose another `--out`",
        )
    strange = sorted(path.name for path in out.iterdir() if not _OWN.fullmatch(path.name))
    if strange:
        raise UsageError(
            f"`{out}` holds `{strange[0]}`, which packtool did not write, so `--overwrite` does not replace it",
            hint="move it away, or choose another `--out`",
        )


def _is_dataset(folder: Path) -> bool:
    """Whether a folder is empty, or has a manifest that packtool wrote."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    if not any(folder.iterdir()):
        return True
    try:
        return b'"format": "packtool"' in (folder / "manifest.json").read_bytes()
    except OSError:
        return False


def publish(built: Path, out: Path, *, overwrite: bool) -> None:
    """Rename a finished folder to its place; a dataset that is there is moved aside first and then removed.

    Raises:
        UsageError: something came to lie there during the run that must not be replaced.
    """
    free_place(out, overwrite=overwrite)
    if not out.exists():
        os.rename(built, out)
        return
    old = _aside(out)
    shutil.rmtree(old, ignore_errors=True)
    os.rename(out, old)
    try:
        os.rename(built, out)
    except BaseException:  # a signal as well: what was there stays there
        os.rename(old, out)
        raise
    shutil.rmtree(old, ignore_errors=True)


def sha256_text(text: str) -> str:
    """sha256 of a text's UTF-8 bytes in hex."""
    return hashlib.sha256(text.encode()).hexdigest()
