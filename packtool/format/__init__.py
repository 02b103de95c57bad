"""The on-disk format, version 1: constants, arrays, the manifest and its rules, the content digest. Touches no file.

docs/format.md is the specification; schemas/manifest.schema.json says the same for other languages, and tests hold the
three together. The format is closed: unknown keys, unknown versions and non-canonical bytes are refused.
"""

from packtool.format.arrays import COLUMNS, IGNORE_INDEX, PAGES_COLUMNS, Pack, PackRows, column_dtypes
from packtool.format.canonical import canonical_json
from packtool.format.content import content_digest, ledger_digest, pack_digests
from packtool.format.ledger import LEDGER_COLUMNS, LEDGER_LISTS, OUTCOMES, REASONS, LedgerColumns
from packtool.format.manifest import (
    FileEntry,
    InputEntry,
    Manifest,
    ShardEntry,
    TokenizerEntry,
    manifest_from_bytes,
    manifest_json,
)
from packtool.format.rules import COMPRESSIONS, FORMAT_VERSION, STORAGES, Problem, manifest_problems

__all__ = [
    "COLUMNS",
    "COMPRESSIONS",
    "FORMAT_VERSION",
    "IGNORE_INDEX",
    "LEDGER_COLUMNS",
    "LEDGER_LISTS",
    "OUTCOMES",
    "PAGES_COLUMNS",
    "REASONS",
    "STORAGES",
    "FileEntry",
    "InputEntry",
    "LedgerColumns",
    "Manifest",
    "Pack",
    "PackRows",
    "Problem",
    "ShardEntry",
    "TokenizerEntry",
    "canonical_json",
    "column_dtypes",
    "content_digest",
    "ledger_digest",
    "manifest_from_bytes",
    "manifest_json",
    "manifest_problems",
    "pack_digests",
]
