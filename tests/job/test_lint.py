"""What the summary warns of: for each warning records that show it, and for all of them records that do not."""
# ruff: noqa: E501  a conversation reads best on one line

from io import BytesIO

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from job_helpers import TINY_CONFIG, pack, packed, tiny_bpe, write_lines
from test_job_runs import CHATML
from tokenizers import processors

import packtool
from packtool.errors import DataError
from packtool.job.lint import repeats
from packtool.render import lint
from packtool.render.lint import (
    CUT,
    DOUBLED_BOS,
    DUPLICATE,
    HEADER_TRAINED,
    LITERAL_CONTROL,
    MARKS_WITHOUT_END,
    NO_TRAINED_END,
    OUT_OF_TURN,
    STRADDLED,
    TURN_END_AS_EOS,
    UNBALANCED_THOUGHT,
    lint_messages,
    lint_words,
)

U, A, S, T = ({"role": role, "content": f"{role} text"} for role in ("user", "assistant", "system", "tool"))
D = {"role": "developer", "content": "rules"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
SAID = {"role": "assistant", "content": '<tool_call>\n{"name": "f"}\n</tool_call>'}


def chat(*messages):
    return {"messages": list(messages)}


def warned(folder, records, **settings):
    """warning -> (how often, line of the first)."""
    summary, _ = pack(folder, records, **settings)
    found = {}
    for text, (count, first) in summary.warnings.items():
        file, line = first.split(", line ")
        assert file == "data.jsonl"
        found[text] = (count, int(line))
    return found


# ------------------------------------------------------------------------------------------------------------ clean data


@pytest.mark.parametrize(
    ("records", "settings"),
    [
        ([{"text": "a < b"}, {"text": "<think>"}, {"text": "<im_end>"}], {}),
        ([{"text": "ab"}, {"text": "abcdefghij"}], {"max_seq_len": 4}),  # plain text is split by design
        ([{"prompt": "</think>", "completion": "a"}, {"prompt": "b", "completion": "<think>c</think>"}], {}),
        ([{"instruction": "a", "output": "b"}, {"instruction": "b", "output": "a"}], {}),
        ([chat(U, A), chat(S, U, A, U, A), chat(D, U, {**A, "content": "<thought>b</thought>"})], {}),
        ([chat(U, CALL, T, T, A), chat(U, SAID, T, A), chat(U, CALL)], {}),
        ([{"prompt": [U], "completion": [A]}], {}),
        ([{"input_ids": [1, 1, 3]}, {"input_ids": [1, 3, 1]}, {"input_ids": [3, 1, 1]}], {"tokenizer": ""}),
        ([{"input_ids": [257, 1, 258]}, {"input_ids": [257, 1, 258, 257]}], {}),
        ([{"input_ids": [1, 2], "labels": [-100, -100]}, {"input_ids": [257, 1, 258], "labels": [-100, 1, 258]}], {}),
        ([chat(U, {**A, "weight": 0}), chat(S, U, A)], {}),  # nothing trained: dropped, and counted so
        ([chat(U, A, U, {**A, "weight": 0}), chat(S, U, A)], {"train_on": "last"}),
    ],
)  # fmt: skip
def test_clean_records_draw_no_warning(tmp_path, records, settings):
    assert warned(tmp_path, records, **settings) == {}
    assert pack(tmp_path, records, strict=True, **settings)[0].warnings == {}


# ------------------------------------------------------------------------------------------------- tokens of one sample


def test_bos_twice_in_ids(tmp_path):
    ids = [[257, 1, 258], [257, 257, 2, 258], [257, 3, 257, 258], [257, 257, 258]]
    assert warned(tmp_path, [{"input_ids": row} for row in ids]) == {DOUBLED_BOS: (2, 2)}


def test_bos_alone_is_not_twice_and_the_next_sample_does_not_count(tmp_path):
    ids = [[258, 257], [257, 1, 258]]
    assert DOUBLED_BOS not in warned(tmp_path, [{"input_ids": row} for row in ids])


def test_bos_twice_in_text(tmp_path):
    """One BOS in the text stands for the tokenizer's; a second one is too many, whoever puts the first."""
    records = [{"text": "<bos>a"}, {"text": "b"}, {"text": "<bos><bos>c"}]
    ids = packed(tmp_path, records, bos="yes", allow_special=True)
    assert [ids[i][0][:3] for i in range(3)] == [[257, 97, 258], [257, 98, 258], [257, 257, 99]]
    assert warned(tmp_path, records, bos="yes", allow_special=True) == {DOUBLED_BOS: (1, 3)}


def test_bos_twice_in_a_conversation(tmp_path):
    template = "{{ bos_token }}{% for m in messages %}{{ '<|turn|>' + m.role + '\\n' + m.content + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|turn|>assistant\\n' }}{% endif %}"
    for start, expected in (("", {}), ("{{ bos_token }}", {DOUBLED_BOS: (2, 1)})):
        tiny_bpe(tmp_path / "tok", config={**TINY_CONFIG, "chat_template": start + template})
        assert warned(tmp_path, [chat(U, A), chat(S, U, A)], tokenizer=tmp_path / "tok") == expected


def test_bos_of_several_ids_is_doubled_as_a_whole(tmp_path):
    """GLM puts two tokens in front."""
    tokenizer = tiny_bpe(tmp_path / "tok", config={"eos_token": "<|end|>"})
    pair = [(token, tokenizer.token_to_id(token)) for token in ("<|begin|>", "<|turn|>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> <|turn|> $A", special_tokens=pair)
    tokenizer.save(str(tmp_path / "tok" / "tokenizer.json"))
    (begin, turn), end = (number for _, number in pair), tokenizer.token_to_id("<|end|>")
    rows = [[begin, turn, end], [begin, begin, end], [begin, turn, begin, end], [begin, turn, begin, turn, end]]
    assert warned(tmp_path, [{"input_ids": row} for row in rows], tokenizer=tmp_path / "tok") == {DOUBLED_BOS: (1, 4)}


def test_no_trained_end_in_ids(tmp_path):
    records = [
        {"input_ids": [1, 2, 258], "labels": [-100, 2, 258]},
        {"input_ids": [3, 2, 258], "labels": [-100, 2, -100]},  # the end is there, and untrained
        {"input_ids": [4, 2, 5], "labels": [-100, 2, 5]},
        {"input_ids": [5, 258, 2], "labels": [-100, 258, 2]},
        {"input_ids": [258, 6], "labels": [258, 6]},  # nothing comes before a first token, so it is not trained
    ]
    assert warned(tmp_path, records) == {NO_TRAINED_END: (3, 2)}
    assert warned(tmp_path, records, tokenizer="", max_seq_len=8) == {}  # whose ids these are is not known


def test_an_end_of_another_name(tmp_path):
    records = [{"input_ids": [1, 260]}, {"input_ids": [2, 258]}]
    assert warned(tmp_path, records, eos="<|im_end|>") == {NO_TRAINED_END: (1, 2)}


OUTSIDE = (
    "{% for m in messages %}{{ '<|turn|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{{ '<|pad|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn|>assistant\\n' }}{% endif %}"
)
INSIDE = OUTSIDE.replace("{% endgeneration %}{% else %}", "{{ '<|pad|>' }}{% endgeneration %}{% else %}").replace(
    "{% endif %}{{ '<|pad|>' }}", "{{ '<|pad|>' }}{% endif %}"
)


def test_marks_without_the_turn_end(tmp_path):
    for template, expected in ((INSIDE, {}), (OUTSIDE, {MARKS_WITHOUT_END: (2, 1), NO_TRAINED_END: (2, 1)})):
        tiny_bpe(tmp_path / "tok", config={**TINY_CONFIG, "chat_template": template})
        assert warned(tmp_path, [chat(U, A), chat(S, U, A)], tokenizer=tmp_path / "tok") == expected


def test_a_template_whose_turn_end_cannot_be_told_may_end_a_turn_with_any_control_token(tmp_path):
    """It has no plain loop over the messages, so its marks are all that is known."""
    template = (
        "{{ '<|turn|>user\\n' + messages[0].content + '<|turn|>assistant\\n' }}"
        "{% generation %}{{ messages[1].content }}<|pad|>{% endgeneration %}"
    )
    tiny_bpe(tmp_path / "tok", config={**TINY_CONFIG, "chat_template": template})
    assert warned(tmp_path, [chat(U, A)], tokenizer=tmp_path / "tok") == {}
    bare = template.replace("<|pad|>", "")
    tiny_bpe(tmp_path / "tok", config={**TINY_CONFIG, "chat_template": bare})
    assert warned(tmp_path, [chat(U, A)], tokenizer=tmp_path / "tok") == {NO_TRAINED_END: (1, 1)}


def test_a_token_that_straddles_the_start_of_what_is_trained(tmp_path):
    """ "A: " and "yes" give the token " yes", which starts in the prompt; so in engines with offsets of each kind."""
    joined = {"prompt": "#", "completion": " the lazy dog"}
    spaced = {"prompt": "# ", "completion": "the lazy dog"}
    tiny_bpe(tmp_path / "fast", config=TINY_CONFIG)
    tiny_bpe(tmp_path / "slow", config=TINY_CONFIG, normalizer="Lowercase")
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["# the lazy dog"] * 50), model_writer=model, vocab_size=24, model_type="bpe",
        minloglevel=2,
    )  # fmt: skip
    (tmp_path / "sp.model").write_bytes(model.getvalue())
    for name in ("fast", "slow", "sp.model"):
        assert warned(tmp_path, [joined, spaced], tokenizer=tmp_path / name).get(STRADDLED) == (1, 2), name
        assert STRADDLED not in warned(tmp_path, [joined], tokenizer=tmp_path / name)
    assert warned(tmp_path, [joined, spaced]).get(STRADDLED) is None  # bytes straddle nothing


