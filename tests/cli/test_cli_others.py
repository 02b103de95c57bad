"""verify, show, ls, cp, --version, --help and no arguments: exit code, stdout and stderr, whole."""

import json

import numpy as np
import pytest
from cli_helpers import write_lines

import packtool

COMMANDS = ("pack", "plan", "verify", "show", "ls", "cp")


@pytest.fixture
def dataset(run, tmp_path):
    """Two packs: a chat and a cut text's beginning would be other kinds; here texts, one of them split."""
    write_lines(tmp_path / "a.jsonl", [{"text": "hello"}, {"text": "wörld of"}, {"text": "é"}])
    assert run("pack", "a.jsonl", "--max-seq-len", 8, "-q", "--strategy", "ffd", "--no-shuffle").code == 0
    return tmp_path / "a.packed"


def test_version(run):
    ran = run("--version")
    assert (ran.code, ran.out, ran.err) == (0, "packtool [VERSION]\n", "")


def test_no_arguments(run):
    ran = run()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: packtool [OPTIONS] COMMAND [ARGS]...\n")
    assert "error:" not in ran.err
    help_text = run("--help")
    assert ran.err.rstrip() == help_text.out.rstrip()


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(run, flag):
    ran = run(flag)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: packtool [OPTIONS] COMMAND [ARGS]...\n")
    listed = [line.split()[0] for line in ran.out.partition("Commands:\n")[2].splitlines() if line.strip()]
    assert tuple(listed) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(run, name):
    ran = run(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: packtool {name} ")
    assert "\\b" not in ran.out
    assert "\b" not in ran.out
    assert "\x1b" not in ran.out
    assert not {"╭", "│", "╰"} & set(ran.out)
    assert ran.out == run(name, "-h").out


def test_help_of_pack_names_every_setting_and_keeps_its_examples(run):
    import dataclasses

    from packtool.job import Settings

    text = run("pack", "--help").out
    for field in dataclasses.fields(Settings):
        name = "--" + field.name.replace("_", "-")
        assert name in text or field.name == "inputs", name
    for name in ("--config", "--dry-run", "--json", "--quiet", "--no-shuffle"):
        assert name in text
    assert "    packtool pack dataset.jsonl --max-seq-len 4096\n" in text
    assert "-o out\n" in text


def test_verify(run, dataset):
    ran = run("verify", "a.packed")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "ok: 3 packs, 3 records; files, packs, ledger and totals are as they should be\n"
    ran = run("verify", "a.packed", "--quick")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "ok: 3 packs, 3 records; sizes, headers and offsets are as they should be\n"
    ran = run("verify", "a.packed", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {
        "packs": 3, "path": "a.packed", "problems": [], "records": 3, "without_target": []
    }  # fmt: skip


def test_verify_lists_packs_without_a_target(run, tmp_path):
    write_lines(tmp_path / "b.jsonl", [{"input_ids": list(range(8)), "loss_mask": [0] * 6 + [1, 1]}])
    assert (
        run("pack", "b.jsonl", "--max-seq-len", 4, "--overlong", "split", "--strategy", "ffd", "--no-shuffle").code == 0
    )
    ran = run("verify", "b.packed")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "note: 1 packs hold no trained token: 0\n"
        "ok: 2 packs, 1 records; files, packs, ledger and totals are as they should be\n"
    )
    write_lines(tmp_path / "c.jsonl", [{"input_ids": list(range(28)), "loss_mask": [0] * 26 + [1, 1]}])
    assert (
        run("pack", "c.jsonl", "--max-seq-len", 4, "--overlong", "split", "--strategy", "ffd", "--no-shuffle").code == 0
    )
    assert run("verify", "c.packed").out.startswith("note: 6 packs hold no trained token: 0, 1, 2, 3, 4, ...\n")


def test_verify_finds_what_is_damaged(run, dataset):
    path = dataset / "shard-00000" / "tokens.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    ran = run("verify", "a.packed")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("problem: `[DIR]/a.packed/shard-00000/tokens.npy` is damaged: its sha256 is ")
    assert run("verify", "a.packed", "--quick").code == 0  # sizes and headers are still right
    ran = run("verify", "a.packed", "--json")
    assert ran.code == 1
    assert len(json.loads(ran.out)["problems"]) == 1
    path.write_bytes(data[:-1])
    ran = run("verify", "a.packed", "--quick")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("problem: `[DIR]/a.packed/shard-00000/tokens.npy`: expected ")


def test_verify_what_is_no_dataset(run, tmp_path):
    ran = run("verify", "none")
    assert (ran.code, ran.out, ran.err) == (1, "problem: `[DIR]/none` does not exist\n", "")
    (tmp_path / "folder").mkdir()
    ran = run("verify", "folder")
    assert ran.code == 1
    assert ran.out == "problem: `[DIR]/folder` is not complete: it has no manifest.json\n"


def test_show(run, dataset):
    # wörld of<eos> has 10 bytes: 8 + 2; hello<eos> 6; é<eos> 3. Packs: [8], [6, 2], [3].
    ran = run("show", "a.packed")
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == """\
---- piece 0: record 1 (a.jsonl:2), slots 0..8, 8 tokens, 7 trained
w[[örld o]]
---- 0 padding
"""
    )
    ran = run("show", "a.packed", "--pack", 1)
    assert (
        ran.out
        == """\
---- piece 0: record 0 (a.jsonl:1), slots 0..6, 6 tokens, 5 trained
h[[ello<eos>]]
---- piece 1: record 1 (a.jsonl:2), slots 6..8, 2 tokens, 1 trained, cut: from token 8 of its sample
f[[<eos>]]
---- 0 padding
"""
    )
    assert run("show", "a.packed", "--pack", 2).out.endswith("---- 5 padding\n")


