"""Read an input file whole, through blocks."""

from typing import Any

from packtool.sources import BadRecord, Block, BlockSplitter, InputFile, Record, read_block


def take(file: InputFile, **options: Any) -> tuple[list[Block], list[Record | BadRecord], BlockSplitter]:
    """Blocks, records and the splitter that gave them; `text_by` goes to both."""
    splitter = BlockSplitter(file, 0, **options)
    blocks = list(splitter)
    text_by = options.get("text_by", "line")
    return blocks, [record for block in blocks for record in read_block(block, text_by=text_by)], splitter
