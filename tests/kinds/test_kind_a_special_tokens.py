"""Kind A: special tokens that come twice, are missing, or are masked; ids and labels by hand, a byte is its own id."""

import pytest
from job_helpers import BOS, END, EOS, PAD, START, pack, packed, tiny_bpe

import packtool

N = -100
TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
TALK_IDS = [START, *b"user\nq", END, 10, START, *b"assistant\n", 97, END, 10]
TALK_LABELS = [N] * (len(TALK_IDS) - 3) + [97, END, N]
# The template writes BOS, as Llama 3's does.
WITH_BOS = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def rows(out):
    return [(row.tokens.tolist(), row.labels.tolist()) for row in packtool.open_dataset(out)]


def test_bos_comes_once_where_template_and_tokenizer_both_write_it(tmp_path):
    """Elsewhere: the rendered chat is encoded with special tokens on, so it starts with two BOS."""
    (tmp_path / "t.jinja").write_text(WITH_BOS)
    found = packed(tmp_path, [{"messages": TALK}], bos="yes", chat_template=tmp_path / "t.jinja")
    assert found == {0: ([BOS, *TALK_IDS], [N, *TALK_LABELS])}


def test_bos_spelled_in_text_that_may_hold_it_is_not_doubled(tmp_path):
    """Elsewhere: text that was rendered before gets a second BOS."""
    found = packed(tmp_path, [{"text": "<bos>ab"}, {"text": "ab"}], bos="yes", allow_special=True)
    assert found == {n: ([BOS, 97, 98, EOS], [N, 97, 98, EOS]) for n in (0, 1)}


def test_eos_spelled_in_text_that_may_hold_it_is_not_doubled(tmp_path):
    """Elsewhere: text that ends in EOS gets another one; whether it is there is told by the id."""
    found = packed(tmp_path, [{"text": "ab<eos>"}, {"text": "ab"}], allow_special=True)
    assert found == {n: ([97, 98, EOS], [N, 98, EOS]) for n in (0, 1)}


def test_eos_spelled_in_data_is_text_and_the_real_one_follows(tmp_path):
    """Elsewhere: a literal EOS in a text ends it for the model, or stands in for the real one."""
    found = packed(tmp_path, [{"text": "ab<eos>"}])
    assert found == {0: ([97, 98, *b"<eos>", EOS], [N, 98, *b"<eos>", EOS])}


@pytest.mark.parametrize(
    ("record", "prompt"),
    [({"text": "abc"}, 1), ({"prompt": "a", "completion": "bc"}, 1), ({"prompt": "ab", "completion": "c"}, 2)],
)
def test_eos_is_appended_and_trained(tmp_path, record, prompt):
    """Elsewhere: EOS is never appended, or appended and masked, and the model cannot stop."""
    assert packed(tmp_path, [record]) == {0: ([97, 98, 99, EOS], [N] * prompt + [*b"abc"[prompt:], EOS])}


def test_eos_does_not_depend_on_what_the_tokenizer_adds(tmp_path):
    """Elsewhere: EOS is left to the tokenizer's post-processor, which adds BOS only."""
    config = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": "<|pad|>", "add_eos_token": False}
    tokenizer = tiny_bpe(tmp_path / "tok", config=config)
    ids, labels = packed(tmp_path, [{"text": "fox"}], tokenizer=tmp_path / "tok")[0]
    inner = tokenizer.encode("fox", add_special_tokens=False).ids
    assert ids == [tokenizer.token_to_id("<|begin|>"), *inner, tokenizer.token_to_id("<|end|>")]
    assert labels == [N, *ids[1:]]


def test_every_two_documents_have_eos_between_them_and_padding_is_not_trained(tmp_path):
    """Elsewhere: EOS or BOS is the filler of the last row, not the end of each document, and the filler is trained."""
    _, out = pack(tmp_path, [{"text": "ab"}, {"text": "c"}], max_seq_len=8, strategy="greedy")
    assert rows(out) == [([97, 98, EOS, 99, EOS, PAD, PAD, PAD], [N, 98, EOS, N, EOS, N, N, N])]


def test_eos_comes_at_the_true_end_of_a_document_only(tmp_path):
    """Elsewhere: every window of a long document, and every sample that was cut, ends with an EOS."""
    _, out = pack(tmp_path, [{"text": "abcdef"}], max_seq_len=3)
    assert sorted(tokens for tokens, _ in rows(out)) == [[97, 98, 99], [100, 101, 102], [EOS, PAD, PAD]]
    _, out = pack(tmp_path, [{"text": "abcdef"}], max_seq_len=3, overlong="truncate")
    assert rows(out) == [([97, 98, 99], [N, 98, 99])]


@pytest.mark.parametrize("pad", [EOS, 98])
def test_padding_is_known_by_its_place_and_not_by_its_id(tmp_path, pad):
    """Elsewhere: pad == eos, and whatever has the pad's id is masked, the real EOS with it."""
    _, out = pack(tmp_path, [{"text": "abb"}], pad_id=pad, max_seq_len=6)
    assert rows(out) == [([97, 98, 98, EOS, pad, pad], [N, 98, 98, EOS, N, N])]


def test_turn_ends_are_trained_where_the_pad_is_the_turn_end(tmp_path):
    """Elsewhere: pad == <|im_end|>, and the closing token of every turn is masked."""
    twice = [*TALK, *TALK]
    _, out = pack(tmp_path, [{"messages": twice}], pad_id=END, max_seq_len=2 * len(TALK_IDS) + 2)
    assert rows(out) == [([*TALK_IDS, *TALK_IDS, END, END], [*TALK_LABELS, *TALK_LABELS, N, N])]


def test_a_chat_gets_no_eos_beside_its_turn_end(tmp_path):
    """Elsewhere: a side of a pair ends with the template's end and one more EOS."""
    assert packed(tmp_path, [{"messages": TALK}], eos="<|im_end|>") == {0: (TALK_IDS, TALK_LABELS)}


def test_nothing_stands_between_prompt_and_completion(tmp_path):
    """Elsewhere: both sides are framed, so that the completion starts with BOS or an end token."""
    found = packed(tmp_path, [{"prompt": "ab", "completion": "c"}], bos="yes")
    assert found == {0: ([BOS, 97, 98, 99, EOS], [N, N, N, 99, EOS])}
