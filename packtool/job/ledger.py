"""The ledger of a run: what became of every record, from the store's rows and the final layout."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from packtool.format import OUTCOMES, REASONS, LedgerColumns
from packtool.plan import Items, Layout
from packtool.store import BAD, EMPTY, SAMPLE

__all__ = ["RecordRows", "lost_by_reason", "make_ledger"]

_PACKED, _DROPPED, _EMPTY, _BAD, _LEFT_OUT = range(len(OUTCOMES))
_REASON = {name: place for place, name in enumerate(REASONS)}


@dataclass(frozen=True, slots=True)
class RecordRows:
    """The records as the store has them, in reading order.

    Attributes:
        file: [records] int32 place of the input file.
        place, offset: [records] int64.
        outcome: [records] int8 SAMPLE, EMPTY or BAD.
        lengths: [samples] int64 tokens.
        details: record -> what is wrong with it.
        left_out: records that were not drawn by `--limit P%`.
    """

    file: NDArray[np.int32]
    place: NDArray[np.int64]
    offset: NDArray[np.int64]
    outcome: NDArray[np.int8]
    lengths: NDArray[np.int64]
    details: dict[int, str]
    left_out: int


def make_ledger(rows: RecordRows, items: Items, layout: Layout, policy: str) -> LedgerColumns:
    """Ledger columns.

    Args:
        rows: the records.
        items: what was to be packed after the length policy.
        layout: what was packed, after `--max-packs`.
        policy: how over-long samples were treated.
    """
    count = len(rows.place)
    sample_row = np.flatnonzero(rows.outcome == SAMPLE)
    samples = len(sample_row)
    starts = _starts_in_pack(layout)
    order = np.lexsort((layout.start, layout.sample))
    pieces = np.bincount(layout.sample, minlength=samples)
    packed_tokens = np.bincount(layout.sample, weights=layout.length, minlength=samples).astype(np.int64)
    planned = np.bincount(items.sample, weights=items.length, minlength=samples).astype(np.int64)

    # Each sample's outcome and its one reason; later lines win.
    outcome = np.where(pieces > 0, _PACKED, _LEFT_OUT).astype(np.int8)
    reason = np.zeros(samples, np.int8)
    cut = _REASON["split" if policy == "split" else "truncated"]
    reason[items.too_long & (planned > 0)] = cut
    reason[pieces > 1] = _REASON["split"]  # a stream that goes on in the next pack cuts short samples too
    reason[packed_tokens < planned] = _REASON["max_packs"]
    dropped = planned == 0
    outcome[dropped] = _DROPPED
    reason[dropped] = _REASON["too_long"]
    reason[items.untrained] = _REASON["no_target"]

    all_outcome = np.select([rows.outcome == EMPTY, rows.outcome == BAD], [_EMPTY, _BAD], _PACKED).astype(np.int8)
    all_outcome[sample_row] = outcome
    zeros = np.zeros(count, np.int64)
    columns = {name: zeros.copy() for name in ("tokens", "lost", "pieces")}
    columns["tokens"][sample_row] = rows.lengths
    columns["lost"][sample_row] = rows.lengths - packed_tokens
    columns["pieces"][sample_row] = pieces
    all_reason = np.zeros(count, np.int8)
    all_reason[sample_row] = reason
    extra = 1 if rows.left_out else 0  # one counted row for all that was not drawn
    return LedgerColumns(
        record=np.append(np.arange(count, dtype=np.int64), [-1] * extra).astype(np.int64),
        file=np.append(rows.file, [-1] * extra).astype(np.int32),
        place=np.append(rows.place, [-1] * extra).astype(np.int64),
        offset=np.append(rows.offset, [-1] * extra).astype(np.int64),
        count=np.append(np.ones(count, np.int64), [rows.left_out] * extra).astype(np.int64),
        outcome=np.append(all_outcome, [_LEFT_OUT] * extra).astype(np.int8),
        reason=np.append(all_reason, [_REASON["limit"]] * extra).astype(np.int8),
        tokens=np.append(columns["tokens"], [0] * extra).astype(np.int64),
        lost=np.append(columns["lost"], [0] * extra).astype(np.int64),
        pieces=np.append(columns["pieces"], [0] * extra).astype(np.int64),
        packs=layout.pack[order].astype(np.int64),
        starts=starts[order].astype(np.int32),
        sample_starts=layout.start[order].astype(np.int64),
        lengths=layout.length[order].astype(np.int32),
        details=rows.details,
    )


def _starts_in_pack(layout: Layout) -> NDArray[np.int64]:
    begins: NDArray[np.int64] = np.cumsum(layout.length, dtype=np.int64) - layout.length
    offsets = layout.pack_offsets()
    return begins - begins[offsets[:-1]][layout.pack] if len(begins) else begins


def lost_by_reason(ledger: LedgerColumns) -> dict[str, int]:
    """Tokens that were made and are in no pack, by reason; reasons that cost nothing are left out."""
    sums = np.bincount(ledger.reason, weights=ledger.lost, minlength=len(REASONS)).astype(np.int64)
    return {name: int(sums[place]) for place, name in enumerate(REASONS) if sums[place]}


def by_outcome(ledger: LedgerColumns) -> dict[str, int]:
    """Records by outcome; outcomes that did not occur are left out."""
    sums = np.bincount(ledger.outcome, weights=ledger.count, minlength=len(OUTCOMES)).astype(np.int64)
    return {name: int(sums[place]) for place, name in enumerate(OUTCOMES) if sums[place]}


def reasons_of(ledger: LedgerColumns) -> Sequence[tuple[str, str, int]]:
    """(outcome, reason, records) for every pair that occurs with a reason."""
    pairs = ledger.outcome.astype(np.int64) * len(REASONS) + ledger.reason
    sums = np.bincount(pairs, weights=ledger.count).astype(np.int64)
    found = [(int(pair), int(count)) for pair, count in enumerate(sums) if count and pair % len(REASONS)]
    return [(OUTCOMES[pair // len(REASONS)], REASONS[pair % len(REASONS)], count) for pair, count in found]
