"""Reads ledger.parquet; pyarrow is imported on call, so that the training path stays free of it."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    kinds = {name: table.schema.field(name).type for name in table.column_names}
    wrong = [
        f"`{name}` {kind}"
        for name, kind in kinds.items()
        if not (
            pa.types.is_string(kind)
            if name in ("outcome", "reason", "detail")
            else (pa.types.is_large_list(kind) or pa.types.is_list(kind)) and pa.types.is_integer(kind.value_type)
            if name in LEDGER_LISTS
            else pa.types.is_integer(kind)
        )
    ]
    if wrong:
        raise FormatError(f"`{path}` has columns of other types than a ledger: {', '.join(wrong)}")
    nulls = [name for name in table.column_names if name != "detail" and table[name].null_count]
    if nulls:
        raise FormatError(f"`{path}` has nulls in {nulls}, expected none")
    columns: dict[str, Any] = {}
    try:
        for name, dtype in LEDGER_COLUMNS.items():
            if name in ("outcome", "reason"):
                columns[name] = _places(table[name], OUTCOMES if name == "outcome" else REASONS, name, path)
            elif name != "pieces":
                columns[name] = table[name].to_numpy().astype(dtype)
        for name, dtype in LEDGER_LISTS.items():
            array = table[name].combine_chunks()
            values = array.flatten()
            if values.null_count:
                raise FormatError(f"`{path}` has nulls in the lists of `{name}`, expected none")
            columns[name] = values.to_numpy(zero_copy_only=False).astype(dtype)
            counts = pc.list_value_length(array).to_numpy(zero_copy_only=False).astype("<i8")
            if name != "packs" and not np.array_equal(counts, columns["pieces"]):
                raise FormatError(f"`{path}`: `{name}` and `packs` have different numbers of places")
            columns["pieces"] = counts
    except (pa.ArrowException, ValueError, TypeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"`{path}` has a column that is not as it should be: {error}") from None
    details = {row: text for row, text in enumerate(table["detail"].to_pylist()) if text is not None}
    return LedgerColumns(**columns, details=details)


def _places(column: Any, words: tuple[str, ...], name: str, path: Path) -> NDArray[np.int8]:
    """Each word's place in the list of those allowed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(column, pa.array(words))
    if found.null_count:
        unknown = column.filter(pc.is_null(found))[0].as_py()
        raise FormatError(f"`{path}` has the {name} {unknown!r}, expected one of {', '.join(map(repr, words))}")
    places: NDArray[np.int8] = found.to_numpy().astype(np.int8)
    return places
