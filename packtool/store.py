"""The token store: tokenized samples on disk, before packing. One segment for each block of an input file.

    seg-0000-000000/   tokens.bin    uint32, sample after sample
                       trained.bin   one byte a token, 0 or 1
                       lengths.npy   [samples] int64     first_trained.npy   [samples] int64, == length where none is
                       digests.npy   [samples] uint64, equal where the ids are
                       places.npy    [records] int64     offsets.npy         [records] int64
                       outcomes.npy  [records] int8: SAMPLE, EMPTY or BAD
                       segment.json  counts, messages, and what the tokenizer warned about

A segment is a function of its block and the settings, so it can be made again by anyone, at any time. It is written
under a temporary name and renamed when it is whole. Reading maps the files; nothing is copied until tokens are
gathered.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BAD", "EMPTY", "SAMPLE", "SegmentInfo", "SegmentWriter", "Store", "digest_samples", "read_segment_arrays"]

SAMPLE, EMPTY, BAD = 0, 1, 2  # what became of a record; the n-th SAMPLE of a segment is its n-th sample


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """What the driver needs to know of a finished segment.

    Attributes:
        name: its folder below the store.
        file, block: which block it was made from.
        records, samples, tokens, trained: counts.
        largest: the largest token id, -1 where there is no token.
        roles: role -> (tokens, trained tokens).
        left_out: records that `--limit P%` did not draw; they have no row.
        bad: (row, place, message, hint) of the records that are wrong; only the first under `--on-bad error`.
        warnings: text -> (how often, place of the first).
    """

    name: str
    file: int
    block: int
    records: int
    samples: int
    tokens: int
    trained: int
    largest: int
    roles: Mapping[str, tuple[int, int]]
    left_out: int
    bad: tuple[tuple[int, int, str, str], ...]
    warnings: Mapping[str, tuple[int, int]]


class SegmentWriter:
    """Appends batches of one block; `close` makes the segment appear."""

    def __init__(self, store: Path, file: int, block: int) -> None:
        self._name = f"seg-{file:04d}-{block:06d}"
        self._file, self._block = file, block
        self._final = store / self._name
        self._folder = store / f"{self._name}.tmp"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._tokens = (self._folder / "tokens.bin").open("wb")
        self._trained = (self._folder / "trained.bin").open("wb")
        self._lengths: list[NDArray[np.int64]] = []
        self._firsts: list[NDArray[np.int64]] = []
        self._digests: list[NDArray[np.uint64]] = []
        self._trained_count, self._largest = 0, -1

    def append(self, ids: NDArray[np.uint32], lengths: NDArray[np.int64], trained: NDArray[np.bool_]) -> None:
        """Append a batch of samples, each of at least one token."""
        self._tokens.write(np.ascontiguousarray(ids, "<u4").data)
        self._trained.write(np.ascontiguousarray(trained, np.uint8).data)
        self._lengths.append(lengths)
        self._firsts.append(_first_trained(lengths, trained))
        self._digests.append(digest_samples(ids, lengths))
        self._trained_count += int(np.count_nonzero(trained))
        self._largest = max(self._largest, int(ids.max(initial=0)) if len(ids) else -1)

    def close(
        self,
        places: Sequence[int],
        offsets: Sequence[int],
        outcomes: Sequence[int],
        *,
        roles: Mapping[str, tuple[int, int]],
        left_out: int,
        bad: Sequence[tuple[int, int, str, str]],
        warnings: Mapping[str, tuple[int, int]],
    ) -> SegmentInfo:
        """Write the records' rows and make the segment appear."""
        self._tokens.close()
        self._trained.close()
        empty = np.zeros(0, np.int64)
        lengths = np.concatenate([empty, *self._lengths])
        np.save(self._folder / "lengths.npy", lengths)
        np.save(self._folder / "first_trained.npy", np.concatenate([empty, *self._firsts]))
        np.save(self._folder / "digests.npy", np.concatenate([np.zeros(0, np.uint64), *self._digests]))
        np.save(self._folder / "places.npy", np.array(places, np.int64))
        np.save(self._folder / "offsets.npy", np.array(offsets, np.int64))
        np.save(self._folder / "outcomes.npy", np.array(outcomes, np.int8))
        info = SegmentInfo(
            name=self._name,
            file=self._file,
            block=self._block,
            records=len(places),
            samples=len(lengths),
            tokens=int(lengths.sum()),
            trained=self._trained_count,
            largest=self._largest,
            roles=dict(roles),
            left_out=left_out,
            bad=tuple(bad),
            warnings=dict(warnings),
        )
        (self._folder / "segment.json").write_text(json.dumps({"bad": info.bad, "warnings": info.warnings}))
        shutil.rmtree(self._final, ignore_errors=True)
        os.rename(self._folder, self._final)
        return info

    def abort(self) -> None:
        """Remove what was written."""
        self._tokens.close()
        self._trained.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _first_trained(lengths: NDArray[np.int64], trained: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Place of each sample's first trained token, or its length where there is none."""
    starts = np.cumsum(lengths) - lengths
    at = np.flatnonzero(trained)
    if not len(at):
        return lengths.copy()
    first = np.append(at, len(trained))[np.searchsorted(at, starts)]
    here: NDArray[np.int64] = np.minimum(first - starts, lengths)
    return here


def digest_samples(ids: NDArray[np.uint32], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 bits for each sample, equal for equal ids; of others one pair in 2**64 is equal by chance.

    Each id is mixed with its place, so that order counts; the sum of a sample is mixed once more with its length.

    Args:
        ids: [tokens] sample after sample.
        lengths: [samples] at least 1.
    """
    if not len(lengths):
        return np.zeros(0, np.uint64)
    starts = np.cumsum(lengths) - lengths
    mixed = ids.astype(np.uint64) << np.uint64(32)
    mixed += (np.arange(len(ids), dtype=np.int64) - np.repeat(starts, lengths)).view(np.uint64)
    return _mix(np.add.reduceat(_mix(mixed), starts) + lengths.astype(np.uint64))


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function (Steele, Lea, Flood 2014), in place."""
    values += np.uint64(0x9E3779B97F4A7C15)
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def read_segment_arrays(store: Path, names: Sequence[str], column: str) -> NDArray[Any]:
    """One column of several segments, end to end."""
    parts = [np.load(store / name / f"{column}.npy") for name in names]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


class Store:
    """Mapped tokens of a list of segments, addressed as one long stream.

    Args:
        folder: the store.
        names: segments in order.
        tokens: tokens of each segment.
    """

    def __init__(self, folder: Path, names: Sequence[str], tokens: Sequence[int]) -> None:
        self._bases = np.zeros(len(names) + 1, np.int64)
        np.cumsum(np.array(tokens, np.int64), out=self._bases[1:])
        self._folder, self._names = folder, names
        self._maps: dict[int, tuple[NDArray[np.uint32], NDArray[np.uint8]]] = {}

    def gather(
        self, starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
        """Copy runs of the stream: tokens and trained flags of each run, end to end.

        Args:
            starts: [runs] place of each run's first token in the stream; a run lies within one segment.
            lengths: [runs] at least 1.
        """
        begins = np.cumsum(lengths) - lengths
        total = int(lengths.sum())
        tokens = np.empty(total, np.uint32)
        trained = np.empty(total, np.uint8)
        segment_of = np.searchsorted(self._bases, starts, side="right") - 1
        for segment in np.unique(segment_of).tolist():
            runs = np.flatnonzero(segment_of == segment)
            count = lengths[runs]
            inside = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
            source = np.repeat(starts[runs] - self._bases[segment], count) + inside
            target = np.repeat(begins[runs], count) + inside
            stored, flags = self._mapped(segment)
            tokens[target] = stored[source]
            trained[target] = flags[source]
        return tokens, trained.astype(np.bool_)

    def _mapped(self, segment: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        if segment not in self._maps:
            if len(self._maps) >= 64:  # two files each; stay far from the limit on open files
                self._maps.clear()
            folder = self._folder / self._names[segment]
            self._maps[segment] = (
                np.memmap(folder / "tokens.bin", "<u4", "r"),
                np.memmap(folder / "trained.bin", np.uint8, "r"),
            )
        return self._maps[segment]