def test_show_of_a_chat(run, tmp_path):
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    write_lines(tmp_path / "c.jsonl", [{"messages": turns}])
    assert run("pack", "c.jsonl", "--max-seq-len", 64, "-q").code == 0
    ran = run("show", "c.packed")
    assert (ran.code, ran.err) == (0, "")
    # <|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n: 1+7+1+1 +1+10+2+1+1 = 25 tokens
    assert (
        ran.out
        == """\
---- piece 0: record 0 (c.jsonl:1), slots 0..25, 25 tokens, 3 trained
<|im_start|>user
hi<|im_end|>
<|im_start|>assistant
[[yo<|im_end|>]]

---- 39 padding
"""
    )


def test_show_of_ids_without_a_tokenizer(run, tmp_path):
    write_lines(tmp_path / "t.jsonl", [{"input_ids": [7, 8, 9], "loss_mask": [0, 0, 1]}])
    assert run("pack", "t.jsonl", "--max-seq-len", 4, "-q").code == 0
    ran = run("show", "t.packed")
    assert ran.code == 0
    assert (
        ran.out
        == """\
---- piece 0: record 0 (t.jsonl:1), slots 0..3, 3 tokens, 1 trained
7 8[[ 9]]
---- 1 padding
"""
    )


def test_show_errors(run, dataset):
    for number in (3, -1):
        ran = run("show", "a.packed", "--pack", number)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == f"error: there is no pack {number}\n\nhint: the packs are 0 to 2\n"
    ran = run("show", "none")
    assert (ran.code, ran.out, ran.err) == (2, "", "error: `none`: no such file or folder\n")
    ran = run("show")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: no input was given\n\nhint: name files, folders, globs, or `-` for standard input\n"
    for name in ("a.jsonl", "none"):
        ran = run("show", name, "--pack", 0)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == (
            f"error: `--pack` is for a packed dataset, and `{name}` is none: there is no manifest.json in it\n\n"
            "hint: `--take N` says how many records of an input to print\n"
        )
    ran = run("show", "--pack", 0)
    assert ran.code == 2
    assert ran.err.startswith("error: `--pack` is for a packed dataset, and none was named\n")
    (dataset / "manifest.json").write_text("{}")
    ran = run("show", "a.packed")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: `[DIR]/a.packed/manifest.json`")


