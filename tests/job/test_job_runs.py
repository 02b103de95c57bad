"""What becomes of every record: the ledger, the counts, and where things are written."""

import io
import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
import zstandard
from job_helpers import EOS, ledger_rows, pack, samples, tiny_bpe, tree, write_lines
from tokenizers import models, pre_tokenizers

import packtool
from packtool.errors import DataError, UsageError
from packtool.inspect import verify
from packtool.job import run, settings_from
from packtool.read import read_ledger

N = -100


def texts(*sizes):
    """Texts that become samples of these sizes: n - 1 letters and EOS."""
    return [{"text": "abcdefghijklmnop"[: size - 1]} for size in sizes]


# Four records of 4, 10, 3 and 9 tokens, packs of 4.
OVERLONG = {
    "truncate": (
        [("packed", "", 4, 0, 1), ("packed", "truncated", 10, 6, 1), ("packed", "", 3, 0, 1),
         ("packed", "truncated", 9, 5, 1)],
        {"packed/truncated": 2}, {"truncated": 11}, 15,
    ),
    "drop": (
        [("packed", "", 4, 0, 1), ("dropped", "too_long", 10, 10, 0), ("packed", "", 3, 0, 1),
         ("dropped", "too_long", 9, 9, 0)],
        {"dropped/too_long": 2}, {"too_long": 19}, 7,
    ),
    "split": (
        [("packed", "", 4, 0, 1), ("packed", "split", 10, 0, 3), ("packed", "", 3, 0, 1), ("packed", "split", 9, 0, 3)],
        {"packed/split": 2}, {}, 26,
    ),
}  # fmt: skip


@pytest.mark.parametrize("policy", OVERLONG)
def test_overlong_in_ledger_and_summary(tmp_path, policy):
    rows, reasons, lost, tokens = OVERLONG[policy]
    summary, out = pack(tmp_path, texts(4, 10, 3, 9), overlong=policy, max_seq_len=4)
    assert ledger_rows(out) == rows
    assert (summary.reasons, summary.lost, summary.tokens) == (reasons, lost, tokens)
    assert summary.records == 4
    assert verify(out).problems == []


def test_plain_text_splits_and_everything_else_truncates(tmp_path):
    assert pack(tmp_path, texts(10), max_seq_len=4)[0].reasons == {"packed/split": 1}
    record = {"prompt": "ab", "completion": "cdefgh"}
    assert pack(tmp_path, [record], max_seq_len=4)[0].reasons == {"packed/truncated": 1}
    summary, _ = pack(tmp_path, [record], max_seq_len=4, strategy="greedy", split_across_packs=True)
    assert summary.reasons == {"packed/split": 1}


def test_cut_samples_carry_no_invented_eos_and_their_lost_targets_are_counted(tmp_path):
    summary, out = pack(tmp_path, texts(10), max_seq_len=4, shuffle=False)
    rows = sorted(row.tokens.tolist() for row in packtool.open_dataset(out))
    assert rows == [[97, 98, 99, 100], [101, 102, 103, 104], [105, EOS, 256, 256]]
    labels = {tuple(row.labels.tolist()) for row in packtool.open_dataset(out)}
    assert labels == {(N, 98, 99, 100), (N, 102, 103, 104), (N, EOS, N, N)}
    assert (summary.cut_targets, summary.trained) == (2, 7)


def test_truncation_that_leaves_no_target_drops_the_sample(tmp_path):
    records = [{"prompt": "abcd", "completion": "e"}, {"prompt": "abc", "completion": "e"}]
    summary, out = pack(tmp_path, records, max_seq_len=4)
    assert ledger_rows(out) == [("dropped", "no_target", 6, 6, 0), ("packed", "truncated", 5, 1, 1)]
    assert summary.lost == {"truncated": 1, "no_target": 6}


def test_records_without_a_trained_token_are_dropped(tmp_path):
    records = [{"input_ids": [1, 2], "labels": [N, N]}, {"input_ids": [1, 2], "labels": [1, 2]}, {"input_ids": []},
               {"input_ids": [7], "labels": [7]}]  # fmt: skip
    summary, out = pack(tmp_path, records)
    assert ledger_rows(out) == [
        ("dropped", "no_target", 2, 2, 0), ("packed", "", 2, 0, 1), ("empty", "", 0, 0, 0),
        ("dropped", "no_target", 1, 1, 0),
    ]  # fmt: skip
    assert summary.outcomes == {"packed": 1, "dropped": 2, "empty": 1}


