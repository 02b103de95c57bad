"""Every promise of docs/format.md, proven on a dataset: files, packs, ledger, totals.

All problems are listed with their place. Packs are checked a slab at a time with array operations; what the ledger
says is compared with what the shards hold.
"""

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from packtool.errors import FormatError, PackError
from packtool.format import (
    IGNORE_INDEX,
    OUTCOMES,
    REASONS,
    LedgerColumns,
    Manifest,
    PackRows,
    content_digest,
    ledger_digest,
    pack_digests,
)
from packtool.read import Dataset, open_dataset, read_ledger
from packtool.read.dataset import check_sums
from packtool.storage import sha256_text
from packtool.tokenizer import find_tokenizer, source_sha256

__all__ = ["Report", "verify"]

_SLOTS = 1 << 18  # slots looked at together
_REQUIRED = ("ledger.parquet", "settings.yaml")
_UNLISTED = {"manifest.json", "build.json"}
_MOST_PLACES = 5  # named for each rule; the rest is counted


@dataclass
class Report:
    """What verify found.

    Attributes:
        path: the dataset.
        packs, records: how many were checked.
        problems: broken promises, each a sentence with its place; empty for a sound dataset.
        without_target: packs in which no token is trained: no fault of the dataset, but a step without a loss.
    """

    path: str
    packs: int = 0
    records: int = 0
    problems: list[str] = field(default_factory=list)
    without_target: list[int] = field(default_factory=list)


