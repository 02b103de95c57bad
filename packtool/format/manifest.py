"""The manifest as frozen dataclasses, and its file's bytes."""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from packtool.errors import FormatError
from packtool.format.arrays import column_dtypes
from packtool.format.canonical import canonical_json, parse_canonical
from packtool.format.rules import FORMAT_VERSION, manifest_problems

__all__ = [
    "FileEntry",
    "InputEntry",
    "Manifest",
    "ShardEntry",
    "TokenizerEntry",
    "manifest_from_bytes",
    "manifest_json",
]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the dataset: its path below the dataset's folder, its size in bytes and its sha256 in hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class InputEntry:
    """An input file: its name relative to the inputs' common parent, and the records that were read from it.

    `sha256` is of the whole file, or `unread` where `--limit` stopped before its end.
    """

    name: str
    size: int
    sha256: str
    records: int


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A run of packs and the files that hold it."""

    name: str
    packs: int
    pieces: int
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True)
class TokenizerEntry:
    """The tokenizer that made the tokens.

    Attributes:
        kind: `tokenizers`, `sentencepiece`, `bytes` or `none` (the input was tokenized already).
        sha256: of its files' names and bytes.
        size: number of ids: the largest id, added tokens included, plus one.
        bos, eos, pad: ids, -1 where there is none.
        template_sha256: of the chat template's text, empty where none was used.
        protected: the tokens that are never made from a record's text, sorted.
    """

    kind: str
    sha256: str
    size: int
    bos: int
    eos: int
    pad: int
    template_sha256: str
    protected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a dataset is, which files it has and what it holds.

    Attributes:
        max_seq_len: slots of every pack.
        storage: `npy` or `parquet`.
        compression: `none` or `zstd` (Parquet only).
        packs, pieces, samples, records: counts over the dataset; records count every record read.
        tokens: tokens packed; trained: those with a label other than -100.
        max_pieces: the most pieces in one pack.
        lower_bound: ceil(tokens / max_seq_len): no packing of these tokens has fewer packs.
        lost: tokens that were tokenized and not packed, by reason.
        outcomes: ledger records by outcome.
        reading: `all`, or `limit` where `--limit` stopped the reading or drew a part.
        settings: the settings that shaped the data.
        inputs, tokenizer, shards, files: see their classes; `files` are the ones outside shards.
        content_sha256: digest of the logical content, equal for every storage, shard size and worker count.
    """

    max_seq_len: int
    storage: str
    compression: str
    packs: int
    pieces: int
    samples: int
    records: int
    tokens: int
    trained: int
    max_pieces: int
    lower_bound: int
    lost: Mapping[str, int]
    outcomes: Mapping[str, int]
    reading: str
    settings: Mapping[str, Any]
    inputs: tuple[InputEntry, ...]
    tokenizer: TokenizerEntry
    shards: tuple[ShardEntry, ...]
    files: tuple[FileEntry, ...]
    content_sha256: str

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """Stored dtype of every column."""
        return column_dtypes(self.storage, self.tokenizer.size, self.max_seq_len)


def manifest_json(manifest: Manifest) -> bytes:
    """The manifest file's bytes: canonical JSON that carries the sha256 of itself without that one key."""
    body = _plain(manifest)
    body["format"] = "packtool"
    body["format_version"] = FORMAT_VERSION
    body["columns"] = [{"name": name, "dtype": dtype.str.lstrip("<|")} for name, dtype in manifest.dtypes.items()]
    body["manifest_sha256"] = hashlib.sha256(canonical_json(body)).hexdigest()
    return canonical_json(body)


def manifest_from_bytes(data: bytes, where: str) -> Manifest:
    """Parse and check a manifest file's bytes.

    Raises:
        FormatError: naming `where` and every broken rule.
    """
    try:
        body = parse_canonical(data)
    except ValueError as error:
        raise FormatError(f"`{where}` is not JSON that packtool writes: {error}", hint=_AGAIN) from None
    if not isinstance(body, dict):
        raise FormatError(f"`{where}` is not a manifest: expected an object, got {type(body).__name__}", hint=_AGAIN)
    version = body.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise FormatError(
            f"`{where}` has format version {version!r}; this packtool reads {FORMAT_VERSION}",
            hint="pack the sources again, or install the packtool that wrote it",
        )
    try:
        problems, canonical = manifest_problems(body), canonical_json(body)
    except RecursionError:  # a stranger's settings, at a depth that the parser just allows
        raise FormatError(f"`{where}` is nested too deeply", hint=_AGAIN) from None
    if problems:
        raise FormatError("\n  ".join([f"`{where}` breaks the format:", *map(str, problems)]), hint=_AGAIN)
    if canonical != data:
        raise FormatError(f"`{where}` is not in canonical form: its bytes were changed by hand or damaged", hint=_AGAIN)
    return Manifest(
        **{
            **{f.name: body[f.name] for f in dataclasses.fields(Manifest)},
            "inputs": tuple(InputEntry(**entry) for entry in body["inputs"]),
            "tokenizer": TokenizerEntry(
                **{**body["tokenizer"], "protected": tuple(body["tokenizer"]["protected"])},
            ),
            "shards": tuple(
                ShardEntry(**{**entry, "files": tuple(FileEntry(**file) for file in entry["files"])})
                for entry in body["shards"]
            ),
            "files": tuple(FileEntry(**entry) for entry in body["files"]),
        }
    )


_AGAIN = "copy the dataset again, or pack the sources again"


def _plain(value: Any) -> Any:
    """Dataclasses, mappings and tuples as dicts and lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