def test_a_turn_end_of_text_is_not_looked_for_among_ids(tmp_path):
    """The last piece of text may be one of many tokens, so ids do not tell whether the turn ends."""
    template = "{% for m in messages %}{{ m.role + ': ' + m.content + ' ###\\n' }}{% endfor %}"
    tiny_bpe(tmp_path / "tok", config={**TINY_CONFIG, "chat_template": template})
    found = warned(tmp_path, [chat(U, A)], tokenizer=tmp_path / "tok", turn_end=" ###")
    assert found == {HEADER_TRAINED: (1, 1)}


# ----------------------------------------------------------------------------------------------- what records spell out


def test_control_tokens_spelled_out(tmp_path):
    records = [{"text": "a<|im_end"}, {"text": "b<|im_end|><eos>"}, {"text": "c"}, {"text": "<eos>"}]
    assert warned(tmp_path, records) == {LITERAL_CONTROL: (2, 2)}
    assert warned(tmp_path, records, allow_special=True) == {}


def test_control_tokens_of_the_template_are_not_the_records(tmp_path):
    assert warned(tmp_path, [chat(U, A), chat(U, {**A, "content": "say <|im_start|>"})]) == {LITERAL_CONTROL: (1, 2)}


def test_control_tokens_in_a_tokenizer_json(tmp_path):
    tiny_bpe(tmp_path / "tok", config=TINY_CONFIG)
    records = [
        {"text": "The fox <plain>"},
        {"text": "The <|end|>"},
        {"text": ""},
        {"text": "<|turn|>"},
        {"text": "\U0010fffe"},
    ]
    assert warned(tmp_path, records, tokenizer=tmp_path / "tok") == {LITERAL_CONTROL: (2, 2)}
    assert warned(tmp_path, records, tokenizer=tmp_path / "tok", allow_special=True) == {}


