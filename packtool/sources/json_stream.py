r"""JSON that is not one value a line: an array of records, one pretty-printed object, or objects one after another.

A scanner finds where each value ends by its brackets and strings, without parsing it: bytes of UTF-8 text below 0x80
are always themselves, so nothing is decoded, and a value that is wrong inside (single quotes, NaN, bad UTF-8) is one
bad record while the rest is read. It holds one value and one chunk; each byte is looked at about once.

A block's data is its values joined by SEPARATOR (the record separator of RFC 7464): JSON can hold that byte neither
inside a string nor outside of one.

    [{"a": 1}, {"a": 2}]   ->   b'{"a": 1}\x1e{"a": 2}', elements 1 and 2
"""

import re
from collections.abc import Callable, Iterator

from packtool.errors import DataError
from packtool.sources.cuts import Cut
from packtool.sources.records import BadRecord, Block, Record
from packtool.sources.values import json_record

__all__ = ["MAX_VALUE_BYTES", "cut_json", "read_json"]

SEPARATOR = b"\x1e"
HARMLESS = b"\x1f"  # as wrong as SEPARATOR inside JSON, with the same parser message
MAX_VALUE_BYTES = 1 << 30

TOKEN = re.compile(rb'["\[\]{}]')
TOKEN_OR_COMMA = re.compile(rb'["\[\]{},]')
NOT_SPACE = re.compile(rb"[^ \t\r\n]")

QUOTE, BACKSLASH, COMMA, OPEN, CLOSE = b'"'[0], b"\\"[0], b","[0], b"[{", b"]}"


def cut_json(chunks: Iterator[bytes], skipped: int, block_bytes: int, name: str) -> Iterator[Cut]:
    """Cut after the value with which a block's values reach `block_bytes`; `name` is the file's, for errors."""
    values: list[bytes] = []
    size = start = stop = 0
    first = 1
    for offset, value in _values(chunks, skipped, name):
        if not values:
            start = offset
        values.append(value.replace(SEPARATOR, HARMLESS))
        size += len(value)
        stop = offset + len(value)
        if size >= block_bytes:
            yield Cut(start, stop, first, len(values), SEPARATOR.join(values))
            first += len(values)
            values = []
            size = 0
    if values:
        yield Cut(start, stop, first, len(values), SEPARATOR.join(values))


def read_json(block: Block, data: bytes, keep: Callable[[int], bool] | None) -> Iterator[Record | BadRecord | None]:
    """Parse each value of a block that `cut_json` made."""
    for number, value in enumerate(data.split(SEPARATOR)):
        if keep is not None and not keep(number):
            yield None
        else:
            yield json_record(value, block.first + number, -1)


