"""The plan stage: the run's settings applied to the lengths in the store."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from packtool.errors import DataError
from packtool.job.prepare import Prepared
from packtool.job.reading import Read
from packtool.job.settings import Settings
from packtool.plan import (
    STRATEGIES,
    Items,
    Layout,
    balance_batches,
    fill_multiple,
    limit_lengths,
    one_stream,
    shuffle_packs,
    take_packs,
)
from packtool.sources import place_name
from packtool.store import SAMPLE

__all__ = ["lay_out", "plan_packs"]


def plan_packs(prepared: Prepared, read: Read) -> tuple[Items, Layout]:
    """What is to be packed after the length policy, and the final layout over samples.

    Raises:
        DataError: a sample is too long under `--overlong error`, or nothing is left to pack.
    """
    settings, size = prepared.settings, prepared.settings.max_seq_len
    lengths = read.rows.lengths
    if prepared.overlong == "error" and len(lengths) and int(lengths.max()) > size:
        sample = int(np.flatnonzero(lengths > size)[0])
        row = int(np.flatnonzero(read.rows.outcome == SAMPLE)[sample])
        file = prepared.inputs[int(read.rows.file[row])]
        raise DataError(
            f"`{file.path}`, {place_name(file.container)} {int(read.rows.place[row])}: "
            f"the sample has {int(lengths[sample])} tokens, more than `max_seq_len` {size}",
            hint="choose what to do with such samples: `--overlong truncate`, `drop` or `split`",
        )
    items, layout = lay_out(settings, prepared.overlong, lengths, read.first_trained)
    if settings.balance_batch is not None:
        layout = balance_batches(layout, settings.balance_batch, settings.seed)
    elif settings.shuffle and settings.strategy != "greedy":
        layout = shuffle_packs(layout, settings.seed)
    if settings.max_packs is not None and layout.num_packs > settings.max_packs:
        layout = take_packs(layout, np.arange(settings.max_packs, dtype=np.int64))
    if not layout.num_packs:
        reasons = ", ".join(f"{count} {name}" for name, count in _why_nothing(read, items).items())
        raise DataError(
            f"nothing is left to pack: of {len(read.rows.place)} records, {reasons}",
            hint="`--overlong`, `--kind`, `--columns` and `--train-on` decide what is kept",
        )
    return items, layout


def lay_out(
    settings: Settings, overlong: str, lengths: NDArray[np.int64], first_trained: NDArray[np.int64]
) -> tuple[Items, Layout]:
    """What is to be packed after the length policy, and its packs, in no order yet.

    Args:
        settings: of the run.
        overlong: the policy, with `auto` settled.
        lengths: [samples] tokens of each.
        first_trained: [samples]; see packtool.plan.limit_lengths.
    """
    size = settings.max_seq_len
    items = limit_lengths(lengths, first_trained, size, overlong)
    if settings.split_across_packs:
        kept = np.flatnonzero(~items.untrained)
        layout = one_stream(lengths[kept], size)
        layout = dataclasses.replace(layout, sample=kept[layout.sample])
    else:
        placed = STRATEGIES[settings.strategy](
            items.length, size, seed=settings.seed, max_samples=settings.max_samples_per_pack
        )
        layout = dataclasses.replace(placed, sample=items.sample[placed.sample], start=items.start[placed.sample])
    if settings.pack_multiple is not None:
        layout = fill_multiple(layout, settings.pack_multiple)
    return items, layout


def _why_nothing(read: Read, items: Items) -> dict[str, int]:
    outcomes = np.bincount(read.rows.outcome, minlength=3)
    untrained = int(np.count_nonzero(items.untrained))
    counts = {
        "are empty": int(outcomes[1]),
        "are bad": int(outcomes[2]),
        "have no trained token": untrained,
        "are too long": int(np.count_nonzero(items.too_long & ~items.untrained)),
        "were not drawn by `--limit`": read.rows.left_out,
    }
    return {name: count for name, count in counts.items() if count} or {"are there": 0}
