"""What a container's cutter hands to the splitter: one run of whole records, not yet a Block."""

from dataclasses import dataclass

__all__ = ["Cut"]


@dataclass(frozen=True, slots=True)
class Cut:
    """One block to be.

    Attributes:
        start: first byte of the decoded stream, or first row of `group`.
        stop: one past the last.
        first: the place of its first line, row or element, from 1.
        places: how many lines, rows or elements it spans, blank lines included.
        data: its decoded bytes, or None where the reader goes back to the file.
        group: Parquet row group or Arrow record batch.
        header: column names of CSV and TSV.
    """

    start: int
    stop: int
    first: int
    places: int
    data: bytes | None = None
    group: int = 0
    header: tuple[str, ...] = ()
