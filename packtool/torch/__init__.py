"""PyTorch side: a map-style dataset over a packed dataset. The only room that imports torch."""

from packtool.torch.dataset import PackedDataset

__all__ = ["PackedDataset"]
