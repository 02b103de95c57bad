r"""Line files: JSON lines, and text by line, by paragraph or as one record.

A block ends with the first line end at or after `start + block_bytes - 1`, so it is a function of the decoded bytes and
`block_bytes` alone, the same for a plain and a compressed copy, and one line longer than `block_bytes` is one block:

    "aaa\nbb\ncccccc\nd", block_bytes=5   ->   "aaa\nbb\n" | "cccccc\n" | "d"

Only LF ends a line: U+2028, U+0085, form feeds and lone CRs are data, as JSON and most text editors have it. A line of
ASCII white space is blank: it counts as a line, and is no record. By paragraph a block ends after a blank line instead.
"""

import re
from collections.abc import Callable, Iterator

from packtool.sources.cuts import Cut
from packtool.sources.records import BadRecord, Block, Record
from packtool.sources.values import json_record, not_utf8

__all__ = ["cut_lines", "cut_paragraphs", "cut_whole", "read_json_lines", "read_text"]

PARAGRAPH_END = re.compile(rb"\n[ \t\r\v\f]*\n")

Keep = Callable[[int], bool] | None


def cut_lines(chunks: Iterator[bytes], skipped: int, block_bytes: int, *, with_data: bool) -> Iterator[Cut]:
    """Cut at line ends; `skipped` bytes (a byte-order mark) came before the first chunk."""
    start = position = skipped  # of the block, and of the chunk, in the decoded stream
    first = 1
    lines = 0
    unfinished = False
    parts: list[bytes] = []
    for chunk in chunks:
        at = 0
        while (end := chunk.find(b"\n", max(at, start + block_bytes - 1 - position)) + 1) > 0:
            lines += chunk.count(b"\n", at, end)
            if with_data:
                parts.append(chunk[at:end])
            yield Cut(start, position + end, first, lines, b"".join(parts) if with_data else None)
            start = position + end
            first += lines
            lines = 0
            parts = []
            at = end
        lines += chunk.count(b"\n", at)
        if with_data:
            parts.append(chunk[at:])
        unfinished = not chunk.endswith(b"\n")
        position += len(chunk)
    if position > start:
        yield Cut(start, position, first, lines + unfinished, b"".join(parts) if with_data else None)


def cut_paragraphs(chunks: Iterator[bytes], skipped: int, block_bytes: int, *, with_data: bool) -> Iterator[Cut]:
    """Cut after blank lines."""
    start = skipped
    first = 1
    held = bytearray()
    at = 0  # nothing before this place of `held` can begin a paragraph's end
    for chunk in chunks:
        held += chunk
        while match := PARAGRAPH_END.search(held, max(at, block_bytes - 1)):
            end = match.end()
            lines = held.count(b"\n", 0, end)
            yield Cut(start, start + end, first, lines, bytes(held[:end]) if with_data else None)
            start += end
            first += lines
            del held[:end]
            at = 0
        at = max(held.rfind(b"\n"), 0)
    if held:
        lines = held.count(b"\n") + (not held.endswith(b"\n"))
        yield Cut(start, start + len(held), first, lines, bytes(held) if with_data else None)


def cut_whole(chunks: Iterator[bytes], skipped: int, block_bytes: int, *, with_data: bool) -> Iterator[Cut]:
    """Take the whole stream as one block."""
    size = lines = 0
    parts: list[bytes] = []
    unfinished = False
    for chunk in chunks:
        size += len(chunk)
        lines += chunk.count(b"\n")
        unfinished = not chunk.endswith(b"\n")
        if with_data:
            parts.append(chunk)
    if size:
        yield Cut(skipped, skipped + size, 1, lines + unfinished, b"".join(parts) if with_data else None)


def _lines(block: Block, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield place, offset and bytes of each line that is not blank, without its LF."""
    place = block.first
    offset = block.start
    for line in data.split(b"\n"):
        if line and not line.isspace():
            yield place, offset, line
        place += 1
        offset += len(line) + 1


def _paragraphs(block: Block, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield each run of lines that are not blank, without its last LF."""
    first = begin = end = next_line = 0
    for place, offset, line in _lines(block, data):
        at = offset - block.start
        if place != next_line:
            if first:
                yield first, block.start + begin, data[begin:end]
            first, begin = place, at
        next_line = place + 1
        end = at + len(line)
    if first:
        yield first, block.start + begin, data[begin:end]


def _whole(block: Block, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    if data and not data.isspace():
        yield block.first, block.start, data


PIECES = {"line": _lines, "paragraph": _paragraphs, "file": _whole}


def read_json_lines(block: Block, data: bytes, keep: Keep) -> Iterator[Record | BadRecord | None]:
    """Parse each line that is not blank."""
    for number, (place, offset, line) in enumerate(_lines(block, data)):
        if keep is not None and not keep(number):
            yield None
        else:
            yield json_record(line, place, offset)


def read_text(block: Block, data: bytes, keep: Keep, text_by: str) -> Iterator[Record | BadRecord | None]:
    """Take each line, each paragraph or the whole as `{"text": ...}`."""
    for number, (place, offset, piece) in enumerate(PIECES[text_by](block, data)):
        if keep is not None and not keep(number):
            yield None
            continue
        try:
            text = (piece if text_by == "file" else piece.removesuffix(b"\r")).decode()
        except UnicodeDecodeError as error:
            yield not_utf8(error, place, offset)
        else:
            yield Record({"text": text}, place, offset)
