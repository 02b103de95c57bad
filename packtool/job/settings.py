"""The settings of a run: one frozen dataclass, named like the CLI's flags, config files' keys and `pack()`'s keywords.

    defaults  <  config file (YAML or TOML)  <  flags

Settings that shape the data are recorded in the dataset (`settings.yaml`, manifest); those that only say how to run
(workers, out, overwrite) are not.
"""

import dataclasses
import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import yaml

from packtool.errors import UsageError
from packtool.format import COMPRESSIONS, STORAGES
from packtool.plan import OVERLONG, STRATEGIES
from packtool.render import KINDS, TRAIN_ON
from packtool.render.chat import RESERVED_ARGUMENTS
from packtool.sources import TEXT_BY

__all__ = ["Settings", "as_plain", "parse_limit", "parse_max_lost", "parse_size", "read_config", "settings_from"]

BOS = ("auto", "yes", "no")
TEMPLATE_TEXT = ("yes", "no")
ON_BAD = ("error", "skip")


@dataclass(frozen=True, slots=True)
class Settings:
    """What `packtool pack` is asked to do; see docs/cli.md for each.

    Attributes are named like the flags. Empty strings and None mean "not given".
    """

    inputs: tuple[str, ...] = ()
    max_seq_len: int = 0
    out: str = ""
    kind: str = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)
    text_by: str = "line"
    template: str = ""
    tokenizer: str = ""
    chat_template: str = ""
    template_args: Mapping[str, Any] = field(default_factory=dict)
    turn_end: str = ""
    date: str = ""
    eos: str = ""
    bos: str = "auto"
    pad_id: int | None = None
    allow_special: bool = False
    train_on: str = "completion"
    train_template_text: str = "yes"
    overlong: str = "auto"
    strategy: str = "mixed"
    split_across_packs: bool = False
    max_samples_per_pack: int | None = None
    pack_multiple: int | None = None
    balance_batch: int | None = None
    shuffle: bool = True
    seed: int = 0
    limit: str = ""
    max_packs: int | None = None
    shard_size: str = "1GiB"
    format: str = "npy"
    compression: str = "none"
    on_bad: str = "error"
    max_lost: str = ""
    strict: bool = False
    root: str = ""
    overwrite: bool = False
    workers: int | None = None


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "kind": ("auto", *KINDS),
    "text_by": TEXT_BY,
    "bos": BOS,
    "train_on": TRAIN_ON,
    "train_template_text": TEMPLATE_TEXT,
    "overlong": ("auto", *OVERLONG),
    "strategy": tuple(STRATEGIES),
    "format": STORAGES,
    "compression": COMPRESSIONS,
    "on_bad": ON_BAD,
}
_LEAST: Mapping[str, int] = {
    "max_seq_len": 2, "seed": 0, "max_packs": 1, "workers": 1, "pad_id": 0, "max_samples_per_pack": 1,
    "pack_multiple": 1, "balance_batch": 2,
}  # fmt: skip
_MOST: Mapping[str, int] = {"max_seq_len": 2**26, "seed": 2**63 - 1, "pad_id": 2**31 - 1, "workers": 4096}
_HINTS = get_type_hints(Settings)


def settings_from(values: Mapping[str, Any], *, packs: bool = True) -> Settings:
    """Settings from named values, checked.

    Args:
        values: by name; None is not given.
        packs: whether packs are to be made, so that their length must be known.

    Raises:
        UsageError: listing every name that is unknown and every value that is wrong.
    """
    problems = []
    given: dict[str, Any] = {}
    for name, value in values.items():
        key = name.replace("-", "_")
        if key not in _HINTS:
            near = difflib.get_close_matches(key, _HINTS, n=1)
            problems.append(f"`{name}` is no setting" + (f"; did you mean `{near[0]}`?" if near else ""))
            continue
        if value is None:  # not given
            continue
        try:
            given[key] = _typed(key, value)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise UsageError(
            "\n  ".join(problems) if len(problems) == 1 else "\n  ".join(["these settings are wrong:", *problems])
        )
    settings = Settings(**given)
    _check_together(settings, packs=packs)
    return settings


