"""Kind B: the boundary between prompt and completion; ids and labels by hand."""

import json

import pytest
import tokenizers
from job_helpers import BOS, EOS, packed
from tokenizers import decoders, models, normalizers, pre_tokenizers

N = -100
# In the byte-level alphabet Ġ is the space, Ã© are the two bytes of é, and Ìģ those of the accent alone, U+0301.
VOCABULARY = {"<end>": 0, "a": 1, "b": 2, ":": 3, "Ġ": 4, "Ġb": 5, "Ã": 6, "©": 7, "e": 8, "Ì": 9, "ģ": 10}
(A, B, COLON, SPACE, SPACE_B, E1, E2) = range(1, 8)


def merging(folder, *, normalizer=None):
    """A byte-level BPE whose one merge joins a space to the b after it."""
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=VOCABULARY, merges=[("Ġ", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens(["<end>"])
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    return folder


def one(folder, prompt, completion, **settings):
    return packed(folder, [{"prompt": prompt, "completion": completion}], **settings)[0]


@pytest.mark.parametrize("prompt", ["A: ", "A:\n", "A:", "A:\t "])
def test_white_space_at_the_end_of_a_prompt_moves_no_label(tmp_path, prompt):
    """Elsewhere: the prompt is encoded stripped, and the mask is off by one."""
    ids, labels = one(tmp_path, prompt, " yes ")
    assert ids == [*prompt.encode(), *b" yes ", EOS]
    assert labels == [N] * len(prompt) + [*b" yes ", EOS]


def test_bos_and_eos_are_not_counted_as_prompt(tmp_path):
    """Elsewhere: the prompt's length counts an EOS or BOS, and the first token of the answer is masked."""
    assert one(tmp_path, "ab", "cd", bos="yes") == ([BOS, 97, 98, 99, 100, EOS], [N, N, N, 99, 100, EOS])


def test_the_first_token_of_the_completion_is_trained(tmp_path):
    """Elsewhere: off by one, the model is not taught how an answer starts."""
    assert one(tmp_path, "ab", "c") == ([97, 98, 99, EOS], [N, N, 99, EOS])


def test_the_completion_is_never_searched_for(tmp_path):
    """Elsewhere: the answer, or a marker before it, is looked for, and found in the prompt or nowhere."""
    assert one(tmp_path, "no, no: ", "no") == ([*b"no, no: no", EOS], [N] * 8 + [*b"no", EOS])
    record = {"q": "A: A:", "a": "A:"}
    found = packed(tmp_path, [record], template="Q: {q}\nA: {>}{a}")
    assert found[0] == ([*b"Q: A: A:\nA: A:", EOS], [N] * 12 + [*b"A:", EOS])


def test_a_marker_in_any_script_and_with_a_space_at_its_end(tmp_path):
    """Elsewhere: a marker whose ids differ in context is not found, and the whole row is ignored."""
    prompt = "質問: é\n回答： "
    found = packed(tmp_path, [{"q": "é", "a": "à"}], template="質問: {q}\n回答： {>}{a}")
    assert found[0] == ([*prompt.encode(), *"à".encode(), EOS], [N] * len(prompt.encode()) + [*"à".encode(), EOS])


def test_characters_of_several_bytes_count_as_one(tmp_path):
    """Elsewhere: offsets in characters are taken for offsets in bytes."""
    assert one(tmp_path, "éé", "ü") == ([*"ééü".encode(), EOS], [N, N, N, N, *"ü".encode(), EOS])


def test_a_token_that_straddles_belongs_to_the_side_where_it_starts(tmp_path):
    """Elsewhere: the encoder merges across the border, and the mask covers the wrong token."""
    where = merging(tmp_path / "tok")
    assert one(tmp_path, "a: ", "bb", tokenizer=where) == ([A, COLON, SPACE_B, B, 0], [N, N, N, B, 0])
    assert one(tmp_path, "a:", " bb", tokenizer=where) == ([A, COLON, SPACE_B, B, 0], [N, N, SPACE_B, B, 0])


def test_prompt_and_completion_are_encoded_as_one_text(tmp_path):
    """Elsewhere: the sides are encoded apart, so that training sees other ids than the model gets when it is used."""
    where = merging(tmp_path / "tok")
    sides = [("a: ", "b"), ("a:", " b"), ("", "a: b"), ("a", ": b")]
    records = [{"prompt": prompt, "completion": completion} for prompt, completion in sides]
    found = packed(tmp_path, records, tokenizer=where)
    assert [found[n][0] for n in range(4)] == [[A, COLON, SPACE_B, 0]] * 4


def test_a_normalizer_that_changes_lengths_moves_no_label(tmp_path):
    """Elsewhere: the prompt's length in the text before normalization is taken for the one after it."""
    where = merging(tmp_path / "tok", normalizer=normalizers.NFC())
    found = one(tmp_path, "e\u0301e\u0301", "bb", tokenizer=where)
    assert found == ([E1, E2, E1, E2, B, B, 0], [N, N, N, N, B, B, 0])
    lowered = merging(tmp_path / "lower", normalizer=normalizers.Lowercase())
    assert one(tmp_path, "AA", "BB", tokenizer=lowered) == ([A, A, B, B, 0], [N, N, B, B, 0])
