"""`packtool show`: a pack as people read it."""

import re
from pathlib import Path
from typing import Annotated

import typer

from packtool.cli.console import paint
from packtool.inspect import view_pack

__all__ = ["show"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def show(
    dataset: Annotated[Path, typer.Argument(help="A folder written by `packtool pack`.")],
    pack: Annotated[int, typer.Option(help="Which pack, from 0.")] = 0,
) -> None:
    """Print the pieces of a pack, decoded: where each begins, and [[what is trained]]."""
    pieces, padding = view_pack(dataset, pack)
    for view in pieces:
        cut = f", cut: from token {view.sample_start:,} of its sample" if view.sample_start else ""
        head = (
            f"---- piece {view.piece}: record {view.record} ({view.origin}), "
            f"slots {view.start:,}..{view.start + view.length:,}, {view.length:,} tokens, {view.trained:,} trained{cut}"
        )
        print(paint(head, "1"))
        print("".join(_marked(_visible(text)) if trained else _visible(text) for trained, text in view.parts))
    print(paint(f"---- {padding:,} padding", "1"))


def _visible(text: str) -> str:
    """Text without the control characters that a terminal would obey."""
    return _CONTROL.sub(lambda match: ascii(match.group())[1:-1], text)


def _marked(text: str) -> str:
    """Trained text: green on a terminal, in double brackets elsewhere."""
    painted = paint(text, "32")
    return painted if painted != text else f"[[{text}]]"
