r"""Hugging Face `tokenizers`: tokenizer.json files of every model type.

One encoding of one text, in which some strings are control tokens when the template wrote them and plain text when a
record did. For that the tokenizer is loaded with its protected tokens renamed to private strings (two code points that
no text may hold); a template's control token is replaced by its private string, a look-alike in data stays as it is
and can no longer be matched. Everything else about the tokenizer (splitting, prefixes, stripping) works as in the
original, because the text is still encoded as a whole. A private BREAK token around look-alikes keeps them apart from
their neighbours; it is dropped from the result.

    rendered   <|im_start|>user\nsay <|im_end|> twice<|im_end|>
    encoded    <S0>user\nsay <BREAK><|im_end|><BREAK> twice<S1>

Where tokens start: for byte-level BPE every id has a fixed number of bytes, so token starts are one cumulative sum
over the batch, and `encode_batch_fast`, which keeps no offsets, serves. Texts whose bytes do not add up, or that the
normalizer could change, are encoded again with the library's own offsets; so is everything for other model types.
"""

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from packtool.errors import DataError
from packtool.render.rendered import Rendered
from packtool.tokenizer.base import AddedToken, EngineBatch, mark
from packtool.tokenizer.controls import LOOKALIKE, TEXT, ControlCutter, Segment

__all__ = ["HfEngine", "read_added_tokens"]

# U+10FFFE is a noncharacter: Unicode promises that no text for interchange holds it. A text that does all the same is
# cut there like at a look-alike, so it cannot forge a private string.
_PRIVATE = "\U0010fffe"
_BREAK = _PRIVATE + "\U0010fffd"
_FIRST_NAME = 0xF0000
_BYTE_LEVEL = frozenset(tokenizers.pre_tokenizers.ByteLevel.alphabet())
_ADDED = re.compile(rb'"added_tokens"\s*:\s*(?=\[)')
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]]')