@pytest.mark.parametrize(
    "flags",
    [
        ["--take", 2], ["--kind", "text"], ["--columns", "text=a"], ["--text-by", "line"], ["--template", "alpaca"],
        ["--tokenizer", "bytes"], ["--chat-template", "chatml"], ["--template-arg", "a=1"], ["--turn-end", "x"],
        ["--date", "2026-01-31"], ["--train-template-text", "no"], ["--eos", "<eos>"],
        ["--bos", "no"], ["--allow-special"], ["--train-on", "all"], ["--max-seq-len", 8], ["--overlong", "drop"],
        ["--config", "c.yaml"], ["--json"],
    ],
    ids=lambda flags: flags[0],
)  # fmt: skip
def test_show_of_a_dataset_takes_nothing_that_is_for_inputs(run, dataset, flags):
    ran = run("show", "a.packed", *flags)
    assert (ran.code, ran.out) == (2, "")
    name = {"--template-arg": "--template-args"}.get(flags[0], flags[0])
    assert ran.err == (
        f"error: `{name}` is for records that are not packed, and `a.packed` is a packed dataset\n\n"
        "hint: `--pack N` says which pack of it to print\n"
    )


def test_show_of_records(run, tmp_path):
    lines = ['{"prompt": "2+2=", "completion": "4"}', '{"prompt"', '{"prompt": "q", "completion": " "}',
             '{"prompt": "é", "completion": "\\ud83d\\u001b[31m"}', '{"prompt": "q", "completion": "a"}']  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    ran = run("show", "a.jsonl", "--tokenizer", "bytes", "--take", 4, "--max-seq-len", 8)
    assert (ran.code, ran.err) == (0, "note: kind `completion`: the records have `prompt`, `completion`\n")
    assert (
        ran.out
        == """\
---- a.jsonl, line 1: completion, 6 tokens, 2 trained
2+2=[[4<eos>]]
ids     50 43 50 61 52 258
labels  -100 -100 -100 -100 52 258
---- a.jsonl, line 2: completion, bad
error: not JSON: Expecting ':' delimiter at column 10
---- a.jsonl, line 3: completion, empty
nothing in it to train on
---- a.jsonl, line 4: completion, 11 tokens, 9 trained
é[[\ufffd\\x1b[31m<eos>]]
ids     195 169 239 191 189 27 91 51 49 109 258
labels  -100 -100 239 191 189 27 91 51 49 109 258
packing: longer than `max_seq_len` 8, so it is truncated: 3 tokens are lost
warning: lone surrogates became U+FFFD
"""
    )
    assert run("show", "a.jsonl", "--tokenizer", "bytes").out.count("----") == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_show_of_records_without_a_tokenizer_says_so(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "a"}])
    ran = run("show", "a.jsonl")
    assert "note: NO TOKENIZER WAS NAMED: " in ran.err
    assert ran.out.startswith("---- a.jsonl, line 1: text, 2 tokens, 1 trained\na[[<eos>]]\n")


def test_show_of_records_as_json(run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"prompt": "q", "completion": "a"}\n{"prompt": "\\u0007"}\n')
    ran = run("show", "a.jsonl", "--tokenizer", "bytes", "--json")
    good, bad = map(json.loads, ran.out.splitlines())
    assert good == {
        "origin": "a.jsonl, line 1", "kind": "completion", "outcome": "sample", "ids": [113, 97, 258],
        "labels": [-100, 97, 258], "parts": [[False, "q"], [True, "a<eos>"]], "warnings": [], "fate": "",
        "problem": "", "hint": "",
    }  # fmt: skip
    assert (bad["outcome"], bad["ids"]) == ("bad", [])
    assert bad["problem"] == "column `completion` is missing; the record's columns: `prompt`"


def test_show_of_what_a_config_packs(run, tmp_path):
    (tmp_path / "in").mkdir()
    for name in "ab":
        write_lines(tmp_path / "in" / f"{name}.jsonl", [{"question": "q", "answer": name}])
    (tmp_path / "in" / "c.yaml").write_text(
        "inputs: [a.jsonl]\nmax_seq_len: 2\nworkers: 1\ntokenizer: bytes\n"
        "columns: {prompt: question, completion: answer}\n"
    )
    ran = run("show", "--config", "in/c.yaml")
    assert ran.code == 0
    assert ran.out.startswith("---- a.jsonl, line 1: completion, 3 tokens, 2 trained\nq[[a<eos>]]\n")
    assert ran.out.endswith("packing: longer than `max_seq_len` 2, so it is truncated: 1 tokens are lost\n")
    ran = run("show", "in/b.jsonl", "--config", "in/c.yaml", "--max-seq-len", 3)
    assert ran.out.startswith("---- b.jsonl, line 1: completion, 3 tokens, 2 trained\nq[[b<eos>]]\n")
    assert "packing:" not in ran.out


