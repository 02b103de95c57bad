"""`packtool plan`: a table of what packing would come to, for several lengths and strategies."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from packtool.cli import options
from packtool.cli.console import Bars, human_size, say_note
from packtool.errors import UsageError
from packtool.job import Choice, Forecast, Settings, forecast, settings_from

__all__ = ["plan"]

_SAMPLE = 20_000
_HEADS = (
    "max_seq_len", "strategy", "packs", "over bound", "fill", "mixture", "truncated", "split", "dropped", "npy",
    "parquet", "steps", "time",
)  # fmt: skip


def plan(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help="Files, folders, globs, or - for standard input.")
    ] = None,
    max_seq_len: Annotated[
        str | None, typer.Option(help="Slots of a pack: one length or several, such as 2048,4096,8192.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="How packs are filled: one or several of mixed, ffd, bfd, shuffle, greedy and none."),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="Records to tokenize, drawn with the seed.")] = _SAMPLE,
    batch: Annotated[int | None, typer.Option(min=1, help="Packs in a step, to tell the steps of an epoch.")] = None,
    kind: options.Kind = None,
    columns: options.Columns = None,
    text_by: options.TextBy = None,
    template: options.Template = None,
    tokenizer: options.Tokenizer = None,
    chat_template: options.ChatTemplate = None,
    template_args: options.TemplateArgs = None,
    turn_end: options.TurnEnd = None,
    date: options.Date = None,
    eos: options.Eos = None,
    bos: options.Bos = None,
    pad_id: options.PadId = None,
    allow_special: options.AllowSpecial = None,
    train_on: options.TrainOn = None,
    train_template_text: options.TrainTemplateText = None,
    overlong: options.Overlong = None,
    split_across_packs: options.SplitAcrossPacks = None,
    max_samples_per_pack: options.MaxSamplesPerPack = None,
    pack_multiple: options.PackMultiple = None,
    seed: options.Seed = None,
    limit: options.Limit = None,
    on_bad: options.OnBad = None,
    root: options.Root = None,
    workers: options.Workers = None,
    config: options.Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress or notices.")] = False,
) -> None:
    """Tell what packing would come to, from a sample of the records; nothing is written.

    \b
    examples:
      packtool plan dataset.jsonl --tokenizer path/to/hf-folder --max-seq-len 2048,4096,8192
      packtool plan --config pack.yaml --max-seq-len 4096 --strategy mixed,ffd --batch 64
    """  # noqa: D301 - click keeps the lines below a backspace as they are
    flags: dict[str, Any] = {
        "inputs": inputs or None, "max_seq_len": max_seq_len, "strategy": strategy, "kind": kind,
        "columns": options.read_columns(columns), "text_by": text_by, "template": template, "tokenizer": tokenizer,
        "chat_template": chat_template, "template_args": options.read_arguments(template_args),
        "turn_end": turn_end, "date": date, "eos": eos, "bos": bos, "pad_id": pad_id, "allow_special": allow_special,
        "train_on": train_on, "train_template_text": train_template_text, "overlong": overlong,
        "split_across_packs": split_across_packs, "max_samples_per_pack": max_samples_per_pack,
        "pack_multiple": pack_multiple, "seed": seed, "limit": limit, "on_bad": on_bad, "root": root,
        "workers": workers,
    }  # fmt: skip
    choices = _choices(options.with_config(config, flags))
    bars = Bars(quiet=quiet)
    try:
        found = forecast(
            choices, sample=sample, batch=batch, progress=bars.update,
            notice=(lambda text: None) if quiet else say_note,
        )  # fmt: skip
    finally:
        bars.close()
    print(json.dumps(dataclasses.asdict(found), sort_keys=True) if as_json else _text(found))


def _choices(values: Mapping[str, Any]) -> list[Settings]:
    """Settings for every length with every strategy."""
    lengths = _listed(values, "max_seq_len") or [None]
    strategies = _listed(values, "strategy") or [None]
    return [
        settings_from({**values, "max_seq_len": length, "strategy": strategy})
        for length in lengths
        for strategy in strategies
    ]


def _listed(values: Mapping[str, Any], name: str) -> list[Any]:
    """A flag's values between its commas; a config file has one value, or a list."""
    value = values.get(name)
    items = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    items = [_integer(item.strip()) if isinstance(item, str) else item for item in items if item is not None]
    for place, item in enumerate(items):
        if item in items[:place]:
            raise UsageError(f"`{name}`: `{item}` is named twice")
    return items


def _integer(text: str) -> int | str:
    """A number that was typed; settings say what is wrong with anything else."""
    return int(text) if text.isascii() and text.isdigit() else text


def _text(found: Forecast) -> str:
    """The table for people."""
    share = found.sampled / found.records
    margin = max(choice.margin for choice in found.choices if choice.packs)
    told = (
        f"all {found.records:,} records of {human_size(found.bytes)} were tokenized: the counts are exact"
        if found.sampled == found.records
        else f"from {found.sampled:,} of {found.records:,} records ({share:.2%}; {human_size(found.bytes)} of input): "
        f"extrapolated to all, tokens within {margin:.1%} (95 of 100 times)"
    )
    lines = [told]
    lines += [
        f"  {count:,} records are {what}" for what, count in (("empty", found.empty), ("bad", found.bad)) if count
    ]
    rows = [_HEADS, *(_cells(choice) for choice in found.choices)]
    kept = [place for place in range(len(_HEADS)) if any(row[place] for row in rows[1:])]
    widths = [max(len(row[place]) for row in rows) for place in kept]
    lines += [
        "  " + "  ".join(_cell(row[place], width, place) for place, width in zip(kept, widths, strict=True)).rstrip()
        for row in rows
    ]
    lost = [f"{choice.max_seq_len} {choice.strategy}" for choice in found.choices if not choice.packs]
    lines += [f"  {which}: nothing is left to pack" for which in lost]
    lines += [
        "  mixture: part of the variance of log length between packs; truncated, dropped: samples (tokens lost)",
        f"  npy, parquet: bytes of the shards, uncompressed; time: reading, tokenizing and planning with "
        f"{_workers(found.workers)}, without writing",
    ]
    return "\n".join(lines)


def _workers(count: int) -> str:
    return f"{count:,} worker{'' if count == 1 else 's'}"


def _cell(text: str, width: int, place: int) -> str:
    """The strategy's name begins its column, numbers end theirs."""
    return text.ljust(width) if place == 1 else text.rjust(width)


def _cells(choice: Choice) -> Sequence[str]:
    """A line of the table, in the order of _HEADS; nothing where there is nothing to say."""
    lost = choice.lost
    truncated = choice.reasons.get("packed/truncated", 0)
    dropped = sum(count for reason, count in choice.reasons.items() if reason.startswith("dropped/"))
    dropped_tokens = lost.get("too_long", 0) + lost.get("no_target", 0)
    split = choice.reasons.get("packed/split", 0)
    return (
        f"{choice.max_seq_len:,}",
        choice.strategy,
        f"{choice.packs:,}",
        f"{choice.packs / choice.bound - 1:.2%}" if choice.bound else "-",
        f"{choice.fill:.2%}",
        f"{choice.variance_share:.1%}",
        f"{truncated:,} ({lost.get('truncated', 0):,})" if truncated else "",
        f"{split:,}" if split else "",
        f"{dropped:,} ({dropped_tokens:,})" if dropped else "",
        human_size(choice.size["npy"]),
        human_size(choice.size["parquet"]),
        "" if choice.steps is None else f"{choice.steps:,}",
        _duration(choice.seconds),
    )


def _duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"
