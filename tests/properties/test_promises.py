"""What a dataset must always satisfy, on random records and settings, by slow code that shares nothing with packtool.

The model is plain Python over lists: records become ids (UTF-8 bytes and one EOS), a policy decides what is kept, and
every slot of every pack is compared with what the ledger says lies there. The ledger is read with pyarrow directly.
"""

import dataclasses
import itertools
import json
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

import packtool
from packtool.errors import DataError
from packtool.inspect import verify

EOS, PAD = 258, 256
PROFILE = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "phases": [Phase.explicit, Phase.generate, Phase.shrink],  # explaining a failure takes minutes
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


# ------------------------------------------------------------------------------------------------------------ the model


@dataclass(frozen=True)
class Sample:
    """What a record must become: ids, and which of them are trained. No ids: the record is empty."""

    ids: tuple
    trained: tuple


def encode(kind, record, train_on):
    if kind == "tokens":
        ids = record["input_ids"]
        labels = record.get("labels", ids)
        trained = [True if train_on == "all" else label != -100 for label in labels]
    else:
        prompt = record.get("prompt", "")
        answer = record["text"] if kind == "text" else record["completion"]
        if not answer.strip():
            return Sample((), ())
        before, after = list(prompt.encode()), list(answer.encode())
        ids = before + after + [EOS]
        trained = [kind == "text" or train_on == "all"] * len(before) + [True] * (len(after) + 1)
    trained = [flag and place > 0 for place, flag in enumerate(trained)]  # nothing comes before a first token
    return Sample(tuple(ids), tuple(trained))


def keep(sample, size, policy):
    """(tokens kept from the sample's front, the reason where some or all are not kept or lie in several pieces)."""
    length = len(sample.ids)
    if policy in ("drop", "error") and length > size:
        return 0, "too_long"
    front = min(length, size) if policy == "truncate" else length
    if not any(sample.trained[:front]):
        return 0, "no_target"
    if length > size:
        return front, "truncated" if policy == "truncate" else "split"
    return front, ""


def mixed(value):
    """SplitMix64's output for the state `value`, in plain integers."""
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def is_drawn(limit, seed, number):
    """Whether `--limit P%` keeps record `number` of the only block of the only file; docs/format.md has the rule."""
    start = mixed(seed) ^ 3 * mixed(0) ^ 5 * mixed(0)
    return mixed((start + number) % 2**64) < Fraction(limit.rstrip("%")) / 100 * 2**64


def count_packs(lengths, size, strategy, across):
    """How many packs the strategy's textbook form makes of items of these lengths, in order."""
    if across:
        return -(-sum(lengths) // size)
    bins = []
    if strategy == "ffd":
        lengths = sorted(lengths, reverse=True)
    for length in lengths:
        open_bins = range(len(bins)) if strategy == "ffd" else range(len(bins))[-1:]
        place = next((i for i in open_bins if bins[i] + length <= size), None)
        if place is None:
            bins.append(length)
        else:
            bins[place] += length
    return len(bins)


def cut(kept, size):
    return [min(size, kept - start) for start in range(0, kept, size)]


# --------------------------------------------------------------------------------------------------------- the examples

WORDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["<eos>", "<|im_start|>x", "   ", "é" * 9, "日本語", "a\nb", "\x00"]),
)
IDS = st.lists(st.integers(0, 260), max_size=14)


@st.composite
def labelled(draw):
    ids = draw(IDS)
    return {"input_ids": ids, "labels": [token if draw(st.booleans()) else -100 for token in ids]}


RECORDS = {
    "text": st.fixed_dictionaries({"text": WORDS}),
    "completion": st.fixed_dictionaries({"prompt": WORDS, "completion": WORDS}),
    "tokens": labelled(),
}
STORAGES = [("npy", "none"), ("parquet", "none"), ("parquet", "zstd")]


