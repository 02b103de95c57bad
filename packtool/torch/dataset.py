"""A packed dataset as a map-style torch Dataset that works with DataLoader as it stands.

    loader = DataLoader(PackedDataset("out", mask="block_causal"), batch_size=2)
    for batch in loader:
        batch["tokens"]      int64 [batch, max_seq_len]
        batch["labels"]      int64 [batch, max_seq_len]     -100 where nothing is trained; not shifted unless asked for
        batch["input_pos"]   int64 [batch, max_seq_len]     restarts at 0 at every piece and at the padding
        batch["seq_lens"]    int64 [batch, max_pieces]      zero-padded, so that default collation can stack them
        batch["mask"]        bool  [batch, max_seq_len, max_seq_len]     only with mask="block_causal"; True: may attend

Every item owns its memory, so a batch may be changed in place. Workers get the path, not the data, and map the files
themselves: safe with fork, forkserver and spawn.
"""

from os import PathLike
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from packtool.errors import UsageError
from packtool.format import IGNORE_INDEX, Manifest
from packtool.masks import block_causal_mask
from packtool.read import open_dataset

__all__ = ["MASKS", "PackedDataset"]

MASKS = (None, "block_causal")


class PackedDataset(Dataset[dict[str, torch.Tensor]]):
    """Packs as dicts of tensors; see the module's table.

    Args:
        path: the dataset's folder.
        mask: `block_causal` adds a boolean mask in which a slot sees itself and earlier slots of its own piece; the
            padding is a piece of its own here, so no row is without a True. None (default) adds none.
        shift_labels: give label i + 1 at place i, for loops that do not shift themselves. Nothing is trained across a
            piece's end either way, because the first label of every piece is -100.
        records: also give `records`, int64 [max_pieces], the input record of each piece, padded with -1.
        check: as in `open_dataset`.

    Raises:
        UsageError: `mask` is unknown.
        FormatError: the dataset is none, or damaged.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        mask: str | None = None,
        shift_labels: bool = False,
        records: bool = False,
        check: str = "quick",
    ) -> None:
        if mask not in MASKS:
            raise UsageError(f"`mask`: expected None or `block_causal`, got {mask!r}")
        self._data = open_dataset(path, check=check)
        self._mask = mask
        self._shift = shift_labels
        self._records = records

    @property
    def manifest(self) -> Manifest:
        """What the dataset is."""
        return self._data.manifest

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Pack `index`.

        Raises:
            IndexError: there is no such pack.
        """
        pack = self._data[index]
        labels = pack.labels.astype(np.int64)
        if self._shift:
            labels[:-1] = labels[1:]
            labels[-1] = IGNORE_INDEX
        item: dict[str, Any] = {
            "tokens": pack.tokens.astype(np.int64),
            "labels": labels,
            "input_pos": pack.input_pos.astype(np.int64),
            "seq_lens": self._padded(pack.seq_lens, 0),
        }
        if self._records:
            item["records"] = self._padded(pack.records, -1)
        if self._mask is not None:
            item["mask"] = block_causal_mask(pack.seq_lens, self.manifest.max_seq_len)
        return {name: torch.from_numpy(array) for name, array in item.items()}

    def _padded(self, values: Any, fill: int) -> Any:
        row = np.full(self.manifest.max_pieces, fill, np.int64)
        row[: len(values)] = values
        return row
