"""Bytes of an input file, raw or decoded, in bounded chunks; the raw bytes are hashed on the way.

    raw_chunks      the file as it lies on disk
    decoded_chunks  the same through gzip or zstd, members and frames one after another
    skip_bom        a chunk stream without its UTF-8 byte-order mark

A chunk's size means nothing to whoever reads it: blocks are cut by content and `block_bytes` alone. A compressed stream
that stops early is an error, never a shorter file.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from packtool.errors import DataError

__all__ = ["BOM", "CHUNK_BYTES", "Digest", "decoded_chunks", "raw_chunks", "read_range", "skip_bom"]

BOM = b"\xef\xbb\xbf"
CHUNK_BYTES = 1 << 20
ZSTD_INPUT_BYTES = 1 << 12  # its decoder cannot bound its output, so its input is: 128 MiB from this much at worst
ZSTD_WINDOW = 1 << 31  # what `zstd --long=31` writes
CUT_HINT = "the file is cut short or damaged: copy or download it again"


class Digest(Protocol):
    """What hashlib gives."""

    def update(self, data: bytes, /) -> object:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the sum of the bytes added."""


def raw_chunks(path: str, digest: Digest | None = None, *, chunk_bytes: int = 0) -> Iterator[bytes]:
    """Yield the file's bytes and add them to `digest`."""
    try:
        with Path(path).open("rb", buffering=0) as stream:
            while chunk := stream.read(chunk_bytes or CHUNK_BYTES):
                if digest is not None:
                    digest.update(chunk)
                yield chunk
    except OSError as error:
        raise DataError(f"cannot read `{path}`: {error.strerror}") from error


def read_range(path: str, start: int, stop: int) -> bytes:
    """Read bytes `start..stop`; a file that has become shorter since it was split is an error."""
    try:
        with Path(path).open("rb", buffering=0) as stream:
            stream.seek(start)
            parts = []
            missing = stop - start
            while missing and (part := stream.read(missing)):  # one read stops at 2 GiB on Linux
                parts.append(part)
                missing -= len(part)
    except OSError as error:
        raise DataError(f"cannot read `{path}`: {error.strerror}") from error
    if missing:
        raise DataError(
            f"`{path}` changed while it was read: expected bytes up to {stop:,}, it ends at {stop - missing:,}"
        )
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decoded_chunks(path: str, compression: str, name: str, digest: Digest | None = None) -> Iterator[bytes]:
    """Yield what the file holds once `compression` (`none`, `gzip` or `zstd`) is undone; `name` is for errors."""
    if compression == "gzip":
        return _gzip(raw_chunks(path, digest), name)
    if compression == "zstd":
        return _zstd(raw_chunks(path, digest), name)
    return raw_chunks(path, digest)


def _gzip(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    member = None
    try:
        for chunk in chunks:
            data = chunk
            while data:
                if member is None:
                    data = data.lstrip(b"\0")  # tape and block devices pad between members
                    if not data:
                        break
                    member = zlib.decompressobj(wbits=31)
                if decoded := member.decompress(data, CHUNK_BYTES):
                    yield decoded
                data = member.unconsumed_tail
                while not data and not member.eof and (decoded := member.decompress(b"", CHUNK_BYTES)):
                    yield decoded
                if member.eof:
                    data = member.unused_data
                    member = None
    except zlib.error as error:
        raise DataError(f"`{name}` is not a sound gzip file: {error}", hint=CUT_HINT) from error
    if member is not None:
        raise DataError(f"`{name}` ends inside its gzip stream", hint=CUT_HINT)


def _zstd(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    import zstandard

    context = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    frame = None
    try:
        for data in _pieces(chunks, ZSTD_INPUT_BYTES):
            left = data
            while left:
                if frame is None:
                    frame = context.decompressobj()
                if decoded := frame.decompress(left):
                    yield decoded
                left = b""
                if frame.eof:
                    left = frame.unused_data
                    frame = None
    except zstandard.ZstdError as error:
        raise DataError(f"`{name}` is not a sound zstd file: {error}", hint=CUT_HINT) from error
    if frame is not None:
        raise DataError(f"`{name}` ends inside its zstd stream", hint=CUT_HINT)


def _pieces(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            yield chunk[start : start + size]


def skip_bom(chunks: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
    """Return the length of the UTF-8 byte-order mark (0 or 3) and the chunks after it."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(BOM):
            break
    skipped = len(BOM) if head.startswith(BOM) else 0

    def rest() -> Iterator[bytes]:
        if len(head) > skipped:
            yield head[skipped:]
        yield from chunks

    return skipped, rest()
