"""PackedDataset with PyTorch as it stands: items, collation, workers, masks, and a small model that trains from it."""

import json
import pickle

import numpy as np
import pytest

import packtool
from packtool.errors import FormatError, UsageError

torch = pytest.importorskip("torch")
functional = torch.nn.functional
PackedDataset = pytest.importorskip("packtool.torch").PackedDataset
DataLoader = torch.utils.data.DataLoader

N = -100
EOS, PAD = 258, 256
STORAGES = {
    "npy": {},
    "parquet": {"format": "parquet"},
    "zstd": {"format": "parquet", "compression": "zstd"},
}


def make(folder, records, **settings):
    source = folder / "data.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    out = folder / "out"
    settings = {"max_seq_len": 8, "tokenizer": "bytes", "workers": 1, "shuffle": False, **settings}
    packtool.pack([source], out=out, overwrite=True, **settings)
    return out


@pytest.fixture(params=STORAGES)
def small(tmp_path, request):
    """Two packs, written out: "abc"+EOS with prompt a, then "de"+EOS with prompt d; and "fghij"+EOS with prompt f."""
    records = [
        {"prompt": "a", "completion": "bc"}, {"prompt": "d", "completion": "e"}, {"prompt": "f", "completion": "ghij"}
    ]  # fmt: skip
    return make(tmp_path, records, strategy="greedy", **STORAGES[request.param])


TOKENS = [[97, 98, 99, EOS, 100, 101, EOS, PAD], [102, 103, 104, 105, 106, EOS, PAD, PAD]]
LABELS = [[N, 98, 99, EOS, N, 101, EOS, N], [N, 103, 104, 105, 106, EOS, N, N]]
POSITIONS = [[0, 1, 2, 3, 0, 1, 2, 0], [0, 1, 2, 3, 4, 5, 0, 1]]
LENGTHS = [[4, 3], [6, 0]]


def test_values_shapes_and_types(small):
    data = PackedDataset(small)
    assert len(data) == 2
    (batch,) = DataLoader(data, batch_size=2)
    assert list(batch) == ["tokens", "labels", "input_pos", "seq_lens"]
    for name, values in {"tokens": TOKENS, "labels": LABELS, "input_pos": POSITIONS, "seq_lens": LENGTHS}.items():
        assert batch[name].dtype is torch.int64
        assert batch[name].tolist() == values, name
    assert data.manifest.max_pieces == 2


def test_shifted_labels(small):
    (batch,) = DataLoader(PackedDataset(small, shift_labels=True), batch_size=2)
    assert batch["labels"].tolist() == [
        [98, 99, EOS, N, 101, EOS, N, N], [103, 104, 105, 106, EOS, N, N, N]
    ]  # fmt: skip
    assert batch["tokens"].tolist() == TOKENS


def test_shifted_labels_of_a_full_pack_end_with_none(tmp_path):
    data = PackedDataset(make(tmp_path, [{"text": "abc"}], max_seq_len=4), shift_labels=True)
    assert data[0]["tokens"].tolist() == [97, 98, 99, EOS]
    assert data[0]["labels"].tolist() == [98, 99, EOS, N]


def test_records(small):
    (batch,) = DataLoader(PackedDataset(small, records=True), batch_size=2)
    assert batch["records"].dtype is torch.int64
    assert batch["records"].tolist() == [[0, 1], [2, -1]]


def slow_mask(lengths, size):
    """The definition: a slot sees itself and earlier slots of its own piece; padding is a piece of its own."""
    piece = [number for number, length in enumerate(lengths) for _ in range(length)]
    piece += [-1] * (size - len(piece))
    return [[piece[query] == piece[key] and key <= query for key in range(size)] for query in range(size)]


def test_block_causal_mask(small):
    (batch,) = DataLoader(PackedDataset(small, mask="block_causal"), batch_size=2)
    assert (batch["mask"].dtype, tuple(batch["mask"].shape)) == (torch.bool, (2, 8, 8))
    assert batch["mask"].tolist() == [slow_mask([4, 3], 8), slow_mask([6], 8)]
    assert batch["mask"].any(dim=-1).all()


