"""Reads ledger.parquet; pyarrow is imported on call, so that the training path stays free of it."""

from pathlib import Path

import numpy as np

from packtool.errors import FormatError
from packtool.format import LEDGER_COLUMNS, LEDGER_LISTS, OUTCOMES, REASONS, LedgerColumns

__all__ = ["read_ledger"]


def read_ledger(path: Path) -> LedgerColumns:
    """The whole ledger as arrays.

    Raises:
        FormatError: the file is missing, is no Parquet, or has other columns.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"`{path}` cannot be read as Parquet: {error}") from None
    expected = {*LEDGER_COLUMNS, *LEDGER_LISTS, "detail"} - {"pieces"}
    if set(table.column_names) != expected or len(table.column_names) != len(expected):
        raise FormatError(f"`{path}` has the columns {table.column_names}, expected {sorted(expected)}")
    columns = {}
    try:
        for name, dtype in LEDGER_COLUMNS.items():
            if name in ("outcome", "reason"):
                words = OUTCOMES if name == "outcome" else REASONS
                index = (
                    pc.index_in(table[name].combine_chunks(), pa.array(words))
                    if len(table)
                    else pa.array([], pa.int32())
                )
                columns[name] = index.to_numpy(zero_copy_only=False).astype(dtype)
            elif name != "pieces":
                columns[name] = table[name].to_numpy().astype(dtype)
        for name, dtype in LEDGER_LISTS.items():
            array = table[name].combine_chunks()
            columns[name] = array.flatten().to_numpy(zero_copy_only=False).astype(dtype)
            counts = pc.list_value_length(array).to_numpy(zero_copy_only=False).astype("<i8")
            if name != "packs" and not np.array_equal(counts, columns["pieces"]):
                raise FormatError(f"`{path}`: `{name}` and `packs` have different numbers of places")
            columns["pieces"] = counts
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise FormatError(f"`{path}` has a column that is not as it should be: {error}") from None
    details = {row: text for row, text in enumerate(table["detail"].to_pylist()) if text is not None}
    return LedgerColumns(**columns, details=details)
