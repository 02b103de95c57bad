"""The runtime reader: numpy and the standard library; pyarrow only for compressed Parquet and for the ledger.

data = open_dataset("dataset.packed")
len(data), data[0].tokens, data.manifest.max_seq_len
"""

from packtool.read.dataset import Dataset, open_dataset
from packtool.read.ledger import read_ledger

__all__ = ["Dataset", "open_dataset", "read_ledger"]
