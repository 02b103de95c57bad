"""The seam between planning's order and the files: one writer for each shard format, fed runs of packs in order."""

from typing import Protocol

from packtool.format import PackRows

__all__ = ["ShardWriter"]


class ShardWriter(Protocol):
    """Writes one shard. Files appear under temporary names and are renamed by `close`."""

    def append(self, rows: PackRows) -> None:
        """Write the next run of packs; dtypes are the stored ones."""

    def close(self) -> tuple[str, ...]:
        """Finish, rename, and return the file names relative to the dataset's folder, in a fixed order."""

    def abort(self) -> None:
        """Remove what was written; safe to call twice, and after `close`."""