class HfEngine:
    """A tokenizer.json.

    Args:
        data: the file's bytes. (As a str it would take four bytes a character: 45 MB for a common vocabulary.)
        where: the file, for error messages.
        protected: tokens that are made only where a template wrote them.
        extra: added tokens that tokenizer_config.json names and the file lacks.
        allow_special: recognise control tokens in any text.

    Raises:
        DataError: the file is no tokenizer that the library can load.
    """

    def __init__(
        self,
        data: bytes,
        where: str,
        *,
        protected: Collection[str] = (),
        extra: Sequence[AddedToken] = (),
        allow_special: bool = False,
    ) -> None:
        start, stop, added = _added_tokens(data, where)
        added += [_entry(token) for token in extra]
        names = {token: f"{_PRIVATE}{chr(_FIRST_NAME + place)}" for place, token in enumerate(sorted(protected))}
        renamed = [{**entry, "content": names[entry["content"]], "normalized": False, "single_word": False}
                   if entry["content"] in names else entry for entry in added]  # fmt: skip
        renamed.append(_entry(AddedToken(_BREAK, 1 + max((int(entry["id"]) for entry in added), default=0), False)))
        self._inner = _load(b"".join((data[:start], json.dumps(renamed).encode(), data[stop:])), where)
        self._inner.no_truncation()  # a file may carry both; either would cut or fill samples in silence
        self._inner.no_padding()
        self.prefix = _prefix(self._inner)
        # Offsets must not be trimmed: a token that begins with a space starts at the space.
        self._inner.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
        known = [entry["content"] for entry in added]
        self._cutter = ControlCutter(names, known, reserved=(_PRIVATE,), everywhere=allow_special)
        self._names = [names[token] for token in self._cutter.tokens]
        self._read_vocabulary(added, names)

    def _read_vocabulary(self, added: list[dict[str, Any]], names: dict[str, str]) -> None:
        """Tables over the inner tokenizer's ids: the true id, and the bytes that the id stands for."""
        inner = self._inner
        count = inner.get_vocab_size(with_added_tokens=True)
        vocabulary: list[str | None] = []
        found = 0
        while found < count and len(vocabulary) < 2 * count + 1024:  # ids may have holes
            token = inner.id_to_token(len(vocabulary))
            vocabulary.append(token)
            found += token is not None
        texts = {names.get(entry["content"], entry["content"]) for entry in added} | {_BREAK}
        self._true = np.arange(len(vocabulary), dtype=np.uint32)
        self._ids: dict[str, int] = {}
        in_vocabulary = []
        for entry in added:
            content, true = str(entry["content"]), int(entry["id"])
            inside = inner.token_to_id(names.get(content, content))
            self._true[inside] = true
            self._ids[content] = true
            if content in names and inside != true and true < len(vocabulary) and vocabulary[true] == content:
                in_vocabulary.append(true)  # the model itself might make it from text
        self._inside = {
            int(self._true[i]): i for i in np.flatnonzero(self._true != np.arange(len(vocabulary))).tolist()
        }
        self._from_text = np.array(in_vocabulary, np.uint32)
        self._break = inner.token_to_id(_BREAK)
        self.size = 1 + max(int(self._true[i]) for i, t in enumerate(vocabulary) if t is not None and i != self._break)
        self._bytes: NDArray[np.int64] | None = None
        self._nfc = False
        self._spaced = _is_spaced(inner)
        if _is_byte_level(inner):
            self._nfc = _normalizer(inner) == ["NFC"]
            self._bytes = np.array([_size(token, texts) for token in vocabulary], np.int64)

    def encode(self, batch: Sequence[Rendered]) -> EngineBatch:
        """Encode every text once; see Engine."""
        cuts = [self._cutter.cut(rendered) for rendered in batch]
        texts = [(rendered, segments) for rendered, (segments, _) in zip(batch, cuts, strict=True)]
        ids, lengths, codes = self._encode(texts, broken=False)
        if len(self._from_text) and len(ids):
            forged = np.isin(ids, self._from_text)
            if forged.any():
                samples = np.unique(np.repeat(np.arange(len(batch)), lengths)[forged])
                again = self._encode([texts[i] for i in samples.tolist()], broken=True)
                ids, lengths, codes = _replaced((ids, lengths, codes), samples, again)
        kept = ids != self._break
        if not kept.all():
            lengths = np.bincount(np.repeat(np.arange(len(batch)), lengths)[kept], minlength=len(batch))
            ids, codes = ids[kept], codes[kept]
        lookalikes = np.array([spelled for _, spelled in cuts], np.bool_)
        return EngineBatch(self._true[ids], lengths.astype(np.int64), codes, lookalikes)

    def _encode(self, batch: Sequence[tuple[Rendered, list[Segment]]], *, broken: bool) -> "_Arrays":
        """Inner ids, breaks included; `broken` puts a break inside every look-alike as well."""
        texts, changes = [], []
        for rendered, segments in batch:
            text, moved = self._private(rendered, segments, broken)
            texts.append(text)
            changes.append(moved)
        if self._bytes is None:
            return self._with_offsets(texts, changes)
        encodings = self._inner.encode_batch_fast(texts, add_special_tokens=False)
        ids, lengths = _flat([encoding.ids for encoding in encodings])
        sizes = self._bytes[ids]
        buffer = np.frombuffer("".join(texts).encode(), np.uint8)
        # Byte offset of every character of the batch; the changes' places, in characters, become bytes by look-up.
        characters = np.append(np.flatnonzero((buffer & 0xC0) != 0x80), len(buffer))
        text_stops = characters[np.cumsum([len(text) for text in texts], dtype=np.int64)]
        text_bytes = np.diff(text_stops, prepend=0)
        token_sums = np.bincount(np.repeat(np.arange(len(texts)), lengths), weights=sizes, minlength=len(texts))
        wrong = token_sums != text_bytes
        if self._nfc:
            wrong |= [not (t.isascii() or unicodedata.is_normalized("NFC", t)) for t in texts]
        # Starts are counted per text, so that a text whose bytes do not add up cannot shift its neighbours.
        ends = np.cumsum(sizes)
        stops = np.cumsum(lengths)
        before = (
            np.where(stops - lengths > 0, ends[stops - lengths - 1], 0) if len(ends) else np.zeros(len(texts), np.int64)
        )
        starts = ends - sizes - np.repeat(before - (text_stops - text_bytes), lengths)
        joined = _joined(changes, [len(text) for text in texts])
        joined[:, 0] = characters[joined[:, 0]]
        codes = mark(starts, starts + sizes, joined)
        if wrong.any():
            samples = np.flatnonzero(wrong)
            again = self._with_offsets([texts[i] for i in samples.tolist()], [changes[i] for i in samples.tolist()])
            return _replaced((ids, lengths, codes), samples, again)
        return ids, lengths, codes

    def _with_offsets(self, texts: list[str], changes: list[list[tuple[int, int]]]) -> "_Arrays":
        """Encode with the library's own character offsets."""
        encodings = self._inner.encode_batch(texts, add_special_tokens=False)
        ids, lengths = _flat([encoding.ids for encoding in encodings])
        begins = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64) - [len(text) + 1 for text in texts]
        offsets = [np.array(e.offsets, np.int64).reshape(-1, 2) + b for e, b in zip(encodings, begins, strict=True)]
        spans = np.concatenate([np.zeros((0, 2), np.int64), *offsets])
        joined = _joined(changes, [len(text) + 1 for text in texts])
        return ids, lengths, mark(spans[:, 0], spans[:, 1], joined)

    def _private(self, rendered: Rendered, segments: list[Segment], broken: bool) -> tuple[str, list[tuple[int, int]]]:
        """The text with private strings for control tokens, and its changes of the code moved along."""
        if len(segments) < 2 and (not segments or segments[0][2] == TEXT):
            return rendered.text, rendered.changes()
        parts, origins, places, length = [], [], [], 0
        for start, stop, kind in segments:
            part = rendered.text[start:stop] if kind < 0 else self._names[kind]
            around = _BREAK if kind == LOOKALIKE and not self._spaced else ""
            before = around
            if kind == LOOKALIKE:
                inside = _BREAK if broken and len(part) > 1 else ""
                part = part[0] + inside + part[1:] + around
            # A boundary at a segment's start moves in front of it; one inside keeps its distance from the start, but
            # stays within the segment.
            origins.append(start)
            places.append((length, length + len(before), kind))
            parts += [before, part]
            length += len(before) + len(part)
        origins.append(len(rendered.text))
        places.append((length, length, TEXT))
        moved = [(_moved(place, origins, places), change) for place, change in rendered.changes()]
        return "".join(parts), moved

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, control tokens included."""
        text = str(self._inner.decode([self._inside.get(int(i), int(i)) for i in ids], skip_special_tokens=False))
        for name, token in zip(self._names, self._cutter.tokens, strict=True):
            text = text.replace(name, token)
        return text

    def token_id(self, token: str) -> int | None:
        """The id of a token named by its text, or None."""
        if token in self._ids:
            return self._ids[token]
        inside = self._inner.token_to_id(token)
        return None if inside is None else int(self._true[inside])


_Arrays = tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint8]]


def read_added_tokens(data: bytes, where: str) -> list[AddedToken]:
    """The added tokens of a tokenizer.json, without parsing its vocabulary.

    Raises:
        DataError: the file does not look like a tokenizer.json.
    """
    _, _, added = _added_tokens(data, where)
    return [AddedToken(str(entry["content"]), int(entry["id"]), bool(entry.get("special"))) for entry in added]


def _added_tokens(data: bytes, where: str) -> tuple[int, int, list[dict[str, Any]]]:
    """Where the list of added tokens lies in the file, and the list."""
    for match in _ADDED.finditer(data):
        stop = _list_end(data, match.end())
        try:
            added = json.loads(data[match.end() : stop])
        except ValueError:
            continue
        if isinstance(added, list) and all(isinstance(e, dict) and "content" in e and "id" in e for e in added):
            return match.end(), stop, added
    raise DataError(
        f"`{where}` has no list of added tokens, so it is no tokenizer.json",
        hint="give the folder or file that `save_pretrained` wrote",
    )


def _list_end(data: bytes, start: int) -> int:
    """One past the bracket that closes the JSON list at `start`."""
    depth = 0
    for match in _STRUCTURE.finditer(data, start):
        depth += {b"[": 1, b"]": -1}.get(match.group(), 0)
        if not depth:
            return match.end()
    return len(data)


def _entry(token: AddedToken) -> dict[str, Any]:
    return {
        "id": token.id, "content": token.content, "special": token.special,
        "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
    }  # fmt: skip


def _load(data: bytes, where: str) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_buffer(data)
    except Exception as error:  # the library raises plain Exception
        raise DataError(f"`{where}` cannot be loaded by tokenizers {tokenizers.__version__}: {error}") from None


def _prefix(inner: tokenizers.Tokenizer) -> tuple[int, ...]:
    """Ids that the tokenizer's own post-processor puts in front of a text."""
    bare = inner.encode("a", add_special_tokens=False).ids
    framed = inner.encode("a", add_special_tokens=True).ids
    for at in range(len(framed) - len(bare) + 1):
        if framed[at : at + len(bare)] == bare:
            return tuple(framed[:at])
    return ()


