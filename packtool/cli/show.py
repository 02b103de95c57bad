"""`packtool show`: a pack as people read it."""

from pathlib import Path
from typing import Annotated

import typer

from packtool.cli.console import paint
from packtool.inspect import view_pack

__all__ = ["show"]


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
        print("".join(_marked(text) if trained else text for trained, text in view.parts))
    print(paint(f"---- {padding:,} padding", "1"))


def _marked(text: str) -> str:
    """Trained text: green on a terminal, in double brackets elsewhere."""
    painted = paint(text, "32")
    return painted if painted != text else f"[[{text}]]"