def test_empty_records_of_every_kind(tmp_path):
    cases = {
        "text": ({"text": " \n"}, {"text": "ab"}),
        "completion": ({"prompt": "a", "completion": ""}, {"prompt": "a", "completion": "b"}),
        "instruct": ({"instruction": "a", "output": " "}, {"instruction": "a", "output": "b"}),
        "chat": ({"messages": []}, {"messages": [{"role": "user", "content": "a"},
                                                 {"role": "assistant", "content": "b"}]}),
        "tokens": ({"input_ids": []}, {"input_ids": [1, 2]}),
    }  # fmt: skip
    for kind, (empty, full) in cases.items():
        summary, out = pack(tmp_path, [empty, full, empty], kind=kind)
        assert summary.outcomes == {"packed": 1, "empty": 2}, kind
        assert [row[0] for row in ledger_rows(out)] == ["empty", "packed", "empty"], kind


def test_on_bad_skip_counts_and_lists_all(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "ab"}\n{"text": 5}\n{broken\n\n{"text": "cd"}\n')
    out = tmp_path / "out"
    with pytest.raises(DataError, match=r"a\.jsonl`, line 2: column `text` is of type int"):
        packtool.pack([tmp_path / "a.jsonl"], out=out, max_seq_len=8, tokenizer="bytes")
    summary = packtool.pack([tmp_path / "a.jsonl"], out=out, max_seq_len=8, tokenizer="bytes", on_bad="skip")
    assert summary.outcomes == {"packed": 2, "bad": 2}
    ledger = read_ledger(out / "ledger.parquet")
    assert ledger.place.tolist() == [1, 2, 3, 5]
    assert ledger.offset.tolist() == [0, 15, 27, 36]
    assert set(ledger.details) == {1, 2}
    assert ledger.details[1] == "column `text` is of type int, expected text"
    assert ledger.details[2].startswith("not JSON: ")
    assert sorted(samples(out)) == [0, 3]


def test_limit_n_stops_reading(tmp_path):
    records = [*texts(3, 4, 5), {"text": 5}, "broken"]
    summary, out = pack(tmp_path, records, limit=3)
    assert (summary.records, summary.outcomes) == (3, {"packed": 3})
    manifest = packtool.open_dataset(out).manifest
    assert manifest.reading == "limit"
    assert (manifest.inputs[0].sha256, manifest.inputs[0].records) == ("unread", 3)
    assert len(ledger_rows(out)) == 3
    with pytest.raises(DataError, match="line 4"):
        pack(tmp_path, records, limit=4)
    whole, out = pack(tmp_path, texts(3, 4), limit=100)
    assert whole.records == 2
    assert packtool.open_dataset(out).manifest.reading == "all"
    assert len(packtool.open_dataset(out).manifest.inputs[0].sha256) == 64


def test_limit_n_over_several_files(tmp_path):
    for name in "abc":
        write_lines(tmp_path / f"{name}.jsonl", texts(3, 4, 5))
    out = tmp_path / "out"
    packtool.pack(
        [tmp_path / f"{name}.jsonl" for name in "abc"], out=out, max_seq_len=8, tokenizer="bytes", limit=4, workers=2
    )
    inputs = packtool.open_dataset(out).manifest.inputs
    assert [(entry.name, entry.records) for entry in inputs] == [("a.jsonl", 3), ("b.jsonl", 1), ("c.jsonl", 0)]
    assert [len(entry.sha256) for entry in inputs] == [64, len("unread"), len("unread")]
    assert read_ledger(out / "ledger.parquet").file.tolist() == [0, 0, 0, 1]


def test_warnings_beyond_the_limit_are_not_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a\\ud800"}\n' * 5)
    for limit, count in ((2, 2), ("", 5)):
        summary = packtool.pack(
            [tmp_path / "a.jsonl"], out=tmp_path / "o", max_seq_len=8, tokenizer="bytes", limit=limit, overwrite=True
        )
        assert summary.warnings == {
            "lone surrogates became U+FFFD": [count, "a.jsonl, line 1"],
            "the same tokens as an earlier record": [count - 1, "a.jsonl, line 2"],
        }


def test_a_vocabulary_is_not_grown_by_records_beyond_the_limit(tmp_path):
    records = [{"input_ids": [1, 2]}, {"input_ids": [70_000, 70_001]}]
    _, out = pack(tmp_path, records, tokenizer="", limit=1)
    assert packtool.open_dataset(out).manifest.tokenizer.size == 3


def test_limit_share_is_a_seeded_draw(tmp_path):
    records = [{"text": f"text number {number}"} for number in range(4000)]
    seen = {}
    for seed in (0, 1):
        summary, out = pack(tmp_path, records, limit="25%", seed=seed, max_seq_len=64)
        ledger = read_ledger(out / "ledger.parquet")
        drawn = ledger.place[ledger.record >= 0].tolist()
        # 4000 draws of probability 1/4: 1000 expected, a standard deviation of 27.4.
        assert 1000 - 5 * 27.4 < len(drawn) < 1000 + 5 * 27.4
        assert summary.records == 4000
        assert summary.outcomes == {"packed": len(drawn), "left_out": 4000 - len(drawn)}
        assert summary.reasons == {"left_out/limit": 4000 - len(drawn)}
        assert ledger.record.tolist() == [*range(len(drawn)), -1]
        assert ledger.count.tolist() == [1] * len(drawn) + [4000 - len(drawn)]
        assert packtool.open_dataset(out).manifest.reading == "limit"
        assert packtool.open_dataset(out).manifest.inputs[0].records == 4000
        assert drawn == sorted(set(drawn))
        # No pattern: of neighbouring records both are drawn one time in 16.
        together = len(set(drawn) & {place + 1 for place in drawn})
        assert 150 < together < 350
        seen[seed] = drawn
        again = tree(out)
        pack(tmp_path, records, limit="25%", seed=seed, max_seq_len=64)
        assert tree(out) == again
    assert seen[0] != seen[1]
    assert pack(tmp_path, records, limit="100%", max_seq_len=64)[0].outcomes == {"packed": 4000}


def test_a_share_that_draws_nothing(tmp_path):
    with pytest.raises(DataError, match="nothing is left to pack: of 0 records, 3 were not drawn by `--limit`"):
        pack(tmp_path, texts(3, 4, 5), limit="0.0001%")


def test_a_share_passes_over_bad_records_it_does_not_draw(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "ab"}\n{broken\n' * 200)
    summary = packtool.pack(
        [tmp_path / "a.jsonl"], out=tmp_path / "o", max_seq_len=8, tokenizer="bytes", limit="50%", on_bad="skip"
    )
    assert sum(summary.outcomes.values()) == 400
    assert 60 < summary.outcomes["bad"] < 140


def test_max_packs_lists_the_rest_as_left_out(tmp_path):
    _, whole = pack(tmp_path, texts(8, 8, 8, 8), max_seq_len=8, name="whole")
    summary, out = pack(tmp_path, texts(8, 8, 8, 8), max_seq_len=8, max_packs=3)
    assert (summary.packs, summary.outcomes) == (3, {"packed": 3, "left_out": 1})
    assert (summary.reasons, summary.lost) == ({"left_out/max_packs": 1}, {"max_packs": 8})
    # After the shuffle: the packs kept are the first of the dataset without the limit.
    first = [row.records.tolist() for row in packtool.open_dataset(whole)][:3]
    assert [row.records.tolist() for row in packtool.open_dataset(out)] == first
    assert verify(out).problems == []
    assert pack(tmp_path, texts(8, 8), max_seq_len=8, max_packs=5)[0].outcomes == {"packed": 2}


def test_max_packs_that_cuts_a_split_sample(tmp_path):
    summary, out = pack(tmp_path, texts(12), max_seq_len=4, max_packs=2)
    assert ledger_rows(out) == [("packed", "max_packs", 12, 4, 2)]
    assert summary.lost == {"max_packs": 4}
    assert verify(out).problems == []


def test_strategies(tmp_path):
    sizes = (5, 3, 6, 2)
    _, out = pack(tmp_path, texts(*sizes), max_seq_len=8, strategy="greedy")
    assert [row.records.tolist() for row in packtool.open_dataset(out)] == [[0, 1], [2, 3]]
    _, out = pack(tmp_path, texts(*sizes), max_seq_len=8, strategy="ffd", shuffle=False)
    assert [row.records.tolist() for row in packtool.open_dataset(out)] == [[2, 3], [0, 1]]
    _, out = pack(tmp_path, texts(5, 5, 5), max_seq_len=8, strategy="greedy", split_across_packs=True)
    data = packtool.open_dataset(out)
    assert [row.records.tolist() for row in data] == [[0, 1], [1, 2]]
    assert [row.seq_lens.tolist() for row in data] == [[5, 3], [2, 5]]
    assert verify(out).problems == []


def test_the_shuffle_is_seeded(tmp_path):
    orders = []
    for seed in (0, 0, 1):
        _, out = pack(tmp_path, texts(*[8] * 16), max_seq_len=8, strategy="ffd", seed=seed)
        orders.append([int(row.records[0]) for row in packtool.open_dataset(out)])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == list(range(16))
    # PCG64's stream and a stable argsort, written out: the order is a promise.
    raw = np.random.PCG64(1).random_raw(16)
    assert orders[2] == np.argsort(raw, kind="stable").tolist()


@pytest.mark.parametrize("storage", ["npy", "parquet"])
def test_shard_size_gives_several_shards(tmp_path, storage):
    # A pack of 64 slots has 640 bytes of columns as npy and 768 as Parquet.
    slot = {"npy": 10, "parquet": 12}[storage]
    _, whole = pack(tmp_path, texts(*[8] * 80), max_seq_len=64, name="whole", format=storage)
    summary, out = pack(tmp_path, texts(*[8] * 80), max_seq_len=64, shard_size=3 * 64 * slot + 1, format=storage)
    assert summary.packs == 10
    manifest = packtool.open_dataset(out).manifest
    assert [(shard.name, shard.packs) for shard in manifest.shards] == [
        ("shard-00000", 3), ("shard-00001", 3), ("shard-00002", 3), ("shard-00003", 1)
    ]  # fmt: skip
    assert len(packtool.open_dataset(whole).manifest.shards) == 1
    assert manifest.content_sha256 == packtool.open_dataset(whole).manifest.content_sha256
    for one, other in zip(packtool.open_dataset(whole), packtool.open_dataset(out), strict=True):
        assert (one.tokens == other.tokens).all()
    assert verify(out).problems == []


def test_a_shard_has_at_least_one_pack(tmp_path):
    _, out = pack(tmp_path, texts(8, 8), max_seq_len=8, shard_size=1)
    assert [shard.packs for shard in packtool.open_dataset(out).manifest.shards] == [1, 1]


def test_samples_per_pack_targets_and_bound(tmp_path):
    # 5 + 3 and 6: packs of 2 and 1 samples, 6 and 5 targets, 14 tokens of 16 slots.
    summary, _ = pack(tmp_path, texts(5, 3, 6), max_seq_len=8, shuffle=False)
    assert (summary.packs, summary.pieces, summary.samples, summary.tokens, summary.padding) == (2, 3, 3, 14, 2)
    assert (summary.fill, summary.lower_bound) == (14 / 16, 2)
    assert (summary.trained, summary.trained_share) == (11, 11 / 14)
    assert summary.targets_per_pack == [5, 5, 6]
    assert summary.samples_per_pack == [1, 1.5, 1.5, 2]
    assert summary.packs_without_target == 0


def test_packs_without_a_target_are_counted(tmp_path):
    record = {"input_ids": list(range(1, 9)), "labels": [N] * 6 + [7, 8]}
    summary, out = pack(tmp_path, [record], max_seq_len=4, overlong="split")
    assert (summary.packs, summary.packs_without_target) == (2, 1)
    assert len(verify(out).without_target) == 1
    assert verify(out).problems == []


DEFAULT_NAMES = {
    "data.jsonl": "data.packed",
    "data.jsonl.zst": "data.packed",
    "my.data.v2.jsonl.gz": "my.data.v2.packed",
    "data.json": "data.packed",
    "plain": "plain.packed",
}


@pytest.mark.parametrize("name", DEFAULT_NAMES)
def test_default_output_lies_beside_the_input(tmp_path, monkeypatch, name):
    (tmp_path / "in").mkdir()
    content = b'{"text": "ab"}\n'
    if name.endswith(".zst"):
        content = zstandard.compress(content)
    elif name.endswith(".gz"):
        import gzip

        content = gzip.compress(content)
    (tmp_path / "in" / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    summary = packtool.pack([f"in/{name}"], max_seq_len=8, tokenizer="bytes")
    assert summary.out == str(tmp_path / "in" / DEFAULT_NAMES[name])
    assert sorted(os.listdir(tmp_path / "in")) == sorted([name, DEFAULT_NAMES[name]])


def test_default_output_of_a_folder(tmp_path, monkeypatch):
    (tmp_path / "corpus").mkdir()
    write_lines(tmp_path / "corpus" / "a.jsonl", texts(3))
    monkeypatch.chdir(tmp_path)
    assert packtool.pack(["corpus/"], max_seq_len=8, tokenizer="bytes").out == str(tmp_path / "corpus.packed")
    monkeypatch.chdir(tmp_path / "corpus")
    for name in (".", "../corpus/."):
        summary = packtool.pack([name], max_seq_len=8, tokenizer="bytes", overwrite=True)
        assert summary.out == str(tmp_path / "corpus.packed")


def test_default_output_under_a_root(tmp_path):
    write_lines(tmp_path / "a.jsonl", texts(3))
    assert packtool.pack(["a.jsonl"], root=tmp_path, max_seq_len=8).out == str(tmp_path / "a.packed")


def test_dry_run_writes_nothing(tmp_path):
    source = write_lines(tmp_path / "a.jsonl", texts(3, 4))
    summary = packtool.pack([source], max_seq_len=8, tokenizer="bytes", dry_run=True)
    assert (summary.out, summary.packs, summary.tokens, summary.trained, summary.size) == ("", 1, 7, None, 0)
    assert os.listdir(tmp_path) == ["a.jsonl"]
    with pytest.raises(UsageError, match="cannot be written to"):
        packtool.pack([source], out=tmp_path / "no" / "where", max_seq_len=8, tokenizer="bytes", dry_run=True)
    assert os.listdir(tmp_path) == ["a.jsonl"]


def test_a_scratch_folder_that_a_killed_run_left_is_no_obstacle(tmp_path):
    left = tmp_path / ".data.packed.packing"
    left.mkdir()
    (left / "store").mkdir()
    (left / "packtool-scratch").touch()
    assert pack(tmp_path, texts(3))[0].packs == 1
    assert sorted(os.listdir(tmp_path)) == ["data.jsonl", "data.packed"]


def test_a_run_that_fails_leaves_what_was_there(tmp_path):
    _, out = pack(tmp_path, texts(3))
    before = tree(out, leave_out=())
    with pytest.raises(DataError):
        pack(tmp_path, [{"text": 5}], kind="text")
    assert tree(out, leave_out=()) == before
    assert sorted(os.listdir(tmp_path)) == ["data.jsonl", "data.packed"]


def test_stdin(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "ab"}\n{"text": "cd"}\n')))
    summary = packtool.pack(["-"], out=tmp_path / "out", max_seq_len=8, tokenizer="bytes")
    assert summary.records == 2
    assert [entry.name for entry in packtool.open_dataset(tmp_path / "out").manifest.inputs] == ["stdin"]


def test_files_globs_and_folders_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more" / "deep").mkdir(parents=True)
    write_lines(tmp_path / "b1.jsonl", texts(3))
    write_lines(tmp_path / "b2.jsonl", texts(4))
    write_lines(tmp_path / "more" / "x.jsonl", texts(5))
    pq.write_table(pa.table({"text": ["abcde"]}), tmp_path / "more" / "deep" / "y.parquet")
    (tmp_path / "a.csv").write_text("text\nabcdef\n")
    (tmp_path / "z.json").write_text(json.dumps(texts(8)))
    summary = packtool.pack(
        ["z.json", "b*.jsonl", "more", "a.csv"], out="out", max_seq_len=8, tokenizer="bytes", strategy="greedy"
    )
    assert summary.records == 6
    names = [entry.name for entry in packtool.open_dataset("out").manifest.inputs]
    assert names == ["z.json", "b1.jsonl", "b2.jsonl", "more/deep/y.parquet", "more/x.jsonl", "a.csv"]
    found = samples(tmp_path / "out")
    assert [len(found[record][0]) for record in range(6)] == [8, 3, 4, 6, 5, 7]


def test_files_of_one_run_may_have_different_containers_but_one_kind(tmp_path):
    write_lines(tmp_path / "a.jsonl", texts(3))
    write_lines(tmp_path / "b.jsonl", [{"prompt": "a", "completion": "b"}])
    with pytest.raises(DataError, match=r"b\.jsonl`, line 1: column `text` is missing"):
        packtool.pack([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], out=tmp_path / "o", max_seq_len=8, kind="text")


def _run(values, notice=lambda text: None):
    return run(settings_from(values), progress=lambda *a: None, notice=notice)


def test_notices(tmp_path):
    (tmp_path / "a.txt").write_text("ab\ncd\n")
    said = []
    values = {"inputs": [str(tmp_path / "a.txt")], "max_seq_len": 8, "out": str(tmp_path / "o")}
    _run(values, said.append)
    assert said == [
        "kind `text`: the records have `text`",
        "text files: every line is a record (`--text-by paragraph` or `file` for larger ones)",
        "NO TOKENIZER WAS NAMED: packing with the built-in byte tokenizer, one token a byte (`--tokenizer`)",
    ]
    said.clear()
    _run({**values, "overwrite": True, "kind": "text", "tokenizer": "bytes", "text_by": "file"}, said.append)
    assert said == []


CHATML = (
    "{% for m in messages %}{{ '<|turn|>' + m.role + '\\n' + m.content + '<|end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn|>assistant\\n' }}{% endif %}"
)


def test_a_turn_end_as_the_eos_of_plain_text_draws_a_warning(tmp_path):
    config = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "chat_template": CHATML}
    tiny_bpe(tmp_path / "tok", config=config)
    said = []
    pack(tmp_path, texts(3), tokenizer=tmp_path / "tok", kind="text", notice=said.append)
    assert said == [
        "EOS `<|end|>` is the turn end of the tokenizer's chat template; plain text mostly ends with another token "
        "(`--eos`)"
    ]
    said.clear()
    pack(tmp_path, texts(3), tokenizer=tmp_path / "tok", kind="text", eos="<|pad|>", notice=said.append)
    assert said == []
    pack(tmp_path, [{"prompt": "a", "completion": "b"}], tokenizer=tmp_path / "tok", kind="completion",
         notice=said.append)  # fmt: skip
    assert said == []


def test_a_chat_template_that_cannot_be_proven_does_not_matter_to_plain_completions(tmp_path):
    template = "{{ messages[-1].content }}"
    tiny_bpe(tmp_path / "tok", config={"eos_token": "<|end|>", "chat_template": template})
    summary, _ = pack(tmp_path, [{"prompt": "a", "completion": "b"}], tokenizer=tmp_path / "tok")
    assert summary.outcomes == {"packed": 1}
    turns = [{"role": "user", "content": "a"}], [{"role": "assistant", "content": "b"}]
    with pytest.raises(UsageError, match="cannot tell what the assistant writes"):
        pack(tmp_path, [{"prompt": turns[0], "completion": turns[1]}], tokenizer=tmp_path / "tok")


def test_progress_goes_up_to_its_total(tmp_path):
    calls = []
    pack(tmp_path, texts(*[8] * 20), max_seq_len=8, progress=lambda *call: calls.append(call))
    for stage in ("tokenize", "write"):
        done = [(at, total) for name, at, total in calls if name == stage]
        assert done[0][0] == 0
        assert done[-1][0] == done[-1][1] > 0
        assert [at for at, _ in done] == sorted(at for at, _ in done)
    assert {name for name, _, _ in calls} == {"tokenize", "write"}


def test_another_tokenizer_under_the_same_name_is_loaded_anew(tmp_path):
    """What a process keeps between blocks must not outlive a run: the scratch folder has the same name again."""
    found = []
    for letters in ("ab", "ba"):
        tokenizer = tokenizers.Tokenizer(models.BPE(vocab={letters[0]: 0, letters[1]: 1, "<eos>": 2}, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.add_special_tokens(["<eos>"])
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        _, out = pack(tmp_path, [{"text": "ab"}], tokenizer=tmp_path / "tokenizer.json", eos="<eos>")
        found.append(samples(out)[0][0])
    assert found == [[0, 1, 2], [1, 0, 2]]
