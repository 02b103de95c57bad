"""The options that commands share, declared once: `pack` takes all of them, `show` those that shape a record."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from packtool.errors import UsageError
from packtool.job import read_config

__all__ = [
    "AllowSpecial",
    "BalanceBatch",
    "Bos",
    "ChatTemplate",
    "Columns",
    "Compression",
    "Config",
    "Date",
    "Eos",
    "Format",
    "Kind",
    "Limit",
    "MaxLost",
    "MaxPacks",
    "MaxSamplesPerPack",
    "MaxSeqLen",
    "OnBad",
    "Out",
    "Overlong",
    "Overwrite",
    "PackMultiple",
    "PadId",
    "Root",
    "Seed",
    "ShardSize",
    "Shuffle",
    "SplitAcrossPacks",
    "Strategy",
    "Strict",
    "Template",
    "TemplateArgs",
    "TextBy",
    "Tokenizer",
    "TrainOn",
    "TrainTemplateText",
    "TurnEnd",
    "Workers",
    "read_arguments",
    "read_columns",
    "with_config",
]

MaxSeqLen = Annotated[int | None, typer.Option(help="Slots of a pack.")]
Out = Annotated[
    str | None,
    typer.Option("--out", "-o", help="Folder of the dataset; <first input's name>.packed where not given."),
]
Kind = Annotated[
    str | None, typer.Option(help="What the records are: auto, text, completion, instruct, chat or tokens.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        help="field=column, where the records name things otherwise; commas or repeated; numbers for CSV and TSV "
        "without a header."
    ),
]
TextBy = Annotated[str | None, typer.Option(help="What one record of a text file is: line, paragraph or file.")]
Template = Annotated[str | None, typer.Option(help="Instruct template: a built-in name, a file, or the text itself.")]
Tokenizer = Annotated[
    str | None, typer.Option(help="A folder, a tokenizer.json, a SentencePiece .model, a hub name, or bytes.")
]
ChatTemplate = Annotated[
    str | None, typer.Option(help="Chat template: a Jinja file, a built-in name, or a name of the tokenizer's own.")
]
TemplateArgs = Annotated[
    list[str] | None,
    typer.Option(
        "--template-arg",
        "--template-args",
        help="name=value for the chat template, as JSON or text; repeated.",
        metavar="NAME=VALUE",
    ),
]
TurnEnd = Annotated[
    str | None, typer.Option(help="Text that ends an assistant turn, where the template has no added token there.")
]
Date = Annotated[
    str | None,
    typer.Option(help="YYYY-MM-DD[THH:MM:SS] for chat templates that ask for the date; today where not given."),
]
Eos = Annotated[str | None, typer.Option(help="Token that ends a sample, instead of the tokenizer's own.")]
Bos = Annotated[str | None, typer.Option(help="BOS in front of a sample: auto (as the tokenizer does), yes or no.")]
PadId = Annotated[int | None, typer.Option(help="Id of padding slots.")]
AllowSpecial = Annotated[
    bool | None,
    typer.Option("--allow-special/--no-allow-special", help="Recognise control tokens in the records' own text."),
]
TrainOn = Annotated[
    str | None, typer.Option(help="completion, all for every token, or last for a chat's last assistant turn.")
]
TrainTemplateText = Annotated[
    str | None,
    typer.Option(help="yes, or no: leave untrained what a chat template adds to answers by itself."),
]
Overlong = Annotated[
    str | None,
    typer.Option(help="Samples longer than a pack: truncate, drop, split, error; auto splits plain text only."),
]
Strategy = Annotated[str | None, typer.Option(help="How packs are filled: mixed, ffd, bfd, shuffle, greedy or none.")]
SplitAcrossPacks = Annotated[
    bool | None,
    typer.Option(
        "--split-across-packs/--no-split-across-packs", help="With greedy: fill every pack, go on in the next."
    ),
]
MaxSamplesPerPack = Annotated[int | None, typer.Option(help="At most this many samples to a pack.")]
PackMultiple = Annotated[
    int | None, typer.Option(help="Make the number of packs a multiple of this, for ranks to share equally.")
]
BalanceBatch = Annotated[
    int | None, typer.Option(help="Order packs so that every so many in a row cost attention about the same.")
]
Shuffle = Annotated[bool | None, typer.Option(help="Shuffle the finished packs (never with greedy).")]
Seed = Annotated[int | None, typer.Option(help="Seed of every random choice.")]
Limit = Annotated[str | None, typer.Option(help="The first N records, or a share such as 5%.")]
MaxPacks = Annotated[int | None, typer.Option(help="Keep this many packs, and list the rest as left out.")]
ShardSize = Annotated[str | None, typer.Option(help="Size of a shard, such as 512MB or 1GiB.")]
Format = Annotated[str | None, typer.Option(help="Files of the shards: npy or parquet.")]
Compression = Annotated[str | None, typer.Option(help="none or zstd (Parquet only).")]
OnBad = Annotated[str | None, typer.Option(help="A bad record: error, or skip to count and list it.")]
MaxLost = Annotated[
    str | None,
    typer.Option(help="Fail where more than this share of the tokens or of the records is lost, such as 1%."),
]
Strict = Annotated[bool | None, typer.Option("--strict/--no-strict", help="Fail where there is any warning.")]
Root = Annotated[str | None, typer.Option(help="Folder that relative inputs are in.")]
Overwrite = Annotated[bool | None, typer.Option("--overwrite/--no-overwrite", help="Replace a dataset that is there.")]
Workers = Annotated[int | None, typer.Option(help="Processes; the cores this process may use where not given.")]
Config = Annotated[Path | None, typer.Option(help="YAML or TOML file with the same names; flags win.")]


def with_config(config: Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a config file and of the flags that were given (not None), which win."""
    values = read_config(config) if config is not None else {}
    if flags.get("inputs") and flags.get("root") is None:
        values.pop("root", None)  # inputs named on the command line are relative to where it was typed
    values.update({name: value for name, value in flags.items() if value is not None})
    return values


def read_columns(pairs: list[str] | None) -> dict[str, str] | None:
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


def read_arguments(pairs: list[str] | None) -> dict[str, Any] | None:
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
