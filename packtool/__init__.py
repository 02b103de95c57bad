"""Pack training samples offline, once, on CPUs; map the packs from any training loop.

packtool.pack([...], out="d.packed", max_seq_len=4096)   tokenize, bin-pack, write memory-mapped shards
packtool.open_dataset("d.packed")                        map them: len(data), data[i], data.manifest

`packtool.torch.PackedDataset` is the same for PyTorch. Importing packtool imports nothing heavy: both names are
looked up when they are first used, so that a training process never loads a tokenizer.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "open_dataset", "pack"]

if TYPE_CHECKING:
    from packtool.job import pack
    from packtool.read import open_dataset


def __getattr__(name: str) -> Any:
    if name == "pack":
        from packtool.job import pack

        return pack
    if name == "open_dataset":
        from packtool.read import open_dataset

        return open_dataset
    raise AttributeError(f"module `packtool` has no attribute `{name}`")
