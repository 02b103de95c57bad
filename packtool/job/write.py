"""The write stage: one shard is one task. Gather its pieces from the mapped store in layout order, write, hash, rename.

What the tasks share (store segments, piece arrays) lies in files of the scratch folder and is mapped, so a task carries
names and numbers only.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packtool.format import IGNORE_INDEX, PackRows, ShardEntry, column_dtypes, pack_digests
from packtool.plan import Layout
from packtool.storage import file_entries
from packtool.store import Store
from packtool.write.formats import shard_writer

__all__ = ["ShardDone", "ShardTask", "save_pieces", "write_shard"]

_SLOTS = 1 << 18  # slots in memory at a time, about 10 MB


@dataclass(frozen=True, slots=True)
class ShardTask:
    """One task of the stage: packs start..stop of the layout become the shard `name` of the dataset `folder`."""

    scratch: str
    folder: str
    name: str
    start: int
    stop: int
    max_seq_len: int
    storage: str
    compression: str
    vocab_size: int
    pad: int

    @property
    def title(self) -> str:
        """What an error calls this task."""
        return f"shard `{self.name}`"


@dataclass(frozen=True, slots=True)
class ShardDone:
    """A finished shard.

    Attributes:
        entry: its line in the manifest.
        digests: 32 bytes a pack.
        targets: [packs] trained tokens of each.
        cut_targets: tokens that would be trained if a cut had not made them the first of a piece.
    """

    entry: ShardEntry
    digests: bytes
    targets: NDArray[np.int64]
    cut_targets: int


def save_pieces(
    scratch: Path, layout: Layout, sample_start: NDArray[np.int64], record: NDArray[np.int64], store: dict[str, Any]
) -> None:
    """Write what the shard tasks map.

    Args:
        scratch: the run's scratch folder.
        layout: the final layout over samples.
        sample_start: [samples] each sample's first token in the store's stream.
        record: [samples] each sample's record.
        store: `folder`, segment `names` and their `tokens`.
    """
    np.save(scratch / "piece_source.npy", sample_start[layout.sample] + layout.start)
    np.save(scratch / "piece_length.npy", layout.length)
    np.save(scratch / "piece_record.npy", record[layout.sample])
    np.save(scratch / "piece_is_cut.npy", layout.start > 0)
    np.save(scratch / "pack_offsets.npy", layout.pack_offsets())
    (scratch / "store.json").write_text(json.dumps(store))


def write_shard(task: ShardTask) -> ShardDone:
    """Write one shard and return its manifest entry."""
    scratch, folder = Path(task.scratch), Path(task.folder)
    described = json.loads((scratch / "store.json").read_text())
    store = Store(Path(described["folder"]), described["names"], described["tokens"])
    source, length, record, is_cut, offsets = (
        np.load(scratch / f"{name}.npy", mmap_mode="r")
        for name in ("piece_source", "piece_length", "piece_record", "piece_is_cut", "pack_offsets")
    )
    pieces = int(offsets[task.stop] - offsets[task.start])
    writer = shard_writer(
        task.storage,
        task.compression,
        folder,
        task.name,
        packs=task.stop - task.start,
        pieces=pieces,
        max_seq_len=task.max_seq_len,
        dtypes=column_dtypes(task.storage, task.vocab_size, task.max_seq_len),
    )
    digests: list[bytes] = []
    targets: list[NDArray[np.int64]] = []
    cut_targets = 0
    step = max(1, _SLOTS // task.max_seq_len)
    try:
        for start in range(task.start, task.stop, step):
            stop = min(start + step, task.stop)
            at = slice(int(offsets[start]), int(offsets[stop]))
            tokens, trained = store.gather(source[at], length[at])
            inner = np.asarray(offsets[start : stop + 1]) - offsets[start]
            rows, cut = _rows(task, tokens, trained, length[at], record[at], is_cut[at], inner)
            writer.append(rows)
            digests.append(pack_digests(rows))
            targets.append(np.count_nonzero(rows.labels != IGNORE_INDEX, axis=1))
            cut_targets += cut
        names = writer.close()
    except BaseException:
        writer.abort()
        raise
    entry = ShardEntry(task.name, task.stop - task.start, pieces, file_entries(folder, names))
    return ShardDone(entry, b"".join(digests), np.concatenate(targets), cut_targets)


def _rows(
    task: ShardTask,
    tokens: NDArray[np.uint32],
    trained: NDArray[np.bool_],
    lengths: NDArray[np.int64],
    records: NDArray[np.int64],
    is_cut: NDArray[np.bool_],
    offsets: NDArray[np.int64],
) -> tuple[PackRows, int]:
    """Lay pieces into packs, and count the targets that cuts cost.

    tokens  5 6 7 | 8 9      lengths 3 2, one pack of 7      tokens     5    6 7    8 9   pad  pad
                                                            labels  -100    6 7 -100 9  -100 -100
                                                            input_pos  0    1 2    0 1     0    1
    """
    dtypes = column_dtypes(task.storage, task.vocab_size, task.max_seq_len)
    packs, size = len(offsets) - 1, task.max_seq_len
    begins = np.cumsum(lengths) - lengths  # each piece's first token in `tokens`
    firsts = offsets[:-1]
    used = np.add.reduceat(lengths, firsts)
    pack = np.repeat(np.arange(packs, dtype=np.int64), np.diff(offsets))
    slot = begins - begins[firsts][pack]  # each piece's first slot in its pack
    place = pack * size + slot
    inside = np.arange(len(tokens), dtype=np.int64) - np.repeat(begins, lengths)
    target = np.repeat(place, lengths) + inside
    all_tokens = np.full(packs * size, task.pad, dtypes["tokens"])
    all_tokens[target] = tokens
    labels = np.full(packs * size, IGNORE_INDEX, dtypes["labels"])
    labels[target[trained]] = tokens[trained]
    cut_targets = int(np.count_nonzero(labels[place[is_cut]] != IGNORE_INDEX))
    labels[place] = IGNORE_INDEX  # nothing is trained to predict the first token of a piece
    # Right for the padding, which counts from 0; the pieces are filled in after.
    positions = np.arange(size, dtype=np.int64) - used[:, None]
    positions.reshape(-1)[target] = inside
    return (
        PackRows(
            tokens=all_tokens.reshape(packs, size),
            labels=labels.reshape(packs, size),
            input_pos=positions.astype(dtypes["input_pos"]),
            seq_lens=lengths.astype(dtypes["seq_lens"]),
            records=records.astype(dtypes["records"]),
            seq_offsets=offsets.astype(np.int64),
        ),
        cut_targets,
    )
