r"""The content digest: one sha256 over what a dataset says, whatever form its files have.

    pack digest     sha256(tokens as <u4 | labels as <i4 | seq_lens as <i4 | records as <i8)          one a pack
    ledger digest   sha256 over the ledger's columns in order, each as little-endian values; not the details, whose
                    words come from libraries
    content digest  sha256("packtool content 1\n" | max_seq_len as <i8 | pack digests in order | ledger digest), in hex

`input_pos` is left out because it follows from `seq_lens`. Pack digests can be computed by anyone for any run of
packs, so shards are hashed where they are written.
"""

import dataclasses
import hashlib

import numpy as np

from packtool.format.arrays import PackRows
from packtool.format.ledger import LedgerColumns

__all__ = ["content_digest", "ledger_digest", "pack_digests"]


def pack_digests(rows: PackRows) -> bytes:
    """32 bytes a pack, in order."""
    tokens = np.ascontiguousarray(rows.tokens, "<u4")
    labels = np.ascontiguousarray(rows.labels, "<i4")
    seq_lens = np.ascontiguousarray(rows.seq_lens, "<i4")
    records = np.ascontiguousarray(rows.records, "<i8")
    digests = []
    for pack, (start, stop) in enumerate(
        zip(rows.seq_offsets[:-1].tolist(), rows.seq_offsets[1:].tolist(), strict=True)
    ):
        digest = hashlib.sha256(tokens[pack].data)
        for part in (labels[pack], seq_lens[start:stop], records[start:stop]):
            digest.update(part.data)
        digests.append(digest.digest())
    return b"".join(digests)


def ledger_digest(ledger: LedgerColumns) -> bytes:
    """32 bytes over the whole ledger."""
    digest = hashlib.sha256()
    for field in dataclasses.fields(LedgerColumns):
        if field.name != "details":
            array = np.ascontiguousarray(getattr(ledger, field.name))
            digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
    return digest.digest()


def content_digest(max_seq_len: int, digests: bytes, ledger: bytes) -> str:
    """The dataset's content digest in hex, from its pack digests in order and its ledger digest."""
    digest = hashlib.sha256(b"packtool content 1\n")
    digest.update(np.int64(max_seq_len).astype("<i8").tobytes())
    digest.update(digests)
    digest.update(ledger)
    return digest.hexdigest()