def test_block_causal_mask_of_many_packs(tmp_path):
    generator = np.random.default_rng(0)
    records = [{"text": "x" * int(size)} for size in generator.integers(1, 40, 200)]
    data = PackedDataset(make(tmp_path, records, max_seq_len=64), mask="block_causal")
    assert len({tuple(item["seq_lens"].tolist()) for item in data}) > 10
    for item in data:
        lengths = [length for length in item["seq_lens"].tolist() if length]
        assert item["mask"].tolist() == slow_mask(lengths, 64)


def test_no_mask_unless_asked_for_and_no_other(small):
    assert "mask" not in PackedDataset(small)[0]
    with pytest.raises(UsageError, match="`mask`: expected None or `block_causal`, got 'causal'"):
        PackedDataset(small, mask="causal")


def test_ends(small):
    data = PackedDataset(small)
    assert data[-1]["tokens"].tolist() == TOKENS[1]
    assert data[np.int64(1)]["tokens"].tolist() == TOKENS[1]
    for index in (2, -3):
        with pytest.raises(IndexError):
            data[index]
    assert [item["tokens"].tolist() for item in data] == TOKENS


def test_items_own_their_memory(small):
    data = PackedDataset(small, mask="block_causal", records=True)
    before = {path: path.read_bytes() for path in small.rglob("*") if path.is_file()}
    first = data[0]
    for tensor in first.values():
        tensor.fill_(1)
    (batch,) = DataLoader(data, batch_size=2)
    for tensor in batch.values():
        tensor.zero_()
    again = data[0]
    assert again["tokens"].tolist() == TOKENS[0]
    assert again["labels"].tolist() == LABELS[0]
    assert again["seq_lens"].tolist() == LENGTHS[0]
    assert again["mask"].tolist() == slow_mask([4, 3], 8)
    assert {path: path.read_bytes() for path in small.rglob("*") if path.is_file()} == before
    pointers = [data[0]["mask"].data_ptr(), again["mask"].data_ptr()]
    assert pointers[0] != pointers[1]


def test_a_pickle_is_a_path_and_settings(tmp_path):
    out = make(tmp_path, [{"text": "x" * 60}] * 2000, max_seq_len=64)
    data = PackedDataset(out, mask="block_causal", shift_labels=True, records=True)
    first = data[0]  # the files are mapped by now
    frozen = pickle.dumps(data)
    assert len(frozen) < 4000
    assert sum(path.stat().st_size for path in out.rglob("*")) > 1_000_000
    thawed = pickle.loads(frozen)
    assert len(thawed) == 2000
    assert {name: tensor.tolist() for name, tensor in thawed[0].items()} == {
        name: tensor.tolist() for name, tensor in first.items()
    }


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_workers_give_equal_batches(tmp_path, method):
    records = [{"text": f"record {number} " * (number % 5 + 1)} for number in range(60)]
    data = PackedDataset(make(tmp_path, records, max_seq_len=96), mask="block_causal")
    alone = list(DataLoader(data, batch_size=3))
    assert len(alone) > 4
    loader = DataLoader(data, batch_size=3, num_workers=2, multiprocessing_context=method)
    together = list(loader)
    assert len(together) == len(alone)
    for one, other in zip(alone, together, strict=True):
        assert list(one) == list(other)
        for name in one:
            assert torch.equal(one[name], other[name]), name


def test_what_is_no_dataset(tmp_path):
    with pytest.raises(FormatError, match="does not exist"):
        PackedDataset(tmp_path / "none")


def test_full_check(small):
    path = next(path for path in small.rglob("*") if path.name in ("tokens.npy", "shard-00000.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError):
        PackedDataset(small, check="full")


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.into = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x, mask):
        batch, slots, width = x.shape
        q, k, v = self.into(x).view(batch, slots, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])
        return self.out(mixed.transpose(1, 2).reshape(batch, slots, width))


