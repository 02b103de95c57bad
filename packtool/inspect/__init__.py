"""Looking at finished datasets: each file one thing to do, over the reader."""

from packtool.inspect.show import PieceView, decoded_runs, view_pack
from packtool.inspect.verify import Report, verify

__all__ = ["PieceView", "Report", "decoded_runs", "verify", "view_pack"]
