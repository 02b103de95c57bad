"""The rules of a manifest, as one function that finds every broken one with its place. Reads no file."""

import hashlib
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from packtool.format.arrays import column_dtypes
from packtool.format.canonical import canonical_json
from packtool.format.ledger import OUTCOMES, REASONS

__all__ = ["COMPRESSIONS", "FORMAT_VERSION", "MANIFEST_KEYS", "STORAGES", "Problem", "manifest_problems"]

FORMAT_VERSION = 1
STORAGES = ("npy", "parquet")
COMPRESSIONS = ("none", "zstd")
TOKENIZER_KINDS = ("tokenizers", "sentencepiece", "bytes", "none")
MANIFEST_KEYS = frozenset(
    [
        "format",
        "format_version",
        "columns",
        "manifest_sha256",
        "max_seq_len",
        "storage",
        "compression",
        "packs",
        "pieces",
        "samples",
        "records",
        "tokens",
        "trained",
        "max_pieces",
        "lower_bound",
        "lost",
        "outcomes",
        "reading",
        "settings",
        "inputs",
        "tokenizer",
        "shards",
        "files",
        "content_sha256",
    ]
)
TOKENIZER_KEYS = frozenset(["kind", "sha256", "size", "bos", "eos", "pad", "template_sha256", "protected"])