def _typed(name: str, value: Any) -> Any:
    """One value as its setting's type."""
    hint = _HINTS[name]
    if name == "inputs":
        items = [value] if isinstance(value, str | Path) else value
        if not isinstance(items, list | tuple):
            raise ValueError(f"`{name}`: expected a list of files, got {value!r}")
        return tuple(_plain_text(name, str(item)) for item in items)
    if name == "template_args":
        return _arguments(name, value)
    if get_origin(hint) is not None and get_origin(hint).__name__ == "Mapping":
        if not isinstance(value, Mapping):
            raise ValueError(f"`{name}`: expected a mapping of field to column, got {value!r}")
        return {str(key): str(column) for key, column in value.items()}
    if hint is bool:
        if not isinstance(value, bool):
            raise ValueError(f"`{name}`: expected true or false, got {value!r}")
        return value
    if hint is int or int in get_args(hint):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"`{name}`: expected an integer, got {value!r}")
        if value < _LEAST[name]:
            raise ValueError(f"`{name}`: expected at least {_LEAST[name]}, got {value}")
        if value > _MOST.get(name, value):
            raise ValueError(f"`{name}`: expected at most {_MOST[name]}, got {value}")
        return value
    if isinstance(value, bool) and "yes" in _CHOICES.get(name, ()):
        value = "yes" if value else "no"  # YAML reads a bare yes or no as a boolean
    if isinstance(value, bool | Mapping | list):
        raise ValueError(f"`{name}`: expected text, got {value!r}")
    if name == "date":
        return _moment(name, value)
    text = _plain_text(name, str(value))
    if name in _CHOICES and text not in _CHOICES[name]:
        raise ValueError(f"`{name}`: expected one of {', '.join(f'`{c}`' for c in _CHOICES[name])}, got `{text}`")
    return text


def _plain_text(name: str, text: str) -> str:
    """Text without NUL; only a path may hold bytes that are no UTF-8, in the form that Python gives them."""
    if "\0" in text or (name in ("eos", "template", "turn_end") and any("\ud800" <= c <= "\udfff" for c in text)):
        raise ValueError(f"`{name}`: expected UTF-8 text without NUL, got {text!r}")
    return text


def _moment(name: str, value: Any) -> str:
    """A day, or a moment of one, in ISO 8601; YAML and TOML read a bare one as a date."""
    text = value.isoformat() if isinstance(value, date) else str(value)
    try:
        if text and not re.fullmatch(r"[0-9-]{10}(T[0-9:]{8})?", text):
            raise ValueError
        datetime.fromisoformat(text or "2000-01-01")
    except ValueError:
        raise ValueError(f"`{name}`: expected YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS, got `{text}`") from None
    return text


