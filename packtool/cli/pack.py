"""`packtool pack`: settings from flags and a config file, then one run."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from packtool.cli.console import Bars, human_size, say
from packtool.errors import UsageError
from packtool.job import Summary, read_config, run, settings_from

__all__ = ["pack"]


def pack(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help="Files, folders, globs, or - for standard input.")
    ] = None,
    max_seq_len: Annotated[int | None, typer.Option(help="Slots of a pack.")] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Folder of the dataset; <first input's name>.packed where not given."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="What the records are: auto, text, completion, instruct, chat or tokens.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="field=column, where the records name things otherwise; commas or repeated."),
    ] = None,
    text_by: Annotated[
        str | None, typer.Option(help="What one record of a text file is: line, paragraph or file.")
    ] = None,
    template: Annotated[
        str | None, typer.Option(help="Instruct template: a built-in name, a file, or the text itself.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="A folder, a tokenizer.json, a SentencePiece .model, a hub name, or bytes.")
    ] = None,
    chat_template: Annotated[
        str | None, typer.Option(help="Chat template: a Jinja file, a built-in name, or a name of the tokenizer's own.")
    ] = None,
    template_args: Annotated[
        list[str] | None,
        typer.Option(
            "--template-arg",
            "--template-args",
            help="name=value for the chat template, as JSON or text; repeated.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    turn_end: Annotated[
        str | None, typer.Option(help="Text that ends an assistant turn, where the template has no added token there.")
    ] = None,
    date: Annotated[
        str | None,
        typer.Option(help="YYYY-MM-DD[THH:MM:SS] for chat templates that ask for the date; today where not given."),
    ] = None,
    eos: Annotated[str | None, typer.Option(help="Token that ends a sample, instead of the tokenizer's own.")] = None,
    bos: Annotated[
        str | None, typer.Option(help="BOS in front of a sample: auto (as the tokenizer does), yes or no.")
    ] = None,
    pad_id: Annotated[int | None, typer.Option(help="Id of padding slots.")] = None,
    allow_special: Annotated[
        bool | None,
        typer.Option("--allow-special/--no-allow-special", help="Recognise control tokens in the records' own text."),
    ] = None,
    train_on: Annotated[
        str | None, typer.Option(help="completion, all for every token, or last for a chat's last assistant turn.")
    ] = None,
    train_template_text: Annotated[
        str | None,
        typer.Option(help="yes, or no: leave untrained what a chat template adds to answers by itself."),
    ] = None,
    overlong: Annotated[
        str | None,
        typer.Option(help="Samples longer than a pack: truncate, drop, split, error; auto splits plain text only."),
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="How packs are filled: ffd or greedy.")] = None,
    split_across_packs: Annotated[
        bool | None,
        typer.Option(
            "--split-across-packs/--no-split-across-packs", help="With greedy: fill every pack, go on in the next."
        ),
    ] = None,
    shuffle: Annotated[bool | None, typer.Option(help="Shuffle the finished packs (never with greedy).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice.")] = None,
    limit: Annotated[str | None, typer.Option(help="The first N records, or a share such as 5%.")] = None,
    max_packs: Annotated[int | None, typer.Option(help="Keep this many packs, and list the rest as left out.")] = None,
    shard_size: Annotated[str | None, typer.Option(help="Size of a shard, such as 512MB or 1GiB.")] = None,
    format: Annotated[str | None, typer.Option(help="Files of the shards: npy or parquet.")] = None,
    compression: Annotated[str | None, typer.Option(help="none or zstd (Parquet only).")] = None,
    on_bad: Annotated[str | None, typer.Option(help="A bad record: error, or skip to count and list it.")] = None,
    root: Annotated[str | None, typer.Option(help="Folder that relative inputs are in.")] = None,
    overwrite: Annotated[
        bool | None, typer.Option("--overwrite/--no-overwrite", help="Replace a dataset that is there.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes; the cores this process may use where not given.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML or TOML file with the same names; flags win.")] = None,
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
        "columns": _columns(columns), "text_by": text_by, "template": template, "tokenizer": tokenizer,
        "chat_template": chat_template, "template_args": _arguments(template_args),
        "turn_end": turn_end, "date": date, "eos": eos, "bos": bos,
        "pad_id": pad_id, "allow_special": allow_special, "train_on": train_on,
        "train_template_text": train_template_text, "overlong": overlong,
        "strategy": strategy, "split_across_packs": split_across_packs, "shuffle": shuffle,
        "seed": seed, "limit": limit, "max_packs": max_packs, "shard_size": shard_size,
        "format": format, "compression": compression, "on_bad": on_bad, "root": root, "overwrite": overwrite,
        "workers": workers,
    }  # fmt: skip
    values = read_config(config) if config is not None else {}
    if inputs and root is None:
        values.pop("root", None)  # inputs named on the command line are relative to where it was typed
    values.update({name: value for name, value in flags.items() if value is not None})
    settings = settings_from(values)
    bars = Bars(quiet=quiet)
    try:
        summary = run(settings, progress=bars.update, notice=(lambda text: None) if quiet else _notice, dry_run=dry_run)
    finally:
        bars.close()
    if as_json:
        print(json.dumps(dataclasses.asdict(summary), sort_keys=True))
    elif not quiet:
        print(_text(summary))


def _notice(text: str) -> None:
    say(f"note: {text}")


def _columns(pairs: list[str] | None) -> dict[str, str] | None:
    """`a=b,c=d` and repeated flags as a mapping."""
    if not pairs:
        return None
    columns = {}
    for pair in ",".join(pairs).split(","):
        field, equals, column = pair.partition("=")
        if not equals or not field.strip() or not column.strip():
            raise UsageError(
                f"`--columns {pair}`: expected field=column",
                hint="for example `--columns prompt=question,completion=answer`",
            )
        columns[field.strip()] = column.strip()
    return columns


def _arguments(pairs: list[str] | None) -> dict[str, Any] | None:
    """`name=value` flags as a mapping; what is no JSON is text."""
    if not pairs:
        return None
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"`--template-arg {pair}`: expected name=value",
                hint="for example `--template-arg enable_thinking=false`",
            )
        try:
            arguments[name.strip()] = json.loads(value)
        except ValueError:
            arguments[name.strip()] = value
    return arguments


def _text(summary: Summary) -> str:
    """The summary for people."""
    over = summary.packs / summary.lower_bound - 1
    lines = [
        f"{summary.records:,} records -> {summary.samples:,} samples -> "
        f"{summary.packs:,} packs of {summary.max_seq_len:,}",
        f"  fill       {summary.fill:.2%} ({summary.tokens:,} tokens, {summary.padding:,} padding; "
        f"{over:.2%} over the bound of {summary.lower_bound:,} packs)",
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
    lines += _advice(mean_n)
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


def _advice(mean: float) -> list[str]:
    """What packing does to batch size and steps; docs/concepts.md derives it."""
    if mean < 1.05:
        return []
    return [
        f"  training   a pack has {mean:.1f} samples on average: divide the batch size by it to keep a step's tokens;",
        f"             at the old batch size an epoch has {mean:.1f} times fewer, larger steps",
    ]
