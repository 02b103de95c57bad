"""CSV and TSV: a header, then one record a row, every cell a string as it stands ("00000" stays "00000").

Where the columns that are wanted are numbers, the file has no header, unless its first row holds them as names:

    columns 0, 1      "q,a"  ->  {"0": "q", "1": "a"}        "0,1"  ->  a header

The standard library's strict reader decides where rows end, in the splitter as in the reader, so quoted line breaks and
stray quotes mean the same to both. A row that it refuses ends at the line it was refused at. Rows of white space only
are blank. A record's place is the physical line that it begins on.
"""

import csv
from collections.abc import Callable, Collection, Iterator

from packtool.errors import DataError
from packtool.sources.cuts import Cut
from packtool.sources.records import BadRecord, Block, Record
from packtool.sources.values import not_utf8

__all__ = ["MAX_CELL_BYTES", "cut_delimited", "read_delimited"]

DELIMITERS = {"csv": ",", "tsv": "\t"}
MAX_CELL_BYTES = 128 << 20


def cut_delimited(
    chunks: Iterator[bytes], skipped: int, block_bytes: int, name: str, container: str, columns: Collection[str]
) -> Iterator[Cut]:
    """Cut after the row with which a block reaches `block_bytes`; a header row is in no block."""
    held: list[bytes] = []
    size = 0

    def feed() -> Iterator[str]:
        nonlocal size
        for line in _physical_lines(chunks):
            held.append(line)
            size += len(line)
            yield line.decode("utf-8", "surrogateescape")

    rows = _reader(feed(), container)
    row = _first_row(rows, name)
    if row is None:
        return
    start, first = skipped, 1
    if _is_data(row, columns, name):
        header = tuple(map(str, range(len(row))))
    else:
        header = _header(row, name)
        start += size
        first += len(held)
        held.clear()
        size = 0
    while True:
        if size >= block_bytes:
            yield Cut(start, start + size, first, len(held), b"".join(held), header=header)
            start += size
            first += len(held)
            held.clear()
            size = 0
        try:
            next(rows)
        except StopIteration:
            break
        except csv.Error:
            pass  # the reader of the block meets it again and says so
    if held:
        yield Cut(start, start + size, first, len(held), b"".join(held), header=header)


def read_delimited(
    block: Block, data: bytes, keep: Callable[[int], bool] | None
) -> Iterator[Record | BadRecord | None]:
    """Turn each row into a dict of the header's names."""
    header = block.header
    rows = _reader((line.decode("utf-8", "surrogateescape") for line in _physical_lines(iter([data]))), block.container)
    number = 0
    is_utf8 = _is_utf8(data)
    while True:
        place = block.first + rows.line_num
        found: Record | BadRecord
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            found = _refused(error, place)
        else:
            if not row or (len(row) == 1 and row[0].isspace()):
                continue
            found = _record(header, row, place, is_utf8)
        yield found if keep is None or keep(number) else None
        number += 1


def _reader(lines: Iterator[str], container: str) -> "csv._reader":  # type: ignore[name-defined]
    if csv.field_size_limit() < MAX_CELL_BYTES:  # one limit for the whole process: it is only ever raised
        csv.field_size_limit(MAX_CELL_BYTES)
    return csv.reader(lines, delimiter=DELIMITERS[container], strict=True)


def _physical_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines with their LF, however long."""
    unfinished: list[bytes] = []
    for chunk in chunks:
        lines = chunk.split(b"\n")
        if len(lines) > 1:
            yield b"".join([*unfinished, lines[0], b"\n"])
            for line in lines[1:-1]:
                yield line + b"\n"
            unfinished = []
        if lines[-1]:
            unfinished.append(lines[-1])
    if unfinished:
        yield b"".join(unfinished)


def _first_row(rows: Iterator[list[str]], name: str) -> list[str] | None:
    """Return the first row that is not blank, or None."""
    try:
        return next((row for row in rows if row and not (len(row) == 1 and row[0].isspace())), None)
    except csv.Error as error:
        raise DataError(
            f"`{name}` header: {error}",
            hint="the first row must name the columns, or be a record where `--columns` gives numbers",
        ) from error


def _is_data(row: list[str], columns: Collection[str], name: str) -> bool:
    """Whether the first row is a record: columns are given by number, and it holds no name that was given.

    Raises:
        DataError: it holds a number that was given, in another column, so that either may be meant.
    """
    numbers = [column for column in columns if column.isascii() and column.isdecimal()]
    if not numbers or any(column in row for column in columns if column not in numbers):
        return False
    if any(column not in row for column in numbers):
        return True
    elsewhere = [column for column in numbers if row.index(column) != int(column)]
    if elsewhere:
        raise DataError(
            f"`{name}` first row: cell {1 + row.index(elsewhere[0])} is `{elsewhere[0]}`, which `--columns` names: "
            "is that a column's name, or is the row a record?",
            hint="put a row with names in front of it, and name the columns by those",
        )
    return False


def _header(header: list[str], name: str) -> tuple[str, ...]:
    """The names of the columns, which must tell them apart."""
    for number, column in enumerate(header, 1):
        if not column.strip():
            raise DataError(
                f"`{name}` header: column {number} of {len(header)} has no name",
                hint="name every column; pandas writes a nameless index column unless told `index=False`",
            )
        if column in header[: number - 1]:
            raise DataError(f"`{name}` header: two columns are named `{column}`", hint="name every column differently")
        try:
            column.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"`{name}` header: column {number} is not UTF-8", hint="convert the file to UTF-8"
            ) from error
    return tuple(header)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _record(header: tuple[str, ...], row: list[str], place: int, is_utf8: bool) -> Record | BadRecord:
    if len(row) != len(header):
        return BadRecord(
            place,
            -1,
            f"expected {len(header)} cells as in the {_named_by(header)}, got {len(row)}",
            "put quotes around cells that hold the separator, a quote or a line break",
        )
    for name, cell in () if is_utf8 else zip(header, row, strict=True):
        try:
            cell.encode("utf-8", "surrogateescape").decode()
        except UnicodeDecodeError as error:
            bad = not_utf8(error, place, -1)
            return BadRecord(place, -1, f"cell `{name}`: {bad.message}", bad.hint)
    return Record(dict(zip(header, row, strict=True)), place, -1)


def _named_by(header: tuple[str, ...]) -> str:
    """What says how many cells a row has."""
    return "first row" if header == tuple(map(str, range(len(header)))) else "header"


def _refused(error: csv.Error, place: int) -> BadRecord:
    text = str(error)
    hint = "put quotes around cells that hold the separator, a quote or a line break"
    if "unexpected end of data" in text or "field limit" in text:
        hint = "a quote that opens on this line is never closed"
    elif "new-line character" in text:
        text = "a lone carriage return outside quotes"
        hint = "end lines with LF or CRLF"
    return BadRecord(place, -1, f"not a row: {text}", hint)
