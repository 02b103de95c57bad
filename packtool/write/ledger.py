"""Writes ledger.parquet; pyarrow only. Bytes are a function of the columns and the pyarrow version."""

from pathlib import Path
from typing import Any

import numpy as np

from packtool.format import OUTCOMES, REASONS, LedgerColumns

__all__ = ["write_ledger"]


def write_ledger(path: Path, ledger: LedgerColumns) -> None:
    """Write the ledger, one row a record, with its places as lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    offsets = np.zeros(len(ledger.record) + 1, np.int64)
    np.cumsum(ledger.pieces, out=offsets[1:])

    def names(values: Any, words: tuple[str, ...]) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int32)), pa.array(words)).cast(pa.string())

    def lists(values: Any) -> Any:
        return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))

    detail = [ledger.details.get(row) for row in range(len(ledger.record))] if ledger.details else None
    table = pa.table(
        {
            "record": ledger.record,
            "file": ledger.file,
            "place": ledger.place,
            "offset": ledger.offset,
            "count": ledger.count,
            "outcome": names(ledger.outcome, OUTCOMES),
            "reason": names(ledger.reason, REASONS),
            "detail": pa.nulls(len(ledger.record), pa.string()) if detail is None else pa.array(detail, pa.string()),
            "tokens": ledger.tokens,
            "lost": ledger.lost,
            "packs": lists(ledger.packs),
            "starts": lists(ledger.starts),
            "sample_starts": lists(ledger.sample_starts),
            "lengths": lists(ledger.lengths),
        }
    )
    temporary = path.with_name(path.name + ".tmp")
    pq.write_table(table, temporary, compression="zstd", row_group_size=1 << 17)
    temporary.rename(path)
