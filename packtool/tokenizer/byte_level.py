"""The built-in byte tokenizer: no file, no download, every text round-trips.

    id        0..255      256    257    258    259           260
    token     the byte    <pad>  <bos>  <eos>  <|im_start|>  <|im_end|>

For trials, tests and byte-level models. The last two are the marks of the built-in ChatML template.
"""

from collections.abc import Collection, Sequence

import numpy as np

from packtool.render.rendered import Rendered
from packtool.tokenizer.base import AddedToken, EngineBatch, mark
from packtool.tokenizer.controls import ControlCutter

__all__ = ["BYTE_TOKENS", "ByteEngine"]

BYTE_TOKENS = tuple(
    AddedToken(content, 256 + place, True)
    for place, content in enumerate(("<pad>", "<bos>", "<eos>", "<|im_start|>", "<|im_end|>"))
)


class ByteEngine:
    """UTF-8 bytes and five control tokens; see the module's table."""

    def __init__(self, *, protected: Collection[str] = (), allow_special: bool = False) -> None:
        self._ids = {token.content: token.id for token in BYTE_TOKENS}
        self._texts = {token.id: token.content.encode() for token in BYTE_TOKENS}
        tokens = [token for token in protected if token in self._ids]
        self._cutter = ControlCutter(tokens, self._ids, everywhere=allow_special)
        self.size = 256 + len(BYTE_TOKENS)
        self.prefix: tuple[int, ...] = ()

    def encode(self, batch: Sequence[Rendered]) -> EngineBatch:
        """Encode every text; see Engine."""
        parts, lengths, codes, lookalikes = [], [], [], []
        for rendered in batch:
            ids, starts = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
            segments, spelled = self._cutter.cut(rendered)
            lookalikes.append(spelled)
            for start, stop, kind in segments:
                if kind >= 0:
                    ids.append(np.array([self._ids[self._cutter.tokens[kind]]], np.uint32))
                    starts.append(np.array([start], np.int64))
                else:
                    piece = np.frombuffer(rendered.text[start:stop].encode(), np.uint8)
                    ids.append(piece.astype(np.uint32))
                    starts.append(start - 1 + np.cumsum((piece & 0xC0) != 0x80, dtype=np.int64))
            parts.append(np.concatenate(ids))
            lengths.append(len(parts[-1]))
            changes = np.array(rendered.changes(), np.int64).reshape(-1, 2)
            places = np.concatenate(starts)  # of characters: no token reaches into the next
            codes.append(mark(places, places, changes))
        return EngineBatch(
            np.concatenate([np.zeros(0, np.uint32), *parts]),
            np.array(lengths, np.int64),
            np.concatenate([np.zeros(0, np.uint8), *codes]),
            np.array(lookalikes, np.bool_),
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self._texts.get(int(i), bytes([int(i) & 0xFF])) for i in ids).decode(errors="replace")

    def token_id(self, token: str) -> int | None:
        """The id of a control token named by its text, or None."""
        return self._ids.get(token)
