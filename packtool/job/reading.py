"""The tokenize stage, seen from the driver: cut the inputs into blocks, run the tasks, gather what they left.

Segments are committed in input order, so errors and `--limit N` do not depend on how many workers there are.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from packtool.engine import run_tasks
from packtool.errors import DataError
from packtool.format import InputEntry
from packtool.job.ledger import RecordRows
from packtool.job.lint import place_of, repeats
from packtool.job.prepare import Prepared
from packtool.job.settings import parse_limit
from packtool.job.tokenize import BlockTask, make_pipeline, tokenize_block
from packtool.render.lint import DUPLICATE
from packtool.sources import BLOCK_BYTES, BlockSplitter, place_name
from packtool.store import SAMPLE, SegmentInfo, read_segment_arrays

__all__ = ["SKIP", "Progress", "Read", "make_splitters", "no_record", "tokenize_inputs"]

# progress(stage, done, total): total is 0 where it is not known; called again with done == total at the end of a stage.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Read:
    """What the tokenize stage left."""

    segments: tuple[SegmentInfo, ...]
    inputs: tuple[InputEntry, ...]
    rows: RecordRows
    first_trained: NDArray[np.int64]
    sample_start: NDArray[np.int64]
    stopped: bool
    warnings: dict[str, tuple[int, str]]

    def roles(self) -> dict[str, list[int]]:
        """Role -> [tokens, trained tokens]."""
        sums: dict[str, list[int]] = {}
        for info in self.segments:
            for role, (tokens, trained) in info.roles.items():
                before = sums.get(role, [0, 0])
                sums[role] = [before[0] + tokens, before[1] + trained]
        return sums


def tokenize_inputs(prepared: Prepared, scratch: Path, workers: int, progress: Progress) -> Read:
    """Run the stage and gather the store's rows.

    Raises:
        DataError: an input is wrong, a record is bad under `--on-bad error`, or there is no record at all.
    """
    limit, _ = parse_limit(prepared.settings.limit)
    store = scratch / "store"
    store.mkdir()
    splitters = make_splitters(prepared)
    total = sum(file.size for file in prepared.inputs)
    state = {"records": 0, "stop": False}
    marks: list[int] = []  # bytes read when each block was cut, for the progress
    given: deque[BlockTask] = deque()  # tasks whose results are awaited; kept under `--limit N` only

    def tasks() -> Iterator[BlockTask]:
        before = 0
        for splitter in splitters:
            for block in splitter:
                if state["stop"]:
                    return
                marks.append(before + splitter.consumed)
                task = BlockTask(prepared.spec, str(store), block, limit)
                if limit >= 0:
                    given.append(task)
                yield task
            before += splitter.consumed

    segments: list[SegmentInfo] = []
    keep: list[int] = []  # records of each segment that count
    warnings: dict[str, tuple[int, str]] = {}
    progress("tokenize", 0, total)
    if workers > 1 and total > BLOCK_BYTES:
        make_pipeline.cache_clear()  # the workers load their own; this process needs its memory for the plan
    feed = tasks()
    for info in run_tasks(tokenize_block, feed, workers):
        wanted = info.records if limit < 0 else min(info.records, limit - state["records"])
        task = given.popleft() if limit >= 0 else None
        if task is not None and wanted < info.records:
            info = tokenize_block(replace(task, limit=wanted))  # as if the later records were not there
        file = prepared.inputs[info.file]
        for row, place, message, hint in info.bad:
            if row < wanted and prepared.settings.on_bad == "error":
                raise DataError(f"`{file.path}`, {place_name(file.container)} {place}: {message}", hint=hint or SKIP)
        segments.append(info)
        keep.append(wanted)
        for text, (count, place) in info.warnings.items():
            before, first = warnings.get(text, (0, f"{file.name}, {place_name(file.container)} {place}"))
            warnings[text] = (before + count, first)
        state["records"] += wanted
        progress("tokenize", min(total, marks[len(segments) - 1]), total)
        if 0 <= limit <= state["records"]:
            state["stop"] = True
            break
    progress("tokenize", total, total)
    return _collect(store, segments, keep, splitters, warnings, stopped=bool(state["stop"]))


def make_splitters(prepared: Prepared) -> list[BlockSplitter]:
    """What cuts each input into blocks."""
    text_by, columns = prepared.spec.text_by, prepared.settings.columns.values()
    return [BlockSplitter(file, index, text_by=text_by, columns=columns) for index, file in enumerate(prepared.inputs)]


def no_record() -> DataError:
    """What is wrong with inputs that were read to their end for nothing."""
    return DataError(
        "the inputs hold no record at all", hint="every file was read to its end; are they the right ones?"
    )


SKIP = "mend the record, or pass over such records with `--on-bad skip`, which counts and lists them"


def _collect(
    store: Path,
    segments: list[SegmentInfo],
    keep: list[int],
    splitters: list[BlockSplitter],
    warnings: dict[str, tuple[int, str]],
    *,
    stopped: bool,
) -> Read:
    """The store's rows, cut where `--limit` stopped."""
    names = [info.name for info in segments]
    records = sum(keep)
    outcome = read_segment_arrays(store, names, "outcomes")[:records].astype(np.int8)
    samples = int(np.count_nonzero(outcome == SAMPLE))
    lengths = read_segment_arrays(store, names, "lengths")[:samples]
    details: dict[int, str] = {}
    base = 0
    counts = [0] * len(splitters)
    for info, wanted in zip(segments, keep, strict=True):
        details.update({base + row: message for row, _, message, _ in info.bad if row < wanted})
        base += wanted
        counts[info.file] += wanted + info.left_out
    rows = RecordRows(
        file=np.repeat([info.file for info in segments], keep).astype(np.int32),
        place=read_segment_arrays(store, names, "places")[:records],
        offset=read_segment_arrays(store, names, "offsets")[:records],
        outcome=outcome,
        lengths=lengths,
        details=details,
        left_out=sum(info.left_out for info in segments),
    )
    # How far the splitter had read ahead when `--limit` stopped depends on the workers; the dataset must not.
    whole = segments[-1].file if stopped else len(splitters)
    inputs = tuple(
        InputEntry(s.file.name, s.file.size, s.sha256 if place < whole else "unread", count)
        for place, (s, count) in enumerate(zip(splitters, counts, strict=True))
    )
    if not records and not rows.left_out:
        raise no_record()
    count, sample = repeats(read_segment_arrays(store, names, "digests")[:samples])
    if count:
        row = int(np.flatnonzero(outcome == SAMPLE)[sample])
        warnings[DUPLICATE] = (count, place_of([splitter.file for splitter in splitters], rows, row))
    return Read(
        segments=tuple(segments),
        inputs=inputs,
        rows=rows,
        first_trained=read_segment_arrays(store, names, "first_trained")[:samples],
        sample_start=np.cumsum(lengths) - lengths,
        stopped=stopped or rows.left_out > 0,
        warnings=warnings,
    )
