"""What an input file is, by its first bytes; its name speaks only where bytes cannot (CSV, TSV, text).

Names lie: a `.json` often holds lines, a `.jsonl` an array, a `.gz` nothing compressed. In order: compression by magic
number; Parquet and Arrow by theirs; files nobody can read as they are (UTF-16, a git-LFS pointer) refused; then CSV,
TSV and text by name; then JSON, as lines or as a stream of values, by whether the first line is a value of its own.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from packtool.errors import DataError, UsageError
from packtool.sources.streams import BOM, decoded_chunks, raw_chunks

__all__ = ["COMPRESSED_ENDINGS", "DATA_ENDINGS", "sniff"]

HEAD_BYTES = 256 << 10  # a first line longer than this is read as JSON lines if it starts with `{`, else as an array

COMPRESSED_ENDINGS = (".gz", ".gzip", ".zst", ".zstd")
BY_NAME = {".csv": "csv", ".tsv": "tsv", ".txt": "text", ".md": "text"}
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
COLUMNAR_ENDINGS = (".parquet", ".arrow", ".feather")
DATA_ENDINGS = (*JSON_ENDINGS, *COLUMNAR_ENDINGS, *BY_NAME)

COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
# A zstd file may begin with a skippable frame, as pzstd writes it.
COMPRESSIONS |= {bytes([0x50 + number, 0x2A, 0x4D, 0x18]): "zstd" for number in range(16)}
COLUMNAR_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow_stream"}
OTHER_UNICODE = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"{\0": "UTF-16",
    b"[\0": "UTF-16",
    b"\0{": "UTF-16",
    b"\0[": "UTF-16",
}
LOOKS_LIKE_JSON = re.compile(rb'[ \t\r\n]*(?:\{\s*["}]|\[\s*[\[{"\]])')


def sniff(path: str, name: str) -> tuple[str, str]:
    """Return the container and the compression of a file, as InputFile has them; `name` is for errors and endings."""
    raw = _head(raw_chunks(path, chunk_bytes=HEAD_BYTES))
    if not raw:
        raise DataError(f"`{name}` is empty", hint="leave it out, or write its records again")
    compression = _startswith(raw, COMPRESSIONS) or "none"
    head = raw if compression == "none" else _head(decoded_chunks(path, compression, name))
    if not head:
        raise DataError(f"`{name}` is empty once decompressed", hint="leave it out, or write its records again")
    _refuse_unreadable(head, name)
    columnar = _startswith(head, COLUMNAR_MAGIC)
    if columnar:
        if compression != "none":
            raise DataError(
                f"`{name}` is a {columnar.split('_')[0]} file inside {compression}",
                hint="decompress it: it can only be read from its end",
            )
        return columnar, compression
    if not head.removeprefix(BOM).strip() and len(head) < HEAD_BYTES:
        raise DataError(f"`{name}` has only blank lines", hint="leave it out, or write its records again")
    return _text_container(head, name), compression


def _startswith(head: bytes, magic: dict[bytes, str]) -> str | None:
    return next((what for start, what in magic.items() if head.startswith(start)), None)


def _head(chunks: Iterator[bytes]) -> bytes:
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= HEAD_BYTES:
            break
    return head[:HEAD_BYTES]


def _refuse_unreadable(head: bytes, name: str) -> None:
    if head.startswith(b"version https://git-lfs"):
        raise DataError(f"`{name}` is a git-LFS pointer, not the data", hint="run `git lfs pull` where it came from")
    if again := _startswith(head, COMPRESSIONS):
        raise DataError(f"`{name}` is compressed twice (with {again} inside)", hint="decompress it once")
    if encoding := _startswith(head, OTHER_UNICODE):
        raise DataError(
            f"`{name}` is {encoding}, expected UTF-8",
            hint=f"convert it: iconv -f {encoding} -t UTF-8 {name} > utf8-{Path(name).name}",
        )


def _text_container(head: bytes, name: str) -> str:
    endings = [ending.lower() for ending in Path(name).suffixes]
    while endings and endings[-1] in COMPRESSED_ENDINGS:
        endings.pop()
    ending = endings[-1] if endings else ""
    body = head.removeprefix(BOM)
    if ending in BY_NAME:
        return BY_NAME[ending]
    if ending in JSON_ENDINGS or LOOKS_LIKE_JSON.match(body):
        return _lines_or_values(body, whole=len(head) < HEAD_BYTES)
    if ending in COLUMNAR_ENDINGS:
        raise DataError(
            f"`{name}` is not a {ending[1:]} file: it starts with {head[:8]!r}",
            hint="the download may have failed: look into the file",
        )
    raise UsageError(
        f"`{name}`: cannot tell what this file holds",
        hint=f"give it an ending that says so: {', '.join(DATA_ENDINGS)}; "
        "CSV and text are told by name only, so never from standard input",
    )


def _are_objects(body: bytes, *, whole: bool) -> bool:
    """Whether every line is an object of its own: then a first line that is cut short is one bad line of many."""
    lines = [line for line in body.splitlines() if line.strip()]
    try:
        return bool(lines) and all(isinstance(json.loads(line), dict) for line in (lines if whole else lines[:-1]))
    except (ValueError, RecursionError):
        return False


def _lines_or_values(body: bytes, *, whole: bool) -> str:
    r"""Tell by the first line that is not blank; a broken first record must not make the others unreadable.

    {"a": 1}\n{"a": 2}   jsonl        [{"a": 1},\n{"a": 2}]   json      the line ends inside a value
    {'a': 1}\n           jsonl        {"a": 1} {"a": 2}       json      objects one after another
    [1, 2]\n[3]          jsonl        [1, 2]                  json      an array alone is an array of records
    """
    first, _, rest = body.lstrip().partition(b"\n")
    text = first.decode("utf-8", "replace").rstrip()
    more = bool(rest.strip())
    array = text.startswith("[")
    if not array and not text.startswith("{"):
        return "jsonl"
    if not more and not whole:
        return "json" if array else "jsonl"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        goes_on = error.pos >= len(text) and (array or not _are_objects(rest, whole=whole))
        another = error.msg.startswith("Extra data") and text.startswith("{", error.pos)
        return "json" if array or goes_on or another else "jsonl"
    except (RecursionError, ValueError):
        return "jsonl"
    return "json" if array and not more else "jsonl"
