"""Warnings that are decided on arrays, and the two settings that make a run fail: `--strict` and `--max-lost`.

    tokens of a batch    BOS twice, no trained end, control tokens spelled out         TokenChecks, in the workers
    the run's rows       the same tokens as an earlier record                          repeats, after reading
    the plan             samples cut; the turn end as the EOS of plain text            lint_plan
    all of it            `--strict` and `--max-lost`, before anything is written       check_strict, check_lost

No Python runs per token; per sample only for those that are warned of.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from packtool.errors import DataError
from packtool.format import REASONS, LedgerColumns
from packtool.job.ledger import RecordRows
from packtool.job.settings import parse_max_lost
from packtool.plan import Items
from packtool.render.chat import ChatTemplate, ChatTemplates
from packtool.render.lint import CUT, DOUBLED_BOS, LITERAL_CONTROL, NO_TRAINED_END, STRADDLED, TURN_END_AS_EOS
from packtool.render.rendered import STRADDLES
from packtool.sources import InputFile, place_name
from packtool.store import BAD, EMPTY, SAMPLE
from packtool.tokenizer import EncodedBatch, Tokenizer

__all__ = ["TokenChecks", "Warnings", "check_lost", "check_strict", "lint_plan", "make_checks", "place_of", "repeats"]

Warnings = Mapping[str, tuple[int, str]]
"""Text -> how often, and where first."""


@dataclass(frozen=True, slots=True)
class TokenChecks:
    """What the tokens of a sample are held against.

    Attributes:
        bos: the ids that start a sample where the tokenizer has such; empty for none.
        ends: ids of the tokens that end a sample; without any, samples are not checked for one.
    """

    bos: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def find(self, batch: EncodedBatch) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """(warning, samples of the batch in order) for every check; a sample without tokens passes."""
        full = np.flatnonzero(batch.lengths > 0)
        if not len(full):
            return
        starts = (np.cumsum(batch.lengths) - batch.lengths)[full]
        yield LITERAL_CONTROL, np.flatnonzero(batch.lookalikes)
        yield STRADDLED, full[np.bitwise_or.reduceat(batch.codes, starts) >= STRADDLES]
        if self.bos:
            twice = self.bos * 2
            doubled = batch.lengths[full] >= len(twice)
            for place, bos in enumerate(twice):
                doubled[doubled] = batch.ids[starts[doubled] + place] == bos
            yield DOUBLED_BOS, full[doubled]
        if self.ends:
            ended = batch.trained & np.isin(batch.ids, np.array(self.ends, np.uint32))
            # What is not trained at all is no sample without an end: it is dropped, and counted so.
            bare = np.logical_or.reduceat(batch.trained, starts) & ~np.logical_or.reduceat(ended, starts)
            yield NO_TRAINED_END, full[bare]


def make_checks(
    tokenizer: Tokenizer | None,
    chat: ChatTemplate | ChatTemplates | None,
    *,
    bos: str,
    protected: Sequence[str],
) -> TokenChecks:
    """The checks of a run.

    Args:
        tokenizer: None where records come as ids of nobody knows what.
        chat: the templates that render the records, if any do.
        bos: the tokenizer's BOS token, or an empty string.
        protected: what may end a turn where a template does not show what does.
    """
    if tokenizer is None:
        return TokenChecks()
    engine = tokenizer.engine
    named = engine.token_id(bos) if bos else None
    start = tokenizer.bos or engine.prefix or (() if named is None else (named,))
    templates = (chat.default, chat.tool_use) if isinstance(chat, ChatTemplates) else (chat,)
    ends: list[int | None] = [tokenizer.eos]
    for template in templates:
        if isinstance(template, ChatTemplate):
            own = [engine.token_id(token) for token in ([template.turn_end] if template.turn_end else protected)]
            if own == [None]:  # `--turn-end` names text of several tokens, or of none that is its own
                return TokenChecks(start)
            ends += own
    return TokenChecks(start, tuple(sorted({end for end in ends if end is not None})))


def repeats(digests: NDArray[np.uint64]) -> tuple[int, int]:
    """How many samples repeat an earlier one, and the first that does (-1 for none).

        [7, 8, 7, 7, 8]      ->  (3, 2)

    Args:
        digests: [samples].
    """
    ordered = np.sort(digests)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(again):
        return 0, -1
    of_them = np.flatnonzero(np.isin(digests, again))
    _, firsts = np.unique(digests[of_them], return_index=True)
    return len(again), int(np.delete(of_them, firsts)[0])


def place_of(inputs: Sequence[InputFile], rows: RecordRows, row: int) -> str:
    """A record's place, as warnings have it: `a.jsonl, line 3`."""
    file = inputs[int(rows.file[row])]
    return f"{file.name}, {place_name(file.container)} {int(rows.place[row])}"


