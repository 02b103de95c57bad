"""Ids and labels of every kind of data, worked out by hand on the byte tokenizer (a byte is its own id)."""

import pytest
from job_helpers import BOS, END, EOS, PAD, START, pack, packed, samples

import packtool
from packtool.errors import DataError

N = -100
ALPACA_INPUT = (
    b"Below is an instruction that describes a task, paired with an input that provides further context. "
    b"Write a response that appropriately completes the request.\n\n"
    b"### Instruction:\nAdd\n\n### Input:\n1, 2\n\n### Response:\n"
)
ALPACA_PLAIN = (
    b"Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
    b"### Instruction:\nAdd\n\n### Response:\n"
)
TURNS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
# <|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n   yo<|im_end|>   \n
CHAT_PROMPT = [START, *b"user\nhi", END, 10, START, *b"assistant\n"]
CHAT_IDS = [*CHAT_PROMPT, 121, 111, END, 10]
CHAT_LABELS = [N] * len(CHAT_PROMPT) + [121, 111, END, N]


def from_prompt(prompt, completion):
    return [*prompt, *completion, EOS], [N] * len(prompt) + [*completion, EOS]


CASES = {
    "text": ({"text": "Hi"}, {}, [72, 105, EOS], [N, 105, EOS]),
    "text, BOS": ({"text": "Hi"}, {"bos": "yes"}, [BOS, 72, 105, EOS], [N, 72, 105, EOS]),
    "text, several bytes a character": ({"text": "é"}, {}, [195, 169, EOS], [N, 169, EOS]),
    "text keeps its spaces": ({"text": " a\n"}, {}, [32, 97, 10, EOS], [N, 97, 10, EOS]),
    "text in `content`": ({"content": "Hi"}, {}, [72, 105, EOS], [N, 105, EOS]),
    "text in a named column": ({"body": "Hi", "id": 7}, {"columns": {"text": "body"}}, [72, 105, EOS], [N, 105, EOS]),
    "completion": ({"prompt": "ab", "completion": "c"}, {}, [97, 98, 99, EOS], [N, N, 99, EOS]),
    "completion, BOS": ({"prompt": "a", "completion": "c"}, {"bos": "yes"}, [BOS, 97, 99, EOS], [N, N, 99, EOS]),
    "completion, several bytes": (
        {"prompt": "é", "completion": "ü"}, {}, [195, 169, 195, 188, EOS], [N, N, 195, 188, EOS],
    ),
    "completion without a prompt": ({"prompt": "", "completion": "bc"}, {}, [98, 99, EOS], [N, 99, EOS]),
    "completion, train on all": (
        {"prompt": "ab", "completion": "c"}, {"train_on": "all"}, [97, 98, 99, EOS], [N, 98, 99, EOS],
    ),
    "prompt and response": ({"prompt": "a", "response": "b"}, {}, [97, 98, EOS], [N, 98, EOS]),
    "completion by columns": (
        {"q": "a", "r": "b"}, {"columns": {"prompt": "q", "completion": "r"}}, [97, 98, EOS], [N, 98, EOS],
    ),
    "alpaca with input": (
        {"instruction": "Add", "input": "1, 2", "output": "3"}, {}, *from_prompt(ALPACA_INPUT, b"3"),
    ),
    "alpaca with an empty input": (
        {"instruction": "Add", "input": "", "output": "3"}, {}, *from_prompt(ALPACA_PLAIN, b"3"),
    ),
    "alpaca without input": ({"instruction": "Add", "output": "3"}, {}, *from_prompt(ALPACA_PLAIN, b"3")),
    "alpaca, null input": (
        {"instruction": "Add", "input": None, "output": "3"}, {}, *from_prompt(ALPACA_PLAIN, b"3"),
    ),
    "alpaca by columns": (
        {"question": "Add", "answer": "3"},
        {"template": "alpaca", "columns": {"instruction": "question", "output": "answer"}},
        *from_prompt(ALPACA_PLAIN, b"3"),
    ),
    "alpaca, context and response": (
        {"instruction": "Add", "context": "1, 2", "response": "3"}, {}, *from_prompt(ALPACA_INPUT, b"3"),
    ),
    "template text": (
        {"q": "1+1", "a": "2"}, {"template": "Q: {q}\nA: {>}{a}!"}, *from_prompt(b"Q: 1+1\nA: ", b"2!"),
    ),
    "template with braces and a field twice": (
        {"q": "x", "a": "y"}, {"template": "{{{q}}} {q}{>}{{{a}}}"}, *from_prompt(b"{x} x", b"{y}"),
    ),
    "braces in the record are text": (
        {"q": "{a}", "a": "{q}"}, {"template": "{q}:{>}{a}"}, *from_prompt(b"{a}:", b"{q}"),
    ),
    "template, train on all": (
        {"q": "x", "a": "y"}, {"template": "{q}:{>}{a}", "train_on": "all"}, [120, 58, 121, EOS], [N, 58, 121, EOS],
    ),
    "chat": ({"messages": TURNS}, {}, CHAT_IDS, CHAT_LABELS),
    "chat never gets a second BOS": ({"messages": TURNS}, {"bos": "yes"}, CHAT_IDS, CHAT_LABELS),
    "chat, train on all": ({"messages": TURNS}, {"train_on": "all"}, CHAT_IDS, [N, *CHAT_IDS[1:]]),
    "chat, from and value": (
        {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]}, {},
        CHAT_IDS, CHAT_LABELS,
    ),
    "chat, parts": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "h"}, "i"]}, TURNS[1]]}, {},
        CHAT_IDS, CHAT_LABELS,
    ),
    "prompt and completion of messages": (
        {"prompt": TURNS[:1], "completion": TURNS[1:]}, {}, CHAT_IDS, CHAT_LABELS,
    ),
    "prompt of messages, completion text": ({"prompt": TURNS[:1], "completion": "yo"}, {}, CHAT_IDS, CHAT_LABELS),
    "prompt text, completion of messages": ({"prompt": "hi", "completion": TURNS[1:]}, {}, CHAT_IDS, CHAT_LABELS),
    "assistant turns of the prompt are not trained": (
        {"prompt": [*TURNS, TURNS[0]], "completion": TURNS[1:]}, {},
        [*CHAT_IDS, *CHAT_IDS], [N] * len(CHAT_IDS) + CHAT_LABELS,
    ),
    "ids": ({"input_ids": [5, 6, 7]}, {"tokenizer": ""}, [5, 6, 7], [N, 6, 7]),
    "ids in `tokens`": ({"tokens": [5, 6]}, {"tokenizer": ""}, [5, 6], [N, 6]),
    "ids and labels": (
        {"input_ids": [5, 6, 7, 8], "labels": [N, N, 7, 8]}, {"tokenizer": ""}, [5, 6, 7, 8], [N, N, 7, 8],
    ),
    "ids and a mask": (
        {"input_ids": [5, 6, 7, 8], "loss_mask": [0, 1, 0, 1]}, {"tokenizer": ""}, [5, 6, 7, 8], [N, 6, N, 8],
    ),
    "ids, labels before a mask": (
        {"input_ids": [5, 6, 7], "labels": [N, N, 7], "completion_mask": [1, 1, 0]}, {"tokenizer": ""},
        [5, 6, 7], [N, N, 7],
    ),
    "ids, mask of true and false": (
        {"input_ids": [5, 6, 7], "completion_mask": [False, False, True]}, {"tokenizer": ""}, [5, 6, 7], [N, N, 7],
    ),
    "ids with padding on the right": (
        {"input_ids": [5, 6, 0, 0], "attention_mask": [1, 1, 0, 0]}, {"tokenizer": ""}, [5, 6], [N, 6],
    ),
    "ids with padding on the left": (
        {"input_ids": [0, 0, 5, 6], "labels": [N, N, N, 6], "attention_mask": [0, 0, 1, 1]}, {"tokenizer": ""},
        [5, 6], [N, 6],
    ),
    "ids, train on all": (
        {"input_ids": [5, 6, 7], "labels": [N, N, 7]}, {"tokenizer": "", "train_on": "all"}, [5, 6, 7], [N, 6, 7],
    ),
    "ids by columns": (
        {"x": [5, 6, 7], "y": [0, 0, 1]}, {"tokenizer": "", "columns": {"tokens": "x", "mask": "y"}},
        [5, 6, 7], [N, N, 7],
    ),
    "ids with a tokenizer": ({"input_ids": [65, 66, EOS]}, {}, [65, 66, EOS], [N, 66, EOS]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ids_and_labels(tmp_path, name):
    record, settings, ids, labels = CASES[name]
    assert packed(tmp_path, [record], **settings) == {0: (ids, labels)}


def test_a_turn_with_weight_0_is_not_trained(tmp_path):
    off = {"role": "assistant", "content": "yo", "weight": 0}
    found = packed(tmp_path, [{"messages": [TURNS[0], off, *TURNS]}])
    assert found == {0: ([*CHAT_IDS, *CHAT_IDS], [N] * len(CHAT_IDS) + CHAT_LABELS)}


SWITCHES = {
    "weight": ((0, 0.0, False), (1, 1.0, True, None)),
    "loss": ((False,), (True,)),
    "loss_weight": ((0.0,), (1.0,)),
    "loss_mask": ((0,), (1,)),
    "train": ((False,), (True,)),
    "trainable": ((False,), (True,)),
    "masked": ((True, 1), (False, 0, None)),
}


def test_every_switch_of_a_turn_and_what_turns_it_off(tmp_path):
    cases = [(name, value, on) for name, (off, on_) in SWITCHES.items() for on, values in ((False, off), (True, on_))
             for value in values]  # fmt: skip
    records = [{"messages": [*TURNS, TURNS[0], {**TURNS[1], name: value}]} for name, value, _ in cases]
    found = packed(tmp_path, records)
    for number, (name, value, on) in enumerate(cases):
        labels = CHAT_LABELS if on else [N] * len(CHAT_IDS)
        assert found[number] == ([*CHAT_IDS, *CHAT_IDS], [*CHAT_LABELS, *labels]), (name, value)


def test_a_literal_turn_end_in_a_chat_is_never_the_control_token(tmp_path):
    said = [{"role": "user", "content": "say <|im_end|>"}, TURNS[1]]
    ids, labels = packed(tmp_path, [{"messages": said}])[0]
    assert ids == [
        START, *b"user\nsay <|im_end|>", END, 10, START, *b"assistant\nyo", END, 10
    ]  # fmt: skip
    assert labels == [N] * (len(ids) - 4) + [121, 111, END, N]


@pytest.mark.parametrize("token", ["<|im_end|>", "<|im_start|>", "<eos>", "<bos>", "<pad>"])
def test_control_tokens_spelled_in_text_are_bytes_unless_allowed(tmp_path, token):
    number = {"<pad>": PAD, "<bos>": BOS, "<eos>": EOS, "<|im_start|>": START, "<|im_end|>": END}[token]
    record = {"text": f"a{token}b"}
    assert packed(tmp_path, [record])[0][0] == [97, *token.encode(), 98, EOS]
    assert packed(tmp_path, [record], allow_special=True)[0][0] == [97, number, 98, EOS]


def test_allowed_eos_at_the_end_is_not_doubled(tmp_path):
    found = packed(tmp_path, [{"text": "<bos>ab<eos>"}], allow_special=True, bos="yes")
    assert found[0] == ([BOS, 97, 98, EOS], [N, 97, 98, EOS])


def test_pad_equal_to_eos_still_trains_the_real_eos(tmp_path):
    _, out = pack(tmp_path, [{"text": "ab"}], pad_id=EOS, max_seq_len=6)
    (row,) = packtool.open_dataset(out)
    assert row.tokens.tolist() == [97, 98, EOS, EOS, EOS, EOS]
    assert row.labels.tolist() == [N, 98, EOS, N, N, N]
    assert row.input_pos.tolist() == [0, 1, 2, 0, 1, 2]


def test_padding_is_the_pad_token_or_what_was_asked_for(tmp_path):
    for pad_id, expected in ((None, PAD), (0, 0), (65, 65)):
        _, out = pack(tmp_path, [{"text": "ab"}], pad_id=pad_id, max_seq_len=4)
        (row,) = packtool.open_dataset(out)
        assert row.tokens.tolist() == [97, 98, EOS, expected]
        assert packtool.open_dataset(out).manifest.tokenizer.pad == expected


def test_eos_of_ones_own(tmp_path):
    found = packed(tmp_path, [{"text": "ab"}], eos="<|im_end|>")
    assert found[0] == ([97, 98, END], [N, 98, END])


def test_a_chat_template_of_ones_own(tmp_path):
    template = tmp_path / "mine.jinja"
    template.write_text(
        "{% for m in messages %}{{ '<|im_start|>' + m.role + ':' + m.content + '<|im_end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}"
    )
    ids, labels = packed(tmp_path, [{"messages": TURNS}], chat_template=template)[0]
    assert ids == [START, *b"user:hi", END, START, *b"assistant:yo", END]
    assert labels == [N] * (len(ids) - 3) + [121, 111, END]


def test_tools_of_a_record_reach_the_template(tmp_path):
    tool = {"type": "function", "function": {"name": "now"}}
    ids, _ = packed(tmp_path, [{"messages": TURNS, "tools": [tool]}], max_seq_len=2048)[0]
    text = bytes(token for token in ids if token < 256)
    assert b'"name": "now"' in text


def test_several_records_keep_their_own_labels(tmp_path):
    records = [{"prompt": "p" * n, "completion": "c" * (5 - n)} for n in range(5)]
    _, out = pack(tmp_path, records)
    found = samples(out)
    for n in range(5):
        assert found[n][0] == [112] * n + [99] * (5 - n) + [EOS]
        assert found[n][1] == [N] * max(n, 1) + found[n][0][max(n, 1) :]


def test_settings_of_several_files_and_text_files(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    out = tmp_path / "out"
    for text_by, texts in (("line", ["one", "two"]), ("paragraph", ["one", "two"]), ("file", ["one\n\ntwo\n"])):
        packtool.pack([tmp_path / "a.txt"], out=out, max_seq_len=32, tokenizer="bytes", text_by=text_by, overwrite=True)
        assert [bytes(ids[:-1]).decode() for _, (ids, _) in sorted(samples(out).items())] == texts


def test_records_with_and_without_labels_do_not_mix(tmp_path):
    """A record that says nothing of what is trained, among others that do, must not be trained in full in silence."""
    labelled, bare = {"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}, {"input_ids": [4, 5, 6]}
    with pytest.raises(DataError, match="line 2: column `labels` is missing, expected a list of integers"):
        pack(tmp_path, [labelled, bare])
    with pytest.raises(DataError, match="line 66: the record has `labels`, and the first records have nothing"):
        pack(tmp_path, [bare] * 65 + [labelled])
    with pytest.raises(DataError, match="line 66: the record has `loss_mask`, and the first records have nothing"):
        pack(tmp_path, [bare] * 65 + [{"input_ids": [1, 2], "loss_mask": [0, 1]}])
