"""Everything of a dataset beside its shards: ledger, settings, tokenizer files, build notes, and the manifest last."""

import json
import platform
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import packtool
from packtool.format import LedgerColumns, Manifest, TokenizerEntry, content_digest, ledger_digest, manifest_json
from packtool.job.ledger import by_outcome, lost_by_reason
from packtool.job.prepare import Prepared
from packtool.job.reading import Read
from packtool.job.write import ShardDone
from packtool.plan import Layout, lower_bound
from packtool.storage import file_entries, sha256_text, write_atomic
from packtool.store import SegmentInfo
from packtool.tokenizer import source_sha256
from packtool.write import write_ledger

__all__ = ["finish", "vocab_size"]


def _spelled(name: str) -> str:
    """An input's name as a config may hold it: `-` alone is standard input, `~` somebody's home."""
    return f"./{name}" if name == "-" or name.startswith("~") else name


def vocab_size(prepared: Prepared, segments: Sequence[SegmentInfo]) -> int:
    """Largest id plus one: the tokenizer's, or what the ids themselves show."""
    if prepared.tokenizer_size is not None:
        return prepared.tokenizer_size
    return 1 + max(prepared.pad, *(info.largest for info in segments))


def finish(
    prepared: Prepared,
    read: Read,
    layout: Layout,
    ledger: LedgerColumns,
    done: list[ShardDone],
    folder: Path,
    seconds: dict[str, float],
) -> Manifest:
    """Everything beside the shards; the manifest last."""
    write_ledger(folder / "ledger.parquet", ledger)
    names = ["ledger.parquet", "settings.yaml"]
    if prepared.source is not None:
        shutil.copytree(prepared.tokenizer_folder, folder / "tokenizer")
        files = (path for path in (folder / "tokenizer").rglob("*") if path.is_file())
        names += sorted(path.relative_to(folder).as_posix() for path in files)
    shaping = prepared.shaping()
    plain = {**shaping, "inputs": [_spelled(entry.name) for entry in read.inputs]}
    if prepared.source is not None:
        plain["tokenizer"] = "tokenizer/"
    header = "# What shaped this dataset; `packtool pack --config settings.yaml --root DIR --out OUT` makes it again.\n"
    text = header + yaml.safe_dump(plain, sort_keys=True, allow_unicode=True, width=100)
    write_atomic(folder / "settings.yaml", text.encode())
    _write_build(folder, seconds)
    digest = content_digest(
        prepared.settings.max_seq_len, b"".join(item.digests for item in done), ledger_digest(ledger)
    )
    tokens = int(layout.length.sum())
    source = prepared.source
    template = source.chat_template if source is not None and prepared.spec.messages else None
    manifest = Manifest(
        max_seq_len=prepared.settings.max_seq_len,
        storage=prepared.settings.format,
        compression=prepared.settings.compression,
        packs=layout.num_packs,
        pieces=len(layout.sample),
        samples=len(np.unique(layout.sample)),
        records=int(ledger.count.sum()),
        tokens=tokens,
        trained=int(sum(item.targets.sum() for item in done)),
        max_pieces=int(np.diff(layout.pack_offsets()).max()),
        lower_bound=lower_bound(layout.length, prepared.settings.max_seq_len),
        lost=lost_by_reason(ledger),
        outcomes=by_outcome(ledger),
        reading="limit" if read.stopped else "all",
        settings=_canonical_settings(shaping),
        inputs=read.inputs,
        tokenizer=TokenizerEntry(
            kind="none" if source is None else source.kind,
            sha256="" if source is None else source_sha256(source),
            size=vocab_size(prepared, read.segments),
            bos=prepared.bos,
            eos=prepared.eos,
            pad=prepared.pad,
            template_sha256="" if template is None else sha256_text(template),
            protected=prepared.spec.protected,
        ),
        shards=tuple(item.entry for item in done),
        files=file_entries(folder, names),
        content_sha256=digest,
    )
    write_atomic(folder / "manifest.json", manifest_json(manifest))
    return manifest


def _canonical_settings(shaping: dict[str, Any]) -> dict[str, Any]:
    """Settings as the manifest has them: integers and strings; a template's arguments as JSON."""
    plain: dict[str, Any] = {
        name: ("yes" if value else "no") if isinstance(value, bool) else value for name, value in shaping.items()
    }
    if "template_args" in plain:
        arguments = plain["template_args"].items()
        plain["template_args"] = {name: json.dumps(value, sort_keys=True) for name, value in arguments}
    return plain


def _write_build(folder: Path, seconds: dict[str, float]) -> None:
    """What may differ between two runs that make the same dataset; nothing depends on this file."""
    libraries = ("numpy", "pyarrow", "tokenizers", "sentencepiece", "jinja2", "zstandard")
    body = {
        "packtool": packtool.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: version(name) for name in libraries},
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }
    write_atomic(folder / "build.json", (json.dumps(body, indent=2, sort_keys=True) + "\n").encode())