class _Broken:
    """Broken rules with their places: the first few by number, all by count."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], tuple[list[int], int]] = {}

    def add(self, rule: str, places: NDArray[Any], name: str) -> None:
        """A rule is broken at `places`, each called `name` and a number."""
        if len(places):
            first, count = self._places.get((rule, name), ([], 0))
            first = (first + places[:_MOST_PLACES].tolist())[:_MOST_PLACES]
            self._places[rule, name] = (first, count + len(places))

    def problems(self) -> list[str]:
        """One sentence a rule."""
        sentences = []
        for (rule, name), (first, count) in self._places.items():
            more = f" and {count - len(first)} more" if count > len(first) else ""
            sentences.append(f"{rule}: {name} {', '.join(map(str, first))}{more}")
        return sentences


@dataclass
class _Pieces:
    """Every piece of the dataset, gathered on the way."""

    pack: list[NDArray[np.int64]] = field(default_factory=list)
    start: list[NDArray[np.int64]] = field(default_factory=list)
    length: list[NDArray[np.int64]] = field(default_factory=list)
    record: list[NDArray[np.int64]] = field(default_factory=list)
    trained: list[NDArray[np.int64]] = field(default_factory=list)


def verify(path: str | PathLike[str], *, quick: bool = False) -> Report:
    """Check a dataset.

    Args:
        path: its folder.
        quick: only the manifest and every file's size, header and offsets.

    Returns:
        A report; `report.problems` is empty for a sound dataset. Files that cannot even be opened end the check early,
        with one problem that names them.
    """
    report = Report(str(path))
    try:
        data = open_dataset(path)
        report.packs, report.records = len(data), data.manifest.records
        if quick:
            return report
        check_sums(data.path, data.manifest)
        ledger = read_ledger(data.path / "ledger.parquet")
        report.problems += _file_problems(data.path, data.manifest)
        report.problems += _source_problems(data.path, data.manifest)
        broken = _Broken()
        pieces, digests = _check_packs(data, report, broken)
    except FormatError as error:
        report.problems.append(error.message)
        return report
    _check_ledger(ledger, pieces, data.manifest, broken, report)
    report.problems += broken.problems()
    _check_totals(ledger, pieces, data.manifest, report)
    digest = content_digest(data.manifest.max_seq_len, digests, ledger_digest(ledger))
    if digest != data.manifest.content_sha256:
        report.problems.append(f"the content digest is {digest}, the manifest says {data.manifest.content_sha256}")
    return report


def _file_problems(folder: Path, manifest: Manifest) -> list[str]:
    """Files that should be there and are not listed, and files that nobody listed."""
    listed = {entry.path for entry in manifest.files}
    problems = [f"the manifest does not list `{name}`" for name in _REQUIRED if name not in listed]
    listed |= {file.path for shard in manifest.shards for file in shard.files} | _UNLISTED
    found = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if not path.is_dir())
    return problems + [f"`{folder / name}` is no part of the dataset" for name in found if name not in listed]


def _source_problems(folder: Path, manifest: Manifest) -> list[str]:
    """What the manifest says of the tokenizer and the settings, against the files beside it."""
    problems = []
    try:
        settings = yaml.safe_load((folder / "settings.yaml").read_text("utf-8"))
        said = {name: value for name, value in settings.items() if name not in ("inputs", "tokenizer")}
        said = {name: ("yes" if v else "no") if isinstance(v, bool) else v for name, v in said.items()}
        if said != dict(manifest.settings):
            problems.append("`settings.yaml` says other settings than the manifest")
    except (OSError, ValueError, AttributeError, yaml.YAMLError) as error:
        problems.append(f"`settings.yaml` cannot be read: {type(error).__name__}: {error}")
    if manifest.tokenizer.kind == "none":
        return problems
    try:
        source = find_tokenizer(str(folder / "tokenizer"))
        if (source.kind, source_sha256(source)) != (manifest.tokenizer.kind, manifest.tokenizer.sha256):
            problems.append("the files in `tokenizer/` are not the ones that the manifest names")
        template = manifest.tokenizer.template_sha256
        if template and sha256_text(source.chat_template or "") != template:
            problems.append("the chat template in `tokenizer/` is not the one that the manifest names")
    except PackError as error:
        problems.append(f"`tokenizer/` cannot be read: {error.message}")
    return problems


def _check_packs(data: Dataset, report: Report, broken: _Broken) -> tuple[_Pieces, bytes]:
    pieces, digests, first = _Pieces(), [], 0
    step = max(1, _SLOTS // data.manifest.max_seq_len)
    for shard in data.manifest.shards:
        for start in range(first, first + shard.packs, step):
            rows = data.rows(start, min(start + step, first + shard.packs))
            digests.append(pack_digests(rows))
            report.without_target += _check_rows(rows, start, data.manifest, pieces, broken)
        first += shard.packs
    return pieces, b"".join(digests)


def _check_rows(rows: PackRows, first: int, manifest: Manifest, pieces: _Pieces, broken: _Broken) -> list[int]:
    """Check a slab, remember its pieces, and return the packs without a target."""
    packs, size = rows.tokens.shape
    lengths = rows.seq_lens.astype(np.int64)
    offsets = rows.seq_offsets
    pack = np.repeat(np.arange(packs, dtype=np.int64), np.diff(offsets))
    begins = np.cumsum(lengths) - lengths
    start = begins - begins[offsets[:-1]][pack]
    used = np.add.reduceat(lengths, offsets[:-1])
    slots = np.arange(size, dtype=np.int64)
    padding = slots >= used[:, None]
    labels = rows.labels
    trained = labels != IGNORE_INDEX
    # A slot's position: its distance from the start of its piece, or of the padding.
    expected = np.zeros(packs * size, np.int64)
    place = pack * size + start
    expected[place] = start
    tail = np.flatnonzero(used < size)
    expected[tail * size + used[tail]] = used[tail]
    expected = slots - np.maximum.accumulate(expected.reshape(packs, size), axis=1)

    def packs_with(wrong: NDArray[np.bool_]) -> NDArray[np.int64]:
        return first + np.flatnonzero(wrong.any(axis=1))

    tokens = manifest.tokenizer
    broken.add("a label is neither -100 nor its token", packs_with(trained & (labels != rows.tokens)), "pack")
    broken.add("padding is trained", packs_with(trained & padding), "pack")
    broken.add("padding is not the padding id", packs_with(padding & (rows.tokens != tokens.pad)), "pack")
    broken.add("a token is outside the vocabulary", packs_with(rows.tokens >= tokens.size), "pack")
    broken.add("input_pos is not the place in the piece", packs_with(rows.input_pos != expected), "pack")
    heads = trained.reshape(-1)[place]
    broken.add("the first token of a piece is trained", np.unique(first + pack[heads]), "pack")
    sums = np.append(0, np.cumsum(trained.reshape(-1), dtype=np.int64))
    pieces.pack.append(first + pack)
    pieces.start.append(start)
    pieces.length.append(lengths)
    pieces.record.append(rows.records.astype(np.int64))
    pieces.trained.append(sums[place + lengths] - sums[place])
    without: list[int] = (first + np.flatnonzero(~trained.any(axis=1))).tolist()
    return without


def _check_ledger(ledger: LedgerColumns, found: _Pieces, manifest: Manifest, broken: _Broken, report: Report) -> None:
    rows = len(ledger.record)
    counted = ledger.record == -1
    numbers = np.where(counted, -1, np.arange(rows))
    broken.add("a ledger row does not have its own number", np.flatnonzero(ledger.record != numbers), "row")
    broken.add("a counted row stands before others", np.flatnonzero(counted[:-1] & ~counted[1:]), "row")
    inputs = len(manifest.inputs)
    outside = ~counted & ((ledger.file < 0) | (ledger.file >= inputs))
    broken.add("a ledger row names no input file", np.flatnonzero(outside), "row")
    is_left_out = (ledger.outcome == OUTCOMES.index("left_out")) & (ledger.reason == REASONS.index("limit"))
    broken.add(
        "a row is counted but not left out by the limit, or the reverse", np.flatnonzero(counted != is_left_out), "row"
    )
    negative = (ledger.tokens < 0) | (ledger.lost < 0) | (ledger.count < 1)
    broken.add("a ledger row counts below zero", np.flatnonzero(negative), "row")
    broken.add("a record is counted more or less than once", np.flatnonzero(~counted & (ledger.count != 1)), "row")
    row = np.repeat(np.arange(rows), ledger.pieces)
    packed = np.bincount(row, weights=ledger.lengths, minlength=rows).astype(np.int64)
    broken.add("tokens are not packed + lost", np.flatnonzero(packed + ledger.lost != ledger.tokens), "row")
    is_packed = ledger.outcome == OUTCOMES.index("packed")
    broken.add(
        "a packed record has no place, or another one has", np.flatnonzero(is_packed != (ledger.pieces > 0)), "row"
    )
    whole = np.isin(ledger.reason, [REASONS.index(""), REASONS.index("split")]) & is_packed
    broken.add("a record lost tokens without a reason", np.flatnonzero(whole & (ledger.lost != 0)), "row")
    again = (row[1:] == row[:-1]) & (ledger.sample_starts[1:] < ledger.sample_starts[:-1] + ledger.lengths[:-1])
    broken.add("two pieces of a record overlap", np.unique(row[1:][again]), "row")
    beyond = (ledger.sample_starts < 0) | (ledger.sample_starts + ledger.lengths > ledger.tokens[row])
    broken.add("a piece lies outside its sample", np.unique(row[beyond]), "row")
    per_file = np.bincount(ledger.file[~counted & ~outside], minlength=inputs)
    said_records = np.array([entry.records for entry in manifest.inputs], np.int64)
    # Records that were not drawn share a row without a file, so a file may have fewer rows than records.
    fits = (per_file <= said_records).all() if counted.any() else np.array_equal(per_file, said_records)
    if not fits or int(said_records.sum()) != int(ledger.count.sum()):
        report.problems.append(
            f"the ledger has {per_file.tolist()} records of the inputs, the manifest says {said_records.tolist()}"
        )

    # The same places, seen from the shards.
    pack, start, length, record = (
        np.concatenate(part) for part in (found.pack, found.start, found.length, found.record)
    )
    order = np.lexsort((ledger.starts, ledger.packs))
    said = [ledger.packs[order], ledger.starts[order], ledger.lengths[order], ledger.record[row][order]]
    if len(order) != len(pack):
        report.problems.append(f"the ledger has {len(order)} places, the shards have {len(pack)} pieces")
        return
    differs = np.zeros(len(pack), np.bool_)
    for one, other in zip(said, (pack, start, length, record), strict=True):
        differs |= one != other
    broken.add("ledger and shards differ on a piece", np.unique(pack[differs]), "pack")
    trained = np.concatenate(found.trained)[np.argsort(order, kind="stable")] if len(order) else np.zeros(0, np.int64)
    whole_piece = ledger.lengths == ledger.tokens[row]
    whole_piece |= ledger.reason[row] == REASONS.index("truncated")
    broken.add("a whole sample has no trained token", np.unique(row[whole_piece & (trained == 0)]), "row")


def _check_totals(ledger: LedgerColumns, found: _Pieces, manifest: Manifest, report: Report) -> None:
    length, record, pack = (np.concatenate(part) for part in (found.length, found.record, found.pack))
    outcomes = np.bincount(ledger.outcome, weights=ledger.count, minlength=len(OUTCOMES)).astype(np.int64)
    lost = np.bincount(ledger.reason, weights=ledger.lost, minlength=len(REASONS)).astype(np.int64)
    counted = {
        "pieces": len(length),
        "tokens": int(length.sum()),
        "trained": int(np.concatenate(found.trained).sum()),
        "samples": len(np.unique(record)),
        "max_pieces": int(np.bincount(pack).max()),
        "records": int(ledger.count.sum()),
        "outcomes": {name: int(count) for name, count in zip(OUTCOMES, outcomes, strict=True) if count},
        "lost": {name: int(count) for name, count in zip(REASONS, lost, strict=True) if count},
    }
    for name, value in counted.items():
        said = getattr(manifest, name)
        if (dict(said) if isinstance(value, dict) else said) != value:
            report.problems.append(f"manifest `{name}` says {said}, counted {value}")
