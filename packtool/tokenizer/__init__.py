"""Text with trained characters to ids with trained tokens, behind one small Protocol (see `base`)."""

from packtool.tokenizer.base import AddedToken, EncodedBatch, Engine, Tokenizer, TokenizerSource
from packtool.tokenizer.load import BYTES_FILE, find_tokenizer, make_engine, make_tokenizer, source_sha256

__all__ = [
    "BYTES_FILE",
    "AddedToken",
    "EncodedBatch",
    "Engine",
    "Tokenizer",
    "TokenizerSource",
    "find_tokenizer",
    "make_engine",
    "make_tokenizer",
    "source_sha256",
]
