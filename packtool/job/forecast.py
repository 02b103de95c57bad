"""What packing would come to, for several lengths and strategies at once, told from a seeded sample of the records.

    inputs --one pass, all counted--> sample --as `pack` does--> lengths --repeated--> planner, once a choice

The pass reads all of the input and parses the sample only. The draw is the one of `--limit P%`: the records of least
hash. Packs are not scaled up from a small plan, which would be less full: the planner gets as many samples as the whole
has, up to a million, and only beyond that its counts are multiplied. Where the sample is the whole, every count is what
`pack` gives. Nothing is written but the scratch that the tokenizer's files and the sample lie in.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from packtool.engine import available_cores
from packtool.errors import DataError
from packtool.format import PAGES_COLUMNS, STORAGES, column_dtypes
from packtool.job.finish import vocab_size
from packtool.job.ledger import RecordRows, lost_by_reason, make_ledger, reasons_of
from packtool.job.planning import lay_out
from packtool.job.prepare import Prepared, prepare
from packtool.job.reading import SKIP, Progress, make_splitters, no_record
from packtool.job.settings import Settings, parse_limit
from packtool.job.tokenize import draw_key, make_pipeline, write_segment
from packtool.plan import Layout, limit_lengths, packing_bound, random_order, variance_share
from packtool.sources import BadRecord, Record, place_name, read_block
from packtool.store import BAD, EMPTY, SAMPLE, SegmentInfo, SegmentWriter, read_segment_arrays

__all__ = ["Choice", "Forecast", "forecast"]

_PLANNED = 1 << 20  # samples given to the planner at most; by then the share of its packs over the bound stands still
_DEVIATIONS = 1.96  # half the width of a 95 % interval, in standard errors


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of the table; counts are of the whole input.

    Attributes:
        max_seq_len, strategy: what was chosen.
        packs, bound: expected, and the least there could be (packtool.plan.packing_bound).
        tokens: packed; margin: half the 95 % interval of that count, as a part of it; 0 where nothing was left out.
        fill: tokens / slots.
        variance_share: part of the variance of log length that lies between packs.
        reasons: `outcome/reason` -> samples, as in the summary; lost: reason -> tokens.
        size: storage -> bytes of the shards, before compression.
        steps: of an epoch, the last one whole or not; None where the batch is not known.
        seconds: of reading, tokenizing and planning with so many workers; writing comes on top.
    """

    max_seq_len: int
    strategy: str
    packs: int
    bound: int
    tokens: int
    margin: float
    fill: float
    variance_share: float
    reasons: dict[str, int]
    lost: dict[str, int]
    size: dict[str, int]
    steps: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of each choice.

    Attributes:
        kind, why: the kind of data, and how it was chosen.
        records: all that would be packed; sampled: how many of them were tokenized.
        bytes: of the input files.
        empty, bad: records, expected of the whole.
        workers: that the time is for.
        choices: in the order in which they were asked for.
    """

    kind: str
    why: str
    records: int
    sampled: int
    bytes: int
    empty: int
    bad: int
    workers: int
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class _Sample:
    """The records that were drawn, in the order of the input, with the file of each."""

    records: list[Record | BadRecord]
    files: list[int]
    population: int
    blocks: int


@dataclass(frozen=True, slots=True)
class _Measured:
    """What the sample showed, and what one worker would take for all of the input."""

    lengths: NDArray[np.int64]
    first_trained: NDArray[np.int64]
    sampled: int
    population: int
    vocabulary: int
    seconds: float
    workers: int


def forecast(
    choices: Sequence[Settings],
    *,
    sample: int,
    batch: int | None = None,
    progress: Progress,
    notice: Callable[[str], None],
) -> Forecast:
    """Expect what `run` would make of each choice.

    Args:
        choices: settings that differ in `max_seq_len` and `strategy` only, at least one.
        sample: records to tokenize at most.
        batch: packs in a step.
        progress: called with (stage, done, total).
        notice: called with sentences for people.

    Raises:
        UsageError: the request cannot be met.
        DataError: an input is wrong, a record of the sample is bad under `--on-bad error`, there is no record, or no
            choice leaves anything to pack.
    """
    settings = choices[0]
    if settings.max_packs is not None:
        notice(f"`--max-packs {settings.max_packs}` is left aside: the numbers are those of all packs")
    make_pipeline.cache_clear()  # an earlier run may have had other files in a scratch folder of the same name
    with tempfile.TemporaryDirectory(prefix="packtool-") as scratch:
        prepared = prepare(settings, Path(scratch), notice)
        began = time.process_time()
        drawn = _draw(prepared, sample, progress)
        reading = time.process_time() - began
        began = time.process_time()
        writer = SegmentWriter(Path(scratch) / "store", 0, 0)
        info = write_segment(prepared.spec, writer, drawn.records)
        encoding = time.process_time() - began
        _check_bad(prepared, drawn, info)
        lengths, first_trained, outcomes = (
            read_segment_arrays(Path(scratch) / "store", [info.name], name)
            for name in ("lengths", "first_trained", "outcomes")
        )
    whole = drawn.population / len(drawn.records)
    measured = _Measured(
        lengths, first_trained, len(drawn.records), drawn.population, vocab_size(prepared, [info]),
        seconds=reading + encoding * whole,
        workers=min(settings.workers or available_cores(), drawn.blocks),
    )  # fmt: skip
    lines = tuple(_choice(prepared, choice, measured, batch, notice) for choice in choices)
    if not any(line.packs for line in lines):
        raise DataError(
            f"nothing is left to pack of the {len(drawn.records)} records in the sample, whatever the choice",
            hint="`packtool show INPUT` prints what becomes of records; `--overlong`, `--kind`, `--columns` and "
            "`--train-on` decide what is kept",
        )
    counts = np.bincount(outcomes, minlength=3)
    return Forecast(
        kind=prepared.spec.kind,
        why=prepared.why,
        records=drawn.population,
        sampled=len(drawn.records),
        bytes=sum(file.size for file in prepared.inputs),
        empty=round(int(counts[EMPTY]) * whole),
        bad=round(int(counts[BAD]) * whole),
        workers=measured.workers,
        choices=lines,
    )


def _draw(prepared: Prepared, want: int, progress: Progress) -> _Sample:
    """Count the records in one pass and keep the `want` of least hash.

    Up to twice as many are held: when there are more, those beyond the least `want` are let go and the bound falls.
    """
    limit, share = parse_limit(prepared.settings.limit)
    counted = bound = int(share * 2**64)
    held: list[tuple[int, int, int, Record | BadRecord]] = []  # hash, place in the order of the input, file, record
    population = blocks = 0
    total = sum(file.size for file in prepared.inputs)

    def below(key: Callable[[int], int]) -> Callable[[int], bool]:
        return lambda index: key(index) < bound

    def let_go() -> None:
        nonlocal bound
        held.sort(key=lambda item: item[:2])
        del held[want:]
        bound = held[-1][0] + 1

    progress("read", 0, total)
    before = found = 0
    for splitter in make_splitters(prepared):
        for block in splitter:
            if population == limit:
                break
            blocks += 1
            key = draw_key(prepared.spec.seed, block)
            for index, record in enumerate(read_block(block, text_by=prepared.spec.text_by, keep=below(key))):
                found += 1
                if share < 1 and key(index) >= counted:
                    continue
                population += 1
                if record is not None and key(index) < bound:
                    held.append((key(index), population, splitter.index, record))
                    if len(held) > 2 * want:
                        let_go()
                if population == limit:
                    break
            progress("read", min(total, before + splitter.consumed), total)
        before += splitter.consumed
    progress("read", total, total)
    if not found:
        raise no_record()
    if not population:
        raise DataError(f"`--limit {prepared.settings.limit}` draws none of the {found} records")
    if len(held) > want:
        let_go()
    held.sort(key=lambda item: item[1])
    return _Sample([record for *_, record in held], [file for _, _, file, _ in held], population, blocks)


def _check_bad(prepared: Prepared, drawn: _Sample, info: SegmentInfo) -> None:
    """The refusal of `--on-bad error`, as `pack` words it."""
    if not info.bad or prepared.spec.on_bad != "error":
        return
    row, place, message, hint = info.bad[0]
    file = prepared.inputs[drawn.files[row]]
    raise DataError(f"`{file.path}`, {place_name(file.container)} {place}: {message}", hint=hint or SKIP)


def _choice(
    prepared: Prepared, settings: Settings, measured: _Measured, batch: int | None, notice: Callable[[str], None]
) -> Choice:
    """Plan as many samples as the whole has, or a million, and count."""
    size = settings.max_seq_len
    if prepared.overlong == "error" and (over := int(np.count_nonzero(measured.lengths > size))):
        notice(f"`--overlong error` would refuse packs of {size}: {over} samples of the sample are longer")
    expected = round(len(measured.lengths) * (measured.population / measured.sampled))
    planned = max(len(measured.lengths), min(expected, _PLANNED))
    times = expected / planned if planned else 1.0
    order = _repeated(len(measured.lengths), planned, settings.seed)
    lengths = measured.lengths[order]
    began = time.process_time()
    items, layout = lay_out(settings, prepared.overlong, lengths, measured.first_trained[order])
    planning = (time.process_time() - began) * times
    zeros = np.zeros(planned, np.int64)
    rows = RecordRows(
        file=zeros.astype(np.int32), place=zeros, offset=zeros, outcome=np.full(planned, SAMPLE, np.int8),
        lengths=lengths, details={}, left_out=0,
    )  # fmt: skip
    ledger = make_ledger(rows, items, layout, prepared.overlong)
    packs = round(layout.num_packs * times)
    if settings.pack_multiple is not None:
        packs = -(-packs // settings.pack_multiple) * settings.pack_multiple
    tokens = round(int(layout.length.sum()) * times)
    return Choice(
        max_seq_len=size,
        strategy=settings.strategy,
        packs=packs,
        bound=round(packing_bound(layout.length, size, settings.max_samples_per_pack) * times),
        tokens=tokens,
        margin=_margin(prepared.overlong, size, measured),
        fill=tokens / (packs * size) if packs else 0.0,
        variance_share=variance_share(layout.length, layout.pack),
        reasons={f"{outcome}/{reason}": round(count * times) for outcome, reason, count in reasons_of(ledger)},
        lost={reason: round(count * times) for reason, count in lost_by_reason(ledger).items()},
        size={storage: _bytes(storage, measured.vocabulary, size, layout, packs, times) for storage in STORAGES},
        steps=None if batch is None else -(-packs // batch),
        seconds=round(measured.seconds / measured.workers + planning, 3),
    )


def _repeated(samples: int, planned: int, seed: int) -> NDArray[np.int64]:
    """[planned] places 0..samples - 1 in order, over and over; what is left over of a round is drawn from it."""
    rounds, rest = divmod(planned, samples) if samples else (0, 0)
    drawn = np.sort(random_order(samples, seed)[:rest])
    return np.concatenate([np.tile(np.arange(samples, dtype=np.int64), rounds), drawn])


def _margin(overlong: str, max_seq_len: int, measured: _Measured) -> float:
    """Half the 95 % interval of the tokens packed, as a part of them; records without a sample count as 0 tokens."""
    items = limit_lengths(measured.lengths, measured.first_trained, max_seq_len, overlong)
    kept = np.bincount(items.sample, weights=items.length, minlength=1)
    mean = float(kept.sum()) / measured.sampled
    if not mean:
        return 0.0
    variance = max(float((kept**2).sum()) / measured.sampled - mean**2, 0.0)
    left_out = 1 - measured.sampled / measured.population  # the correction for a sample that is much of the whole
    return _DEVIATIONS * float(np.sqrt(variance * left_out / measured.sampled)) / mean


def _bytes(storage: str, vocabulary: int, max_seq_len: int, layout: Layout, packs: int, times: float) -> int:
    """Bytes of the columns and of what finds a pack's place in them; headers and footers are left out."""
    sizes = {name: dtype.itemsize for name, dtype in column_dtypes(storage, vocabulary, max_seq_len).items()}
    a_pack = max_seq_len * (sizes["tokens"] + sizes["labels"] + sizes["input_pos"])
    a_pack += 8 * (1 if storage == "npy" else len(PAGES_COLUMNS))  # seq_offsets.npy, .pages.npy
    return packs * a_pack + round(len(layout.sample) * times) * (sizes["seq_lens"] + sizes["records"])