def _state(part: Any) -> dict[str, Any]:
    """A tokenizer part's own JSON."""
    return {} if part is None else dict(json.loads(part.__getstate__()))


def _normalizer(inner: tokenizers.Tokenizer) -> list[str]:
    """Names of the normalizers, in order."""
    state = _state(inner.normalizer)
    parts = state.get("normalizers", [state] if state else [])
    return [str(part.get("type")) for part in parts]


def _is_byte_level(inner: tokenizers.Tokenizer) -> bool:
    """Whether every id stands for a fixed run of the text's own bytes (up to NFC, which is checked text by text)."""
    state = _state(inner.pre_tokenizer)
    parts = state.get("pretokenizers", [state])
    model = inner.model
    return (
        isinstance(model, tokenizers.models.BPE)
        and not model.byte_fallback
        and not model.continuing_subword_prefix
        and not model.end_of_word_suffix
        and any(part.get("type") == "ByteLevel" and not part.get("add_prefix_space") for part in parts)
        and _normalizer(inner) in ([], ["NFC"])
    )


def _is_spaced(inner: tokenizers.Tokenizer) -> bool:
    """Whether the tokenizer puts a space in front of every stretch of text: a break inside a text would add one."""
    state = _state(inner.pre_tokenizer)
    parts = state.get("pretokenizers", [state])
    return "Prepend" in _normalizer(inner) or any(part.get("type") == "Metaspace" for part in parts)


