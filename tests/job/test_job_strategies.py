"""Strategies and their limits through the whole job: what the dataset holds, and what the summary says of it."""

import numpy as np
import pytest
from job_helpers import write_lines

import packtool
from packtool.errors import UsageError
from packtool.inspect import verify
from packtool.plan import STRATEGIES, variance_share


@pytest.fixture
def texts(tmp_path):
    sizes = np.random.default_rng(3).integers(1, 90, 400)
    return write_lines(tmp_path / "a.jsonl", [{"text": "x" * int(size)} for size in sizes])


def packed(source, tmp_path, **settings):
    out = tmp_path / "out"
    summary = packtool.pack([source], max_seq_len=128, out=out, overwrite=True, **settings)
    return summary, packtool.open_dataset(out)


def per_pack(data):
    return [len(data[i].seq_lens) for i in range(len(data))]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_packs_every_sample_once(texts, tmp_path, name):
    summary, data = packed(texts, tmp_path, strategy=name)
    assert not verify(tmp_path / "out").problems
    records = np.concatenate([data[i].records for i in range(len(data))])
    assert sorted(records.tolist()) == list(range(400))
    pack = np.repeat(np.arange(len(data)), per_pack(data))
    lengths = np.concatenate([data[i].seq_lens for i in range(len(data))])
    assert summary.variance_share == pytest.approx(variance_share(lengths, pack))
    assert summary.lower_bound <= summary.packing_bound <= summary.packs == len(data)
    squares = np.bincount(pack, weights=lengths.astype(float) ** 2)
    assert summary.squares_per_pack == [squares.min(), int(np.median(squares)), squares.max()]


def test_mixed_is_the_default_and_depends_on_the_seed(texts, tmp_path):
    contents = [packed(texts, tmp_path, **more)[0].content_sha256 for more in ({}, {"strategy": "mixed"}, {"seed": 1})]
    assert contents[0] == contents[1] != contents[2]


@pytest.mark.parametrize("name", STRATEGIES)
def test_at_most_so_many_samples_to_a_pack(texts, tmp_path, name):
    summary, data = packed(texts, tmp_path, strategy=name, max_samples_per_pack=2)
    assert max(per_pack(data)) <= 2
    assert summary.packing_bound >= 200


@pytest.mark.parametrize("multiple", [1, 7, 64])
def test_the_number_of_packs_is_a_multiple(texts, tmp_path, multiple):
    before = packed(texts, tmp_path)[0]
    summary, data = packed(texts, tmp_path, pack_multiple=multiple)
    assert not verify(tmp_path / "out").problems
    assert len(data) == -(-before.packs // multiple) * multiple
    assert (summary.tokens, summary.samples) == (before.tokens, before.samples)
    assert len(packed(texts, tmp_path, pack_multiple=multiple, max_packs=2 * multiple)[1]) == 2 * multiple


def test_a_multiple_that_the_samples_cannot_fill_is_refused(texts, tmp_path):
    with pytest.raises(UsageError, match="400 pieces cannot fill 401 packs, the next multiple of 401"):
        packed(texts, tmp_path, pack_multiple=401)


def test_batches_cost_about_the_same(texts, tmp_path):
    def spread(**settings):
        _, data = packed(texts, tmp_path, strategy="ffd", **settings)
        cost = [float((data[i].seq_lens.astype(float) ** 2).sum()) for i in range(len(data) // 8 * 8)]
        return np.std(np.reshape(cost, (-1, 8)).sum(axis=1))

    assert spread(balance_batch=8) < 0.2 * spread()
