"""What every tokenizer offers the rooms below, and the array work that all of them share.

    Rendered (text, trained characters) --Engine.encode--> ids, and where each token starts in the text
                                        --Tokenizer.encode--> + BOS, + EOS, + one code (role, trained) a token

An engine knows one library. It gives back flat arrays: the ids of the whole batch, the tokens of each sample, and the
start of every token in one coordinate system in which the trained ranges and the roles' are given as well, so that
marking tokens is one binary search over the batch. No Python runs per token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from packtool.errors import UsageError
from packtool.render.rendered import STRADDLES, Rendered

__all__ = ["AddedToken", "EncodedBatch", "Engine", "EngineBatch", "Tokenizer", "TokenizerSource", "mark"]


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is matched as a whole, before the vocabulary's own rules; `special` is the tokenizer's own mark."""

    content: str
    id: int
    special: bool


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """A tokenizer's files, read far enough to know its added tokens and settings; nothing is loaded yet.

    Attributes:
        kind: `tokenizers`, `sentencepiece` or `bytes`.
        files: file name -> path of the files that make the tokenizer, its configuration and its template.
        added_tokens: in id order.
        special: names such as `bos_token` -> the token, as chat templates know them.
        add_bos: True or False where the configuration says so, else None (the tokenizer's own rule decides).
        chat_template: Jinja text, or None.
        named_templates: the other templates by name, such as `tool_use`.
    """

    kind: str
    files: Mapping[str, str]
    added_tokens: tuple[AddedToken, ...]
    special: Mapping[str, str]
    add_bos: bool | None
    chat_template: str | None
    named_templates: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineBatch:
    """An engine's answer for a batch.

    Attributes:
        ids: [tokens] uint32, sample after sample.
        lengths: [samples] int64 tokens of each.
        codes: [tokens] uint8: whose it is and whether it is trained (`code_of`), by where it starts.
        lookalikes: [samples] bool: what is no template's in the text spells a protected token.
    """

    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    codes: NDArray[np.uint8]
    lookalikes: NDArray[np.bool_]


class Engine(Protocol):
    """One tokenizer library behind one seam."""

    size: int  # the largest id, added tokens included, plus one
    prefix: tuple[int, ...]  # what the tokenizer itself puts in front of a text

    def encode(self, batch: Sequence[Rendered]) -> EngineBatch:
        """Encode every text once, without BOS and EOS; protected tokens only where the template wrote them."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, control tokens included."""

    def token_id(self, token: str) -> int | None:
        """The id of a token named by its text, or None."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch of samples, ready for the store.

    Attributes:
        ids: [tokens] uint32, sample after sample.
        lengths: [samples] int64 tokens of each; 0 where a text gave no token at all.
        codes: [tokens] uint8, see `code_of`; the first token of a sample is never trained.
        lookalikes: [samples] bool, as the engine gave them.
    """

    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    codes: NDArray[np.uint8]
    lookalikes: NDArray[np.bool_]

    @property
    def trained(self) -> NDArray[np.bool_]:
        """[tokens] bool."""
        return (self.codes & 1).view(np.bool_)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """An engine with the ids that frame a sample.

    Attributes:
        engine: the library behind it.
        bos: ids put in front of texts that ask for them; empty for none.
        eos: id put at the end of texts that ask for it, or None.
        pad: id that fills the rest of a pack.
        keep_ends: the text may hold BOS and EOS itself (`--allow-special`): add neither where it is there already.
    """

    engine: Engine
    bos: tuple[int, ...]
    eos: int | None
    pad: int
    keep_ends: bool = False
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", self.engine.size)

    def encode(self, batch: Sequence[Rendered]) -> EncodedBatch:
        """Encode a batch, put BOS and EOS where they were asked for, and say which tokens are trained.

        The first token of a sample is never trained: nothing comes before it that could predict it.

        Raises:
            UsageError: a text asks for an EOS and the tokenizer has none.
        """
        raw = self.engine.encode(batch)
        wants_eos = np.array([text.eos for text in batch], np.bool_)
        wants_bos = np.array([text.bos for text in batch], np.bool_) & bool(self.bos)
        if self.eos is None and wants_eos.any():
            raise UsageError(
                "the tokenizer names no EOS token, and this kind of data needs one", hint="name it: `--eos TOKEN`"
            )
        stops = np.cumsum(raw.lengths)
        starts = stops - raw.lengths
        there = np.zeros(len(batch), np.bool_)  # samples whose text already ends in EOS
        if self.keep_ends and len(raw.ids):
            full = raw.lengths > 0
            there[full] = raw.ids[stops[full] - 1] == self.eos
            if self.bos:
                wants_bos[full] &= raw.ids[starts[full]] != self.bos[0]
        adds_eos = wants_eos & ~there
        before = wants_bos * len(self.bos)
        lengths = raw.lengths + before + adds_eos
        begins = np.cumsum(lengths) - lengths
        ids = np.empty(int(lengths.sum()), np.uint32)
        codes = np.zeros(len(ids), np.uint8)  # a BOS is the template's
        target = np.repeat(begins + before - starts, raw.lengths) + np.arange(len(raw.ids), dtype=np.int64)
        ids[target] = raw.ids
        codes[target] = raw.codes
        for place, bos in enumerate(self.bos):
            ids[begins[wants_bos] + place] = bos
        ends = begins + lengths - 1
        if self.eos is not None:
            ids[ends[adds_eos]] = self.eos
            ended = wants_eos & (lengths > 0)
            codes[ends[ended]] = [text.eos_code for text, on in zip(batch, ended.tolist(), strict=True) if on]
        codes[begins[lengths > 0]] &= 0xFE
        return EncodedBatch(ids, lengths, codes, raw.lookalikes)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, control tokens included."""
        return self.engine.decode(ids)


def mark(starts: NDArray[np.int64], stops: NDArray[np.int64], changes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The code of each token: the sum of the changes at or before its start, and STRADDLES if training starts in it.

        starts  [0, 4, 9]      stops [4, 9, 11]      changes [[4, 1], [9, -1]]      ->  [0, 1, 0]
                                                     changes [[3, 1], [9, -1]]      ->  [STRADDLES, 1, 0]

    Args:
        starts: [tokens] where each token starts, in order.
        stops: [tokens] where it ends.
        changes: [changes, 2] place in the same coordinates, and by how much the code changes there; in any order. Only
            where a trained range starts it is 1.
    """
    order = np.argsort(changes[:, 0], kind="stable")
    codes = np.append(0, np.cumsum(changes[order, 1])).astype(np.uint8)
    found: NDArray[np.uint8] = codes[np.searchsorted(changes[order, 0], starts, side="right")]
    if len(starts):
        trained = changes[changes[:, 1] == 1, 0]
        at = np.maximum(np.searchsorted(starts, trained, side="right") - 1, 0)
        found[at[(starts[at] < trained) & (stops[at] > trained)]] |= STRADDLES
    return found