def _arguments(name: str, value: Any) -> dict[str, Any]:
    """Variables for a chat template, as JSON has them."""
    if not isinstance(value, Mapping):
        raise ValueError(f"`{name}`: expected a mapping of name to value, got {value!r}")
    reserved = sorted(RESERVED_ARGUMENTS.intersection(value))
    if reserved:
        raise ValueError(f"`{name}`: `{reserved[0]}` cannot be set, it comes from the records and the run")
    unfit = [key for key in value if not (isinstance(key, str) and key.isidentifier())]
    if unfit:
        raise ValueError(f"`{name}`: expected names of template variables, got {unfit[0]!r}")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}`: expected values that JSON can hold: {error}") from None
    return plain


def _check_together(settings: Settings, *, packs: bool) -> None:
    """Rules between settings."""
    if not settings.inputs:
        raise UsageError("no input was given", hint="name files, folders, globs, or `-` for standard input")
    if packs and settings.max_seq_len == 0:
        raise UsageError("`max_seq_len` was not given", hint="say how long a pack is, for example `--max-seq-len 4096`")
    if settings.split_across_packs and settings.strategy != "greedy":
        raise UsageError(
            f"`--split-across-packs` needs `--strategy greedy`, got `{settings.strategy}`",
            hint="only packs that keep the order can go on where the last one ended",
        )
    if settings.split_across_packs and settings.overlong not in ("auto", "split"):
        raise UsageError(
            f"`--split-across-packs` cuts every long sample, so `--overlong {settings.overlong}` cannot hold"
        )
    if settings.train_template_text == "no" and settings.train_on == "all":
        raise UsageError(
            "`--train-on all` trains what the template wrote, and `--train-template-text no` does not",
            hint="leave one of them out",
        )
    if settings.split_across_packs and settings.max_samples_per_pack is not None:
        raise UsageError(
            "`--split-across-packs` fills every pack, so `--max-samples-per-pack` cannot hold",
        )
    if settings.balance_batch is not None and settings.strategy == "greedy":
        raise UsageError("`--balance-batch` reorders packs, and `--strategy greedy` keeps the order of the records")
    if settings.max_packs is not None and settings.max_packs % (settings.pack_multiple or 1):
        raise UsageError(
            f"`--max-packs {settings.max_packs}` is no multiple of `--pack-multiple {settings.pack_multiple}`"
        )
    if settings.compression != "none" and settings.format != "parquet":
        raise UsageError(f"`--compression {settings.compression}` needs `--format parquet`, got `{settings.format}`")
    parse_limit(settings.limit)
    if settings.max_lost:
        parse_max_lost(settings.max_lost)
    parse_size(settings.shard_size)


def parse_limit(text: str) -> tuple[int, float]:
    """`--limit N` or `P%` as (N or -1, share or 1.0).

    Raises:
        UsageError: it is neither.
    """
    if not text:
        return -1, 1.0
    if re.fullmatch(r"\d+", text) and int(text) > 0:
        return int(text), 1.0
    if re.fullmatch(r"\d+(\.\d+)?%", text) and 0 < float(text[:-1]) <= 100:
        return -1, float(text[:-1]) / 100
    raise UsageError(f"`limit`: expected a number of records such as 1000 or a share such as 5%, got `{text}`")


def parse_max_lost(text: str) -> Fraction:
    """`--max-lost P%` as a share, exactly.

    Raises:
        UsageError: it is no share.
    """
    if re.fullmatch(r"\d+(\.\d+)?%", text, re.ASCII) and Fraction(text[:-1]) <= 100:
        return Fraction(text[:-1]) / 100
    raise UsageError(f"`max_lost`: expected a share such as 1% or 0.5%, got `{text}`")


def parse_size(text: str) -> int:
    """Bytes of `512MiB`, `1GB` or `100000`.

    Raises:
        UsageError: it is no size, or less than a byte.
    """
    match = re.fullmatch(r"(\d+)\s*([KMGT]i?)?B?", text, re.IGNORECASE)
    if not match:
        raise UsageError(f"`shard_size`: expected a size such as 512MB or 1GiB, got `{text}`")
    unit = (match.group(2) or "").lower()
    base = 1024 if unit.endswith("i") else 1000
    size: int = int(match.group(1)) * base ** " kmgt".index(unit[:1] or " ")
    if size < 1:
        raise UsageError(f"`shard_size`: expected at least one byte, got `{text}`")
    return size


def read_config(path: Path) -> dict[str, Any]:
    """A config file's settings; relative paths in it are made relative to the file's folder.

    Raises:
        UsageError: the file cannot be read, or is no mapping of settings.
    """
    try:
        text = path.read_text("utf-8-sig")
        body = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"config `{path}` cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"config `{path}` cannot be parsed: {error}") from None
    if not isinstance(body, dict):
        raise UsageError(
            f"config `{path}` is no mapping of settings", hint="write `max_seq_len: 4096`, one setting a line"
        )
    values = {str(name).replace("-", "_"): value for name, value in body.items()}
    here = path.resolve().parent
    if isinstance(values.get("inputs"), str):
        values["inputs"] = [values["inputs"]]
    if isinstance(values.get("inputs"), list) and "root" not in values:
        values["root"] = str(here)
    for name in ("root", "out"):
        if isinstance(values.get(name), str) and values[name]:
            values[name] = str(here / Path(os.path.expanduser(values[name])))
    for name in ("tokenizer", "chat_template", "template"):
        value = values.get(name)
        if isinstance(value, str) and "\n" not in value and os.path.exists(here / value):
            values[name] = str(here / value)
    return values


def as_plain(settings: Settings) -> dict[str, Any]:
    """All settings by name, as JSON and YAML can hold them."""
    return {f.name: _plain(getattr(settings, f.name)) for f in dataclasses.fields(settings)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
