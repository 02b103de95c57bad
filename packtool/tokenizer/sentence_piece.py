"""SentencePiece `.model` files, through the `sentencepiece` library.

SentencePiece never makes its control pieces from text. A template's control tokens are placed by id, and the text
between them is encoded piece by piece, each with the model's own rule for a leading space.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import sentencepiece

from packtool.errors import DataError
from packtool.render.rendered import Rendered
from packtool.tokenizer.base import AddedToken, EngineBatch, mark
from packtool.tokenizer.controls import ControlCutter

__all__ = ["SentencePieceEngine", "read_model", "read_pieces"]


def read_model(path: Path) -> sentencepiece.SentencePieceProcessor:
    """Load a model.

    Raises:
        DataError: the file is no SentencePiece model.
    """
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except Exception as error:  # the library raises RuntimeError, OSError and others
        raise DataError(f"`{path}` cannot be loaded by sentencepiece {sentencepiece.__version__}: {error}") from None


def read_pieces(path: Path) -> tuple[AddedToken, ...]:
    """Control and user-defined pieces, which are matched as a whole; control pieces count as special."""
    model = read_model(path)
    user = {i for i in range(model.get_piece_size()) if not model.is_control(i) and _is_user_defined(model, i)}
    return tuple(
        AddedToken(model.id_to_piece(i), i, model.is_control(i))
        for i in range(model.get_piece_size())
        if model.is_control(i) or i in user
    )


def _is_user_defined(model: sentencepiece.SentencePieceProcessor, i: int) -> bool:
    """User-defined pieces have score 0 and encode, as a whole text, to themselves; the library has no call for it."""
    if model.get_score(i) != 0.0 or model.is_unknown(i) or model.is_byte(i) or model.is_unused(i):
        return False
    ids = model.encode(model.id_to_piece(i))
    return bool(ids) and ids[-1] == i


class SentencePieceEngine:
    """A SentencePiece model.

    Raises:
        DataError: the file is no SentencePiece model.
    """

    def __init__(self, path: Path, *, protected: Collection[str] = (), allow_special: bool = False) -> None:
        self._model = read_model(path)
        added = read_pieces(path)
        self._ids = {token.content: token.id for token in added}
        control = [token.content for token in added if token.special]
        self._cutter = ControlCutter(
            [token for token in protected if token in self._ids], self._ids, everywhere=allow_special, harmless=control
        )
        self.size = int(self._model.get_piece_size())
        bos = self._model.bos_id()
        self.prefix: tuple[int, ...] = (bos,) if bos >= 0 else ()

    def encode(self, batch: Sequence[Rendered]) -> EngineBatch:
        """Encode every text; see Engine. Starts are the library's own character offsets."""
        cuts = [self._cutter.cut(rendered) for rendered in batch]
        texts = [
            r.text[start:stop] for r, (cut, _) in zip(batch, cuts, strict=True) for start, stop, kind in cut if kind < 0
        ]
        encoded = iter(self._model.encode(texts, return_type="offset_mapping") if texts else [])
        ids: list[int] = []
        starts: list[int] = []
        stops: list[int] = []
        lengths, changes, base = [], [], 0
        for rendered, (cut, _) in zip(batch, cuts, strict=True):
            before = len(ids)
            for start, stop, kind in cut:
                if kind >= 0:
                    ids.append(self._ids[self._cutter.tokens[kind]])
                    starts.append(base + start)
                    stops.append(base + stop)
                else:
                    piece = next(encoded)
                    ids += piece["ids"]
                    starts += [base + start + begin for begin, _ in piece["offsets"]]
                    stops += [base + start + end for _, end in piece["offsets"]]
            lengths.append(len(ids) - before)
            changes += [(base + place, change) for place, change in rendered.changes()]
            base += len(rendered.text) + 1
        return EngineBatch(
            np.array(ids, np.uint32),
            np.array(lengths, np.int64),
            mark(np.array(starts, np.int64), np.array(stops, np.int64), np.array(changes, np.int64).reshape(-1, 2)),
            np.array([spelled for _, spelled in cuts], np.bool_),
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids; control pieces by their names."""
        parts: list[str] = []
        run: list[int] = []
        for i in [*map(int, ids), -1]:
            if i >= 0 and not self._model.is_control(i):
                run.append(i)
                continue
            if run:
                parts.append(str(self._model.decode(run)))
                run = []
            if i >= 0:
                parts.append(str(self._model.id_to_piece(i)))
        return "".join(parts)

    def token_id(self, token: str) -> int | None:
        """The id of a piece named by its text, or None."""
        i = int(self._model.piece_to_id(token))
        return i if self._model.id_to_piece(i) == token else None
