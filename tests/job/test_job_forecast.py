"""Forecasts: by hand, and held against what packing the whole gives."""

import json
import sys

import numpy as np
import pytest
from job_helpers import pack, write_lines

import packtool
from packtool.errors import DataError
from packtool.job import forecast, settings_from
from packtool.job.prepare import prepare
from packtool.read import read_ledger

module = sys.modules["packtool.job.forecast"]

# As bytes with an EOS: 6 and 15 tokens; the empty one has none.
TEXTS = [{"text": "hello"}, {"text": ""}, {"text": "wörld of text"}]
MIXED = [{"text": "x" * (3 + 7 * n % 23)} for n in range(40)] + [{"text": " "}, {"other": 1}, {"text": "y" * 70}]


def expect(path, *, sample=1000, batch=None, notices=None, strategies=("mixed",), lengths=(8,), **values):
    given = {"inputs": [str(path)], "tokenizer": "bytes", "kind": "text", "workers": 1, **values}
    choices = [
        settings_from({**given, "max_seq_len": length, "strategy": strategy})
        for length in lengths
        for strategy in strategies
    ]
    told = (lambda text: None) if notices is None else notices.append
    return forecast(choices, sample=sample, batch=batch, progress=lambda stage, done, total: None, notice=told)


def test_by_hand(tmp_path):
    found = expect(write_lines(tmp_path / "a.jsonl", TEXTS), batch=2)
    (choice,) = found.choices
    assert (found.kind, found.records, found.sampled, found.empty, found.bad) == ("text", 3, 3, 1, 0)
    assert found.bytes == (tmp_path / "a.jsonl").stat().st_size
    # 15 tokens are split into 8 and 7, and no two of 8, 7 and 6 share a pack.
    assert (choice.packs, choice.bound, choice.tokens, choice.fill, choice.margin) == (3, 3, 21, 21 / 24, 0.0)
    assert (choice.reasons, choice.lost, choice.steps) == ({"packed/split": 1}, {}, 2)
    # npy: 8 slots of 2 + 4 + 2 bytes and an offset of 8; parquet: of 4 + 4 + 4 and six of 8. A piece: 4 + 8.
    assert choice.size == {"npy": 3 * (8 * 8 + 8) + 3 * 12, "parquet": 3 * (8 * 12 + 48) + 3 * 12}


def test_every_length_with_every_strategy_in_the_order_asked_for(tmp_path):
    found = expect(write_lines(tmp_path / "a.jsonl", TEXTS), lengths=(21, 8), strategies=("none", "ffd"))
    assert [(c.max_seq_len, c.strategy, c.packs, c.steps) for c in found.choices] == [
        (21, "none", 2, None), (21, "ffd", 1, None), (8, "none", 3, None), (8, "ffd", 3, None),
    ]  # fmt: skip


WAYS = [
    {"strategy": "mixed"},
    {"strategy": "ffd", "overlong": "truncate"},
    {"strategy": "bfd", "overlong": "drop"},
    {"strategy": "shuffle", "max_samples_per_pack": 2, "seed": 3},
    {"strategy": "greedy"},
    {"strategy": "greedy", "split_across_packs": True},
    {"strategy": "none"},
    {"pack_multiple": 8},
    {"limit": "17"},
    {"limit": "60%", "seed": 5},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_where_the_sample_is_the_whole_the_counts_are_those_of_pack(tmp_path, way):
    summary, _ = pack(tmp_path, MIXED, max_seq_len=32, kind="text", on_bad="skip", **way)
    strategy = way.get("strategy", "mixed")
    others = {name: value for name, value in way.items() if name != "strategy"}
    found = expect(tmp_path / "data.jsonl", lengths=(32,), strategies=(strategy,), on_bad="skip", **others)
    (choice,) = found.choices
    drawn = sum(count for reason, count in summary.reasons.items() if reason == "left_out/limit")
    assert (found.records, found.sampled) == (summary.records - drawn,) * 2
    assert (found.empty, found.bad) == (summary.outcomes.get("empty", 0), summary.outcomes.get("bad", 0))
    assert (choice.packs, choice.bound) == (summary.packs, summary.packing_bound)
    assert (choice.tokens, choice.fill, choice.lost) == (summary.tokens, summary.fill, summary.lost)
    assert choice.variance_share == pytest.approx(summary.variance_share)
    assert choice.reasons == {name: n for name, n in summary.reasons.items() if name != "left_out/limit"}


@pytest.mark.parametrize(("storage", "beside"), [("npy", 6 * 128 + 8), ("parquet", None)])
def test_size_is_that_of_the_shards(tmp_path, storage, beside):
    records = [{"text": "x" * (50 + n)} for n in range(400)]
    _, out = pack(tmp_path, records, max_seq_len=1024, kind="text", format=storage)
    real = sum(path.stat().st_size for path in out.rglob("*") if "shard-" in str(path) and path.is_file())
    size = expect(tmp_path / "data.jsonl", lengths=(1024,)).choices[0].size[storage]
    if beside is None:
        assert 0 < real - size < 0.02 * real  # headers of pages, footer
    else:
        assert real - size == beside  # a header of each file, and one offset more than packs


def test_what_is_expected_of_equal_records_is_exact(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"text": "hello"}] * 101)
    found = expect(path, sample=10, lengths=(12,), batch=10)
    (choice,) = found.choices
    assert (found.records, found.sampled) == (101, 10)
    assert (choice.packs, choice.bound, choice.tokens, choice.margin, choice.steps) == (51, 51, 606, 0.0, 6)


