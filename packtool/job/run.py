"""One run: settings in, a dataset out. Wires the rooms in order and publishes the result when all of it is there.

    find inputs, tokenizer, kind  ->  tokenize (tasks by block)  ->  plan  ->  write (tasks by shard)  ->  manifest,
    rename

Everything unfinished lies in a hidden scratch folder beside the output, which is removed whatever happens.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from packtool.engine import available_cores, run_tasks
from packtool.errors import UsageError
from packtool.format import column_dtypes
from packtool.job.finish import finish, vocab_size
from packtool.job.ledger import make_ledger
from packtool.job.lint import check_lost, check_strict, lint_plan
from packtool.job.planning import plan_packs
from packtool.job.prepare import Prepared, prepare
from packtool.job.reading import Progress, Read, tokenize_inputs
from packtool.job.settings import Settings, parse_size
from packtool.job.summary import Summary, summarize
from packtool.job.tokenize import make_pipeline
from packtool.job.write import ShardDone, ShardTask, save_pieces, write_shard
from packtool.plan import Layout
from packtool.sources.sniff import COMPRESSED_ENDINGS, DATA_ENDINGS
from packtool.storage import claimed_scratch, free_place, publish, tree_size
from packtool.store import SAMPLE

__all__ = ["Notice", "Progress", "run"]

Notice = Callable[[str], None]


def run(settings: Settings, *, progress: Progress, notice: Notice, dry_run: bool = False) -> Summary:
    """Pack, and return what came of it.

    Raises:
        PackError: with the reason; nothing is left behind and nothing that was there is changed.
    """
    began = time.monotonic()
    out = _out_path(settings)
    if not dry_run:
        free_place(out, overwrite=settings.overwrite)
    make_pipeline.cache_clear()  # the last run may have had other files in a scratch folder of the same name
    with claimed_scratch(out) as scratch:
        prepared = prepare(settings, scratch, notice)
        seconds = {"prepare": time.monotonic() - began}
        workers = settings.workers or available_cores()
        with _encoder_threads(workers), _timed(seconds, "tokenize"):
            read = tokenize_inputs(prepared, scratch, workers, progress)
        with _timed(seconds, "plan"):
            items, layout = plan_packs(prepared, read)
            ledger = make_ledger(read.rows, items, layout, prepared.overlong)
            planned = lint_plan(
                prepared.inputs, read.rows, ledger, kind=prepared.spec.kind, ends_turns=prepared.ends_turns
            )
            warnings = {**read.warnings, **planned}
            if settings.strict:
                check_strict(warnings)
            if settings.max_lost:
                check_lost(settings.max_lost, prepared.inputs, read.rows, items)
        if dry_run:
            return summarize(prepared, layout, ledger, roles=read.roles(), warnings=warnings, seconds=seconds)
        with _timed(seconds, "write"):
            done = _write(prepared, read, layout, scratch, workers, progress)
        manifest = finish(prepared, read, layout, ledger, done, scratch / "dataset", seconds)
        publish(scratch / "dataset", out, overwrite=settings.overwrite)
        return summarize(
            prepared, layout, ledger,
            roles=read.roles(), warnings=warnings, seconds=seconds, manifest=manifest, done=done, out=out,
            size=tree_size(out),
        )  # fmt: skip


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Note how long a stage took."""
    began = time.monotonic()
    yield
    seconds[stage] = time.monotonic() - began


@contextmanager
def _encoder_threads(workers: int) -> Iterator[None]:
    """`--workers 1` means one core: for the time being the encoder's own threads are off as well."""
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    if workers == 1:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        yield
    finally:
        if workers == 1 and before is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        elif workers == 1 and before is not None:
            os.environ["TOKENIZERS_PARALLELISM"] = before


def _out_path(settings: Settings) -> Path:
    if settings.out:
        return Path(os.path.abspath(os.path.expanduser(settings.out)))
    first = settings.inputs[0]
    if first == "-":
        raise UsageError("standard input has no name to call the dataset by", hint="name it: `--out DIR`")
    path = Path(os.path.abspath(Path(os.path.expanduser(settings.root)) / os.path.expanduser(first)))
    if any(sign in first for sign in "*?[") and not path.exists():
        raise UsageError(f"the glob `{first}` has no name to call the dataset by", hint="name it: `--out DIR`")
    name = path.name
    for suffix in reversed(path.suffixes):
        if suffix.lower() in (*DATA_ENDINGS, *COMPRESSED_ENDINGS):
            name = name[: -len(suffix)]
        else:
            break
    return path.with_name(f"{name or path.name}.packed")


def _write(
    prepared: Prepared, read: Read, layout: Layout, scratch: Path, workers: int, progress: Progress
) -> list[ShardDone]:
    settings = prepared.settings
    size = vocab_size(prepared, read.segments)
    folder = scratch / "dataset"
    folder.mkdir()
    record = np.flatnonzero(read.rows.outcome == SAMPLE)
    described = {
        "folder": str(scratch / "store"),
        "names": [info.name for info in read.segments],
        "tokens": [info.tokens for info in read.segments],
    }
    save_pieces(scratch, layout, read.sample_start, record, described)
    dtypes = column_dtypes(settings.format, size, settings.max_seq_len)
    row_bytes = settings.max_seq_len * sum(dtypes[name].itemsize for name in ("tokens", "labels", "input_pos"))
    per_shard = max(1, parse_size(settings.shard_size) // row_bytes)
    starts = range(0, layout.num_packs, per_shard)
    tasks = [
        ShardTask(
            scratch=str(scratch),
            folder=str(folder),
            name=f"shard-{number:05d}",
            start=start,
            stop=min(start + per_shard, layout.num_packs),
            max_seq_len=settings.max_seq_len,
            storage=settings.format,
            compression=settings.compression,
            vocab_size=size,
            pad=prepared.pad,
        )
        for number, start in enumerate(starts)
    ]
    done: list[ShardDone] = []
    progress("write", 0, layout.num_packs)
    for result in run_tasks(write_shard, tasks, workers):
        done.append(result)
        progress("write", sum(item.entry.packs for item in done), layout.num_packs)
    return done
