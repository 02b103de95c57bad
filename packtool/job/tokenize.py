"""The tokenize stage: one block of an input file becomes one segment of the token store.

A task is a function of the block and the settings, and nothing else: any process may run it, in any order, twice.
Batches are sized in characters, so memory does not depend on the block.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from packtool.errors import RecordError, UsageError
from packtool.job.lint import TokenChecks, make_checks
from packtool.render import ChatTemplate, EmptyRecordError, Rendered, Renderer, Tokenized, make_renderer, parse_instruct
from packtool.render.chat import TOOL_USE, ChatTemplates
from packtool.render.lint import REPLACED
from packtool.render.rendered import CODES, STRADDLES, by_role, code_of
from packtool.sources import BadRecord, Block, Record, read_block
from packtool.store import BAD, EMPTY, SAMPLE, SegmentInfo, SegmentWriter
from packtool.tokenizer import EncodedBatch, Tokenizer, TokenizerSource, find_tokenizer, make_engine, make_tokenizer

__all__ = [
    "BlockTask",
    "Pipeline",
    "TokenizeSpec",
    "block_records",
    "draw_key",
    "encode",
    "make_chat",
    "make_pipeline",
    "render",
    "tokenize_block",
    "warnings_of",
    "write_segment",
]

# About 0.1 s of the reference encoder: long enough to be efficient, short enough to be interrupted within it.
_BATCH_CHARACTERS = 1 << 18
_BATCH_RECORDS = 1024
_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class TokenizeSpec:
    """Everything that shapes a segment, picklable and hashable.

    Attributes:
        tokenizer: folder of the tokenizer's files, or an empty string where records come as ids.
        protected: tokens that are never made from a record's text.
        columns: (field, column) pairs.
        messages: whether a chat template renders the records.
        template_args: as one JSON object.
        date: what the chat template is told of the time; an empty string where it does not ask.
        share: the part of the records that is kept, drawn by a hash of `seed` and the record's place.
        Others are named as in Settings.
    """

    kind: str
    columns: tuple[tuple[str, str], ...]
    messages: bool
    text_by: str
    template: str
    template_args: str
    turn_end: str
    date: str
    tokenizer: str
    protected: tuple[str, ...]
    eos: str
    bos: str
    pad_id: int | None
    allow_special: bool
    train_on: str
    train_template_text: str
    share: float
    seed: int
    on_bad: str


@dataclass(frozen=True, slots=True)
class BlockTask:
    """One task of the stage; `limit` is how many of the block's records count at most, -1 for all."""

    spec: TokenizeSpec
    store: str
    block: Block
    limit: int = -1

    @property
    def title(self) -> str:
        """What an error calls this task."""
        return f"`{self.block.path}` from record place {self.block.first}"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a process loads once: the renderer, the tokenizer (None where records come as ids), and the checks."""

    render: Renderer
    tokenizer: Tokenizer | None
    checks: TokenChecks


def make_chat(
    source: TokenizerSource | None,
    *,
    arguments: Mapping[str, Any],
    turn_end: str,
    date: str,
    name: str = "the tokenizer's chat template",
) -> ChatTemplate | ChatTemplates | None:
    """The chat templates of a tokenizer, calibrated; None where it has none.

    Args:
        source: the tokenizer.
        arguments: more variables for the template.
        turn_end: what ends an assistant turn, or an empty string.
        date: what `strftime_now` tells, in ISO 8601, or an empty string where no template calls it.
        name: what to call the default one in messages.

    Raises:
        UsageError: the template's assistant turns cannot be found with proof.
    """
    if source is None or source.chat_template is None:
        return None

    def made(text: str, name: str) -> ChatTemplate:
        return ChatTemplate(
            text,
            name=name,
            added_tokens=[token.content for token in source.added_tokens],
            special=source.special,
            arguments=arguments,
            turn_end=turn_end,
            now=datetime.fromisoformat(date) if date else None,
        )

    default = made(source.chat_template, name)
    if TOOL_USE not in source.named_templates:
        return default
    try:
        tool_use = made(source.named_templates[TOOL_USE], f"the tokenizer's chat template `{TOOL_USE}`")
        return ChatTemplates(default, tool_use)
    except UsageError as error:  # records without tools never see it
        return ChatTemplates(default, error)


@lru_cache(maxsize=1)
def make_pipeline(spec: TokenizeSpec) -> Pipeline:
    """Load what `spec` names; cached, so that a process does it once."""
    source = find_tokenizer(spec.tokenizer) if spec.tokenizer else None
    tokenizer = None
    if source is not None:
        engine = make_engine(source, protected=spec.protected, allow_special=spec.allow_special)
        tokenizer = make_tokenizer(
            engine, source, eos=spec.eos or None, bos=spec.bos, pad_id=spec.pad_id, allow_special=spec.allow_special
        )
    chat = None
    if spec.messages:
        chat = make_chat(source, arguments=json.loads(spec.template_args), turn_end=spec.turn_end, date=spec.date)
    render = make_renderer(
        spec.kind,
        dict(spec.columns),
        instruct=parse_instruct(spec.template, "--template") if spec.kind == "instruct" else None,
        chat=chat,
        size=None if tokenizer is None else tokenizer.size,
        train_on=spec.train_on,
        train_template_text=spec.train_template_text == "yes",
    )
    bos = "" if source is None else source.special.get("bos_token", "")
    return Pipeline(render, tokenizer, make_checks(tokenizer, chat, bos=bos, protected=spec.protected))


def tokenize_block(task: BlockTask) -> SegmentInfo:
    """Read, render and tokenize one block into its segment."""
    writer = SegmentWriter(Path(task.store), task.block.file, task.block.number)
    return write_segment(task.spec, writer, block_records(task.spec, task.block), limit=task.limit)


def write_segment(
    spec: TokenizeSpec, writer: SegmentWriter, records: Iterable[Record | BadRecord | None], *, limit: int = -1
) -> SegmentInfo:
    """Render and tokenize records into a segment, up to `limit` or the first bad one under `--on-bad error`."""
    try:
        rows = _Rows(writer, make_pipeline(spec))
        for record in records:
            if record is None:
                rows.left_out += 1
                continue
            rows.add(record)
            if (rows.bad and spec.on_bad == "error") or len(rows.places) == limit:
                break
        rows.flush()
        return writer.close(
            rows.places, rows.offsets, rows.outcomes, roles=by_role(rows.codes), left_out=rows.left_out, bad=rows.bad,
            warnings=rows.warnings,
        )  # fmt: skip
    except BaseException:
        writer.abort()
        raise


def block_records(spec: TokenizeSpec, block: Block) -> Iterator[Record | BadRecord | None]:
    """The block's records; None for those that the share leaves out."""
    if spec.share >= 1.0:
        return read_block(block, text_by=spec.text_by)
    key = draw_key(spec.seed, block)
    limit = int(spec.share * 2**64)
    return read_block(block, text_by=spec.text_by, keep=lambda index: key(index) < limit)


