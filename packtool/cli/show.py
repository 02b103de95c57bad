"""`packtool show`: a pack, or records that are not packed yet, as people read them."""

import dataclasses
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from packtool.cli import options
from packtool.cli.console import paint, say_note
from packtool.errors import UsageError
from packtool.format import IGNORE_INDEX
from packtool.inspect import view_pack
from packtool.job import RecordView, preview, settings_from
from packtool.read.dataset import MANIFEST

__all__ = ["show"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TAKE = 3


def show(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET|INPUT",
            help="A folder written by `packtool pack`; or a file, folder, glob or - as `pack` takes it.",
        ),
    ] = None,
    pack: Annotated[int | None, typer.Option(help="DATASET: which pack, from 0; the first where not given.")] = None,
    take: Annotated[int | None, typer.Option(min=1, help=f"INPUT: how many records; {_TAKE} where not given.")] = None,
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
    allow_special: options.AllowSpecial = None,
    train_on: options.TrainOn = None,
    train_template_text: options.TrainTemplateText = None,
    max_seq_len: options.MaxSeqLen = None,
    overlong: options.Overlong = None,
    config: options.Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="INPUT: print one JSON object a record.")] = False,
) -> None:
    """Print what is trained, [[in brackets]] or green: the pieces of a pack, or records before they are packed.

    \b
    examples:
      packtool show dataset.packed --pack 3
      packtool show dataset.jsonl --tokenizer path/to/hf-folder --take 5
      packtool show --config pack.yaml
    """  # noqa: D301 - click keeps the lines below a backspace as they are
    flags: dict[str, Any] = {
        "kind": kind, "columns": options.read_columns(columns), "text_by": text_by, "template": template,
        "tokenizer": tokenizer, "chat_template": chat_template,
        "template_args": options.read_arguments(template_args), "turn_end": turn_end, "date": date, "eos": eos,
        "bos": bos, "allow_special": allow_special, "train_on": train_on, "train_template_text": train_template_text,
        "max_seq_len": max_seq_len, "overlong": overlong,
    }  # fmt: skip
    if what is not None and (Path(what) / MANIFEST).is_file():
        for_inputs = {**flags, "take": take, "config": config, "json": as_json or None}
        given = [name.replace("_", "-") for name, value in for_inputs.items() if value is not None]
        if given:
            raise UsageError(
                f"`--{given[0]}` is for records that are not packed, and `{what}` is a packed dataset",
                hint="`--pack N` says which pack of it to print",
            )
        _print_pack(Path(what), pack or 0)
        return
    if pack is not None:
        named = f"`{what}` is none: there is no {MANIFEST} in it" if what else "none was named"
        raise UsageError(
            f"`--pack` is for a packed dataset, and {named}",
            hint="`--take N` says how many records of an input to print",
        )
    settings = settings_from(options.with_config(config, {"inputs": [what] if what else None, **flags}), packs=False)
    _print_records(preview(settings, take or _TAKE, say_note), as_json=as_json)


def _print_pack(dataset: Path, pack: int) -> None:
    pieces, padding = view_pack(dataset, pack)
    for view in pieces:
        cut = f", cut: from token {view.sample_start:,} of its sample" if view.sample_start else ""
        head = (
            f"---- piece {view.piece}: record {view.record} ({view.origin}), "
            f"slots {view.start:,}..{view.start + view.length:,}, {view.length:,} tokens, {view.trained:,} trained{cut}"
        )
        print(paint(head, "1"))
        print(_text(view.parts))
    print(paint(f"---- {padding:,} padding", "1"))


def _print_records(views: Iterable[RecordView], *, as_json: bool) -> None:
    for view in views:
        if as_json:
            print(json.dumps(dataclasses.asdict(view), sort_keys=True))
            continue
        trained = sum(label != IGNORE_INDEX for label in view.labels)
        size = f"{len(view.ids):,} tokens, {trained:,} trained" if view.outcome == "sample" else view.outcome
        print(paint(_visible(f"---- {view.origin}: {view.kind}, {size}"), "1"))
        if view.outcome == "sample":
            print(_text(view.parts))
            print("ids    ", *view.ids)
            print("labels ", *view.labels)
        if view.outcome == "empty":
            print("nothing in it to train on")
        said = [("error", view.problem), ("hint", view.hint), ("packing", view.fate)]
        for name, text in [*said, *(("warning", text) for text in view.warnings)]:
            if text:
                print(f"{name}: {_visible(text)}")


def _text(parts: Iterable[tuple[bool, str]]) -> str:
    """Decoded runs, the trained ones marked."""
    return "".join(_marked(_visible(text)) if trained else _visible(text) for trained, text in parts)


def _visible(text: str) -> str:
    """Text without the control characters that a terminal would obey."""
    return _CONTROL.sub(lambda match: ascii(match.group())[1:-1], text)


def _marked(text: str) -> str:
    """Trained text: green on a terminal, in double brackets elsewhere."""
    painted = paint(text, "32")
    return painted if painted != text else f"[[{text}]]"
