"""One run from settings to a dataset; `pack` is the Python face of `packtool pack`."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from packtool.job.forecast import Choice, Forecast, forecast
from packtool.job.preview import RecordView, preview
from packtool.job.run import Notice, Progress, run
from packtool.job.settings import Settings, as_plain, read_config, settings_from
from packtool.job.summary import Summary

__all__ = [
    "Choice",
    "Forecast",
    "Notice",
    "Progress",
    "RecordView",
    "Settings",
    "Summary",
    "as_plain",
    "forecast",
    "pack",
    "preview",
    "read_config",
    "run",
    "settings_from",
]


def pack(
    inputs: Sequence[str | PathLike[str]],
    *,
    max_seq_len: int,
    out: str | PathLike[str] = "",
    kind: str = "auto",
    columns: Mapping[str, str] | None = None,
    text_by: str = "line",
    template: str = "",
    tokenizer: str | PathLike[str] = "",
    chat_template: str | PathLike[str] = "",
    template_args: Mapping[str, Any] | None = None,
    turn_end: str = "",
    date: str = "",
    eos: str = "",
    bos: str = "auto",
    pad_id: int | None = None,
    allow_special: bool = False,
    train_on: str = "completion",
    train_template_text: str = "yes",
    overlong: str = "auto",
    strategy: str = "mixed",
    split_across_packs: bool = False,
    max_samples_per_pack: int | None = None,
    pack_multiple: int | None = None,
    balance_batch: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    limit: str | int = "",
    max_packs: int | None = None,
    shard_size: str | int = "1GiB",
    format: str = "npy",
    compression: str = "none",
    on_bad: str = "error",
    max_lost: str = "",
    strict: bool = False,
    root: str | PathLike[str] = "",
    overwrite: bool = False,
    workers: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    notice: Notice | None = None,
) -> Summary:
    """Pack training records into memory-mapped shards; the keywords are the flags of `packtool pack`.

    Args:
        inputs: files, folders, globs, or `-` for standard input.
        max_seq_len: slots of a pack, at least 2.
        out: the dataset's folder; `<first input's name>.packed` beside it where not given.
        kind: `auto`, `text`, `completion`, `instruct`, `chat` or `tokens`.
        columns: field -> column of the records.
        text_by: `line`, `paragraph` or `file`: what one record of a text file is.
        template: instruct template: a built-in name, a file, or the text itself.
        tokenizer: a folder, a tokenizer.json, a SentencePiece .model, a hub name, or `bytes`.
        chat_template: a Jinja file, a built-in name, or the name of one of the tokenizer's own, instead of its default.
        template_args: variables for the chat template, such as `{"enable_thinking": False}`.
        turn_end: text that ends an assistant turn, where the chat template writes no added token there.
        date: what chat templates that ask for the date are told, as ISO 8601 writes it; today where not given.
        eos: the token that ends a sample, instead of the tokenizer's own.
        bos: `auto`, `yes` or `no`.
        pad_id: id of padding slots.
        allow_special: recognise control tokens in the records' text.
        train_on: `completion`, `all` (every token but each piece's first), or `last` (a chat's last assistant turn).
        train_template_text: `no` leaves untrained what a chat template adds to assistant turns of its own accord.
        overlong: `truncate`, `drop`, `split` or `error`; `auto` splits plain text and truncates the rest.
        strategy: how packs are filled: `mixed`, `ffd`, `bfd`, `shuffle`, `greedy` or `none`.
        split_across_packs: with `greedy`, fill every pack and go on in the next.
        max_samples_per_pack: at most this many samples to a pack.
        pack_multiple: make the number of packs a multiple of this, by moving samples into further packs.
        balance_batch: order the packs so that every so many in a row cost attention about the same.
        shuffle: put finished packs into an order drawn with `seed` (never with `greedy`).
        seed: of every random choice.
        limit: the first N records, or a share such as `5%`.
        max_packs: keep this many packs; the rest is listed as left out.
        shard_size: bytes of a shard, such as `512MB`.
        format: `npy` or `parquet`.
        compression: `none` or `zstd` (Parquet).
        on_bad: `error` at the first bad record, or `skip` to count and list them.
        max_lost: fail where more than this share of the tokens made, or of the records read, is lost: `1%`.
        strict: fail where there is any warning.
        root: folder that relative inputs are in.
        overwrite: replace a dataset that is there.
        workers: processes; the cores this process may use where not given.
        dry_run: read, tokenize and plan, but write nothing.
        progress: called with (stage, done, total).
        notice: called with sentences for people.

    Returns:
        The counts of the run.

    Raises:
        UsageError: the request cannot be met.
        DataError: an input is wrong.
    """
    values = {
        "inputs": [fspath(path) for path in inputs],
        "max_seq_len": max_seq_len, "out": fspath(out), "kind": kind, "columns": columns or {}, "text_by": text_by,
        "template": template, "tokenizer": fspath(tokenizer), "chat_template": fspath(chat_template),
        "template_args": template_args or {}, "turn_end": turn_end, "date": date, "eos": eos,
        "bos": bos, "pad_id": pad_id, "allow_special": allow_special, "train_on": train_on,
        "train_template_text": train_template_text, "overlong": overlong,
        "strategy": strategy, "split_across_packs": split_across_packs,
        "max_samples_per_pack": max_samples_per_pack, "pack_multiple": pack_multiple, "balance_batch": balance_batch,
        "shuffle": shuffle, "seed": seed,
        "limit": str(limit), "max_packs": max_packs, "shard_size": str(shard_size), "format": format,
        "compression": compression, "on_bad": on_bad, "max_lost": max_lost, "strict": strict, "root": fspath(root),
        "overwrite": overwrite, "workers": workers,
    }  # fmt: skip
    return run(
        settings_from(values),
        progress=progress or (lambda stage, done, total: None),
        notice=notice or (lambda text: None),
        dry_run=dry_run,
    )