SHA256 = re.compile(r"[0-9a-f]{64}")
# A relative POSIX path without `.` or `..` parts, backslashes, control characters or lone surrogates.
SAFE_PATH = re.compile(
    r"(?!\.{1,2}(/|$))[^/\\\x00-\x1f\ud800-\udfff]+(/(?!\.{1,2}(/|$))[^/\\\x00-\x1f\ud800-\udfff]+)*"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule: where in the manifest, and what was expected and found."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"`{self.where}`: {self.message}"


def manifest_problems(body: Mapping[str, Any]) -> list[Problem]:
    """Every way a parsed manifest breaks format version 1, except its canonical form. Reads no file."""
    problems: list[Problem] = []
    _keys(problems, "", body, MANIFEST_KEYS)
    if problems:
        return problems
    _one_of(problems, "format", body["format"], ("packtool",))
    if body["format_version"] != FORMAT_VERSION or type(body["format_version"]) is not int:
        problems.append(Problem("format_version", f"expected {FORMAT_VERSION}, got {body['format_version']!r}"))
    _one_of(problems, "storage", body["storage"], STORAGES)
    _one_of(problems, "compression", body["compression"], COMPRESSIONS)
    _one_of(problems, "reading", body["reading"], ("all", "limit"))
    if body["storage"] == "npy" and body["compression"] in COMPRESSIONS[1:]:
        problems.append(Problem("compression", f"expected 'none' for npy, got {body['compression']!r}"))
    _integer(problems, "max_seq_len", body["max_seq_len"], 2)
    for name in ("packs", "pieces", "samples", "max_pieces", "tokens", "lower_bound"):
        _integer(problems, name, body[name], 1)
    for name in ("records", "trained"):
        _integer(problems, name, body[name], 0)
    _counts(problems, "lost", body["lost"], REASONS[1:])
    _counts(problems, "outcomes", body["outcomes"], OUTCOMES)
    _settings(problems, "settings", body["settings"])
    for name in ("content_sha256", "manifest_sha256"):
        _sha256(problems, name, body[name])
    _inputs(problems, body["inputs"])
    _tokenizer(problems, body["tokenizer"])
    _files(problems, "files", body["files"])
    _shards(problems, body["shards"])
    if not problems:  # what follows compares fields, so it needs them all well formed
        _sums(problems, body)
    return problems


def _keys(problems: list[Problem], where: str, value: Any, expected: Set[str]) -> bool:
    if not isinstance(value, Mapping):
        problems.append(Problem(where or "manifest", f"expected an object, got {type(value).__name__}"))
        return False
    prefix = f"{where}." if where else ""
    problems += [Problem(prefix + name, "missing") for name in sorted(expected - set(value))]
    problems += [Problem(prefix + name, "unknown key") for name in sorted(set(value) - expected)]
    return set(value) == expected


def _one_of(problems: list[Problem], where: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        problems.append(Problem(where, f"expected one of {', '.join(map(repr, allowed))}, got {value!r}"))


def _integer(problems: list[Problem], where: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        problems.append(Problem(where, f"expected an integer from {least} to 2**63 - 1, got {value!r}"))


def _string(problems: list[Problem], where: str, value: Any) -> None:
    if not isinstance(value, str):
        problems.append(Problem(where, f"expected a string, got {value!r}"))


def _sha256(problems: list[Problem], where: str, value: Any, also: tuple[str, ...] = ()) -> None:
    if value not in also and not (isinstance(value, str) and SHA256.fullmatch(value)):
        problems.append(Problem(where, f"expected 64 hexadecimal digits, got {value!r}"))


def _path(problems: list[Problem], where: str, value: Any) -> None:
    if not (isinstance(value, str) and SAFE_PATH.fullmatch(value)):
        problems.append(Problem(where, f"expected a relative path below the dataset, got {value!r}"))


def _counts(problems: list[Problem], where: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, Mapping):
        problems.append(Problem(where, f"expected an object of counts, got {value!r}"))
        return
    for name, count in value.items():
        if name not in known:
            problems.append(Problem(f"{where}.{name}", f"unknown key; the names are {', '.join(known)}"))
        else:
            _integer(problems, f"{where}.{name}", count, 0)


def _settings(problems: list[Problem], where: str, value: Any) -> None:
    """Settings are integers, strings, and lists and objects of them."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            _settings(problems, f"{where}.{name}", item)
    elif where == "settings":
        problems.append(Problem(where, f"expected an object, got {value!r}"))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _settings(problems, f"{where}[{i}]", item)
    elif not isinstance(value, int | str) or isinstance(value, bool):
        problems.append(Problem(where, f"expected an integer or a string, got {value!r}"))


def _list(problems: list[Problem], where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        problems.append(Problem(where, f"expected a list, got {value!r}"))
        return []
    return value


def _files(problems: list[Problem], where: str, value: Any) -> None:
    for i, entry in enumerate(_list(problems, where, value)):
        here = f"{where}[{i}]"
        if _keys(problems, here, entry, {"path", "size", "sha256"}):
            _path(problems, f"{here}.path", entry["path"])
            _integer(problems, f"{here}.size", entry["size"], 0)
            _sha256(problems, f"{here}.sha256", entry["sha256"])


def _inputs(problems: list[Problem], value: Any) -> None:
    for i, entry in enumerate(_list(problems, "inputs", value)):
        here = f"inputs[{i}]"
        if _keys(problems, here, entry, {"name", "size", "sha256", "records"}):
            _string(problems, f"{here}.name", entry["name"])
            _integer(problems, f"{here}.size", entry["size"], 0)
            _sha256(problems, f"{here}.sha256", entry["sha256"], also=("unread",))
            _integer(problems, f"{here}.records", entry["records"], 0)


def _tokenizer(problems: list[Problem], value: Any) -> None:
    if not _keys(problems, "tokenizer", value, TOKENIZER_KEYS):
        return
    _one_of(problems, "tokenizer.kind", value["kind"], TOKENIZER_KINDS)
    _sha256(problems, "tokenizer.sha256", value["sha256"], also=("",))
    _sha256(problems, "tokenizer.template_sha256", value["template_sha256"], also=("",))
    _integer(problems, "tokenizer.size", value["size"], 1)
    for name in ("bos", "eos", "pad"):
        _integer(problems, f"tokenizer.{name}", value[name], -1)
    protected = _list(problems, "tokenizer.protected", value["protected"])
    for i, token in enumerate(protected):
        _string(problems, f"tokenizer.protected[{i}]", token)


def _shards(problems: list[Problem], value: Any) -> None:
    for i, entry in enumerate(_list(problems, "shards", value)):
        here = f"shards[{i}]"
        if _keys(problems, here, entry, {"name", "packs", "pieces", "files"}):
            _path(problems, f"{here}.name", entry["name"])
            _integer(problems, f"{here}.packs", entry["packs"], 1)
            _integer(
                problems, f"{here}.pieces", entry["pieces"], entry["packs"] if isinstance(entry["packs"], int) else 1
            )
            _files(problems, f"{here}.files", entry["files"])


def _sums(problems: list[Problem], body: Mapping[str, Any]) -> None:
    """Rules that tie fields together."""
    dtypes = column_dtypes(body["storage"], body["tokenizer"]["size"], body["max_seq_len"])
    columns = [{"name": name, "dtype": dtype.str.lstrip("<|")} for name, dtype in dtypes.items()]
    shards = body["shards"]
    paths = [file["path"] for file in body["files"]] + [file["path"] for shard in shards for file in shard["files"]]
    tokens, length = body["tokens"], body["max_seq_len"]
    without = {key: value for key, value in body.items() if key != "manifest_sha256"}
    digest = hashlib.sha256(canonical_json(without)).hexdigest()
    rules = [
        ("columns", columns, body["columns"], "what storage, vocabulary and max_seq_len ask for"),
        ("packs", sum(shard["packs"] for shard in shards), body["packs"], "the sum over shards"),
        ("pieces", sum(shard["pieces"] for shard in shards), body["pieces"], "the sum over shards"),
        ("records", sum(body["outcomes"].values()), body["records"], "the sum over outcomes"),
        ("lower_bound", -(-tokens // length), body["lower_bound"], "ceil(tokens / max_seq_len)"),
        ("files", len(paths), len(set(paths)), "every path once"),
        ("manifest_sha256", digest, body["manifest_sha256"], "the sum of the rest: the file was changed"),
    ]
    problems += [
        Problem(where, f"expected {expected!r}, {why}; got {got!r}")
        for where, expected, got, why in rules
        if got != expected
    ]
    if tokens > body["packs"] * length:
        problems.append(Problem("tokens", f"{tokens} tokens do not fit into {body['packs']} packs of {length}"))
    if body["trained"] > tokens:
        problems.append(Problem("trained", f"{body['trained']} of {tokens} tokens"))
    if body["max_pieces"] > min(body["pieces"], length):
        problems.append(Problem("max_pieces", f"{body['max_pieces']} is more than the pieces or slots there are"))
    for name in ("bos", "eos", "pad"):
        if body["tokenizer"][name] >= body["tokenizer"]["size"]:
            problems.append(Problem(f"tokenizer.{name}", f"{body['tokenizer'][name]} is outside the vocabulary"))
