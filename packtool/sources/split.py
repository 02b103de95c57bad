"""Cut an input file into blocks, and read a block's records.

    for block in (splitter := BlockSplitter(file, index=0)):
        for record in read_block(block): ...
    splitter.sha256, splitter.places

The blocks of a file are a function of its bytes, `block_bytes`, `text_by` and `columns`; the records of all blocks in
order are those of the file, however it was cut. Splitting hashes the file on the way, at the price of one pass over its
bytes; compressed, JSON-array and CSV files are decoded in that pass and travel inside their blocks.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator

from packtool.errors import UsageError
from packtool.sources.columnar import ROWS_PER_BLOCK, cut_columnar, read_columnar
from packtool.sources.cuts import Cut
from packtool.sources.delimited import cut_delimited, read_delimited
from packtool.sources.json_stream import cut_json, read_json
from packtool.sources.lines import cut_lines, cut_paragraphs, cut_whole, read_json_lines, read_text
from packtool.sources.records import BadRecord, Block, InputFile, Record
from packtool.sources.streams import Digest, decoded_chunks, raw_chunks, read_range, skip_bom

__all__ = ["BLOCK_BYTES", "TEXT_BY", "BlockSplitter", "read_block"]

BLOCK_BYTES = 4 << 20
COLUMNAR = ("parquet", "arrow", "arrow_stream")
LINE_CUTTERS = {"line": cut_lines, "paragraph": cut_paragraphs, "file": cut_whole}
TEXT_BY = tuple(LINE_CUTTERS)


class BlockSplitter:
    """The blocks of one input file, in order.

    Args:
        file: what to cut.
        index: the file's place in the list of inputs.
        block_bytes: size of a block; one longer record makes a longer block. Part of what makes output deterministic.
        text_by: `line`, `paragraph` or `file`: what one record of a text file is.
        columns: those that records will be asked for; numbers tell that CSV and TSV have no header.

    Attributes:
        sha256: of the file's raw bytes once every block was taken; `unread` before that.
        places: lines, rows or elements in the blocks taken so far, blank lines included.
        consumed: raw bytes read so far; for Parquet and Arrow, 0 until the end.
    """

    def __init__(
        self,
        file: InputFile,
        index: int,
        *,
        block_bytes: int = BLOCK_BYTES,
        text_by: str = "line",
        columns: Collection[str] = (),
    ) -> None:
        self.file = file
        self.index = index
        self.block_bytes = block_bytes
        self.text_by = text_by
        self.columns = columns
        self.sha256 = "unread"
        self.places = 0
        self.consumed = 0

    def __iter__(self) -> Iterator[Block]:
        """Start at the file's first block."""
        _check_text_by(self.text_by)
        if self.block_bytes < 1:
            raise UsageError(f"`block_bytes`: expected at least 1, got {self.block_bytes}")
        self.sha256 = "unread"
        self.places = 0
        self.consumed = 0
        digest = hashlib.sha256()
        for number, cut in enumerate(self._cuts(digest)):
            self.places = cut.first - 1 + cut.places
            yield Block(
                file=self.index,
                number=number,
                path=self.file.path,
                container=self.file.container,
                start=cut.start,
                stop=cut.stop,
                first=cut.first,
                data=cut.data,
                group=cut.group,
                header=cut.header,
            )
        self.sha256 = digest.hexdigest()

    def _cuts(self, digest: Digest) -> Iterator[Cut]:
        file = self.file
        digest = _Counted(digest, self)
        if file.container in COLUMNAR:
            rows = max(1, ROWS_PER_BLOCK * self.block_bytes // BLOCK_BYTES)
            yield from cut_columnar(file.path, file.name, file.container, rows)
            for _ in raw_chunks(file.path, digest):
                pass
            return
        skipped, chunks = skip_bom(decoded_chunks(file.path, file.compression, file.name, digest))
        if file.container == "json":
            yield from cut_json(chunks, skipped, self.block_bytes, file.name)
        elif file.container in ("csv", "tsv"):
            yield from cut_delimited(chunks, skipped, self.block_bytes, file.name, file.container, self.columns)
        else:
            cutter = LINE_CUTTERS[self.text_by if file.container == "text" else "line"]
            yield from cutter(chunks, skipped, self.block_bytes, with_data=file.compression != "none")


class _Counted:
    """A digest that tells its splitter how much it was given."""

    def __init__(self, digest: Digest, splitter: BlockSplitter) -> None:
        self._digest, self._splitter = digest, splitter

    def update(self, data: bytes, /) -> None:
        self._digest.update(data)
        self._splitter.consumed += len(data)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def read_block(
    block: Block, *, text_by: str = "line", keep: Callable[[int], bool] | None = None
) -> Iterator[Record | BadRecord | None]:
    """Yield the block's records in order.

    Args:
        block: one that BlockSplitter gave.
        text_by: the splitter's.
        keep: tells by a record's number in the block, from 0, whether it is wanted; None stands in for the others,
            which are not parsed. Blank lines are no records and have no number.
    """
    _check_text_by(text_by)
    if block.container in COLUMNAR:
        yield from read_columnar(block, keep)
        return
    data = read_range(block.path, block.start, block.stop) if block.data is None else block.data
    if block.container == "json":
        yield from read_json(block, data, keep)
    elif block.container in ("csv", "tsv"):
        yield from read_delimited(block, data, keep)
    elif block.container == "text":
        yield from read_text(block, data, keep, text_by)
    else:
        yield from read_json_lines(block, data, keep)


def _check_text_by(text_by: str) -> None:
    if text_by not in TEXT_BY:
        raise UsageError(f"`text_by`: expected one of {', '.join(f'`{way}`' for way in TEXT_BY)}, got `{text_by}`")
