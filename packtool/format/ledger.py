"""The ledger's columns: one row per input record, the places it went to, or why it went nowhere.

row  outcome   reason       tokens  lost  packs  starts  sample_starts  lengths
0    packed    -               120     0  [7]    [0]     [0]            [120]
1    packed    truncated      5000   904  [3]    [0]     [0]            [4096]
2    packed    split          9000     0  [4,5]  [0,0]   [0,4096]       [4096,4904]
3    dropped   no_target        40    40  []     []      []             []
4    bad       -                 0     0  []     []      []             []          detail: what is wrong with it
5    left_out  limit             0     0  ...                                       count: how many such records
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEDGER_COLUMNS", "LEDGER_LISTS", "OUTCOMES", "REASONS", "LedgerColumns"]

# packed: at least one piece is in the dataset. dropped: a sample that was not packed. empty: nothing to tokenize.
# bad: `--on-bad skip` passed over it. left_out: the user asked for fewer (`--limit`, `--max-packs`).
OUTCOMES = ("packed", "dropped", "empty", "bad", "left_out")
# Reasons say what happened to a record's tokens; an empty reason with `packed` means that nothing was lost.
REASONS = ("", "truncated", "split", "too_long", "no_target", "limit", "max_packs")

LEDGER_COLUMNS = {
    "record": "<i8",  # the row's own number, which `records` in the shards refers to; -1 for a counted row
    "file": "<i4",  # place in the manifest's `inputs`; -1 for a counted row
    "place": "<i8",  # line, row or element in the file, from 1; -1 for a counted row
    "offset": "<i8",  # byte offset in the decoded stream, -1 where there is none
    "count": "<i8",  # 1, or how many records a counted row stands for
    "outcome": "<i1",  # place in OUTCOMES; a string in the file
    "reason": "<i1",  # place in REASONS; a string in the file
    "tokens": "<i8",  # tokens of the sample before anything was cut
    "lost": "<i8",  # tokens that are in no pack
    "pieces": "<i8",  # places in packs; the lists below have this many entries, in order of `sample_starts`
}
# One entry a place, as lists in the file.
LEDGER_LISTS = {"packs": "<i8", "starts": "<i4", "sample_starts": "<i8", "lengths": "<i4"}


@dataclass(frozen=True, slots=True)
class LedgerColumns:
    """The ledger as arrays: [rows] for the names in LEDGER_COLUMNS, [places] for the lists, rows one after another.

    Attributes:
        record, file, place, offset, count, outcome, reason, tokens, lost, pieces: see LEDGER_COLUMNS.
        packs: the pack of each place.
        starts: its first slot in that pack.
        sample_starts: the first token of the sample that lies there.
        lengths: tokens of the piece.
        details: row -> what is wrong with the record, for rows that are `bad`.
    """

    record: NDArray[np.int64]
    file: NDArray[np.int32]
    place: NDArray[np.int64]
    offset: NDArray[np.int64]
    count: NDArray[np.int64]
    outcome: NDArray[np.int8]
    reason: NDArray[np.int8]
    tokens: NDArray[np.int64]
    lost: NDArray[np.int64]
    pieces: NDArray[np.int64]
    packs: NDArray[np.int64]
    starts: NDArray[np.int32]
    sample_starts: NDArray[np.int64]
    lengths: NDArray[np.int32]
    details: dict[int, str]