def test_show_takes_the_options_of_pack(run):
    """What shapes a record must not be missing here when `pack` learns it."""
    from typer.main import get_command

    from packtool.cli.program import app

    options = {name: {p.name for p in get_command(app).commands[name].params} for name in ("pack", "show")}
    assert options["show"] - options["pack"] == {"what", "pack", "take"}
    assert options["pack"] - options["show"] == {
        "inputs", "out", "pad_id", "strategy", "split_across_packs", "max_samples_per_pack", "pack_multiple",
        "balance_batch", "shuffle", "seed", "limit", "max_packs", "shard_size", "format", "compression", "on_bad",
        "max_lost", "strict", "root", "overwrite", "workers", "dry_run", "quiet",
    }  # fmt: skip


@pytest.mark.parametrize("take", [0, -1, "x"])
def test_show_takes_at_least_one_record(run, tmp_path, take):
    ran = run("show", "a.jsonl", "--take", take)
    assert (ran.code, ran.out) == (2, "")
    assert "'--take'" in ran.err


def test_show_in_colour_on_a_terminal(run, tmp_path, monkeypatch):
    import sys

    write_lines(tmp_path / "a.jsonl", [{"text": "ab"}])
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ran = run("show", "a.jsonl", "--tokenizer", "bytes")
    assert "\na\x1b[32mb<eos>\x1b[0m\n" in ran.out
    assert "[[" not in ran.out


def test_ls(run):
    ran = run("ls")
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == """\
templates:
  alpaca.txt
  chatml.jinja
  gemma.jinja
  llama3.jinja
  mistral.jinja
  zephyr.jinja
strategies:
  mixed
  ffd
  bfd
  shuffle
  greedy
  none
kinds:
  text
  completion
  instruct
  chat
  tokens
configs:
  chat.jsonl
  chat.yaml
  instruct.jsonl
  instruct.yaml
"""
    )
    assert run("ls", "strategies").out == "mixed\nffd\nbfd\nshuffle\ngreedy\nnone\n"
    ran = run("ls", "models")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "error: there is no list `models`\n\nhint: the lists are templates, strategies, kinds, configs\n"
    )


def test_cp(run, tmp_path):
    ran = run("cp", "chatml.jinja", "mine.jinja")
    assert (ran.code, ran.out, ran.err) == (0, "", "copied chatml.jinja to mine.jinja\n")
    assert "<|im_start|>" in (tmp_path / "mine.jinja").read_text()
    ran = run("cp", "alpaca.txt", "mine.jinja")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "error: `mine.jinja` is there already\n\nhint: choose another name, or replace it with `--overwrite`\n"
    )
    assert run("cp", "alpaca.txt", "mine.jinja", "--overwrite").code == 0
    assert "### Instruction:" in (tmp_path / "mine.jinja").read_text()
    (tmp_path / "folder").mkdir()
    assert run("cp", "instruct.yaml", "folder").err == "copied instruct.yaml to folder/instruct.yaml\n"
    ran = run("cp", "nothing", "x")
    assert ran.code == 2
    assert ran.err == "error: there is nothing built in by the name `nothing`\n\nhint: `packtool ls` lists the names\n"
    ran = run("cp", "alpaca.txt", "no/where")
    assert ran.code == 2
    assert ran.err == "error: `no/where` cannot be written: No such file or directory\n"


def test_everything_that_ls_lists_can_be_copied_and_used(run, tmp_path):
    for name in (*run("ls", "templates").out.split(), *run("ls", "configs").out.split()):
        assert run("cp", name, ".").code == 0
    for name in ("chat", "instruct"):
        ran = run("pack", "--config", f"{name}.yaml", "-q")
        assert (ran.code, ran.err) == (0, "")
        assert run("verify", f"{name}.packed").code == 0
    # The copied templates are the built-in ones.
    for flags, config in (
        (["--template", "alpaca.txt"], "instruct.yaml"),
        (["--chat-template", "chatml.jinja"], "chat.yaml"),
    ):
        assert run("pack", "--config", config, "-q", "-o", "copied", "--overwrite", *flags).code == 0
        one = packtool.open_dataset(tmp_path / config.replace("yaml", "packed"))
        two = packtool.open_dataset(tmp_path / "copied")
        assert one.manifest.content_sha256 == two.manifest.content_sha256
        assert np.array_equal(one[0].tokens, two[0].tokens)
