"""Shared by the tests of runs: input files, what was packed, and a tokenizer trained on the spot."""

import json
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

import packtool
from packtool.read import read_ledger

# Byte tokenizer: see docs/format.md. Written out once more so that a change of the ids is noticed.
PAD, BOS, EOS, START, END = 256, 257, 258, 259, 260

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "Packing puts several short samples into one row.",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "Le café était fermé, évidemment.",
    "快速的棕色狐狸跳过懒狗。",
    "def add(a, b):\n    return a + b\n",
    "Question: what is it? Answer: it is a test.",
    "one two three four five six seven eight nine ten",
]
# Text that tokenizers disagree about: composed and decomposed letters, emoji of several code points, odd spaces.
SAMPLES = [
    "Hello world",
    " leading and trailing ",
    "Ünïcödé: e\u0301 A\u030a (decomposed)",
    "👩‍👩‍👧‍👦 family, 🇩🇪 flag, 👍🏽 thumb",
    "日本語の文章とEnglishの混在。",
    "Привет, как дела?",
    "مرحبا بالعالم",
    "हिन्दी में एक वाक्य",
    "tabs\tand\n\nnew lines\r\n",
    "x = {'a': [1, 2, 3]}  # code",
    "ﬁ ligature, ½ and ① and ｆｕｌｌ width",
    "a\u00a0b\u200bc\u2028d",
]


def write_lines(path: Path, records) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf-8")
    return path


def pack(folder: Path, records, *, name: str = "data", **settings):
    """Pack records; the summary and the dataset's folder."""
    source = write_lines(folder / f"{name}.jsonl", records)
    out = folder / f"{name}.packed"
    settings = {"max_seq_len": 512, "tokenizer": "bytes", "workers": 1, "overwrite": True, **settings}
    return packtool.pack([source], out=out, **settings), out


def samples(out: Path) -> dict[int, tuple[list[int], list[int]]]:
    """record -> (ids, labels) of every record that lies in one piece."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for row in packtool.open_dataset(out, check="full"):
        start = 0
        for length, record in zip(row.seq_lens.tolist(), row.records.tolist(), strict=True):
            assert record not in found, "this helper is for records that are not cut"
            found[record] = (row.tokens[start : start + length].tolist(), row.labels[start : start + length].tolist())
            start += length
    return found


def packed(folder: Path, records, **settings) -> dict[int, tuple[list[int], list[int]]]:
    """record -> (ids, labels)."""
    return samples(pack(folder, records, **settings)[1])


def ledger_rows(out: Path) -> list[tuple[str, str, int, int, int]]:
    """(outcome, reason, tokens, lost, pieces) of every row."""
    from packtool.format import OUTCOMES, REASONS

    ledger = read_ledger(out / "ledger.parquet")
    return [
        (OUTCOMES[outcome], REASONS[reason], tokens, lost, pieces)
        for outcome, reason, tokens, lost, pieces in zip(
            *(getattr(ledger, name).tolist() for name in ("outcome", "reason", "tokens", "lost", "pieces")),
            strict=True,
        )
    ]


def tree(folder: Path, *, leave_out=("build.json",)) -> dict[str, bytes]:
    """Every file's bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in leave_out
    }


def tiny_bpe(
    folder: Path, *, normalizer: str = "", config: dict | None = None, adds_bos: bool = True
) -> tokenizers.Tokenizer:
    """A byte-level BPE trained on SENTENCES, saved as a Hugging Face folder; `config` None: a bare tokenizer.json."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = getattr(normalizers, normalizer)()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|begin|>", "<|end|>", "<|pad|>", "<|turn|>"],
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.add_tokens([AddedToken("<plain>", normalized=False)])
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A", special_tokens=[("<|begin|>", tokenizer.token_to_id("<|begin|>"))]
        )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer


TINY_CONFIG = {"bos_token": "<|begin|>", "eos_token": {"content": "<|end|>"}, "pad_token": "<|pad|>"}


def expected_labels(ids: list[int], trained: list[bool]) -> list[int]:
    """Labels from flags; the first token is never trained."""
    return [token if on and place else -100 for place, (token, on) in enumerate(zip(ids, trained, strict=True))]
