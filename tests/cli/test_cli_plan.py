"""`packtool plan`: exit code, stdout and stderr, whole."""

import json
import re

import pytest
from cli_helpers import write_lines

TEXTS = [{"text": "hello"}, {"text": ""}, {"text": "wörld of text"}]
NOTES = """\
  mixture: part of the variance of log length between packs; truncated, dropped: samples (tokens lost)
  npy, parquet: bytes of the shards, uncompressed; time: reading, tokenizing and planning with 1 worker, without writing
"""
# 6 and 15 tokens: one pack of 21; cut to 8 and 6, two packs of 8; sizes as in tests/job/test_job_forecast.py.
TABLE = (
    """\
all 3 records of 58 B were tokenized: the counts are exact
  1 records are empty
  max_seq_len  strategy  packs  over bound     fill  mixture  truncated    npy  parquet  steps    time
            8  mixed         2       0.00%   87.50%   100.0%      1 (7)  168 B    312 B      1  [TIME]
            8  none          2       0.00%   87.50%   100.0%      1 (7)  168 B    312 B      1  [TIME]
           21  mixed         1       0.00%  100.00%     0.0%             200 B    324 B      1  [TIME]
           21  none          2     100.00%   50.00%   100.0%             376 B    624 B      1  [TIME]
"""
    + NOTES
)
FLAGS = ("--tokenizer", "bytes", "--kind", "text", "--workers", 1)


def lines(text):
    """Lines with runs of blanks as one: the width of the times is theirs."""
    return [re.sub(r" +", " ", re.sub(r"\d+\.\d s$", "[TIME]", line)) for line in text.splitlines()]


def test_table(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", TEXTS)
    arguments = ("--max-seq-len", "8,21", "--strategy", "mixed, none", "--batch", 2, "--overlong", "truncate")
    ran = run("plan", "a.jsonl", *FLAGS, *arguments)
    assert (ran.code, lines(ran.out), ran.err) == (0, lines(TABLE), "")
    heads, *rows = ran.out.splitlines()[2:7]
    assert len({len(row) for row in (heads, *rows)}) == 1  # right-aligned
    assert list(tmp_path.iterdir()) == [tmp_path / "a.jsonl"]


def test_a_sample_says_what_it_was_drawn_from(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "hello"}] * 40)
    ran = run("plan", "a.jsonl", *FLAGS, "--max-seq-len", 12, "--sample", 5)
    assert (
        ran.out.splitlines()[0] == "from 5 of 40 records (12.50%; 720 B of input): extrapolated to all, "
        "tokens within 0.0% (95 of 100 times)"
    )
    assert lines(ran.out)[2].startswith(" 12 mixed 20 0.00% 100.00% 0.0% ")


def test_a_choice_with_nothing_left(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", TEXTS[2:])
    ran = run("plan", "a.jsonl", *FLAGS, "--max-seq-len", "8,16", "--overlong", "drop")
    assert lines(ran.out)[2] == " 8 mixed 0 - 0.00% 0.0% 1 (15) 0 B 0 B [TIME]"
    assert "  8 mixed: nothing is left to pack" in ran.out.splitlines()


def test_json_and_config(run, tmp_path):
    write_lines(tmp_path / "a.jsonl", TEXTS)
    (tmp_path / "pack.yaml").write_text(
        "inputs: a.jsonl\nmax_seq_len: [8, 16]\nstrategy: ffd\ntokenizer: bytes\nout: x\nworkers: 1\nshard_size: 1MB\n"
    )
    ran = run("plan", "--config", "pack.yaml", "--json", "-q")
    found = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert [(c["max_seq_len"], c["strategy"], c["packs"]) for c in found["choices"]] == [(8, "ffd", 3), (16, "ffd", 2)]
    found = json.loads(run("plan", "--config", "pack.yaml", "--max-seq-len", 32, "--json").out)
    assert [choice["max_seq_len"] for choice in found["choices"]] == [32]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "`max_seq_len` was not given"),
        (("--max-seq-len", "2k"), "`max_seq_len`: expected an integer, got '2k'"),
        (("--max-seq-len", "8,"), "`max_seq_len`: expected an integer, got ''"),
        (("--max-seq-len", "8,1"), "`max_seq_len`: expected at least 2, got 1"),
        (("--max-seq-len", "8,16,8"), "`max_seq_len`: `8` is named twice"),
        (("--max-seq-len", "8,08"), "`max_seq_len`: `8` is named twice"),
        (("--max-seq-len", 8, "--strategy", "ffd,best"), "`strategy`: expected one of `mixed`, `ffd`, `bfd`, "
         "`shuffle`, `greedy`, `none`, got `best`"),
        (("--max-seq-len", 8, "--strategy", "greedy,ffd", "--split-across-packs"),
         "`--split-across-packs` needs `--strategy greedy`, got `ffd`"),
    ],
)  # fmt: skip
def test_errors(run, tmp_path, arguments, message):
    write_lines(tmp_path / "a.jsonl", TEXTS)
    ran = run("plan", "a.jsonl", *FLAGS, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[0] == f"error: {message}"


@pytest.mark.parametrize(("seconds", "text"), [(0.04, "0.0 s"), (99.4, "99.4 s"), (5930, "99 min"), (7200, "2.0 h")])
def test_durations(seconds, text):
    from packtool.cli.plan import _duration

    assert _duration(seconds) == text