class Transformer(torch.nn.Module):
    """Two layers with learned positions: small, but a model in which a leak between pieces would show."""

    def __init__(self, vocabulary=261, positions=64, width=32, heads=4):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Embedding(positions, width)
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleList(
                [torch.nn.LayerNorm(width), Attention(width, heads), torch.nn.LayerNorm(width),
                 torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.GELU(),
                                     torch.nn.Linear(2 * width, width))]
            )
            for _ in range(2)
        )  # fmt: skip
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, vocabulary)

    def embed(self, tokens, input_pos):
        return self.tokens(tokens) + self.positions(input_pos)

    def forward(self, x, mask):
        for norm, attention, norm_too, feed in self.layers:
            x = x + attention(norm(x), mask)
            x = x + feed(norm_too(x))
        return self.head(self.norm(x))


TEXTS = ["one two three", "four five", "six", "seven eight nine ten", "eleven twelve", "a", "bc def", "ghi jkl mno pqr"]


@pytest.fixture
def batch(tmp_path):
    out = make(tmp_path, [{"text": text} for text in TEXTS], max_seq_len=48)
    (batch,) = DataLoader(PackedDataset(out, mask="block_causal"), batch_size=8)
    assert batch["seq_lens"].shape[1] >= 3, "several samples a pack, or the tests say nothing"
    return batch


def pieces(batch):
    for row, lengths in enumerate(batch["seq_lens"].tolist()):
        start = 0
        for length in lengths:
            if length:
                yield row, start, start + length
            start += length


def test_packed_logits_are_those_of_each_sample_alone(batch):
    torch.manual_seed(0)
    model = Transformer().eval()
    with torch.no_grad():
        together = model(model.embed(batch["tokens"], batch["input_pos"]), batch["mask"])
        found = 0
        for row, start, stop in pieces(batch):
            tokens = batch["tokens"][row : row + 1, start:stop]
            size = stop - start
            causal = torch.ones(1, size, size, dtype=torch.bool).tril()
            alone = model(model.embed(tokens, torch.arange(size)[None]), causal)
            torch.testing.assert_close(together[row, start:stop], alone[0], rtol=1e-5, atol=1e-5)
            found += 1
        assert found == len(TEXTS)
        # The same comparison must fail without the mask, or it could not fail at all.
        causal = torch.ones_like(batch["mask"]).tril()
        leaking = model(model.embed(batch["tokens"], batch["input_pos"]), causal)
        assert not torch.allclose(leaking, together, rtol=1e-5, atol=1e-5)


def test_no_gradient_reaches_another_piece(batch):
    torch.manual_seed(0)
    model = Transformer()
    count = 0
    for row, start, stop in pieces(batch):
        x = model.embed(batch["tokens"], batch["input_pos"]).detach().requires_grad_()
        logits = model(x, batch["mask"])
        logits[row, start:stop].square().sum().backward()
        inside = torch.zeros(x.shape[:2], dtype=torch.bool)
        inside[row, start:stop] = True
        assert (x.grad[~inside] == 0).all()
        assert (x.grad[inside].abs().sum(dim=-1) > 0).all()
        count += 1
    assert count == len(TEXTS)


@pytest.mark.parametrize("shift", [False, True])
def test_a_small_model_trains(tmp_path, shift):
    out = make(tmp_path, [{"text": text} for text in TEXTS * 8], max_seq_len=48, shuffle=True)
    loader = DataLoader(PackedDataset(out, mask="block_causal", shift_labels=shift), batch_size=4, shuffle=False)
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(6):
        for batch in loader:
            logits = model(model.embed(batch["tokens"], batch["input_pos"]), batch["mask"])
            labels = batch["labels"]
            if not shift:
                logits, labels = logits[:, :-1], labels[:, 1:]
            loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=N)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert len(losses) >= 12
    assert all(np.isfinite(losses))
    assert losses[0] > 4  # nothing known: ln 261 is 5.6
    assert losses[-1] < 0.6 * losses[0]
