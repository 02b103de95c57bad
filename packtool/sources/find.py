"""From what the user names (files, globs, folders, `-`) to input files, in an order that no machine changes.

Paths keep the order they were given in; what a glob or a folder stands for is sorted by the bytes of its names,
whatever the locale. Folders give only files whose ending says data, and neither hidden files, names starting with
`_`, nor the cards and state files that dataset tools put beside data. A file found twice is an error: training on it
twice by accident is worse than saying so.
"""

import glob
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from packtool.errors import DataError, UsageError
from packtool.sources.records import InputFile
from packtool.sources.sniff import COMPRESSED_ENDINGS, DATA_ENDINGS, sniff

__all__ = ["find_inputs"]

STDIN = "-"
STDIN_NAME = "stdin"
BESIDE_DATA = {
    "dataset_dict.json",
    "dataset_info.json",
    "dataset_infos.json",
    "license.md",
    "license.txt",
    "readme.md",
    "state.json",
}


def find_inputs(paths: Sequence[str | Path], *, scratch: Path | None = None) -> list[InputFile]:
    """Find the input files and look into each.

    Args:
        paths: files, globs (`**` too), folders, or `-` for standard input.
        scratch: an existing folder that standard input is spooled to; needed for `-` only.

    Raises:
        UsageError: nothing there, named twice, or of unknown kind.
        DataError: a file that cannot be read as it is.
    """
    if isinstance(paths, str):
        paths = [paths]
    if not paths:
        raise UsageError("no inputs", hint="name at least one file, folder or glob, or `-` for standard input")
    found: dict[str, str] = {}  # absolute path -> what it was found by
    for given in paths:
        for path in _spooled(scratch) if str(given) == STDIN else _expanded(str(given)):
            if path in found:
                raise UsageError(
                    f"`{path}` is named twice: by `{found[path]}` and by `{given}`",
                    hint="every record would count twice: name each file once",
                )
            found[path] = str(given)
    return [_input_file(path, name) for path, name in _names(found).items()]


def _spooled(scratch: Path | None) -> list[str]:
    if scratch is None:
        raise UsageError("`-`: standard input needs a scratch folder", hint="pass `scratch`")
    path = scratch / STDIN_NAME
    try:
        with path.open("wb") as spool:
            shutil.copyfileobj(sys.stdin.buffer, spool, 1 << 20)
    except OSError as error:
        raise DataError(f"cannot spool standard input to `{path}`: {error.strerror}") from error
    return [os.path.abspath(path)]


def _expanded(given: str) -> list[str]:
    """Return the absolute paths of the files that one argument stands for."""
    if os.path.isdir(given):
        files = list(_folder(given, ()))
        if not files:
            raise UsageError(f"`{given}` has no data files", hint=f"data files end with {', '.join(DATA_ENDINGS)}")
    elif os.path.isfile(given):
        files = [given]
    elif os.path.exists(given):
        raise UsageError(f"`{given}` is neither a file nor a folder", hint="pipe it into packtool and pass `-`")
    elif glob.has_magic(given):
        files = _globbed(given)
    else:
        raise UsageError(f"`{given}`: no such file or folder")
    return [os.path.abspath(path) for path in files]


def _folder(folder: str, above: tuple[str, ...]) -> Iterator[str]:
    """Walk down in the order of names, through links too, but never round a loop of them."""
    real = os.path.realpath(folder)
    if real in above:
        return
    if all(os.path.isfile(os.path.join(folder, name)) for name in ("manifest.json", "ledger.parquet")):
        if not above:
            raise UsageError(f"`{folder}` is a packed dataset, not an input", hint="name the files it was made from")
        return  # what an earlier run wrote beside its inputs
    try:
        names = sorted(os.listdir(folder), key=os.fsencode)
    except OSError as error:
        raise DataError(f"cannot read `{folder}`: {error.strerror}") from error
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith((".", "_")):
            continue
        if os.path.isdir(path):
            yield from _folder(path, (*above, real))
        elif os.path.isfile(path) and _is_data(name):
            yield path


def _globbed(pattern: str) -> list[str]:
    """Return the files a pattern matches; one that says nothing of names (`data/**`) takes data files only."""
    last = os.path.basename(pattern)
    matches = glob.glob(pattern, recursive=True)
    files = [
        path
        for path in matches
        if os.path.isfile(path)
        and (last.startswith("_") or not os.path.basename(path).startswith("_"))
        and (last.strip("*") or _is_data(os.path.basename(path)))
    ]
    if not files:
        hint = "it matches folders only: end it with /**" if any(map(os.path.isdir, matches)) else ""
        raise UsageError(f"`{pattern}` matches no file", hint=hint)
    return sorted(files, key=lambda path: os.fsencode(path).split(b"/"))


def _is_data(name: str) -> bool:
    lower = name.lower()
    for ending in COMPRESSED_ENDINGS:
        lower = lower.removesuffix(ending)
    return lower.endswith(DATA_ENDINGS) and lower not in BESIDE_DATA


def _names(found: dict[str, str]) -> dict[str, str]:
    """Name each path relative to the folder that all of them share; standard input is just `stdin`."""
    parents = {os.path.dirname(path) for path, given in found.items() if given != STDIN}
    common = os.path.commonpath(parents) if parents else ""
    names: dict[str, str] = {}
    for path, given in found.items():
        name = STDIN_NAME if given == STDIN else Path(os.path.relpath(path, common)).as_posix()
        try:
            # The bytes on disk, not what the locale makes of them.
            names[path] = os.fsencode(name).decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{name!r}: the file's name is not UTF-8", hint="rename it") from error
    if len(set(names.values())) < len(names):
        raise UsageError(f"`{STDIN_NAME}`: a file has the name that standard input goes by", hint="rename the file")
    return names


def _input_file(path: str, name: str) -> InputFile:
    container, compression = sniff(path, name)
    return InputFile(path, name, container, compression, os.path.getsize(path))
