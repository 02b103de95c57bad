"""The first records of an input as they would be trained: read, rendered and encoded as packing does, then decoded.

Nothing is planned and nothing is written but the scratch that the tokenizer's files and standard input lie in.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from packtool.format import IGNORE_INDEX
from packtool.inspect import decoded_runs
from packtool.job.prepare import Prepared, prepare
from packtool.job.reading import make_splitters, no_record
from packtool.job.settings import Settings, parse_limit
from packtool.job.tokenize import Pipeline, block_records, encode, make_pipeline, render, warnings_of
from packtool.plan import limit_lengths
from packtool.sources import BadRecord, Record, place_name

__all__ = ["RecordView", "preview"]


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record as it would be trained, for people.

    Attributes:
        origin: file and place.
        kind: what the records were taken for.
        outcome: `sample`, `empty` or `bad`; the last two have no tokens.
        parts: (trained, text) runs, in order; see packtool.inspect.decoded_runs.
        ids: the tokens.
        labels: each token's id where it is trained, -100 elsewhere.
        warnings: what the summary would count.
        fate: what becomes of a sample that cannot stay whole, or an empty string.
        problem: what is wrong with a bad record; hint: what to do about it.
    """

    origin: str
    kind: str
    outcome: str
    parts: tuple[tuple[bool, str], ...] = ()
    ids: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    fate: str = ""
    problem: str = ""
    hint: str = ""


def preview(settings: Settings, take: int, notice: Callable[[str], None]) -> Iterator[RecordView]:
    """The first `take` records; empty and bad ones count, and a bad one stops nothing.

    Raises:
        UsageError: the request cannot be met.
        DataError: an input or the tokenizer is wrong, or there is no record at all.
    """
    limit, _ = parse_limit(settings.limit)
    with tempfile.TemporaryDirectory(prefix="packtool-") as scratch:
        prepared = prepare(settings, Path(scratch), notice)
        pipeline = make_pipeline(prepared.spec)
        left = take if limit < 0 else min(take, limit)
        found = False
        for origin, record in _records(prepared):
            found = True
            if record is not None:
                yield _view(prepared, pipeline, origin, record)
                left -= 1
            if not left:
                return
        if not found:
            raise no_record()


def _records(prepared: Prepared) -> Iterator[tuple[str, Record | BadRecord | None]]:
    """Every record with its origin; None for those that `--limit P%` leaves out."""
    for splitter in make_splitters(prepared):
        file = splitter.file
        for block in splitter:
            for record in block_records(prepared.spec, block):
                place = 0 if record is None else record.place
                yield f"{file.name}, {place_name(file.container)} {place}", record


def _view(prepared: Prepared, pipeline: Pipeline, origin: str, record: Record | BadRecord) -> RecordView:
    kind = prepared.spec.kind
    rendered = render(pipeline, record)
    warnings = warnings_of(record, rendered)
    if isinstance(rendered, BadRecord):
        return RecordView(origin, kind, "bad", warnings=warnings, problem=rendered.message, hint=rendered.hint)
    encoded = None if rendered is None else encode(pipeline, [rendered])
    if encoded is None or not len(encoded.ids):
        return RecordView(origin, kind, "empty", warnings=warnings)
    warnings += tuple(text for text, samples in pipeline.checks.find(encoded) if len(samples))
    ids, trained = encoded.ids.astype(np.int64), encoded.trained
    return RecordView(
        origin,
        kind,
        "sample",
        parts=decoded_runs(ids, trained, None if pipeline.tokenizer is None else pipeline.tokenizer.engine),
        ids=tuple(ids.tolist()),
        labels=tuple(np.where(trained, ids, IGNORE_INDEX).tolist()),
        warnings=warnings,
        fate=_fate(trained, prepared.settings.max_seq_len, prepared.overlong),
    )


def _fate(trained: NDArray[np.bool_], max_seq_len: int, policy: str) -> str:
    """What becomes of a sample that is longer than a pack or has nothing trained; no length: packs are as long."""
    length = len(trained)
    size = max_seq_len or length
    first = int(np.argmax(trained)) if trained.any() else length
    items = limit_lengths(np.array([length]), np.array([first]), size, policy)
    if items.untrained[0] and first == length:
        return "no token of it is trained, so it is dropped"
    if not items.too_long[0]:
        return ""
    longer = f"longer than `max_seq_len` {max_seq_len}"
    if policy == "error":
        return f"{longer}, which `--overlong error` refuses"
    if items.untrained[0]:
        return f"{longer}, and no token of what is kept is trained, so it is dropped"
    if policy == "drop":
        return f"{longer}, so it is dropped"
    if policy == "split":
        return f"{longer}, so it is split over several pieces"
    return f"{longer}, so it is truncated: {length - max_seq_len} tokens are lost"