@st.composite
def runs(draw):
    """(records, keywords of pack)."""
    kind = draw(st.sampled_from(sorted(RECORDS)))
    records = draw(st.lists(RECORDS[kind], min_size=1, max_size=14))
    if kind == "tokens" and draw(st.booleans()):  # all of a set are labelled, or none is
        records = [{"input_ids": record["input_ids"]} for record in records]
    strategy = draw(st.sampled_from(["ffd", "greedy"]))
    across = strategy == "greedy" and draw(st.booleans())
    policies = ["auto", "split"] if across else ["auto", "truncate", "drop", "split", "error"]
    storage, compression = draw(st.sampled_from(STORAGES))
    limit = draw(st.one_of(st.just(""), st.integers(1, 16).map(str), st.sampled_from(["30%", "70.5%", "100%"])))
    keywords = {
        "kind": kind,
        "max_seq_len": draw(st.integers(2, 24)),
        "strategy": strategy,
        "split_across_packs": across,
        "overlong": draw(st.sampled_from(policies)),
        "train_on": draw(st.sampled_from(["completion", "all"])),
        "format": storage,
        "compression": compression,
        "max_packs": draw(st.one_of(st.none(), st.integers(1, 4))),
        "limit": limit,
        "seed": draw(st.integers(0, 2**63 - 1)),
        "shuffle": draw(st.booleans()),
        "pad_id": draw(st.sampled_from([None, None, EOS, 0])),
        "shard_size": draw(st.sampled_from(["1", "500", "1GiB"])),
        "tokenizer": "bytes",
    }
    return records, keywords


def write_records(folder, records):
    """The records as JSON lines, and where each line begins."""
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    path = Path(folder) / "records.jsonl"
    path.write_bytes(b"".join(lines))
    return path, [sum(map(len, lines[:i])) for i in range(len(lines))]


def packed(path, out, keywords):
    summary = packtool.pack([path], out=out, workers=1, **keywords)
    return summary, packtool.open_dataset(out)


def read_ledger(out):
    return pq.read_table(Path(out) / "ledger.parquet").to_pylist()


def as_lists(pack):
    return {name: getattr(pack, name).tolist() for name in ("tokens", "labels", "input_pos", "seq_lens", "records")}


# --------------------------------------------------------------------------------------------------------- the promises


@settings(max_examples=250, **PROFILE)
@given(runs())
def test_every_promise(run):
    records, keywords = run
    with tempfile.TemporaryDirectory() as folder:
        path, offsets = write_records(folder, records)
        check_run(records, keywords, path, offsets, Path(folder) / "out")


