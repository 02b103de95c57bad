"""What a run came to: the numbers that the CLI prints, and that `--json` gives as one object."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from packtool.format import LedgerColumns, Manifest
from packtool.job.ledger import by_outcome, lost_by_reason, reasons_of
from packtool.job.prepare import Prepared
from packtool.job.write import ShardDone
from packtool.plan import Layout, lower_bound, packing_bound, square_spread, variance_share

__all__ = ["Summary", "summarize"]


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of a run.

    Attributes:
        out: the dataset's folder, or an empty string after a dry run.
        kind, why: the kind of data, and how it was chosen.
        records: every input record; outcomes: by outcome; reasons: `outcome/reason` -> records.
        samples: samples with a piece in the dataset; pieces, packs: what they became.
        tokens: tokens packed; padding: slots without one; fill: tokens / slots.
        lower_bound: ceil(tokens / max_seq_len); packing_bound: the bound of Martello and Toth, which counts with whole
            pieces.
        trained: tokens with a label; trained_share: of the tokens packed. None after a dry run.
        roles: role -> [tokens, trained tokens], of the tokens made, before any cut.
        cut_targets: targets lost because a cut made them the first token of a piece. None after a dry run.
        packs_without_target: packs in which nothing is trained. None after a dry run.
        targets_per_pack: [min, median, max]. None after a dry run.
        samples_per_pack: [min, median, mean, max] pieces in a pack.
        variance_share: part of the variance of log length that lies between packs; random order has about
            packs / pieces.
        squares_per_pack: [min, median, max] sum of squared piece lengths, which attention costs.
        lost: tokens made and not packed, by reason.
        warnings: text -> [how often, where first].
        size: bytes on disk, 0 after a dry run.
        content_sha256: the dataset's content digest, or an empty string.
        seconds: wall time by stage.
    """

    out: str
    kind: str
    why: str
    max_seq_len: int
    records: int
    outcomes: dict[str, int]
    reasons: dict[str, int]
    samples: int
    pieces: int
    packs: int
    tokens: int
    padding: int
    fill: float
    lower_bound: int
    packing_bound: int
    trained: int | None
    trained_share: float | None
    roles: dict[str, list[int]]
    cut_targets: int | None
    packs_without_target: int | None
    targets_per_pack: list[int] | None
    samples_per_pack: list[float]
    variance_share: float
    squares_per_pack: list[int]
    lost: dict[str, int]
    warnings: dict[str, list[Any]]
    size: int
    content_sha256: str
    seconds: dict[str, float] = field(default_factory=dict)


def summarize(
    prepared: Prepared,
    layout: Layout,
    ledger: LedgerColumns,
    *,
    roles: dict[str, list[int]],
    warnings: dict[str, tuple[int, str]],
    seconds: dict[str, float],
    manifest: Manifest | None = None,
    done: list[ShardDone] | None = None,
    out: Path | None = None,
    size: int = 0,
) -> Summary:
    """Count what a run did; without `manifest` and `done` it is a dry run."""
    max_seq_len = prepared.settings.max_seq_len
    tokens = int(layout.length.sum())
    slots = layout.num_packs * max_seq_len
    per_pack = np.diff(layout.pack_offsets())
    targets = None if done is None else np.concatenate([item.targets for item in done])
    trained = None if targets is None else int(targets.sum())
    return Summary(
        out="" if out is None else str(out),
        kind=prepared.spec.kind,
        why=prepared.why,
        max_seq_len=max_seq_len,
        records=int(ledger.count.sum()),
        outcomes=by_outcome(ledger),
        reasons={f"{outcome}/{reason}": count for outcome, reason, count in reasons_of(ledger)},
        samples=len(np.unique(layout.sample)),
        pieces=len(layout.sample),
        packs=layout.num_packs,
        tokens=tokens,
        padding=slots - tokens,
        fill=tokens / slots,
        lower_bound=lower_bound(layout.length, max_seq_len),
        packing_bound=packing_bound(layout.length, max_seq_len, prepared.settings.max_samples_per_pack),
        trained=trained,
        trained_share=None if trained is None else trained / tokens,
        roles=roles,
        cut_targets=None if done is None else sum(item.cut_targets for item in done),
        packs_without_target=None if targets is None else int(np.count_nonzero(targets == 0)),
        targets_per_pack=None if targets is None else [int(targets.min()), int(np.median(targets)), int(targets.max())],
        samples_per_pack=[
            int(per_pack.min()),
            float(np.median(per_pack)),
            round(float(per_pack.mean()), 3),
            int(per_pack.max()),
        ],
        variance_share=variance_share(layout.length, layout.pack),
        squares_per_pack=list(square_spread(layout.length, layout.pack, layout.num_packs)),
        lost=lost_by_reason(ledger),
        warnings={text: [count, first] for text, (count, first) in sorted(warnings.items())},
        size=size,
        content_sha256="" if manifest is None else manifest.content_sha256,
        seconds={name: round(value, 3) for name, value in seconds.items()},
    )
