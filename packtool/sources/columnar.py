"""Parquet and Arrow: a block is a range of rows of one row group or record batch, read back batch by batch.

Rows come as pyarrow's `to_pylist` gives them: structs as dicts, lists as lists, nulls as None. A value that Python
cannot hold (a timestamp of nanoseconds, a string that is not UTF-8) makes its row a bad record, not its batch. pyarrow
is imported on call, so that a run over JSON lines never loads it. Its threads stay off: blocks run side by side.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from packtool.errors import DataError
from packtool.sources.cuts import Cut
from packtool.sources.records import BadRecord, Block, Record

__all__ = ["ROWS_PER_BLOCK", "cut_columnar", "read_columnar"]

ROWS_PER_BLOCK = 50_000  # for blocks of the usual size; a smaller `block_bytes` takes fewer rows in proportion
BATCH_ROWS = 1_000
KINDS = {"parquet": "Parquet file", "arrow": "Arrow file", "arrow_stream": "Arrow stream"}


def cut_columnar(path: str, name: str, container: str, rows_per_block: int) -> Iterator[Cut]:
    """Cut each row group (Parquet), record batch (Arrow file) or the whole (Arrow stream) into ranges of rows."""
    first = 1
    with _failing_as(name, container):
        for group, rows in enumerate(_groups(path, name, container)):
            for start in range(0, rows, rows_per_block):
                stop = min(start + rows_per_block, rows)
                yield Cut(start, stop, first, stop - start, group=group)
                first += stop - start


def read_columnar(block: Block, keep: Callable[[int], bool] | None) -> Iterator[Record | BadRecord | None]:
    """Read a block's rows."""
    number = 0
    for batch in _batches(block):
        wanted = [keep is None or keep(number + i) for i in range(len(batch))]
        rows = iter(_rows(_only(batch, wanted), block.first + number, wanted))
        for row_is_wanted in wanted:
            yield next(rows) if row_is_wanted else None
        number += len(batch)


@contextmanager
def _failing_as(name: str, container: str) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"`{name}` is not a sound {KINDS[container]}: {why}",
            hint="the file is cut short or damaged: copy or download it again",
        ) from error


def _groups(path: str, name: str, container: str) -> list[int]:
    """Return the rows of each group."""
    import pyarrow

    if container == "parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            _check_columns(file.schema_arrow.names, name)
            return [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    with pyarrow.memory_map(path) as source:
        if container == "arrow":
            file = pyarrow.ipc.open_file(source)
            _check_columns(file.schema.names, name)
            return [file.get_batch(group).num_rows for group in range(file.num_record_batches)]
        stream = pyarrow.ipc.open_stream(source)
        _check_columns(stream.schema.names, name)
        return [sum(batch.num_rows for batch in stream)]


def _check_columns(names: list[str], name: str) -> None:
    if twice := sorted({column for column in names if names.count(column) > 1}):
        raise DataError(f"`{name}`: two columns are named `{twice[0]}`", hint="name every column differently")


def _batches(block: Block) -> Iterator[Any]:
    """Yield the block's rows as record batches of at most BATCH_ROWS."""
    import pyarrow

    with _failing_as(block.path, block.container):
        if block.container == "parquet":
            from pyarrow import parquet

            with parquet.ParquetFile(block.path) as file:
                batches = file.iter_batches(BATCH_ROWS, row_groups=[block.group], use_threads=False)
                yield from _slices(batches, block.start, block.stop)
            return
        with pyarrow.memory_map(block.path) as source:
            if block.container == "arrow":
                batch = pyarrow.ipc.open_file(source).get_batch(block.group)
                yield from _slices([batch], block.start, block.stop)
            else:
                yield from _slices(pyarrow.ipc.open_stream(source), block.start, block.stop)


def _slices(batches: Any, start: int, stop: int) -> Iterator[Any]:
    position = 0
    for batch in batches:
        for at in range(max(start - position, 0), min(stop - position, len(batch)), BATCH_ROWS):
            yield batch.slice(at, min(BATCH_ROWS, stop - position - at))
        position += len(batch)
        if position >= stop:
            return


def _only(batch: Any, wanted: list[bool]) -> Any:
    """Return the wanted rows."""
    import pyarrow

    if all(wanted):
        return batch
    if not any(wanted):
        return batch.slice(0, 0)
    return batch.take(pyarrow.array([i for i, row_is_wanted in enumerate(wanted) if row_is_wanted]))


def _rows(batch: Any, first: int, wanted: list[bool]) -> Iterator[Record | BadRecord]:
    """Convert the wanted rows; `first` is the place of the batch's first row, wanted or not."""
    places = [first + i for i, row_is_wanted in enumerate(wanted) if row_is_wanted]
    values = _converted(batch)
    for i, place in enumerate(places):
        if values is not None:
            yield Record(values[i], place, -1)
            continue
        try:
            yield Record(batch.slice(i, 1).to_pylist()[0], place, -1)
        except _unconvertible() as error:
            yield BadRecord(place, -1, f"a value cannot be read: {error}")


def _converted(batch: Any) -> list[Any] | None:
    try:
        return list(batch.to_pylist())
    except _unconvertible():
        return None


def _unconvertible() -> tuple[type[Exception], ...]:
    import pyarrow

    return (ValueError, OverflowError, pyarrow.ArrowException)