def draw_key(seed: int, block: Block) -> Callable[[int], int]:
    """A hash in 0..2**64 - 1 for each record of the block by its number in it; those below a bound are a draw."""
    start = _mixed(seed) ^ 3 * _mixed(block.file) ^ 5 * _mixed(block.number)
    return lambda index: _mixed(start + index)


def _mixed(value: int) -> int:
    """SplitMix64's output function (Steele, Lea, Flood 2014): every input bit changes half the output bits."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def render(pipeline: Pipeline, record: Record | BadRecord) -> Rendered | Tokenized | BadRecord | None:
    """What a record comes to: what is to be encoded, why it is bad, or None where it is empty."""
    if isinstance(record, BadRecord):
        return record
    try:
        return pipeline.render(record.value)
    except EmptyRecordError:
        return None
    except RecordError as error:
        return BadRecord(record.place, record.offset, error.message, error.hint)


def warnings_of(record: Record | BadRecord, rendered: Rendered | Tokenized | BadRecord | None) -> tuple[str, ...]:
    """What is to be said of a record and of what came of it."""
    said = rendered.warnings if isinstance(rendered, Rendered) else ()
    return (REPLACED, *said) if isinstance(record, Record) and record.replaced else said


def encode(pipeline: Pipeline, batch: Sequence[Rendered | Tokenized]) -> EncodedBatch:
    """The batch as flat arrays, in which a sample of no tokens has the length 0."""
    texts = [item for item in batch if isinstance(item, Rendered)]
    if texts and pipeline.tokenizer is not None:
        return pipeline.tokenizer.encode(texts)
    samples = [item for item in batch if isinstance(item, Tokenized)]
    lengths = np.array([len(sample.ids) for sample in samples], np.int64)
    ids = np.concatenate([sample.ids for sample in samples]).astype(np.uint32)
    trained = np.concatenate([sample.trained for sample in samples])
    trained[(np.cumsum(lengths) - lengths)[lengths > 0]] = False  # nothing comes before a first token
    codes = trained + np.uint8(code_of("ids", trained=False))
    return EncodedBatch(ids, lengths, codes, np.zeros(len(samples), np.bool_))


class _Rows:
    """The records of a segment as they come, and the batch that waits to be encoded."""

    def __init__(self, writer: SegmentWriter, pipeline: Pipeline) -> None:
        self._writer, self._pipeline = writer, pipeline
        self.places: list[int] = []
        self.offsets: list[int] = []
        self.outcomes: list[int] = []
        self.bad: list[tuple[int, int, str, str]] = []
        self.warnings: dict[str, tuple[int, int]] = {}
        self.left_out = 0
        self.codes = np.zeros(CODES, np.int64)  # tokens of each
        self._batch: list[Rendered | Tokenized] = []
        self._rows: list[int] = []  # the row of each record in the batch
        self._characters = 0

    def add(self, record: Record | BadRecord) -> None:
        row = len(self.places)
        self.places.append(record.place)
        self.offsets.append(record.offset)
        self.outcomes.append(SAMPLE)
        rendered = render(self._pipeline, record)
        for warning in warnings_of(record, rendered):
            self._warn(warning, record.place)
        if rendered is None:
            self.outcomes[row] = EMPTY
            return
        if isinstance(rendered, BadRecord):
            self.outcomes[row] = BAD
            self.bad.append((row, rendered.place, rendered.message, rendered.hint))
            return
        self._batch.append(rendered)
        self._rows.append(row)
        self._characters += len(rendered.text) if isinstance(rendered, Rendered) else 4 * len(rendered.ids)
        if self._characters >= _BATCH_CHARACTERS or len(self._batch) >= _BATCH_RECORDS:
            self.flush()

    def _warn(self, text: str, place: int, times: int = 1) -> None:
        count, first = self.warnings.get(text, (0, place))
        self.warnings[text] = (count + times, first)

    def flush(self) -> None:
        """Encode what waits and append it to the segment."""
        if not self._batch:
            return
        encoded = encode(self._pipeline, self._batch)
        for place in np.flatnonzero(encoded.lengths == 0).tolist():
            self.outcomes[self._rows[place]] = EMPTY
        for text, samples in self._pipeline.checks.find(encoded):
            if len(samples):
                self._warn(text, self.places[self._rows[int(samples[0])]], len(samples))
        self._writer.append(encoded.ids, encoded.lengths[encoded.lengths > 0], encoded.trained)
        self.codes += np.bincount(encoded.codes & (STRADDLES - 1), minlength=CODES)
        self._batch, self._rows, self._characters = [], [], 0
