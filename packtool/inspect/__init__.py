"""Looking at finished datasets: each file one thing to do, over the reader."""

from packtool.inspect.show import PieceView, view_pack
from packtool.inspect.verify import Report, verify

__all__ = ["PieceView", "Report", "verify", "view_pack"]