def test_control_tokens_in_a_sentence_piece_model(tmp_path):
    """The library never makes control pieces from text, so nothing is broken; the record is odd all the same."""
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the quick brown fox", "jumps over the lazy dog", "again and again"]),
        model_writer=model, vocab_size=40, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    (tmp_path / "m.model").write_bytes(model.getvalue())
    records = [{"text": "the fox"}, {"text": "the </s> fox"}, {"text": "<s>"}, {"text": "the dog"}]
    assert warned(tmp_path, records, tokenizer=tmp_path / "m.model") == {LITERAL_CONTROL: (2, 2)}


@pytest.mark.parametrize("name", ["think", "thinking", "thought", "reasoning", "reflection"])
def test_think_tags(name):
    one, two = f"<{name}>", f"</{name}>"
    for text in (one, two, f"a{one}b", f"{one}{one}b{two}", f"{one}a<{name}s>", f"{one}</ {name}>"):
        assert lint_words(text) == (UNBALANCED_THOUGHT,), text
    for text in ("", "a < b", f"{one}{two}", f"{one}a{two}b{one}c{two}", f"<{name}s>", f"< {name}>"):
        assert lint_words(text) == (), text


def test_think_tags_count_where_the_model_writes(tmp_path):
    half = "<think>so"
    records = [
        chat({**U, "content": half}, A),
        chat(U, {**A, "content": half}),
        chat(U, {**A, "content": "so</think>a"}, U, {**A, "content": half}),  # told apart message by message
    ]
    assert warned(tmp_path, records) == {UNBALANCED_THOUGHT: (2, 2)}
    pairs = [{"prompt": half, "completion": "a"}, {"prompt": "b", "completion": half}]
    assert warned(tmp_path, pairs) == {UNBALANCED_THOUGHT: (1, 2)}
    pairs = [{"instruction": half, "output": "a"}, {"instruction": "b", "output": half}]
    assert warned(tmp_path, pairs) == {UNBALANCED_THOUGHT: (1, 2)}


