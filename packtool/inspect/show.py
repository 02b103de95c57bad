"""One pack, piece by piece, decoded with the tokenizer that the dataset carries."""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packtool.errors import FormatError, UsageError
from packtool.format import IGNORE_INDEX
from packtool.read import open_dataset, read_ledger
from packtool.tokenizer import Engine, find_tokenizer, make_engine

__all__ = ["PieceView", "decoded_runs", "view_pack"]


@dataclass(frozen=True, slots=True)
class PieceView:
    """A piece of a pack, for people.

    Attributes:
        piece: its place in the pack; record: the input record.
        origin: file and place of the record.
        start: its first slot; length: its tokens; trained: those with a label.
        sample_start: the first token of the sample that lies here; above 0 where the sample was cut.
        parts: see decoded_runs.
    """

    piece: int
    record: int
    origin: str
    start: int
    length: int
    trained: int
    sample_start: int
    parts: tuple[tuple[bool, str], ...]


def view_pack(path: str | PathLike[str], pack: int) -> tuple[list[PieceView], int]:
    """The pieces of a pack, and how many padding slots follow.

    Raises:
        UsageError: there is no such pack.
        FormatError: the dataset is none, or damaged.
    """
    data = open_dataset(path)
    if not 0 <= pack < len(data):
        raise UsageError(f"there is no pack {pack}", hint=f"the packs are 0 to {len(data) - 1}")
    row = data[pack]
    ledger = read_ledger(data.path / "ledger.parquet")
    row_of_place = np.repeat(np.arange(len(ledger.pieces)), ledger.pieces)
    places = np.flatnonzero(ledger.packs == pack)
    places = places[np.argsort(ledger.starts[places], kind="stable")]
    engine = None
    if data.manifest.tokenizer.kind != "none":
        engine = make_engine(find_tokenizer(str(Path(data.path) / "tokenizer")))
    if len(places) != len(row.seq_lens) or (ledger.file[row_of_place[places]] >= len(data.manifest.inputs)).any():
        raise FormatError(
            f"`{data.path / 'ledger.parquet'}` does not fit pack {pack}", hint="`packtool verify` lists what is wrong"
        )
    views = []
    start = 0
    for piece, length in enumerate(row.seq_lens.tolist()):
        tokens = row.tokens[start : start + length]
        flags = row.labels[start : start + length] != IGNORE_INDEX
        parts = decoded_runs(tokens, flags, engine)
        entry = int(row_of_place[places[piece]])
        origin = f"{data.manifest.inputs[int(ledger.file[entry])].name}:{int(ledger.place[entry])}"
        views.append(
            PieceView(
                piece, int(row.records[piece]), origin, start, length, int(flags.sum()),
                int(ledger.sample_starts[places[piece]]), parts,
            )
        )  # fmt: skip
        start += length
    return views, data.manifest.max_seq_len - start


def decoded_runs(ids: NDArray[Any], trained: NDArray[np.bool_], engine: Engine | None) -> tuple[tuple[bool, str], ...]:
    """Tokens as (trained, text), one for each run of equal flags, in order.

    The runs are cut out of the text of all ids: decoded by itself, a run could lose the space in front, or its half of
    a character that its ids share with the next run's. Such a character stands in the later run.

    Args:
        ids: [tokens] at least one.
        trained: [tokens].
        engine: decodes; without one the text is the ids themselves.
    """

    def text_of(some: list[int]) -> str:
        return " ".join(map(str, some)) if engine is None else engine.decode(some)

    def place(cut: int) -> int:
        """Where the text of the tokens from `cut` on begins."""
        before = text_of(values[:cut])
        while not whole.startswith(before):  # it ends in a part of a character
            before = before[:-1]
        return len(before)

    values = ids.tolist()
    whole = text_of(values)
    cuts = (np.flatnonzero(np.diff(trained)) + 1).tolist()
    places = [0, *accumulate(map(place, cuts), max), len(whole)]
    flags = trained[[0, *cuts]].tolist()
    return tuple((flag, whole[a:b]) for flag, (a, b) in zip(flags, pairwise(places), strict=True))
