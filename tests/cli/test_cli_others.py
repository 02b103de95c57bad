"""verify, show, ls, cp, --version, --help and no arguments: exit code, stdout and stderr, whole."""

import json

import numpy as np
import pytest
from cli_helpers import write_lines

import packtool

COMMANDS = ("pack", "verify", "show", "ls", "cp")


@pytest.fixture
def dataset(run, tmp_path):
    """Two packs: a chat and a cut text's beginning would be other kinds; here texts, one of them split."""
    write_lines(tmp_path / "a.jsonl", [{"text": "hello"}, {"text": "wörld of"}, {"text": "é"}])
    assert run("pack", "a.jsonl", "--max-seq-len", 8, "-q", "--no-shuffle").code == 0
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
    assert run("pack", "b.jsonl", "--max-seq-len", 4, "--overlong", "split", "--no-shuffle").code == 0
    ran = run("verify", "b.packed")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "note: 1 packs hold no trained token: 0\n"
        "ok: 2 packs, 1 records; files, packs, ledger and totals are as they should be\n"
    )
    write_lines(tmp_path / "c.jsonl", [{"input_ids": list(range(28)), "loss_mask": [0] * 26 + [1, 1]}])
    assert run("pack", "c.jsonl", "--max-seq-len", 4, "--overlong", "split", "--no-shuffle").code == 0
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
7 8[[9]]
---- 1 padding
"""
    )


def test_show_errors(run, dataset):
    for number in (3, -1):
        ran = run("show", "a.packed", "--pack", number)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == f"error: there is no pack {number}\n\nhint: the packs are 0 to 2\n"
    ran = run("show", "none")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "error: `[DIR]/none` does not exist\n\n"
        "hint: `packtool pack` writes the manifest last, when all the rest is there\n"
    )


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
  ffd
  greedy
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
    assert run("ls", "strategies").out == "ffd\ngreedy\n"
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
