"""The format without files: manifest bytes, canonical JSON, dtypes and digests, against hand-computed values."""

import dataclasses
import hashlib
import json
import struct
import sys

import numpy as np
import pytest

from packtool.errors import FormatError
from packtool.format import (
    COLUMNS,
    IGNORE_INDEX,
    LEDGER_COLUMNS,
    LEDGER_LISTS,
    FileEntry,
    InputEntry,
    LedgerColumns,
    Manifest,
    PackRows,
    ShardEntry,
    TokenizerEntry,
    canonical_json,
    column_dtypes,
    content_digest,
    ledger_digest,
    manifest_from_bytes,
    manifest_json,
    manifest_problems,
    pack_digests,
)
from packtool.format.canonical import parse_canonical
from packtool.format.rules import MANIFEST_KEYS, TOKENIZER_KEYS

SUM = "0123456789abcdef" * 4


def make_manifest(**changes):
    values = {
        "max_seq_len": 8,
        "storage": "npy",
        "compression": "none",
        "packs": 2,
        "pieces": 3,
        "samples": 3,
        "records": 5,
        "tokens": 12,
        "trained": 7,
        "max_pieces": 2,
        "lower_bound": 2,
        "lost": {"truncated": 4},
        "outcomes": {"packed": 3, "empty": 2},
        "reading": "all",
        "settings": {"kind": "text", "seed": 3, "columns": {"text": "bödy"}, "list": [1, "a"]},
        "inputs": (InputEntry("a.jsonl", 100, SUM, 5),),
        "tokenizer": TokenizerEntry("bytes", SUM, 261, -1, 258, 256, "", ("<eos>", "<pad>")),
        "shards": (ShardEntry("shard-00000", 2, 3, (FileEntry("shard-00000/tokens.npy", 160, SUM),)),),
        "files": (FileEntry("ledger.parquet", 900, SUM),),
        "content_sha256": SUM,
    }
    return Manifest(**{**values, **changes})


def refused(data):
    with pytest.raises(FormatError) as caught:
        manifest_from_bytes(data, "here/manifest.json")
    assert "`here/manifest.json`" in caught.value.message
    assert caught.value.hint
    return caught.value.message


# ------------------------------------------------------------------------------------------------------------ manifest


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"storage": "parquet"},
        {"storage": "parquet", "compression": "zstd"},
        {"lost": {}, "inputs": (), "files": (), "settings": {}},
        {"tokenizer": TokenizerEntry("none", "", 2**31, -1, -1, 0, SUM, ())},
        {"max_seq_len": 100_000, "lower_bound": 1},
    ],
)
def test_a_manifest_survives_its_bytes(changes):
    manifest = make_manifest(**changes)
    data = manifest_json(manifest)
    assert manifest_from_bytes(data, "x") == manifest
    assert manifest_json(manifest_from_bytes(data, "x")) == data


