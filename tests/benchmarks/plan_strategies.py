"""Strategies and peers on the same lengths in one run: time, packs over the bound, variance between packs, memory.

    python tests/benchmarks/plan_strategies.py [--samples 23000 230000 2300000] [--peers] [--repeats 1]

Lengths are lognormal, clipped to 1..4096: short (mean 100, sigma 0.8), medium (300, 0.8), hard (1200, 0.7) and halves
(2000, 0.5), where most samples are near half a pack. Each row runs in a fresh process. Time is the least of the
repeats; memory is the most that Python and numpy allocated beyond the lengths, per sample, measured in a run of its
own. `over` is packs over the Martello-Toth bound, `share` the part of the variance of log length between packs, which
for random order is about packs / samples.

With `--peers`: TRL's `pack_dataset` (bfd), `binpacking.to_constant_volume`, and first fit in input order compiled by
numba, where they are installed.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import time
import tracemalloc
from typing import Any

import numpy as np

from packtool.plan import STRATEGIES, packing_bound, variance_share

SIZE = 4096
SHAPES = {"short": (100, 0.8), "medium": (300, 0.8), "hard": (1200, 0.7), "halves": (2000, 0.5)}
PEERS = {"trl": "trl", "binpacking": "binpacking", "numba": "numba"}
TRL_TOKENS = 300_000_000  # it needs the tokens themselves, not only their lengths, and copies them
SLOW = {"trl": 3_000_000, "binpacking": 30_000, "shuffle": 3_000_000}  # the most samples that are worth the wait


def lengths_of(shape: str, samples: int) -> np.ndarray:
    mean, sigma = SHAPES[shape]
    draws = np.random.default_rng(1).lognormal(np.log(mean) - sigma**2 / 2, sigma, samples)
    return np.clip(np.rint(draws), 1, SIZE).astype(np.int32)


def trl_packs(lengths: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Seconds, and length and pack of each sample."""
    import datasets
    import pyarrow as pa
    from trl.data_utils import pack_dataset

    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    values = pa.array(np.zeros(int(offsets[-1]), np.int32))
    column = pa.LargeListArray.from_arrays(pa.array(offsets), values)
    data = datasets.Dataset(pa.table({"input_ids": column})).with_format("arrow")
    began = time.perf_counter()
    packed = pack_dataset(data, SIZE, strategy="bfd", map_kwargs={"batch_size": None})
    seconds = time.perf_counter() - began
    rows = packed["seq_lengths"].combine_chunks()
    return seconds, rows.flatten().to_numpy(), np.repeat(np.arange(len(rows)), np.diff(rows.offsets.to_numpy()))


def binpacking_packs(lengths: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    import binpacking

    items = dict(enumerate(lengths.tolist()))
    began = time.perf_counter()
    bins = binpacking.to_constant_volume(items, SIZE)
    seconds = time.perf_counter() - began
    placed = np.array([length for one in bins for length in one.values()])
    return seconds, placed, np.repeat(np.arange(len(bins)), [len(one) for one in bins])


def numba_packs(lengths: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """First fit in input order over a tree of the most space, as some trainers compile it."""
    import numba

    @numba.njit
    def first_fit(lengths: Any, size: int) -> Any:
        leaves = 1
        while leaves < len(lengths):
            leaves *= 2
        tree = np.full(2 * leaves, size, np.int32)
        packs = np.empty(len(lengths), np.int64)
        for sample in range(len(lengths)):
            node = 1
            while node < leaves:
                node *= 2
                if tree[node] < lengths[sample]:
                    node += 1
            packs[sample] = node - leaves
            tree[node] -= lengths[sample]
            while node > 1:
                node //= 2
                tree[node] = max(tree[2 * node], tree[2 * node + 1])
        return packs

    first_fit(lengths[:10], SIZE)  # compile
    began = time.perf_counter()
    packs = first_fit(lengths, SIZE)
    return time.perf_counter() - began, lengths, packs


def one_row(name: str, shape: str, samples: int, repeats: int) -> dict[str, Any]:
    lengths = lengths_of(shape, samples)
    if name in STRATEGIES:
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            layout = STRATEGIES[name](lengths, SIZE)
            seconds.append(time.perf_counter() - began)
        packs, share = layout.num_packs, variance_share(layout.length, layout.pack)
        del layout
        tracemalloc.start()
        STRATEGIES[name](lengths, SIZE)
        memory = tracemalloc.get_traced_memory()[1] / samples
    else:
        run = {"trl": trl_packs, "binpacking": binpacking_packs, "numba": numba_packs}[name]
        results = [run(lengths) for _ in range(repeats)]
        seconds = [one for one, _, _ in results]
        _, placed, pack = results[0]
        packs, memory, share = int(pack.max()) + 1, float("nan"), variance_share(placed, pack)
    bound = packing_bound(lengths, SIZE)
    return {"seconds": min(seconds), "packs": packs, "bound": bound, "share": share, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=[23_000, 230_000, 2_300_000])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--names", nargs="+", default=[name for name in STRATEGIES if name != "none"])
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--row", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        name, shape, samples = options.row
        print(json.dumps(one_row(name, shape, int(samples), options.repeats)))
        return
    names = [*options.names, *(p for p, m in PEERS.items() if options.peers and importlib.util.find_spec(m))]
    heads = ("samples", 10), ("shape", -8), ("strategy", -10), ("seconds", 8), ("packs", 9), ("over", 9), ("share", 7)
    print(" ".join(head.rjust(width) if width > 0 else head.ljust(-width) for head, width in (*heads, ("B/sample", 8))))
    for samples in options.samples:
        for shape in options.shapes:
            for name in names:
                if samples > SLOW.get(name, samples):
                    continue
                if name == "trl" and samples * SHAPES[shape][0] > TRL_TOKENS:
                    continue
                command = [
                    sys.executable,
                    __file__,
                    "--repeats",
                    str(options.repeats),
                    "--row",
                    name,
                    shape,
                    str(samples),
                ]
                row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                over = row["packs"] / row["bound"] - 1
                print(
                    f"{samples:>10,} {shape:8} {name:10} {row['seconds']:>8.2f} {row['packs']:>9,} {over:>9.4%} "
                    f"{row['share']:>7.2%} {row['memory']:>8.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
