"""Which writer writes which shard format."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from packtool.errors import UsageError
from packtool.write.npy import NpyShardWriter
from packtool.write.shards import ShardWriter

__all__ = ["WRITERS", "shard_writer"]


def _plain_parquet(directory: Path, name: str, **counts: Any) -> ShardWriter:
    from packtool.write.parquet import ParquetShardWriter  # pyarrow takes 0.2 s and 50 MB: only where it is used

    return ParquetShardWriter(directory, name, **counts, compression="none")


def _zstd_parquet(directory: Path, name: str, **counts: Any) -> ShardWriter:
    from packtool.write.parquet import ParquetShardWriter

    return ParquetShardWriter(directory, name, **counts, compression="zstd")


# (storage, compression) -> writer
WRITERS: dict[tuple[str, str], Callable[..., ShardWriter]] = {
    ("npy", "none"): NpyShardWriter,
    ("parquet", "none"): _plain_parquet,
    ("parquet", "zstd"): _zstd_parquet,
}


def shard_writer(
    storage: str,
    compression: str,
    directory: Path,
    name: str,
    *,
    packs: int,
    pieces: int,
    max_seq_len: int,
    dtypes: Mapping[str, np.dtype[Any]],
) -> ShardWriter:
    """Start a shard of `packs` packs and `pieces` pieces below `directory`, its files named after `name`.

    Raises:
        UsageError: there is no such format.
    """
    writer = WRITERS.get((storage, compression))
    if writer is None:
        known = ", ".join(f"{a} with compression {b}" for a, b in WRITERS)
        raise UsageError(f"expected one of {known}; got {storage} with compression {compression}")
    return writer(directory, name, packs=packs, pieces=pieces, max_seq_len=max_seq_len, dtypes=dtypes)