# ---------------------------------------------------------------------------------------------------------------- roles

IN_TURN = {
    "question, answer": [U, A],
    "system first": [S, U, A, U, A],
    "developer first": [D, U, A],
    "system and developer first": [S, D, U, A],
    "a call answered": [U, CALL, T, A],
    "two answers of tools": [U, CALL, T, T, A, U, A],
    "call after call": [U, CALL, T, CALL, T, A],
    "a call without its answer": [U, CALL, A],
    "a call at the end": [U, CALL],
    "a tool at the end": [U, CALL, T],
    "a call in the text": [U, SAID, T, A],
    "system alone": [S],
}
OUT = {
    "user twice": [U, U, A],
    "assistant twice": [U, A, A],
    "assistant twice after a tool": [U, CALL, T, A, A],
    "assistant first": [A, U, A],
    "assistant after system": [S, A],
    "system later": [U, S, A],
    "system after an answer": [U, A, S, U, A],
    "system twice": [S, S, U, A],
    "tool without a call": [U, A, T, A],
    "tool after user": [U, T, A],
    "tool first": [T, U, A],
    "last user without an answer": [U, A, U],
    "user alone": [U],
}


@pytest.mark.parametrize("name", IN_TURN)
def test_roles_in_turn(name):
    assert lint_messages(IN_TURN[name]) == ()


@pytest.mark.parametrize("name", OUT)
def test_roles_out_of_turn(name):
    assert lint_messages(OUT[name]) == (OUT_OF_TURN,)


def test_roles_are_counted_in_every_shape(tmp_path):
    assert warned(tmp_path, [chat(U, A), chat(U, A, A), chat(A)]) == {OUT_OF_TURN: (2, 2)}
    assert warned(tmp_path, [{"prompt": [U, U], "completion": [A]}, {"prompt": [U], "completion": [A]}]) == {
        OUT_OF_TURN: (1, 1)
    }


# ----------------------------------------------------------------------------------------------------------------- cuts


def test_samples_that_are_cut(tmp_path):
    pairs = [{"prompt": "a", "completion": answer} for answer in ("b", "cdefghij", "k", "lmnopqrs")]
    assert warned(tmp_path, pairs, max_seq_len=8) == {CUT: (2, 2)}
    assert warned(tmp_path, pairs, max_seq_len=8, overlong="split") == {CUT: (2, 2)}
    assert warned(tmp_path, pairs, max_seq_len=8, overlong="drop") == {}
    assert warned(tmp_path, pairs[:1] + pairs[2:3], max_seq_len=8) == {}
    lines = [{"text": "ab"}, {"text": "cdefghij"}]
    assert warned(tmp_path, lines, max_seq_len=8) == {}
    assert warned(tmp_path, lines, max_seq_len=8, overlong="truncate") == {CUT: (1, 2)}


# ----------------------------------------------------------------------------------------------------------- duplicates


def test_records_that_repeat_an_earlier_one(tmp_path):
    texts = ["a", "b", "c", "b", "a", "b", "", ""]
    records = [{"text": text} for text in texts]
    assert warned(tmp_path, records) == {DUPLICATE: (3, 4)}
    assert warned(tmp_path, records, limit=4) == {DUPLICATE: (1, 4)}
    assert warned(tmp_path, records, limit=3) == {}


def test_repeats_in_another_file_and_block(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "x"}, {"text": "y"}])
    write_lines(tmp_path / "b.jsonl", [{"text": "z"}, {"text": ""}, {"text": "y"}])
    for workers in (1, 2):
        summary = packtool.pack(
            [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], out=tmp_path / "o", max_seq_len=8, tokenizer="bytes",
            workers=workers, overwrite=True,
        )  # fmt: skip
        assert summary.warnings == {DUPLICATE: [1, "b.jsonl, line 3"]}


