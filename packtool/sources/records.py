"""What the rooms below hand on: input files, blocks of them, and records with their place.

An input file is cut into blocks; a block is one task of the tokenize stage and becomes one segment of the token store.
Blocks are small, picklable descriptions: a byte range or a row range, or the decoded bytes themselves where a stream
can only be read from its start (compressed files, JSON arrays, CSV).
"""

from dataclasses import dataclass
from typing import Any

__all__ = ["BadRecord", "Block", "InputFile", "Record", "place_name"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input file, as its content shows it.

    Attributes:
        path: where it lies, absolute.
        name: its path relative to the inputs' common parent, with forward slashes; this is what the dataset records.
        container: `jsonl`, `json`, `parquet`, `arrow` (IPC file), `arrow_stream`, `csv`, `tsv` or `text`.
        compression: `none`, `gzip` or `zstd` (of the whole file; a Parquet file's own codecs do not count).
        size: bytes on disk.
    """

    path: str
    name: str
    container: str
    compression: str
    size: int


@dataclass(frozen=True, slots=True)
class Block:
    """A run of whole records of one input file.

    Attributes:
        file: the input file's place in the list of inputs.
        number: the block's place in its file, from 0.
        path: the input file, absolute.
        container: as in InputFile.
        start: first byte of the (decoded) stream, or first row for Parquet and Arrow, from 0 in its `group`.
        stop: one past the last.
        first: the place of the block's first record, line or row, from 1.
        data: the block's decoded bytes, or None where the reader takes `start..stop` from `path` itself.
        group: Parquet row group or Arrow record batch the rows are in; 0 elsewhere.
        header: column names of CSV and TSV, numbers where the file has none; empty elsewhere.
    """

    file: int
    number: int
    path: str
    container: str
    start: int
    stop: int
    first: int
    data: bytes | None = None
    group: int = 0
    header: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    r"""One raw input row.

    Attributes:
        value: what the row holds: nearly always a dict; anything JSON can say in a JSON file.
        place: line (JSONL, CSV, text), row (Parquet, Arrow) or element (JSON array), from 1.
        offset: byte offset of the record in the decoded stream, or -1 where the container has no such thing.
        replaced: how many lone surrogates (`\ud83d` alone) became U+FFFD.
    """

    value: Any
    place: int
    offset: int
    replaced: int = 0


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A row that could not be read: its place and what is wrong with it, for the ledger or for an error."""

    place: int
    offset: int
    message: str
    hint: str = ""


def place_name(container: str) -> str:
    """What a place in such a file is called."""
    if container in ("jsonl", "csv", "tsv", "text"):
        return "line"
    return "row" if container in ("parquet", "arrow", "arrow_stream") else "element"
