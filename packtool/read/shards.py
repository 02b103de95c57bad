"""The seam between the reader and the files: one class for each shard format.

A shard is opened lazily and only ever read. Quick opening proves sizes, headers and offsets, so that no later access
can leave a file; contents are proven by `verify` and by `open_dataset(check="full")`.
"""

from typing import Protocol

from packtool.format import Pack, PackRows

__all__ = ["ShardReader"]


class ShardReader(Protocol):
    """Reads one shard."""

    def pack(self, index: int) -> Pack:
        """Pack `index` of this shard, 0 <= index < packs."""

    def rows(self, start: int, stop: int) -> PackRows:
        """Packs start..stop of this shard, copied where the format needs it."""