def _size(token: str | None, added: Collection[str]) -> int:
    """Bytes of text that a vocabulary entry stands for: one a character in the byte-level alphabet."""
    if token is None:
        return 0
    return len(token) if token not in added and _BYTE_LEVEL.issuperset(token) else len(token.encode())


def _flat(rows: list[list[int]]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    lengths = np.array([len(row) for row in rows], np.int64)
    ids = np.concatenate([np.array(row, np.uint32) for row in rows]) if rows else np.zeros(0, np.uint32)
    return ids, lengths


def _joined(changes: list[list[tuple[int, int]]], lengths: list[int]) -> NDArray[np.int64]:
    """Changes in each text as changes in the texts laid end to end, `lengths` apart."""
    begins = np.cumsum(lengths, dtype=np.int64) - lengths
    flat = np.array([pair for pairs in changes for pair in pairs], np.int64).reshape(-1, 2)
    flat[:, 0] += np.repeat(begins, [len(pairs) for pairs in changes])
    return flat


def _moved(at: int, origins: list[int], places: list[tuple[int, int, int]]) -> int:
    segment = bisect_right(origins, at) - 1
    begin, inside, kind = places[segment]
    if at == origins[segment] or kind >= 0:
        return begin
    return inside + at - origins[segment]


def _replaced(arrays: _Arrays, samples: NDArray[np.int64], others: _Arrays) -> _Arrays:
    """`arrays` with the given samples' tokens replaced by those of `others`."""
    ids, lengths, codes = arrays
    stops = np.cumsum(lengths)
    other_stops = np.cumsum(others[1])
    id_parts, code_parts, at = [], [], 0
    for place, sample in enumerate(samples.tolist()):
        begin, stop = int(stops[sample] - lengths[sample]), int(stops[sample])
        other = slice(int(other_stops[place] - others[1][place]), int(other_stops[place]))
        id_parts += [ids[at:begin], others[0][other]]
        code_parts += [codes[at:begin], others[2][other]]
        at = stop
    lengths = lengths.copy()
    lengths[samples] = others[1]
    return np.concatenate([*id_parts, ids[at:]]), lengths, np.concatenate([*code_parts, codes[at:]])
