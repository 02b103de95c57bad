"""Writes docs/special-tokens.md from what packtool itself says of real tokenizers; with `--check` only compares.

PACKTOOL_SHARED=... python tests/special_tokens.py [--check]
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packtool.job import settings_from
from packtool.job.prepare import Prepared, prepare
from packtool.render.chat import UNPROTECTED_MARKS
from packtool.tokenizer import make_engine

PAGE = Path(__file__).parent.parent / "docs" / "special-tokens.md"
# Folder or file below `tokenizers`, and what it has to be told.
TOKENIZERS = {
    "qwen3": {},
    "deepseek_v3": {},
    "mistral_sp/tokenizer.model.v1": {},
    "mistral_sp/mistral_instruct_tokenizer_240323.model.v3": {},
    "mon_unigram": {"eos": "</s>"},
    "minilm": {"eos": "[SEP]"},
}
HEAD = """# Special tokens

Text from records never makes a *protected* token: if a user writes one, its characters are encoded as text. Protected
are all added tokens that the tokenizer marks special, EOS, and the added tokens that the chat template writes around
turns, tools and their results. Marks of reasoning and tool calls are not: reasoning data needs them, so they match as
vocabulary in records too. `--allow-special` is for data that was rendered before. The manifest of a dataset holds the
set.

What this comes to for six tokenizers, by their own chat template where they have one; families of tokens that differ
in a number are one entry. (Written by `tests/special_tokens.py`.)

| tokenizer | library | BOS, EOS, pad | protected | matches as vocabulary |
|---|---|---|---|---|
"""


def families(tokens: Iterable[str]) -> str:
    """Tokens as code, those that differ in one number as one: `<unused{0..99}>`."""
    groups: dict[str, list[int]] = {}
    for token in sorted(tokens):
        match = re.search(r"\d+", token)
        shape = token if match is None else f"{token[: match.start()]}\0{token[match.end() :]}"
        groups.setdefault(shape, []).append(int(match.group()) if match else -1)
    shown = []
    for shape, numbers in groups.items():
        span = str(numbers[0]) if len(numbers) == 1 else f"{{{min(numbers)}..{max(numbers)}}}"
        shown.append("`" + shape.replace("\0", span).replace("|", "\\|") + "`")
    return " ".join(shown) or "none"


def prepared_with(path: Path, more: dict[str, str], folder: Path) -> Prepared:
    """A run's preparation with this tokenizer: over a conversation where it has a template, else over text."""
    (folder / "scratch").mkdir()
    config = path / "tokenizer_config.json"
    template = config.is_file() and "chat_template" in config.read_text()
    record = '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}'
    (folder / "a.jsonl").write_text(record if template else '{"text": "a"}')
    values = {"inputs": [str(folder / "a.jsonl")], "max_seq_len": 64, "tokenizer": str(path), **more}
    return prepare(settings_from(values), folder / "scratch", lambda text: None)


def row(tokenizers: Path, name: str, more: dict[str, str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        run = prepared_with(tokenizers / name, more, Path(folder))
        engine = make_engine(run.source)
        ends = ", ".join(
            f"`{engine.decode([i])}`".replace("|", "\\|") if i >= 0 else "none" for i in (run.bos, run.eos, run.pad)
        )
        added = {token.content for token in run.source.added_tokens}
        said = " ".join(f"(`--{key} {value}`)" for key, value in more.items())
        return (
            f"| `{name}` {said}".rstrip()
            + f" | {run.source.kind} | {ends} | {len(run.spec.protected)}: {families(run.spec.protected)} "
            f"| {families(added & UNPROTECTED_MARKS)} |\n"
        )


def page(tokenizers: Path) -> str:
    return HEAD + "".join(row(tokenizers, name, more) for name, more in TOKENIZERS.items())


if __name__ == "__main__":
    text = page(Path(os.environ["PACKTOOL_SHARED"]) / "tokenizers")
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text("utf-8") == text else f"{PAGE} is not what packtool says")
    PAGE.write_text(text, "utf-8")
