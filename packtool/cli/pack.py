"""`packtool pack`: settings from flags and a config file, then one run."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from packtool.cli import options
from packtool.cli.console import Bars, human_size, say_note
from packtool.job import Summary, run, settings_from

__all__ = ["pack"]


def pack(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help="Files, folders, globs, or - for standard input.")
    ] = None,
    max_seq_len: options.MaxSeqLen = None,
    out: options.Out = None,
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
    strategy: options.Strategy = None,
    split_across_packs: options.SplitAcrossPacks = None,
    max_samples_per_pack: options.MaxSamplesPerPack = None,
    pack_multiple: options.PackMultiple = None,
    balance_batch: options.BalanceBatch = None,
    shuffle: options.Shuffle = None,
    seed: options.Seed = None,
    limit: options.Limit = None,
    max_packs: options.MaxPacks = None,
    shard_size: options.ShardSize = None,
    format: options.Format = None,
    compression: options.Compression = None,
    on_bad: options.OnBad = None,
    max_lost: options.MaxLost = None,
    strict: options.Strict = None,
    root: options.Root = None,
    overwrite: options.Overwrite = None,
    workers: options.Workers = None,
    config: options.Config = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read, tokenize and plan, but write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, notices or summary.")] = False,
) -> None:
    """Tokenize records, bin-pack them, and write memory-mapped shards.

    \b
    examples:
      packtool pack dataset.jsonl --max-seq-len 4096
      packtool pack data/*.jsonl.zst --max-seq-len 4096 --tokenizer path/to/hf-folder -o out
      packtool pack web.parquet --max-seq-len 4096 --tokenizer tokenizer.json
          --eos '<|endoftext|>' --template alpaca --columns instruction=question,output=answer
    """  # noqa: D301 - click keeps the lines below a backspace as they are
    flags: dict[str, Any] = {
        "inputs": inputs or None, "max_seq_len": max_seq_len, "out": out, "kind": kind,
        "columns": options.read_columns(columns), "text_by": text_by, "template": template, "tokenizer": tokenizer,
        "chat_template": chat_template, "template_args": options.read_arguments(template_args),
        "turn_end": turn_end, "date": date, "eos": eos, "bos": bos,
        "pad_id": pad_id, "allow_special": allow_special, "train_on": train_on,
        "train_template_text": train_template_text, "overlong": overlong,
        "strategy": strategy, "split_across_packs": split_across_packs,
        "max_samples_per_pack": max_samples_per_pack, "pack_multiple": pack_multiple, "balance_batch": balance_batch,
        "shuffle": shuffle,
        "seed": seed, "limit": limit, "max_packs": max_packs, "shard_size": shard_size,
        "format": format, "compression": compression, "on_bad": on_bad, "max_lost": max_lost, "strict": strict,
        "root": root, "overwrite": overwrite, "workers": workers,
    }  # fmt: skip
    settings = settings_from(options.with_config(config, flags))
    bars = Bars(quiet=quiet)
    try:
        summary = run(
            settings, progress=bars.update, notice=(lambda text: None) if quiet else say_note, dry_run=dry_run
        )
    finally:
        bars.close()
    if as_json:
        print(json.dumps(dataclasses.asdict(summary), sort_keys=True))
    elif not quiet:
        print(_text(summary))


def _text(summary: Summary) -> str:
    """The summary for people."""
    over = summary.packs / summary.packing_bound - 1
    lines = [
        f"{summary.records:,} records -> {summary.samples:,} samples -> "
        f"{summary.packs:,} packs of {summary.max_seq_len:,}",
        f"  fill       {summary.fill:.2%} ({summary.tokens:,} tokens, {summary.padding:,} padding; "
        f"{over:.2%} over the bound of {summary.packing_bound:,} packs)",
    ]
    if summary.trained_share is not None and summary.targets_per_pack is not None:
        low, middle, high = summary.targets_per_pack
        lines.append(
            f"  trained    {summary.trained_share:.2%} of the tokens; "
            f"{low:,} / {middle:,} / {high:,} targets a pack (min / median / max)"
        )
    lines.append(f"  by role    {_by_role(summary.roles)}")
    low_n, middle_n, mean_n, high_n = summary.samples_per_pack
    lines.append(f"  a pack     {low_n:,} / {middle_n:,.0f} / {high_n:,} samples (min / median / max)")
    lines += _advice(summary, mean_n)
    for reason, count in summary.reasons.items():
        outcome, name = reason.split("/")
        lost = summary.lost.get(name, 0)
        lines.append(
            f"  {outcome:<10} {count:,} records {_REASONS[name]}" + (f", {lost:,} tokens lost" if lost else "")
        )
    for outcome in ("empty", "bad"):
        if summary.outcomes.get(outcome):
            lines.append(f"  {outcome:<10} {summary.outcomes[outcome]:,} records; ledger.parquet lists them")
    if summary.cut_targets:
        lines.append(f"  cuts       {summary.cut_targets:,} targets lost: nothing comes before a piece's first token")
    if summary.packs_without_target:
        lines.append(
            f"  no target  {summary.packs_without_target:,} packs hold no trained token; `packtool verify` lists them"
        )
    for text, (count, first) in summary.warnings.items():
        lines.append(f"  warning    {text}: {count:,} records, first at {first}")
    if summary.out:
        seconds = sum(summary.seconds.values())
        lines.append(f"  written    {summary.out} ({human_size(summary.size)}) in {seconds:.1f} s")
    else:
        lines.append("  dry run: nothing was written")
    return "\n".join(lines)


def _by_role(roles: Mapping[str, Sequence[int]]) -> str:
    """Tokens of each role and how many of them are trained, the largest first."""
    parts: list[str] = []
    for role, (tokens, trained) in sorted(roles.items(), key=lambda item: -item[1][0]):
        share = f"{trained / tokens:.2%}" if trained else "0%"
        parts.append(f"{role} {tokens:,}, {share}" if parts else f"{role} {tokens:,} tokens, {share} trained")
    return "; ".join(parts)


_REASONS = {
    "truncated": "cut at the pack's length",
    "split": "split over several pieces",
    "too_long": "longer than a pack",
    "no_target": "without a trained token",
    "limit": "not drawn by `--limit`",
    "max_packs": "in packs beyond `--max-packs`",
}


def _advice(summary: Summary, mean: float) -> list[str]:
    """What packing does to batches and steps; docs/concepts.md derives it."""
    if mean < 1.05:
        return []
    return [
        f"  mixture    {summary.variance_share:.1%} of the variance of log length lies between packs "
        f"(random order: about {summary.packs / summary.pieces:.1%})",
        f"  training   a pack has {mean:.1f} samples on average: divide the batch size by it to keep a step's tokens;",
        f"             at the old batch size an epoch has {mean:.1f} times fewer, larger steps",
    ]