def _values(chunks: Iterator[bytes], skipped: int, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield each value's offset and bytes, for an array its elements."""
    text = bytearray()
    base = skipped  # offset of text[0] in the decoded stream
    for chunk in chunks:
        text += chunk
        if NOT_SPACE.search(text):
            break
    found = NOT_SPACE.search(text)
    if found is None:
        return
    if text[found.start()] == OPEN[0]:
        del text[: found.end()]
        yield from _elements(chunks, text, base + found.end(), name)
    else:
        yield from _in_a_row(chunks, text, base, name)


class _Scanner:
    """Text scanned so far, from the start of the value that is not yet finished."""

    def __init__(self, chunks: Iterator[bytes], text: bytearray, base: int, name: str) -> None:
        self.chunks = chunks
        self.text = text
        self.base = base
        self.name = name
        self.count = 0  # values taken
        self.start = 0  # of the value in hand, in `text`
        self.at = 0  # where scanning goes on
        self.in_string = False

    def more(self) -> bool:
        """Take the next chunk and let go of what is done; False at the end."""
        if self.start:
            del self.text[: self.start]
            self.base += self.start
            self.at -= self.start
            self.start = 0
        if len(self.text) > MAX_VALUE_BYTES:
            raise DataError(
                f"`{self.name}` record {self.count + 1}: longer than {MAX_VALUE_BYTES:,} bytes",
                hint="a quote or a bracket in it is probably never closed",
            )
        for chunk in self.chunks:
            self.text += chunk
            return True
        return False

    def token(self, pattern: re.Pattern[bytes]) -> int:
        """Return the next character that matters and is in no string, or -1 where the text ends."""
        text = self.text
        while True:
            if self.in_string:
                quote = text.find(b'"', self.at)
                if quote >= 0:
                    self.at = quote + 1
                    before = quote
                    while text[before - 1] == BACKSLASH:  # the string's own first quote stops this
                        before -= 1
                    self.in_string = (quote - before) % 2 == 1
                    continue
            elif match := pattern.search(text, self.at):
                self.at = match.end()
                character = text[match.start()]
                if character != QUOTE:
                    return character
                self.in_string = True
                continue
            self.at = len(text)
            if not self.more():
                return -1

    def take(self, stop: int) -> tuple[int, bytes]:
        """Return the value in hand, which ends at `stop`, without the white space around it."""
        value = bytes(self.text[self.start : stop])
        stripped = value.strip(b" \t\r\n")
        offset = self.base + self.start + (len(value) - len(value.lstrip(b" \t\r\n")) if stripped else 0)
        self.count += 1
        self.start = self.at
        return offset, stripped

    def skip_space(self) -> int:
        """Go to the next character that is no white space and return it, or -1."""
        while True:
            match = NOT_SPACE.search(self.text, self.at)
            if match is not None:
                self.at = self.start = match.start()
                return self.text[self.at]
            self.at = self.start = len(self.text)
            if not self.more():
                return -1

    def cut_error(self, what: str) -> DataError:
        """Say that the file ends too early, and where its last value is wrong if that explains it."""
        value = bytes(self.text[self.start :]).strip()
        hint = "the file is cut short: copy or download it again"
        if value:
            parsed = json_record(value, 0, 0)
            if isinstance(parsed, BadRecord):
                hint = f"the file is cut short, or that record is wrong: {parsed.message}"
        return DataError(f"`{self.name}` ends inside {what} {self.count + 1}", hint=hint)


def _elements(chunks: Iterator[bytes], text: bytearray, base: int, name: str) -> Iterator[tuple[int, bytes]]:
    scan = _Scanner(chunks, text, base, name)
    depth = 0
    while True:
        character = scan.token(TOKEN if depth else TOKEN_OR_COMMA)
        if character == -1:
            raise scan.cut_error("its JSON array, in element")
        if character in OPEN:
            depth += 1
        elif depth:
            depth -= character in CLOSE
        elif character == COMMA:
            yield scan.take(scan.at - 1)
        elif character == CLOSE[0]:
            offset, value = scan.take(scan.at - 1)
            if value or scan.count > 1:
                yield offset, value
            break
    after = scan.skip_space()
    if after != -1:
        raise DataError(
            f"`{name}` goes on after its JSON array, with {chr(after)!r} at byte {scan.base + scan.at + 1:,}",
            hint="keep one array a file, or write one record a line",
        )


def _in_a_row(chunks: Iterator[bytes], text: bytearray, base: int, name: str) -> Iterator[tuple[int, bytes]]:
    scan = _Scanner(chunks, text, base, name)
    while (character := scan.skip_space()) != -1:
        if character not in OPEN:
            raise DataError(
                f"`{name}` after record {scan.count}: expected a JSON object, "
                f"got {chr(character)!r} at byte {scan.base + scan.at + 1:,}",
                hint="write one record a line, or all records between `[` and `]` with commas",
            )
        depth = 0
        while True:
            character = scan.token(TOKEN)
            if character == -1:
                raise scan.cut_error("record")
            depth += (character in OPEN) - (character in CLOSE)
            if depth == 0:
                break
        yield scan.take(scan.at)