def test_what_is_trained_does_not_tell_records_apart(tmp_path):
    records = [{"input_ids": [1, 2, 258], "labels": [-100, label, 258]} for label in (2, -100)]
    assert warned(tmp_path, records) == {DUPLICATE: (1, 2)}


@given(st.lists(st.integers(0, 6)))
def test_repeats_are_what_a_loop_finds(values):
    seen, again = set(), []
    for place, value in enumerate(values):
        if value in seen:
            again.append(place)
        seen.add(value)
    assert repeats(np.array(values, np.uint64)) == (len(again), again[0] if again else -1)


# ---------------------------------------------------------------------------------------------- the EOS of plain text


def test_a_turn_end_as_eos_is_a_warning_beside_the_notice(tmp_path):
    tiny_bpe(tmp_path / "tok", config={**TINY_CONFIG, "chat_template": CHATML})
    records = [{"text": ""}, {"text": "The quick"}, {"text": "brown fox"}]
    assert warned(tmp_path, records, tokenizer=tmp_path / "tok") == {TURN_END_AS_EOS: (2, 2)}
    assert warned(tmp_path, records, tokenizer=tmp_path / "tok", eos="<|pad|>") == {}
    with pytest.raises(DataError, match=TURN_END_AS_EOS):
        pack(tmp_path, records, tokenizer=tmp_path / "tok", strict=True)


# --------------------------------------------------------------------------------------------------------------- strict