def test_the_bytes_are_what_the_specification_says():
    data = manifest_json(make_manifest())
    body = json.loads(data)
    assert data.decode("ascii") == json.dumps(body, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
    assert body["settings"]["columns"]["text"] == "bödy"
    assert (body["format"], body["format_version"]) == ("packtool", 1)
    assert body["columns"] == [
        {"name": "tokens", "dtype": "u2"},
        {"name": "labels", "dtype": "i4"},
        {"name": "input_pos", "dtype": "u2"},
        {"name": "seq_lens", "dtype": "i4"},
        {"name": "records", "dtype": "i8"},
    ]
    said = body.pop("manifest_sha256")
    text = json.dumps(body, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
    assert said == hashlib.sha256(text.encode()).hexdigest()
    assert manifest_problems({**body, "manifest_sha256": said}) == []


def test_equal_manifests_have_equal_bytes_whatever_the_order_of_their_keys():
    one = make_manifest(settings={"a": 1, "b": {"c": 2, "d": 3}}, lost={"split": 1, "truncated": 2})
    other = make_manifest(settings={"b": {"d": 3, "c": 2}, "a": 1}, lost={"truncated": 2, "split": 1})
    assert manifest_json(one) == manifest_json(other)


def test_keys_equal_the_dataclasses_fields():
    names = {field.name for field in dataclasses.fields(Manifest)}
    assert names | {"format", "format_version", "columns", "manifest_sha256"} == MANIFEST_KEYS
    assert {field.name for field in dataclasses.fields(TokenizerEntry)} == TOKENIZER_KEYS
    assert set(json.loads(manifest_json(make_manifest()))) == MANIFEST_KEYS


def test_every_other_way_to_write_the_same_manifest_is_refused():
    data = manifest_json(make_manifest())
    body = json.loads(data)
    shuffled = {key: body[key] for key in sorted(body, reverse=True)}
    for other in (
        json.dumps(body, sort_keys=True).encode() + b"\n",
        json.dumps(shuffled, indent=2).encode() + b"\n",
        json.dumps(body, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n",
        data.rstrip(b"\n"),
        data + b"\n",
        b" " + data,
        data.replace(b"\n", b"\r\n"),
        data.replace(b'"kind": "text"', b'"kind": "\\u0074ext"'),
    ):
        assert other != data
        assert "is not in canonical form" in refused(other)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not JSON that packtool writes"),
        (b"{", "is not JSON that packtool writes"),
        (b"\xff\xfe", "is not JSON that packtool writes"),
        (b"[]", "expected an object, got list"),
        (b"null", "expected an object, got NoneType"),
        (b'{"packs": 1.0}', "numbers are integers, got 1.0"),
        (b'{"packs": 1e3}', "numbers are integers, got 1e3"),
        (b'{"packs": NaN}', "numbers are integers, got NaN"),
        (b'{"packs": 1, "packs": 2}', "the key 'packs' is there twice"),
        (b'{"a": ' * 5000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON that packtool writes"),
        (b"{}", "has format version None; this packtool reads 1"),
        (b'{"format_version": 2}', "has format version 2; this packtool reads 1"),
        (b'{"format_version": "1"}', "has format version '1'; this packtool reads 1"),
        (b'{"format_version": true}', "has format version True; this packtool reads 1"),
    ],
)
def test_what_is_no_manifest_is_refused(data, words):
    assert words in refused(data)


def test_all_broken_rules_are_in_one_error():
    body = json.loads(manifest_json(make_manifest()))
    body["packs"], body["storage"] = 0, "zarr"
    message = refused(canonical_json(body))
    assert "\n  `packs`: expected an integer from 1 to 2**63 - 1, got 0" in message
    assert "\n  `storage`: expected one of 'npy', 'parquet', got 'zarr'" in message


def test_one_changed_byte_is_noticed():
    data = manifest_json(make_manifest())
    for at in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 0x01
        refused(bytes(damaged))


def test_no_depth_of_nesting_gets_past_the_errors():
    """Parser, rules and writer recurse; a manifest that one of them just manages must not break another."""
    text = manifest_json(make_manifest()).decode()
    limit, now = sys.getrecursionlimit(), 0
    frame = sys._getframe()
    while frame is not None:
        now, frame = now + 1, frame.f_back
    for depth in range(limit - now - 40, limit - now + 10):
        refused(text.replace('"seed": 3', f'"seed": {"[" * depth}3{"]" * depth}').encode())


# ------------------------------------------------------------------------------------------------------ canonical JSON


def test_canonical_json_by_hand():
    assert canonical_json({"b": [1, "é"], "a": {}}) == b'{\n  "a": {},\n  "b": [\n    1,\n    "\\u00e9"\n  ]\n}\n'


def test_canonical_json_parses_back():
    body = {"a": [1, -2, 2**70], "b": {"c": "\ud800 \u2028"}, "d": []}
    assert parse_canonical(canonical_json(body)) == body


# --------------------------------------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize(
    ("storage", "vocabulary", "max_seq_len", "tokens", "input_pos"),
    [
        ("npy", 65_536, 65_536, "<u2", "<u2"),
        ("npy", 65_537, 65_537, "<u4", "<u4"),
        ("npy", 1, 2, "<u2", "<u2"),
        ("parquet", 100, 100, "<u4", "<i4"),
        ("parquet", 10**6, 10**6, "<u4", "<i4"),
    ],
)
def test_column_dtypes(storage, vocabulary, max_seq_len, tokens, input_pos):
    dtypes = column_dtypes(storage, vocabulary, max_seq_len)
    assert tuple(dtypes) == COLUMNS == ("tokens", "labels", "input_pos", "seq_lens", "records")
    assert [dtypes[name].str for name in COLUMNS] == [tokens, "<i4", input_pos, "<i4", "<i8"]


def test_the_largest_values_fit_their_dtypes():
    dtypes = column_dtypes("npy", 65_536, 65_536)
    assert np.iinfo(dtypes["tokens"]).max == 65_535  # the largest id
    assert np.iinfo(dtypes["input_pos"]).max == 65_535  # the last slot
    assert IGNORE_INDEX == -100


# -------------------------------------------------------------------------------------------------------------- digests


def rows(tokens_dtype=np.uint16):
    """Two packs of four: [7 8 | 9 pad] and [1 2 3 4]."""
    return PackRows(
        tokens=np.array([[7, 8, 9, 0], [1, 2, 3, 4]], tokens_dtype),
        labels=np.array([[-100, 8, -100, -100], [-100, 2, 3, 4]], np.int32),
        input_pos=np.array([[0, 1, 0, 0], [0, 1, 2, 3]], np.uint16),
        seq_lens=np.array([2, 1, 4], np.int32),
        records=np.array([5, 2**40, 0], np.int64),
        seq_offsets=np.array([0, 2, 3], np.int64),
    )


PACK_DIGESTS = (
    hashlib.sha256(struct.pack("<4I4i2i2q", 7, 8, 9, 0, -100, 8, -100, -100, 2, 1, 5, 2**40)).digest()
    + hashlib.sha256(struct.pack("<4I4i1i1q", 1, 2, 3, 4, -100, 2, 3, 4, 4, 0)).digest()
)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int64, ">u4"])
def test_pack_digests_by_hand_whatever_the_stored_dtype(dtype):
    assert pack_digests(rows(dtype)) == PACK_DIGESTS


