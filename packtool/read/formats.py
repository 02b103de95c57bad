"""Which reader reads which shard format. Imports numpy and the standard library only."""

from collections.abc import Callable
from pathlib import Path

from packtool.errors import FormatError
from packtool.format import Manifest, ShardEntry
from packtool.read.npy import NpyShard
from packtool.read.parquet import MappedParquetShard, ZstdParquetShard
from packtool.read.shards import ShardReader

__all__ = ["READERS", "open_shard"]

# (storage, compression) -> reader
READERS: dict[tuple[str, str], Callable[[Path, ShardEntry, Manifest], ShardReader]] = {
    ("npy", "none"): NpyShard,
    ("parquet", "none"): MappedParquetShard,
    ("parquet", "zstd"): ZstdParquetShard,
}


def open_shard(directory: Path, entry: ShardEntry, manifest: Manifest) -> ShardReader:
    """Open one shard of the dataset in `directory`, after sizes, headers and offsets were checked.

    Raises:
        FormatError: naming the file that is not what the manifest says.
    """
    reader = READERS.get((manifest.storage, manifest.compression))
    if reader is None:
        known = ", ".join(f"{a} with compression {b}" for a, b in READERS)
        raise FormatError(
            f"`{directory / 'manifest.json'}`: expected one of {known}; "
            f"got {manifest.storage} with compression {manifest.compression}"
        )
    return reader(directory, entry, manifest)
