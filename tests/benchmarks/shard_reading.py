"""How fast packs are read at random, and how large they are, for each shard format.

    python tests/benchmarks/shard_reading.py [--packs 8192] [--max-seq-len 4096] [--ids tokens.npy] [--folder DIR]

Each number is the time to take a random pack's three slot arrays as copies, divided by the time that bare
`np.load(mmap_mode="r")[i]` copies of the same npy files need in the same run (page cache warm). Without `--ids` (a
one-dimensional array of real token ids) the tokens are made up and Zipf-like: what zstd makes of those says little.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "shards")]

from shard_helpers import FORMATS, SLOTS, cut_rows, write_shard  # noqa: E402  # needs the path above

from packtool.format import PackRows, column_dtypes  # noqa: E402  # needs the path above
from packtool.read.formats import open_shard  # noqa: E402  # needs the path above

VOCAB = 151_936


def made_up_rows(packs: int, max_seq_len: int, ids: Path | None) -> PackRows:
    """Full packs with pieces of lognormal lengths, a quarter of each untrained."""
    rng = np.random.default_rng(0)
    slots = packs * max_seq_len
    if ids is None:
        stream = np.minimum(rng.zipf(1.3, slots), VOCAB - 1)
    else:
        stream = np.resize(np.load(ids), slots)
    lens, left = [], []
    for _ in range(packs):
        used: list[int] = []
        while sum(used) < max_seq_len:
            used.append(min(int(rng.lognormal(4.7, 0.8)) + 2, max_seq_len - sum(used)))
        lens += used
        left.append(len(used))
    seq_lens = np.array(lens, np.int32)
    starts = np.cumsum(seq_lens, dtype=np.int64) - seq_lens
    positions = np.arange(slots) - np.repeat(starts, seq_lens)
    labels = np.where(positions < np.repeat(seq_lens // 4, seq_lens), -100, stream)
    shape = (packs, max_seq_len)
    return PackRows(
        stream.reshape(shape).astype(np.uint32),
        labels.reshape(shape).astype(np.int32),
        positions.reshape(shape).astype(np.uint32),
        seq_lens,
        rng.integers(0, 2**31, len(lens)),
        np.cumsum([0, *left]).astype(np.int64),
    )


def stored(rows: PackRows, storage: str) -> PackRows:
    """The rows in the dtypes of a storage."""
    dtypes = column_dtypes(storage, VOCAB, rows.tokens.shape[1])
    columns = {column: getattr(rows, column).astype(dtype) for column, dtype in dtypes.items()}
    return PackRows(**columns, seq_offsets=rows.seq_offsets)


def seconds_a_pack(read, order) -> float:
    """Best of three rounds."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for index in order:
            read(index)
        best = min(best, (time.perf_counter() - start) / len(order))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packs", type=int, default=8192)
    parser.add_argument("--max-seq-len", type=int, default=4096)
    parser.add_argument("--ids", type=Path, help="a .npy file of token ids, repeated as often as needed")
    parser.add_argument("--folder", type=Path, help="where to write (removed afterwards)")
    args = parser.parse_args()
    rows = made_up_rows(args.packs, args.max_seq_len, args.ids)
    rng = np.random.default_rng(1)
    order = rng.permutation(args.packs)[:4000].tolist()
    print(f"{args.packs:,} packs of {args.max_seq_len:,} slots, {len(order):,} of them at random, warm")
    print(f"{'format':<16} {'write MB/s':>11} {'open ms':>8} {'copies us':>10} {'ratio':>7} {'bytes a slot':>13}")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        bare = None
        for storage, compression in FORMATS:
            home = Path(folder) / f"{storage}-{compression}"
            typed = stored(rows, storage)
            start = time.perf_counter()
            cuts = range(256, args.packs, 256)
            entry, manifest = write_shard(home, typed, storage, compression, vocab=VOCAB, cuts=cuts)
            took = time.perf_counter() - start
            volume = sum(getattr(typed, column).nbytes for column in SLOTS)
            start = time.perf_counter()
            shard = open_shard(home, entry, manifest)
            opened = time.perf_counter() - start
            if bare is None:
                maps = [np.load(home / f"{entry.name}/{column}.npy", mmap_mode="r") for column in SLOTS]
                bare = seconds_a_pack(lambda index, maps=maps: [np.array(array[index]) for array in maps], order)
                print(f"{'bare np.load':<16} {'':>11} {'':>8} {bare * 1e6:>10.1f} {1:>7.2f}")
            few = order[:200] if compression == "zstd" else order

            def copies(index, shard=shard):
                pack = shard.pack(index)
                return [np.array(getattr(pack, column)) for column in SLOTS]

            each = seconds_a_pack(copies, few)
            size = sum(file.size for file in entry.files) / rows.tokens.size
            name = f"{storage} {compression}"
            line = f"{name:<16} {volume / took / 1e6:>11.0f} {opened * 1e3:>8.1f} {each * 1e6:>10.1f}"
            print(f"{line} {each / bare:>7.2f} {size:>13.2f}")
            ordered = [shard.rows(i, i + 64) for i in range(0, min(args.packs - 64, 2048), 64)]
            assert all(
                (run.tokens == cut_rows(typed, 64 * i, 64 * i + 64).tokens).all() for i, run in enumerate(ordered)
            )


if __name__ == "__main__":
    main()