def test_pack_digests_of_runs_join():
    whole = rows()
    second = PackRows(
        whole.tokens[1:], whole.labels[1:], whole.input_pos[1:], whole.seq_lens[2:], whole.records[2:], np.array([0, 1])
    )
    assert pack_digests(second) == PACK_DIGESTS[32:]


def test_every_column_but_input_pos_is_in_a_pack_digest():
    for name in COLUMNS:
        changed = dataclasses.replace(rows(), **{name: getattr(rows(), name).copy()})
        getattr(changed, name).reshape(-1)[0] += 1
        assert (pack_digests(changed) == PACK_DIGESTS) == (name == "input_pos"), name


def ledger():
    """Two records: one in two places, one dropped."""
    return LedgerColumns(
        record=np.array([0, 1], np.int64),
        file=np.array([0, 0], np.int32),
        place=np.array([1, 2], np.int64),
        offset=np.array([0, 50], np.int64),
        count=np.array([1, 1], np.int64),
        outcome=np.array([0, 1], np.int8),
        reason=np.array([2, 4], np.int8),
        tokens=np.array([6, 3], np.int64),
        lost=np.array([0, 3], np.int64),
        pieces=np.array([2, 0], np.int64),
        packs=np.array([0, 1], np.int64),
        starts=np.array([0, 2], np.int32),
        sample_starts=np.array([0, 4], np.int64),
        lengths=np.array([4, 2], np.int32),
        details={},
    )


LEDGER_BYTES = (
    struct.pack("<2q2i2q2q2q", 0, 1, 0, 0, 1, 2, 0, 50, 1, 1)
    + struct.pack("<2b2b2q2q2q", 0, 1, 2, 4, 6, 3, 0, 3, 2, 0)
    + struct.pack("<2q2i2q2i", 0, 1, 0, 2, 0, 4, 4, 2)
)


def test_ledger_digest_by_hand():
    assert ledger_digest(ledger()) == hashlib.sha256(LEDGER_BYTES).digest()


def test_every_ledger_column_but_the_details_is_in_its_digest():
    expected = ledger_digest(ledger())
    for name in (*LEDGER_COLUMNS, *LEDGER_LISTS):
        changed = dataclasses.replace(ledger(), **{name: getattr(ledger(), name) + 1})
        assert ledger_digest(changed) != expected, name
    assert ledger_digest(dataclasses.replace(ledger(), details={1: "words"})) == expected


def test_content_digest_by_hand():
    ledger_bytes = hashlib.sha256(LEDGER_BYTES).digest()
    said = b"packtool content 1\n" + struct.pack("<q", 4) + PACK_DIGESTS + ledger_bytes
    assert content_digest(4, PACK_DIGESTS, ledger_bytes) == hashlib.sha256(said).hexdigest()


def test_ledger_columns_equal_the_dataclass():
    names = [field.name for field in dataclasses.fields(LedgerColumns)]
    assert names == [*LEDGER_COLUMNS, *LEDGER_LISTS, "details"]
    for name, dtype in {**LEDGER_COLUMNS, **LEDGER_LISTS}.items():
        assert getattr(ledger(), name).dtype == np.dtype(dtype), name
