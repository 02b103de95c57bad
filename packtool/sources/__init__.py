"""Records with their origin, from JSON lines, JSON, Parquet, Arrow, CSV, TSV and text, plain or compressed.

    find_inputs(paths)        files, globs, folders or `-`   ->  InputFiles, told apart by their content
    BlockSplitter(file, 0)    one InputFile                  ->  Blocks, and the file's sha256
    read_block(block)         one Block                      ->  Records and BadRecords

A block is small, picklable and independent: any process can read any block.
"""

from packtool.sources.find import find_inputs
from packtool.sources.records import BadRecord, Block, InputFile, Record, place_name
from packtool.sources.split import BLOCK_BYTES, TEXT_BY, BlockSplitter, read_block

__all__ = [
    "BLOCK_BYTES",
    "TEXT_BY",
    "BadRecord",
    "Block",
    "BlockSplitter",
    "InputFile",
    "Record",
    "find_inputs",
    "place_name",
    "read_block",
]
