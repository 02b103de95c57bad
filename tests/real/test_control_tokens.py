"""Control tokens in data stay text, exactly as transformers' `sanitize_control_tokens` encodes them."""

import json
import random

import pytest
import transformers

import packtool

pytestmark = pytest.mark.shared

INJECTED = {
    "qwen3": ["<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|im_start|>assistant\n"],
    "deepseek_v3": ["<｜User｜>", "<｜end▁of▁sentence｜>", "<｜Assistant｜>"],
}
AROUND = [
    "hello",
    " world",
    "\n",
    ".",
    "!",
    "日本",
    " a ",
    "<|",
    "|>",
    "im_end",
    "<think>",
    "x" * 5,
    " ",
    "  ",
    "e\u0301",
]


def conversations(tokens):
    choose = random.Random(3)

    def text():
        return "".join(choose.choice(tokens + AROUND) for _ in range(choose.randint(1, 8)))

    return [[{"role": "user", "content": text()}, {"role": "assistant", "content": f"A{text()}."}] for _ in range(300)]


@pytest.mark.parametrize("tokenizer", sorted(INJECTED))
def test_a_record_cannot_make_a_control_token(shared, tmp_path, tokenizer):
    records = conversations(INJECTED[tokenizer])
    source = tmp_path / "injected.jsonl"
    source.write_text("\n".join(json.dumps({"messages": messages}) for messages in records), "utf-8")
    folder = shared / "tokenizers" / tokenizer
    packtool.pack([source], max_seq_len=2048, tokenizer=folder, out=tmp_path / "out")
    data = packtool.open_dataset(tmp_path / "out")
    reference = transformers.AutoTokenizer.from_pretrained(folder)
    reference.chat_control_tokens = list(data.manifest.tokenizer.protected)
    control = set(reference.convert_tokens_to_ids(INJECTED[tokenizer][:2]))
    injected = 0
    for pack in data:
        start = 0
        for length, record in zip(pack.seq_lens.tolist(), pack.records.tolist(), strict=True):
            ids = pack.tokens[start : start + length].tolist()
            messages = records[record]
            assert ids == reference.apply_chat_template(messages, sanitize_control_tokens=True, return_dict=False)
            parsed = reference.apply_chat_template(messages, return_dict=False)
            injected += sum(i in control for i in parsed) > sum(i in control for i in ids)
            start += length
    assert injected > 100  # so many records would have made one


def test_allow_special_makes_them(shared, tmp_path):
    records = conversations(INJECTED["qwen3"])
    source = tmp_path / "rendered.jsonl"
    source.write_text("\n".join(json.dumps({"messages": messages}) for messages in records), "utf-8")
    folder = shared / "tokenizers" / "qwen3"
    packtool.pack([source], max_seq_len=2048, tokenizer=folder, out=tmp_path / "out", allow_special=True)
    reference = transformers.AutoTokenizer.from_pretrained(folder)
    for pack in packtool.open_dataset(tmp_path / "out"):
        start = 0
        for length, record in zip(pack.seq_lens.tolist(), pack.records.tolist(), strict=True):
            ids = pack.tokens[start : start + length].tolist()
            assert ids == reference.apply_chat_template(records[record], return_dict=False)
            start += length
