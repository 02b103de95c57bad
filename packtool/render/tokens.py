"""Records that were tokenized already: ids, with labels or a mask, checked so that a shift or a mix-up cannot pass."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packtool.errors import RecordError
from packtool.render.columns import pick
from packtool.render.rendered import Tokenized

__all__ = ["LABELS", "MASKS", "read_tokens"]

_IGNORE = -100
# What data sets call the columns that say which tokens are trained.
LABELS = ("labels",)
MASKS = ("loss_mask", "completion_mask", "assistant_masks", "label_mask")


def read_tokens(record: Mapping[str, Any], columns: Mapping[str, str], size: int | None, train_on: str) -> Tokenized:
    """Ids and trained flags of one record.

    Args:
        record: the raw record.
        columns: field (`tokens`, `labels`, `mask`, `attention_mask`) -> column.
        size: ids of the vocabulary, or None where no tokenizer was named.
        train_on: `all` trains every token whatever labels and mask say.

    Raises:
        RecordError: a column is missing, has another length, or contradicts the ids.
    """
    name = columns.get("tokens", "input_ids")
    ids = _integers(record, name)
    if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= (size if size is not None else 2**31)):
        wrong = ids[(ids < 0) | (ids >= (size if size is not None else 2**31))][0]
        raise RecordError(
            f"column `{name}` holds the id {int(wrong)}, expected 0 to {(size or 2**31) - 1}",
            hint="name the tokenizer that made these ids with `--tokenizer`",
        )
    trained = np.ones(len(ids), np.bool_)
    if not len(ids):
        return Tokenized(ids, np.zeros(0, np.bool_))
    labels, mask = columns.get("labels"), columns.get("mask")
    if labels is None and mask is None:
        _check_unmasked(record)
    if labels is not None:
        trained = _from_labels(ids, _integers(record, labels, len(ids)), labels)
    elif mask is not None:
        flags = _integers(record, mask, len(ids))
        if not np.isin(flags, (0, 1)).all():
            raise RecordError(f"column `{mask}` holds {int(flags[~np.isin(flags, (0, 1))][0])}, expected 0 or 1")
        trained = flags == 1
    if train_on == "all":
        trained[:] = True
    attention = columns.get("attention_mask", "attention_mask")
    if pick(record, attention) is not None:
        kept = _integers(record, attention, len(ids)) != 0
        at = np.flatnonzero(kept)
        if len(at) and len(at) != at[-1] - at[0] + 1:
            raise RecordError(f"column `{attention}` has zeros between ones, so the record is no single sequence")
        ids, trained = ids[kept], trained[kept]  # padding at either end is no part of the sample
    return Tokenized(ids, trained)


def _check_unmasked(record: Mapping[str, Any]) -> None:
    """The first records have neither labels nor a mask, so all is trained: one that has them is no such record."""
    found = next((name for name in (*LABELS, *MASKS) if record.get(name) is not None), None)
    if found is not None:
        raise RecordError(
            f"the record has `{found}`, and the first records have nothing that says what is trained",
            hint=f"name it, `--columns {'labels' if found in LABELS else 'mask'}={found}`; then every record needs it",
        )


def _from_labels(ids: NDArray[np.int64], labels: NDArray[np.int64], column: str) -> NDArray[np.bool_]:
    trained: NDArray[np.bool_] = labels != _IGNORE
    wrong = np.flatnonzero(trained & (labels != ids))
    if not len(wrong):
        return trained
    at = int(wrong[0])
    targets = np.flatnonzero(trained[:-1])
    if len(targets) and (labels[targets] == ids[targets + 1]).all():
        raise RecordError(
            f"column `{column}` is shifted by one: label {at} is the id of token {at + 1}",
            hint="give unshifted labels (label i is token i or -100); the reader shifts on request",
        )
    raise RecordError(
        f"column `{column}` differs from the ids at {at}: label {int(labels[at])}, token {int(ids[at])}",
        hint="a label is the token's own id, or -100 where it is not trained",
    )


def _integers(record: Mapping[str, Any], column: str, length: int | None = None) -> NDArray[np.int64]:
    value = pick(record, column)
    if not isinstance(value, list):
        raise RecordError(f"column `{column}` is {_kind(value)}, expected a list of integers")
    try:
        found = np.array(value) if value else np.zeros(0, np.int64)
    except ValueError:  # lists of several lengths
        found = np.zeros((0, 0))
    # numpy's own choice of type: text, nulls, floats and integers beyond 64 bits give themselves away by it.
    if found.ndim != 1 or found.dtype.kind not in "ib":
        raise RecordError(f"column `{column}` is not a flat list of integers")
    array = found.astype(np.int64)
    if length is not None and len(array) != length:
        raise RecordError(f"column `{column}` has {len(array)} entries, expected one for each of {length} tokens")
    return array


def _kind(value: Any) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"