@pytest.mark.parametrize("dry_run", [False, True])
def test_strict_lists_every_warning_and_leaves_nothing_behind(tmp_path, dry_run):
    records = [{"prompt": "a", "completion": text} for text in ("b", "<think>", "b", "b", "cdefghijklmnop")]
    with pytest.raises(DataError) as caught:
        pack(tmp_path, records, max_seq_len=16, strict=True, dry_run=dry_run)
    assert type(caught.value) is DataError
    assert caught.value.message == (
        "`--strict`: there are 2 warnings\n"
        "  the same tokens as an earlier record: 2 records, first at data.jsonl, line 3\n"
        "  think tags that do not pair up: 1 records, first at data.jsonl, line 2"
    )
    assert (
        caught.value.hint == "mend the records, or leave `--strict` out; docs/concepts.md says what each warning means"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_strict_fails_for_what_only_the_plan_knows(tmp_path):
    with pytest.raises(DataError) as caught:
        pack(tmp_path, [{"prompt": "a", "completion": "bcdefgh"}], max_seq_len=8, strict=True)
    assert caught.value.message == (
        "`--strict`: there is 1 warning\n  samples cut at the pack's length: 1 records, first at data.jsonl, line 1"
    )


def test_strict_keeps_the_dataset_that_was_there(tmp_path):
    _, out = pack(tmp_path, [{"text": "a"}])
    before = (out / "manifest.json").read_bytes()
    with pytest.raises(DataError, match="--strict"):
        pack(tmp_path, [{"text": "a"}, {"text": "a"}], strict=True)
    assert (out / "manifest.json").read_bytes() == before


def test_strict_and_max_lost_shape_nothing(tmp_path):
    manifests = []
    for settings in ({}, {"strict": True, "max_lost": "0%"}):
        _, out = pack(tmp_path, [{"text": "a"}, {"text": "b"}], **settings)
        manifests.append(((out / "manifest.json").read_bytes(), (out / "settings.yaml").read_bytes()))
    assert manifests[0] == manifests[1]


# ------------------------------------------------------------------------------------------------------------- max-lost

# 4 + 12 + 4 tokens: cut at 8, the second one loses 4 of 20 tokens; dropped, 12.
PAIRS = [{"prompt": "a", "completion": text} for text in ("bc", "abcdefghij", "de")]
WHY = "\n  {} ({}): {}; the first at data.jsonl, line 2"


@pytest.mark.parametrize("share", ["20%", "20.0%", "99.5%", "100%"])
def test_a_loss_of_exactly_the_share_passes(tmp_path, share):
    summary, _ = pack(tmp_path, PAIRS, max_seq_len=8, max_lost=share)
    assert summary.lost == {"truncated": 4}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("share", ["0%", "19.99%", "19.9999999999999999%"])
def test_a_greater_loss_of_tokens_fails(tmp_path, share, dry_run):
    with pytest.raises(DataError) as caught:
        pack(tmp_path, PAIRS, max_seq_len=8, max_lost=share, dry_run=dry_run)
    assert type(caught.value) is DataError
    assert caught.value.message == (
        f"more is lost than `--max-lost {share}` allows"
        + WHY.format("4 of 20 tokens", "20.00%", "4 were cut off at the pack's length")
    )
    assert caught.value.hint.startswith("`--overlong`, `--max-seq-len` and `--train-on` decide what is kept")
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_a_loss_of_records_fails_by_itself(tmp_path):
    """Bad and empty records have no tokens to lose."""
    records = [{"text": "a"}, {"text": 1}, {"text": ""}, {"text": " "}, {"text": "b"}]
    values = {"kind": "text", "on_bad": "skip"}
    pack(tmp_path, records, max_lost="60%", **values)
    with pytest.raises(DataError) as caught:
        pack(tmp_path, records, max_lost="59%", **values)
    why = WHY.format("3 of 5 records", "60.00%", "1 were bad, 2 were empty")
    assert caught.value.message == f"more is lost than `--max-lost 59%` allows{why}"


def test_both_losses_with_every_reason(tmp_path):
    records = [
        {"input_ids": [1] * 8, "labels": [1] * 8},
        {"input_ids": [2] * 10, "labels": [2] * 10},  # loses 2
        {"input_ids": [3] * 5, "labels": [-100] * 5},  # untrained
    ]
    with pytest.raises(DataError) as caught:
        pack(tmp_path, records, max_seq_len=8, max_lost="1%")
    tokens = "2 were cut off at the pack's length, 5 were in samples without a trained token"
    assert caught.value.message == (
        "more is lost than `--max-lost 1%` allows"
        + WHY.format("7 of 23 tokens", "30.43%", tokens)
        + "\n  1 of 3 records (33.33%): 1 had no trained token; the first at data.jsonl, line 3"
    )
    with pytest.raises(DataError) as caught:
        pack(tmp_path, records, max_seq_len=8, max_lost="1%", overlong="drop")
    tokens = "10 were in samples longer than a pack, 5 were in samples without a trained token"
    counts = "1 were longer than a pack, 1 had no trained token"
    assert caught.value.message == (
        "more is lost than `--max-lost 1%` allows"
        + WHY.format("15 of 23 tokens", "65.22%", tokens)
        + WHY.format("2 of 3 records", "66.67%", counts)
    )


@pytest.mark.parametrize("settings", [{"max_packs": 1}, {"limit": 1}, {"limit": "50%"}, {"overlong": "split"}])
def test_what_was_left_out_on_purpose_is_not_lost(tmp_path, settings):
    records = [{"text": f"{place}" * 7} for place in range(10)]
    summary, _ = pack(tmp_path, records, max_seq_len=8, max_lost="0%", **settings)
    assert summary.packs < 10 or settings == {"overlong": "split"}


def test_a_cut_is_lost_though_its_pack_is_left_out(tmp_path):
    with pytest.raises(DataError, match=r"4 of 20 tokens \(20.00%\)"):
        pack(tmp_path, PAIRS, max_seq_len=8, max_lost="0%", max_packs=1, strategy="greedy")


def test_a_set_that_was_empty_and_one_that_became_empty(tmp_path):
    """Neither `--max-lost` nor `--strict` comes between."""
    values = {"max_lost": "0%", "strict": True, "kind": "text"}
    (tmp_path / "a.jsonl").write_text("[]")
    with pytest.raises(DataError, match=r"^the inputs hold no record at all$"):
        packtool.pack([tmp_path / "a.jsonl"], out=tmp_path / "o", max_seq_len=8, tokenizer="bytes", **values)
    with pytest.raises(DataError, match=r"^nothing is left to pack: of 2 records, 2 are empty$"):
        pack(tmp_path, [{"text": ""}, {"text": ""}], **values)


# ---------------------------------------------------------------------------------------------------------------- texts


def test_texts_are_short_fixed_and_differ():
    texts = [getattr(lint, name) for name in lint.__all__ if name.isupper()]
    assert len(texts) == len(set(texts)) > 20
    assert all(len(text) < 90 and not text.endswith(".") for text in texts)
