"""`packtool pack`: exit code, stdout and stderr, whole."""

import io
import json
import sys

import pytest
from cli_helpers import write_lines

from packtool.errors import UsageError

TEXTS = [{"text": "hello"}, {"text": ""}, {"text": "wörld of text"}]
KIND = "note: kind `text`: the records have `text`\n"
BYTES = "note: NO TOKENIZER WAS NAMED: packing with the built-in byte tokenizer, one token a byte (`--tokenizer`)\n"
# hello<eos> is 6 tokens; wörld of text<eos> is 15, so 8 + 7: packs of 8 and 7 + ... = 8, 7, 6 tokens.
SUMMARY = """\
3 records -> 2 samples -> 3 packs of 8
  fill       87.50% (21 tokens, 3 padding; 0.00% over the bound of 3 packs)
  trained    85.71% of the tokens; 5 / 6 / 7 targets a pack (min / median / max)
  by role    text 21 tokens, 90.48% trained
  a pack     1 / 1 / 1 samples (min / median / max)
  packed     1 records split over several pieces
  empty      1 records; ledger.parquet lists them
  cuts       1 targets lost: nothing comes before a piece's first token
  written    [DIR]/a.packed ([SIZE]) in [TIME]
"""


def test_summary(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", TEXTS)
    ran = run("pack", "a.jsonl", "--max-seq-len", 8)
    assert (ran.code, ran.out, ran.err) == (0, SUMMARY, KIND + BYTES)


def test_quiet(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", TEXTS)
    ran = run("pack", "a.jsonl", "--max-seq-len", 8, "--quiet")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "a.packed" / "manifest.json").is_file()


def test_quiet_does_not_silence_errors(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", TEXTS)
    ran = run("pack", "a.jsonl", "-q")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "error: `max_seq_len` was not given\n\nhint: say how long a pack is, for example `--max-seq-len 4096`\n"
    )


def test_dry_run(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", TEXTS)
    ran = run("pack", "a.jsonl", "--max-seq-len", 8, "--dry-run", "--tokenizer", "bytes", "--kind", "text")
    assert ran.code == 0
    assert ran.err == ""
    assert (
        ran.out
        == """\
3 records -> 2 samples -> 3 packs of 8
  fill       87.50% (21 tokens, 3 padding; 0.00% over the bound of 3 packs)
  by role    text 21 tokens, 90.48% trained
  a pack     1 / 1 / 1 samples (min / median / max)
  packed     1 records split over several pieces
  empty      1 records; ledger.parquet lists them
  dry run: nothing was written
"""
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


JSON_KEYS = {
    "content_sha256", "cut_targets", "fill", "kind", "lost", "lower_bound", "max_seq_len", "out", "outcomes", "packs",
    "packing_bound", "packs_without_target", "padding", "pieces", "reasons", "records", "roles", "samples",
    "samples_per_pack", "seconds", "size", "squares_per_pack", "targets_per_pack", "tokens", "trained",
    "trained_share", "variance_share", "warnings", "why",
}  # fmt: skip


def test_json(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", TEXTS)
    ran = run("pack", "a.jsonl", "--max-seq-len", 8, "--json", "--tokenizer", "bytes")
    assert (ran.code, ran.err) == (0, KIND)
    assert ran.out.count("\n") == 1
    body = json.loads(ran.out)
    assert set(body) == JSON_KEYS
    seconds = body.pop("seconds")
    assert set(seconds) == {"prepare", "tokenize", "plan", "write"}
    manifest = json.loads((tmp_path / "a.packed" / "manifest.json").read_text())
    assert body.pop("content_sha256") == manifest["content_sha256"]
    assert body.pop("size") == sum(path.stat().st_size for path in (tmp_path / "a.packed").rglob("*") if path.is_file())
    assert body == {
        "cut_targets": 1, "fill": 0.875, "kind": "text", "lost": {}, "lower_bound": 3, "max_seq_len": 8,
        "packing_bound": 3, "squares_per_pack": [36, 49, 64], "variance_share": 1.0,
        "out": "[DIR]/a.packed", "outcomes": {"empty": 1, "packed": 2}, "packs": 3, "packs_without_target": 0,
        "padding": 3, "pieces": 3, "reasons": {"packed/split": 1}, "records": 3, "samples": 2,
        "roles": {"text": [21, 19]}, "samples_per_pack": [1, 1.0, 1.0, 1], "targets_per_pack": [5, 6, 7],
        "tokens": 21, "trained": 18, "trained_share": 18 / 21, "warnings": {}, "why": "the records have `text`",
    }  # fmt: skip


def test_json_and_quiet_and_dry_run(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", TEXTS)
    ran = run("pack", "a.jsonl", "--max-seq-len", 8, "--json", "--quiet", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    body = json.loads(ran.out)
    assert set(body) == JSON_KEYS
    assert body["roles"] == {"text": [21, 19]}
    assert (body["out"], body["trained"], body["size"], body["content_sha256"]) == ("", None, 0, "")


def test_everything_the_summary_can_say(run, tmp_path):
    """Two samples a pack, truncated, dropped, bad, left out, packs without a target, warnings."""
    lines = [
        '{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}',
        '{"input_ids": [5, 6, 7], "labels": [5, 6, 7]}',
        '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9], "labels": [1, 2, 3, 4, 5, 6, 7, 8, 9]}',  # one too many
        '{"input_ids": [1, 2], "labels": [-100, -100]}',
        '{"input_ids": [1, 2], "labels": [2, 3]}',  # shifted
        "{broken",
        '{"input_ids": []}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    ran = run("pack", "a.jsonl", "--max-seq-len", 8, "--on-bad", "skip", "--max-packs", 1, "--no-shuffle")
    assert ran.err == "note: kind `tokens`: the records have `input_ids`, `labels`\n"
    assert ran.code == 0
    assert (
        ran.out
        == """\
7 records -> 1 samples -> 1 packs of 8
  fill       100.00% (8 tokens, 0 padding; 0.00% over the bound of 1 packs)
  trained    87.50% of the tokens; 7 / 7 / 7 targets a pack (min / median / max)
  by role    ids 18 tokens, 72.22% trained
  a pack     1 / 1 / 1 samples (min / median / max)
  packed     1 records cut at the pack's length, 1 tokens lost
  dropped    1 records without a trained token, 2 tokens lost
  left_out   2 records in packs beyond `--max-packs`, 7 tokens lost
  empty      1 records; ledger.parquet lists them
  bad        2 records; ledger.parquet lists them
  warning    samples cut at the pack's length: 1 records, first at a.jsonl, line 3
  written    [DIR]/a.packed ([SIZE]) in [TIME]
"""
    )


def test_advice_packs_without_target_and_warnings(run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a\\ud83d"}\n{"text": "bc"}\n{"text": "de"}\n')
    ran = run("pack", "a.jsonl", "--max-seq-len", 16, "--tokenizer", "bytes", "--kind", "text", "--limit", "3")
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == """\
3 records -> 3 samples -> 1 packs of 16
  fill       68.75% (11 tokens, 5 padding; 0.00% over the bound of 1 packs)
  trained    72.73% of the tokens; 8 / 8 / 8 targets a pack (min / median / max)
  by role    text 11 tokens, 72.73% trained
  a pack     3 / 3 / 3 samples (min / median / max)
  mixture    0.0% of the variance of log length lies between packs (random order: about 33.3%)
  training   a pack has 3.0 samples on average: divide the batch size by it to keep a step's tokens;
             at the old batch size an epoch has 3.0 times fewer, larger steps
  warning    lone surrogates became U+FFFD: 1 records, first at a.jsonl, line 1
  written    [DIR]/a.packed ([SIZE]) in [TIME]
"""
    )
    write_lines(tmp_path / "b.jsonl", [{"input_ids": list(range(8)), "loss_mask": [0] * 6 + [1, 1]}])
    ran = run("pack", "b.jsonl", "--max-seq-len", 4, "--overlong", "split")
    assert "  no target  1 packs hold no trained token; `packtool verify` lists them\n" in ran.out
    write_lines(tmp_path / "c.jsonl", [{"text": "abcdef"}, {"text": "ab"}])
    ran = run("pack", "c.jsonl", "--max-seq-len", 4, "--overlong", "drop", "--limit", "2")
    assert "  dropped    1 records longer than a pack, 7 tokens lost\n" in ran.out
    write_lines(tmp_path / "d.jsonl", [{"text": "ab"}] * 100)
    ran = run("pack", "d.jsonl", "--max-seq-len", 4, "--limit", "50%", "--json")
    left = json.loads(ran.out)["outcomes"]["left_out"]
    ran = run("pack", "d.jsonl", "--max-seq-len", 4, "--limit", "50%", "--overwrite")
    assert f"  left_out   {left} records not drawn by `--limit`\n" in ran.out


def test_notice_for_text_files(run, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    ran = run("pack", "a.txt", "--max-seq-len", 8, "--tokenizer", "bytes")
    assert ran.err == (
        KIND + "note: text files: every line is a record (`--text-by paragraph` or `file` for larger ones)\n"
    )
    assert ran.code == 0
    assert run("pack", "a.txt", "--max-seq-len", 8, "--tokenizer", "bytes", "--text-by", "file", "-o", "b").err == KIND


def test_stdin(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "ab"}\n')))
    ran = run("pack", "-", "--max-seq-len", 8, "-o", "out")
    assert (ran.code, ran.err) == (0, KIND + BYTES)
    assert ran.out.startswith("1 records -> 1 samples -> 1 packs of 8\n")


# arguments after `pack` -> exit code, stderr; the folder holds good.jsonl, bad.jsonl, empty.jsonl and both.jsonl
ERRORS = {
    "no input": ([], 2, "no input was given", "name files, folders, globs, or `-` for standard input"),
    "no length": (
        ["good.jsonl"], 2, "`max_seq_len` was not given", "say how long a pack is, for example `--max-seq-len 4096`",
    ),
    "no file": (["none.jsonl", "--max-seq-len", 8], 2, "`none.jsonl`: no such file or folder", ""),
    "unknown flag value": (
        ["good.jsonl", "--max-seq-len", 8, "--strategy", "best"], 2,
        "`strategy`: expected one of `mixed`, `ffd`, `bfd`, `shuffle`, `greedy`, `none`, got `best`", "",
    ),
    "columns": (
        ["good.jsonl", "--max-seq-len", 8, "--columns", "text"], 2, "`--columns text`: expected field=column",
        "for example `--columns prompt=question,completion=answer`",
    ),
    "glob without a name": (
        ["*.jsonl", "--max-seq-len", 8], 2, "the glob `*.jsonl` has no name to call the dataset by",
        "name it: `--out DIR`",
    ),
    "stdin without a name": (
        ["-", "--max-seq-len", 8], 2, "standard input has no name to call the dataset by", "name it: `--out DIR`",
    ),
    "there already": (
        ["good.jsonl", "--max-seq-len", 8, "-o", "there"], 2, "`[DIR]/there` is there already",
        "choose another `--out`, or replace it with `--overwrite`",
    ),
    "not ours": (
        ["good.jsonl", "--max-seq-len", 8, "-o", "there", "--overwrite"], 2,
        "`[DIR]/there` is no packed dataset, so `--overwrite` does not replace it",
        "move it away yourself, or choose another `--out`",
    ),
    "no tokenizer": (
        ["good.jsonl", "--max-seq-len", 8, "--tokenizer", "./none", "--kind", "text"], 2,
        "there is no tokenizer `./none`",
        "give a folder with tokenizer.json, a tokenizer.json, a SentencePiece .model, a hub name, or `bytes`",
    ),
    "two kinds": (
        ["both.jsonl", "--max-seq-len", 8], 2,
        "these records could be `text` or `completion` (columns: `text`, `prompt`, `completion`)",
        "say which: `--kind text` or `--kind completion`",
    ),
    "config": (
        ["--config", "none.yaml"], 2, "config `none.yaml` cannot be read: No such file or directory", "",
    ),
    "bad record": (
        ["bad.jsonl", "--max-seq-len", 8, "--kind", "text", "--tokenizer", "bytes"], 1,
        "`[DIR]/bad.jsonl`, line 2: column `text` is of type int, expected text",
        "mend the record, or pass over such records with `--on-bad skip`, which counts and lists them",
    ),
    "blank file": (
        ["empty.jsonl", "--max-seq-len", 8, "--kind", "text", "--tokenizer", "bytes"], 1,
        "`empty.jsonl` has only blank lines", "leave it out, or write its records again",
    ),
    "too long": (
        ["good.jsonl", "--max-seq-len", 4, "--kind", "text", "--tokenizer", "bytes", "--overlong", "error"], 1,
        "`[DIR]/good.jsonl`, line 1: the sample has 6 tokens, more than `max_seq_len` 4",
        "choose what to do with such samples: `--overlong truncate`, `drop` or `split`",
    ),
    "nothing left": (
        ["good.jsonl", "--max-seq-len", 4, "--kind", "text", "--tokenizer", "bytes", "--overlong", "drop"], 1,
        "nothing is left to pack: of 1 records, 1 are too long",
        "`--overlong`, `--kind`, `--columns` and `--train-on` decide what is kept",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(run, tmp_path, name):
    arguments, code, message, hint = ERRORS[name]
    write_lines(tmp_path / "good.jsonl", [{"text": "hello"}])
    write_lines(tmp_path / "bad.jsonl", [{"text": "hello"}, {"text": 5}])
    write_lines(tmp_path / "both.jsonl", [{"text": "a", "prompt": "b", "completion": "c"}])
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "thesis.txt").write_text("years of work")
    before = sorted(path.name for path in tmp_path.iterdir())
    ran = run("pack", *arguments)
    assert ran.out == ""
    assert ran.err == f"error: {message}\n" + (f"\nhint: {hint}\n" if hint else "")
    assert ran.code == code
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# What typer itself refuses: its words differ between releases, ours around them do not.
USAGE = {
    "unknown option": (["pack", "--colour", "x"], "No such option", "--colour", "packtool pack"),
    "not a number": (["pack", "a", "--max-seq-len", "x"], "--max-seq-len", "x", "packtool pack"),
    "no value": (["pack", "a", "--max-seq-len"], "--max-seq-len", "requires an argument", "packtool pack"),
    "unknown command": (["unpack"], "No such command", "unpack", "packtool"),
    "missing argument": (["verify"], "Missing argument", "", "packtool verify"),
    "too many": (["verify", "a", "b"], "unexpected extra argument", "b", "packtool verify"),
}


@pytest.mark.parametrize("name", USAGE)
def test_usage_errors(run, name):
    arguments, one, two, command = USAGE[name]
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    first, blank, hint = ran.err.splitlines()
    assert first.startswith("error: ")
    assert one in first
    assert two in first or name == "not a number"
    assert not first.endswith(".")
    # Where the parser gives up before it knows the command, some releases name the program only.
    named = ("packtool", command) if name == "no value" else (command,)
    assert (blank, hint) in [("", f"hint: `{one} --help` lists what it takes") for one in named]


def test_columns_by_commas_and_repeated(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"i": "a", "x": "", "o": "b"}])
    ran = run(
        "pack", "a.jsonl", "--max-seq-len", 512, "--tokenizer", "bytes", "--columns", "instruction=i, input = x",
        "--columns", "output=o", "--json",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "note: kind `instruct`: as the fields of `--columns` say\n")
    manifest = json.loads((tmp_path / "a.packed" / "manifest.json").read_text())
    assert manifest["settings"]["columns"] == {"input": "x", "instruction": "i", "output": "o"}


def test_an_unforeseen_error(run, tmp_path, monkeypatch):
    def broken(*arguments, **options):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(sys.modules["packtool.job.run"], "make_ledger", broken)
    write_lines(tmp_path / "a.jsonl", TEXTS)
    ran = run("pack", "a.jsonl", "--max-seq-len", 8, "-q")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("Traceback (most recent call last):\n")
    assert ran.err.endswith(
        "error: unforeseen: ZeroDivisionError: division by zero\n\n"
        "hint: this is a defect of packtool; please report it with the lines above\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_worker_that_dies(run, tmp_path, monkeypatch):
    import functools

    from cli_helpers import die

    from packtool.sources import BlockSplitter

    write_lines(tmp_path / "a.jsonl", TEXTS)
    monkeypatch.setattr("packtool.job.reading.BlockSplitter", functools.partial(BlockSplitter, block_bytes=10))
    monkeypatch.setattr("packtool.job.reading.tokenize_block", die)
    ran = run("pack", "a.jsonl", "--max-seq-len", 8, "-q", "--workers", 2)
    assert (ran.code, ran.out) == (3, "")
    first, _, hint = ran.err.splitlines()
    assert first.startswith("error: a worker process died twice (exit code 9) on `[DIR]/a.jsonl` from record place ")
    assert hint == "hint: it may have run out of memory (exit code -9 usually means that): use fewer `--workers`"
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_interrupted_and_terminated_in_process(run, tmp_path, monkeypatch):
    """What the exceptions become; test_cli_process.py sends the signals."""
    from packtool.cli import _Terminated

    write_lines(tmp_path / "a.jsonl", TEXTS)
    for kind, code, word in ((KeyboardInterrupt, 130, "interrupted"), (_Terminated, 143, "terminated")):

        def broken(*arguments, kind=kind):
            raise kind

        monkeypatch.setattr(sys.modules["packtool.job.run"], "plan_packs", broken)
        ran = run("pack", "a.jsonl", "--max-seq-len", 8, "-q")
        assert (ran.code, ran.out, ran.err.lstrip("\n")) == (code, "", f"error: {word}; nothing was changed\n")
        assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_template_arguments_are_json_or_text():
    from packtool.cli.options import read_arguments

    assert read_arguments(None) is None
    assert read_arguments(["a=false", "b=1", "c=no", 'd={"x": [1]}', "e=", 'f="2"', "g=x=y"]) == {
        "a": False, "b": 1, "c": "no", "d": {"x": [1]}, "e": "", "f": "2", "g": "x=y",
    }  # fmt: skip
    for wrong in ("a", "=1"):
        with pytest.raises(UsageError, match=f"^`--template-arg {wrong}`: expected name=value$"):
            read_arguments([wrong])
