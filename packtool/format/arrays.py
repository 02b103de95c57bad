"""The arrays of a dataset: what one pack and a run of packs hold, and the dtypes they are stored in."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["COLUMNS", "IGNORE_INDEX", "PAGES_COLUMNS", "Pack", "PackRows", "column_dtypes"]

IGNORE_INDEX = -100
COLUMNS = ("tokens", "labels", "input_pos", "seq_lens", "records")
# The columns of a shard's `.pages.npy`: byte offset of the pack's first value per column, then its number of pieces.
PAGES_COLUMNS = (*COLUMNS, "pieces")


@dataclass(frozen=True, slots=True)
class Pack:
    """One pack, in the dtypes it is stored in; arrays are read-only views of the mapped files where that is possible.

    Attributes:
        tokens: [max_seq_len] token ids, then padding.
        labels: [max_seq_len] int32: the token's own id where it is trained, -100 elsewhere. Not shifted.
        input_pos: [max_seq_len] position inside the piece; the padding counts from 0 on its own.
        seq_lens: [pieces] int32 length of each piece, in order; padding is not a piece.
        records: [pieces] int64 the input record each piece came from (a row of the ledger).
    """

    tokens: NDArray[Any]
    labels: NDArray[Any]
    input_pos: NDArray[Any]
    seq_lens: NDArray[Any]
    records: NDArray[Any]


@dataclass(frozen=True, slots=True)
class PackRows:
    """A run of packs: Pack's arrays stacked, pieces one after another.

    Attributes:
        tokens, labels, input_pos: [packs, max_seq_len].
        seq_lens, records: [pieces].
        seq_offsets: [packs + 1] int64; pack i has the pieces seq_offsets[i]..seq_offsets[i + 1], seq_offsets[0] == 0.
    """

    tokens: NDArray[Any]
    labels: NDArray[Any]
    input_pos: NDArray[Any]
    seq_lens: NDArray[Any]
    records: NDArray[Any]
    seq_offsets: NDArray[np.int64]


def column_dtypes(storage: str, vocab_size: int, max_seq_len: int) -> dict[str, np.dtype[Any]]:
    """The dtype in which each column is stored.

    `vocab_size` is the largest id plus one. Parquet has no 16-bit physical type, so it keeps 32 bits throughout.
    """
    small = storage == "npy"
    tokens: DTypeLike = "<u2" if small and vocab_size <= 65_536 else "<u4"
    positions: DTypeLike = ("<u2" if max_seq_len <= 65_536 else "<u4") if small else "<i4"
    names: dict[str, DTypeLike] = {
        "tokens": tokens, "labels": "<i4", "input_pos": positions, "seq_lens": "<i4", "records": "<i8",
    }  # fmt: skip
    return {name: np.dtype(dtype) for name, dtype in names.items()}