def test_counts_beyond_what_is_planned_are_multiplied(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PLANNED", 40)
    path = write_lines(tmp_path / "a.jsonl", [{"text": "hello"}] * 100)
    (choice,) = expect(path, sample=10, lengths=(12,), pack_multiple=4).choices
    assert (choice.packs, choice.bound, choice.tokens) == (52, 50, 600)  # 20 packs of 40 samples, 2.5 times; then 4s
    assert choice.size["npy"] == 52 * (12 * 8 + 8) + 100 * 12


def test_margin_by_hand(tmp_path):
    # Two of four records: 2 and 4 tokens, mean 3, variance 1, of which half is left out.
    lengths = np.array([2, 4])
    measured = module._Measured(lengths, np.array([1, 1]), 2, 4, 261, 0.0, 1)
    assert module._margin("truncate", 8, measured) == pytest.approx(1.96 * (1 * 0.5 / 2) ** 0.5 / 3)
    # A third record of the sample that was empty: tokens 2, 4, 0 have the mean 2 and the variance 8/3.
    measured = module._Measured(lengths, np.array([1, 1]), 3, 6, 261, 0.0, 1)
    assert module._margin("truncate", 8, measured) == pytest.approx(1.96 * (8 / 3 * 0.5 / 3) ** 0.5 / 2)


def test_the_margin_holds_the_truth_mostly(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"text": "x" * (1 + n * n % 97)} for n in range(600)])
    truth = expect(path, lengths=(128,)).choices[0].tokens
    hits = 0
    for seed in range(60):
        (choice,) = expect(path, sample=60, lengths=(128,), seed=seed).choices
        hits += abs(choice.tokens - truth) <= choice.margin * choice.tokens
    assert 50 <= hits <= 60  # 57 expected; fewer than 50 would be one in a thousand


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv"])
def test_the_sample_is_the_draw_of_limit(tmp_path, monkeypatch, ending):
    """The records of least hash are those that `--limit P%` takes, however many were held on the way."""
    records = [{"text": f"record {n}"} for n in range(500)]
    path = tmp_path / f"data.{ending}"
    if ending == "csv":
        path.write_text("text\n" + "".join(f"{record['text']}\n" for record in records))
    elif ending == "json":
        path.write_text(json.dumps(records))
    else:
        write_lines(path, records)
    out = tmp_path / "out"
    packtool.pack([path], out=out, max_seq_len=64, kind="text", tokenizer="bytes", limit="10%", seed=4, workers=1)
    ledger = read_ledger(out / "ledger.parquet")
    wanted = sorted(ledger.place[ledger.place > 0].tolist())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    values = {"inputs": [str(path)], "max_seq_len": 64, "kind": "text", "tokenizer": "bytes", "seed": 4}
    prepared = prepare(settings_from(values), scratch, lambda text: None)
    drawn = module._draw(prepared, len(wanted), lambda stage, done, total: None)
    assert 20 < len(wanted) < 90
    assert [record.place for record in drawn.records] == wanted
    assert drawn.population == 500


def test_the_sample_depends_on_the_seed_only(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", MIXED[:40])

    def told(seed):
        choices = expect(path, sample=7, lengths=(32,), seed=seed).choices
        return [(choice.packs, choice.tokens, choice.margin) for choice in choices]

    assert told(0) == told(0)
    assert len({tuple(told(seed)) for seed in range(5)}) > 1


def test_nothing_is_written(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", TEXTS)
    expect(path)
    assert list(tmp_path.iterdir()) == [path]


def test_notices(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", TEXTS)
    notices = []
    expect(path, overlong="error", max_packs=1, notices=notices)
    assert notices == [
        "`--max-packs 1` is left aside: the numbers are those of all packs",
        "`--overlong error` would refuse packs of 8: 1 samples of the sample are longer",
    ]


def test_a_choice_that_leaves_nothing_is_told_beside_one_that_does_not(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", TEXTS[2:])
    first, second = expect(path, lengths=(8, 16), overlong="drop").choices
    assert (first.packs, first.fill, first.bound, first.reasons) == (0, 0.0, 0, {"dropped/too_long": 1})
    assert (second.packs, second.tokens) == (1, 15)


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("[]", {}, "the inputs hold no record at all"),
        ('[{"text": " "}, {"text": ""}]', {}, "nothing is left to pack of the 2 records in the sample, whatever"),
        ('[{"text": "a"}]', {"limit": "0.0001%"}, "`--limit 0.0001%` draws none of the 1 records"),
    ],
)
def test_errors(tmp_path, text, values, message):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        expect(path, **values)


@pytest.mark.parametrize("line", ['{"other": 1}', '{"text": '])
def test_a_bad_record_is_refused_as_pack_refuses_it(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n' + line + "\n")
    with pytest.raises(DataError) as of_pack:
        packtool.pack([path], max_seq_len=8, tokenizer="bytes", kind="text", workers=1)
    with pytest.raises(DataError, match=r"a\.jsonl`, line 2: ") as raised:
        expect(path)
    assert (raised.value.message, raised.value.hint) == (of_pack.value.message, of_pack.value.hint)