def lint_plan(
    inputs: Sequence[InputFile], rows: RecordRows, ledger: LedgerColumns, *, kind: str, ends_turns: bool
) -> Warnings:
    """Warnings of the plan.

    Args:
        inputs: the run's files.
        rows: the records.
        ledger: of the final layout.
        kind: of the data; plain text is split by design.
        ends_turns: EOS is the turn end of a chat template that renders nothing here.
    """
    found = {}
    reasons = [REASONS.index(name) for name in (("truncated",) if kind == "text" else ("truncated", "split"))]
    cut = np.flatnonzero(np.isin(ledger.reason, reasons))
    if len(cut):
        found[CUT] = (len(cut), place_of(inputs, rows, int(cut[0])))
    framed = np.flatnonzero(rows.outcome == SAMPLE)
    if ends_turns and len(framed):
        found[TURN_END_AS_EOS] = (len(framed), place_of(inputs, rows, int(framed[0])))
    return found


def check_strict(warnings: Warnings) -> None:
    """Fail where there is a warning.

    Raises:
        DataError: with every warning, its count and its first place.
    """
    if not warnings:
        return
    lines = [f"{text}: {count:,} records, first at {first}" for text, (count, first) in sorted(warnings.items())]
    raise DataError(
        "\n  ".join(
            [f"`--strict`: there {'is 1 warning' if len(lines) == 1 else f'are {len(lines)} warnings'}", *lines]
        ),
        hint="mend the records, or leave `--strict` out; docs/concepts.md says what each warning means",
    )


def check_lost(max_lost: str, inputs: Sequence[InputFile], rows: RecordRows, items: Items) -> None:
    """Fail where more than a share of the tokens made, or of the records read, is lost.

    What `--limit` and `--max-packs` leave out is left out on purpose, so it counts as neither: `items` is what was to
    be packed before `--max-packs`, and `rows` are the records that were drawn.

    Args:
        max_lost: the setting.
        inputs: the run's files.
        rows: the records.
        items: what was to be packed after the length policy.

    Raises:
        DataError: with the numbers by reason and the first record of them.
    """
    most = parse_max_lost(max_lost)
    samples = np.flatnonzero(rows.outcome == SAMPLE)
    kept = np.bincount(items.sample, weights=items.length, minlength=len(samples)).astype(np.int64)
    lost = rows.lengths - kept
    dropped = kept == 0
    by_reason = {
        "were cut off at the pack's length": (lost > 0) & ~dropped,
        "were in samples longer than a pack": dropped & ~items.untrained,
        "were in samples without a trained token": items.untrained,
    }
    problems = []
    made, gone = int(rows.lengths.sum()), int(lost.sum())
    if gone > most * made:
        why = [f"{int(lost[which].sum()):,} {name}" for name, which in by_reason.items() if which.any()]
        first = place_of(inputs, rows, int(samples[np.flatnonzero(lost)[0]]))
        problems.append(_share("tokens", gone, made, why, first))
    without = np.isin(rows.outcome, (EMPTY, BAD))
    without[samples[dropped]] = True
    read, nothing = len(rows.outcome), int(np.count_nonzero(without))
    if nothing > most * read:
        counts = {
            "were bad": np.count_nonzero(rows.outcome == BAD),
            "were empty": np.count_nonzero(rows.outcome == EMPTY),
            "were longer than a pack": np.count_nonzero(dropped & ~items.untrained),
            "had no trained token": np.count_nonzero(items.untrained),
        }
        why = [f"{count:,} {name}" for name, count in counts.items() if count]
        problems.append(_share("records", nothing, read, why, place_of(inputs, rows, int(np.flatnonzero(without)[0]))))
    if problems:
        raise DataError(
            "\n  ".join([f"more is lost than `--max-lost {max_lost}` allows", *problems]),
            hint="`--overlong`, `--max-seq-len` and `--train-on` decide what is kept, and a run without `--max-lost` "
            "lists every record in its ledger",
        )


def _share(what: str, part: int, whole: int, why: Sequence[str], first: str) -> str:
    return f"{part:,} of {whole:,} {what} ({part / whole:.2%}): {', '.join(why)}; the first at {first}"