def check_run(records, keywords, path, offsets, out):
    size, kind, limit = keywords["max_seq_len"], keywords["kind"], keywords["limit"]
    policy = keywords["overlong"]
    if policy == "auto":
        policy = "split" if kind == "text" or keywords["split_across_packs"] else "truncate"
    read = records[: int(limit)] if limit.isdigit() else records
    wanted_numbers = [n for n in range(len(read)) if not limit.endswith("%") or is_drawn(limit, keywords["seed"], n)]
    samples = [encode(kind, read[number], keywords["train_on"]) for number in wanted_numbers]
    kept = [keep(sample, size, policy) if sample.ids else (0, "") for sample in samples]
    too_long = policy == "error" and any(len(sample.ids) > size for sample in samples)
    if too_long or not any(front for front, _ in kept):
        with pytest.raises(DataError, match="more than `max_seq_len`" if too_long else "nothing is left to pack"):
            packed(path, out, keywords)
        assert [item.name for item in out.parent.iterdir()] == [path.name]  # nothing is left behind
        event("refused")
        return
    summary, data = packed(path, out, keywords)
    ledger = read_ledger(out)

    # Every record is in the ledger exactly once, in reading order, with its place; those not drawn in one counted row.
    rows = [row for row in ledger if row["record"] != -1]
    assert ledger[: len(rows)] == rows
    assert [row["record"] for row in rows] == list(range(len(rows)))
    assert all(row["count"] == 1 and row["file"] == 0 for row in rows)
    assert [row["place"] - 1 for row in rows] == wanted_numbers
    assert [row["offset"] for row in rows] == [offsets[number] for number in wanted_numbers]
    left_out = len(read) - len(rows)
    assert [(row["outcome"], row["reason"], row["count"]) for row in ledger[len(rows) :]] == (
        [("left_out", "limit", left_out)] if left_out else []
    )
    assert data.manifest.inputs[0].records == len(read)
    if len(read) < len(records) or left_out:
        assert data.manifest.reading == "limit"
    elif not limit:
        assert data.manifest.reading == "all"

    # The number of packs is the textbook's.
    across = keywords["split_across_packs"]
    items = [length for front, _ in kept for length in ([front] if across else cut(front, size)) if front]
    wanted = count_packs(items, size, keywords["strategy"], across)
    limited = keywords["max_packs"] is not None and keywords["max_packs"] < wanted
    assert len(data) == (keywords["max_packs"] if limited else wanted)
    packs = [as_lists(data[i]) for i in range(len(data))]

    # Every token made counts for one role.
    made, on = sum(len(sample.ids) for sample in samples), sum(sum(sample.trained) for sample in samples)
    assert [sum(counts) for counts in zip(*summary.roles.values(), strict=True)] == [made, on]
    assert summary.roles.keys() <= {"text": {"text"}, "tokens": {"ids"}}.get(kind, {"prompt", "completion"})

    # Tokens in = tokens packed + tokens lost, and every row says why.
    for row, sample, (front, reason) in zip(rows, samples, kept, strict=True):
        places = list(zip(row["packs"], row["starts"], row["sample_starts"], row["lengths"], strict=True))
        in_packs = sum(length for _, _, _, length in places)
        assert row["tokens"] == len(sample.ids) == in_packs + row["lost"]
        assert row["detail"] is None
        if not sample.ids:
            said = ("empty", "")
        elif not front:
            said = ("dropped", reason)
        elif in_packs < front:
            assert limited
            said = ("packed" if places else "left_out", "max_packs")
        else:
            said = ("packed", "split" if across and len(places) > 1 else reason)
        assert (row["outcome"], row["reason"]) == said
        # The pieces lie one after another in the sample; without --max-packs they are all of what was kept.
        spans = [(start, start + length) for _, _, start, length in places]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
        assert all(0 <= start < stop <= front for start, stop in spans)
        if in_packs == front and front:
            assert spans[0][0] == 0
            assert spans[-1][1] == front
            tokens = [t for pack, at, _, n in places for t in packs[pack]["tokens"][at : at + n]]
            assert tokens == list(sample.ids[:front])  # the record, put together again from its packs
        if policy != "split" and places:
            (pack, at, _, n) = places[0]
            assert len(places) == 1
            assert any(label != -100 for label in packs[pack]["labels"][at : at + n])

    # Slot by slot: what the ledger says lies in a pack is there, and nothing else is.
    pad = PAD if keywords["pad_id"] is None else keywords["pad_id"]
    cut_targets, trained, without_target = 0, 0, []
    for number, pack in enumerate(packs):
        assert 1 <= len(pack["seq_lens"]) == len(pack["records"])
        assert len(pack["tokens"]) == len(pack["labels"]) == len(pack["input_pos"]) == size
        pieces = sorted(
            (at, n, row["record"], start)
            for row in rows
            for p, at, start, n in zip(row["packs"], row["starts"], row["sample_starts"], row["lengths"], strict=True)
            if p == number
        )
        assert [n for _, n, _, _ in pieces] == pack["seq_lens"]
        assert [record for _, _, record, _ in pieces] == pack["records"]
        tokens, labels, positions = [], [], []
        for at, n, record, start in pieces:
            assert at == len(tokens)  # no gap and no overlap
            for place in range(n):
                token, is_trained = samples[record].ids[start + place], samples[record].trained[start + place]
                cut_targets += is_trained and place == 0
                tokens.append(token)
                labels.append(token if is_trained and place > 0 else -100)
                positions.append(place)
        padding = size - len(tokens)
        assert padding >= 0
        assert pack["tokens"] == tokens + [pad] * padding
        assert pack["labels"] == labels + [-100] * padding
        assert pack["input_pos"] == positions + list(range(padding))
        targets = sum(label != -100 for label in labels)
        trained += targets
        if not targets:
            without_target.append(number)

    # Greedy keeps the order.
    order = sorted(
        (p, at, row["record"], start)
        for row in rows
        for p, at, start in zip(row["packs"], row["starts"], row["sample_starts"], strict=True)
    )
    if keywords["strategy"] == "greedy":
        in_order = [(record, start) for _, _, record, start in order]
        assert in_order == sorted(in_order)

    # The manifest and the summary count right.
    total = sum(sum(pack["seq_lens"]) for pack in packs)
    counted = {
        "max_seq_len": size,
        "packs": len(packs),
        "pieces": len(order),
        "samples": len({record for _, _, record, _ in order}),
        "records": len(read),
        "tokens": total,
        "trained": trained,
        "lower_bound": -(-total // size),
        "outcomes": sums((row["outcome"], row["count"]) for row in ledger),
        "lost": sums((row["reason"], row["lost"]) for row in ledger),
    }
    for name, value in counted.items():
        assert getattr(data.manifest, name) == value, name
        assert getattr(summary, name) == value, name
    assert data.manifest.max_pieces == max(len(pack["seq_lens"]) for pack in packs)
    assert sum(shard.packs for shard in data.manifest.shards) == len(packs)
    assert summary.padding == len(packs) * size - total
    assert summary.cut_targets == cut_targets
    assert summary.packs_without_target == len(without_target)
    event(f"max_packs {'left some out' if limited else 'did nothing'}; policy {policy}")

    report = verify(out)
    assert report.problems == []
    assert report.without_target == without_target
    assert (report.packs, report.records) == (len(packs), counted["records"])


def sums(pairs):
    """Totals by name; names that come to nothing are left out."""
    totals = {}
    for name, count in pairs:
        totals[name] = totals.get(name, 0) + count
    return {name: count for name, count in totals.items() if count}


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


@settings(max_examples=25, **PROFILE)
@given(runs())
def test_the_same_settings_give_the_same_bytes(run):
    records, keywords = run
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        outs = []
        for folder in (one, other):
            path, _ = write_records(folder, records)
            try:
                packed(path, Path(folder) / "out", keywords)
            except DataError:
                return
            outs.append(files_of(Path(folder) / "out"))
        assert "build.json" in outs[0]
        for files in outs:
            del files["build.json"]
        assert outs[0] == outs[1]


@settings(max_examples=40, **PROFILE)
@given(runs())
def test_every_storage_holds_the_same_packs_under_the_same_digest(run):
    records, keywords = run
    with tempfile.TemporaryDirectory() as folder:
        path, _ = write_records(folder, records)
        seen = []
        for number, (storage, compression) in enumerate(STORAGES):
            changed = {
                **keywords,
                "format": storage,
                "compression": compression,
                "shard_size": ["1", "400", "1GiB"][number],
            }
            try:
                _, data = packed(path, Path(folder) / f"out{number}", changed)
            except DataError:
                return
            seen.append(
                (
                    data.manifest.content_sha256,
                    [as_lists(data[i]) for i in range(len(data))],
                    read_ledger(Path(folder) / f"out{number}"),
                )
            )
        assert seen[0] == seen[1] == seen[2]


@settings(max_examples=15, **PROFILE)
@given(runs())
def test_the_datasets_own_settings_make_it_again(run):
    """`packtool pack --config out/settings.yaml --root DIR` of the specification, through the library."""
    records, keywords = run
    with tempfile.TemporaryDirectory() as folder:
        path, _ = write_records(folder, records)
        out, again = Path(folder) / "out", Path(folder) / "again"
        try:
            packed(path, out, keywords)
        except DataError:
            return
        from packtool.job import read_config, settings_from
        from packtool.job import run as run_job

        values = {**read_config(out / "settings.yaml"), "root": folder, "out": str(again), "workers": 1}
        run_job(settings_from(values), progress=lambda *_: None, notice=lambda _: None)
        first, second = files_of(out), files_of(again)
        del first["build.json"], second["build.json"]
        assert first == second


# ------------------------------------------------------------------------------------------------- by hand, and workers


def test_by_hand(tmp_path):
    """Three texts of 3, 2 and 5 tokens (EOS included) in packs of 6, first-fit-decreasing, not shuffled."""
    path, _ = write_records(tmp_path, [{"text": "ab"}, {"text": "c"}, {"text": "defg"}])
    _, data = packed(path, tmp_path / "out", {"max_seq_len": 6, "strategy": "ffd", "shuffle": False})
    a, b, c, d, e, f, g = b"abcdefg"
    assert [as_lists(data[i]) for i in range(len(data))] == [
        {
            "tokens": [d, e, f, g, EOS, PAD],
            "labels": [-100, e, f, g, EOS, -100],
            "input_pos": [0, 1, 2, 3, 4, 0],
            "seq_lens": [5],
            "records": [2],
        },
        {
            "tokens": [a, b, EOS, c, EOS, PAD],
            "labels": [-100, b, EOS, -100, EOS, -100],
            "input_pos": [0, 1, 2, 0, 1, 0],
            "seq_lens": [3, 2],
            "records": [0, 1],
        },
    ]


def test_padding_with_eos_still_trains_the_real_eos(tmp_path):
    path, _ = write_records(tmp_path, [{"text": "ab"}])
    _, data = packed(path, tmp_path / "out", {"max_seq_len": 6, "pad_id": EOS})
    a, b = b"ab"
    assert data[0].tokens.tolist() == [a, b, EOS, EOS, EOS, EOS]
    assert data[0].labels.tolist() == [-100, b, EOS, -100, -100, -100]


def test_a_piece_that_max_packs_left_alone_may_be_untrained(tmp_path):
    """A prompt of five and a completion, split; only the untrained first piece is kept: sound, and `verify` says so."""
    path, _ = write_records(tmp_path, [{"prompt": "abcde", "completion": "f"}])
    keywords = {"max_seq_len": 4, "overlong": "split", "shuffle": False, "max_packs": 1}
    _, data = packed(path, tmp_path / "out", keywords)
    assert data[0].labels.tolist() == [-100] * 4
    report = verify(tmp_path / "out")
    assert report.problems == []
    assert report.without_target == [0]


def many_files(folder):
    for number in range(8):
        lines = [json.dumps({"text": f"file {number} line {line} " + "x" * (line % 13)}) for line in range(20)]
        (folder / f"part-{number}.jsonl").write_text("\n".join(lines) + "\n")
    return [folder]


@pytest.mark.parametrize("limit", ["", "30", "40%"])
def test_any_number_of_workers_gives_the_same_bytes(tmp_path, limit):
    (tmp_path / "in").mkdir()
    inputs = many_files(tmp_path / "in")
    seen = []
    for workers in (1, 2, 4):
        out = tmp_path / f"out{workers}"
        packtool.pack(inputs, out=out, max_seq_len=64, shard_size="4000", limit=limit, workers=workers)
        files = files_of(out)
        del files["build.json"]
        seen.append(files)
    assert len([name for name in seen[0] if name.endswith("tokens.npy")]) > 1
    assert seen[0].keys() == seen[1].keys() == seen[2].keys()
    for name in seen[0]:
        assert seen[0][name] == seen[1][name] == seen[2][name], name


def test_summary_is_plain_data(tmp_path):
    path, _ = write_records(tmp_path, [{"text": "ab"}])
    summary, _ = packed(path, tmp_path / "out", {"max_seq_len": 6})
    assert json.loads(json.dumps(dataclasses.asdict(summary)))["packs"] == 1
