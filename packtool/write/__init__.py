"""Packs to files: one writer a shard format, and the ledger."""

from packtool.write.formats import shard_writer
from packtool.write.ledger import write_ledger
from packtool.write.shards import ShardWriter

__all__ = ["ShardWriter", "shard_writer", "write_ledger"]
