"""The main job on real training files with real tokenizers, against transformers."""

import json

import numpy as np
import pytest
import transformers

import packtool
from packtool.inspect import verify, view_pack
from packtool.read import read_ledger

pytestmark = pytest.mark.shared


def samples(folder):
    """record -> (ids, labels) for every record that was packed whole."""
    data = packtool.open_dataset(folder, check="full")
    found = {}
    for pack in data:
        start = 0
        for length, record in zip(pack.seq_lens.tolist(), pack.records.tolist(), strict=True):
            assert record not in found
            found[record] = (pack.tokens[start : start + length].tolist(), pack.labels[start : start + length].tolist())
            start += length
    return found


@pytest.fixture(scope="module")
def qwen(shared):
    return transformers.AutoTokenizer.from_pretrained(shared / "tokenizers" / "qwen3")


ALPACA_WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n"
)
ALPACA_WITHOUT = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:\n"
)


@pytest.mark.parametrize("name", ["alpaca_en_demo", "alpaca_zh_demo"])
@pytest.mark.parametrize("storage", ["npy", "parquet"])
def test_instruct_ids_are_those_of_transformers_and_prompts_are_not_trained(shared, qwen, tmp_path, name, storage):
    source = shared / "data" / "llama-factory" / f"{name}.json"
    records = json.loads(source.read_text("utf-8"))
    summary = packtool.pack(
        [source], max_seq_len=4096, tokenizer=shared / "tokenizers" / "qwen3", out=tmp_path / "out", format=storage
    )
    assert summary.outcomes == {"packed": len(records)}
    found = samples(tmp_path / "out")
    assert sorted(found) == list(range(len(records)))
    for number, record in enumerate(records):
        prompt = (ALPACA_WITH_INPUT if record["input"] else ALPACA_WITHOUT).format(**record)
        encoded = qwen(prompt + record["output"], return_offsets_mapping=True, add_special_tokens=False)
        ids, labels = found[number]
        assert ids == [*encoded["input_ids"], qwen.eos_token_id]
        trained = [start >= len(prompt) for start, _ in encoded["offset_mapping"]] + [True]
        assert labels == [i if on else -100 for i, on in zip(ids, trained, strict=True)]
        assert qwen.decode(ids) == prompt + record["output"] + qwen.eos_token
    assert verify(tmp_path / "out").problems == []


def joined(record):
    """The demo file's messages as transformers takes them: its parts name their text `value`."""
    return [{"role": m["role"], "content": "".join(part["value"] for part in m["content"])} for m in record["messages"]]


@pytest.mark.parametrize("tokenizer", ["qwen3", "deepseek_v3"])
def test_chat_ids_are_those_of_apply_chat_template_and_only_assistants_are_trained(shared, tmp_path, tokenizer):
    source = shared / "data" / "llama-factory" / "v1_sft_demo.jsonl"
    records = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    reference = transformers.AutoTokenizer.from_pretrained(shared / "tokenizers" / tokenizer)
    summary = packtool.pack(
        [source], max_seq_len=4096, tokenizer=shared / "tokenizers" / tokenizer, out=tmp_path / "out"
    )
    assert summary.kind == "chat"
    assert summary.outcomes == {"packed": 500}
    assert {role for role, (_, trained) in summary.roles.items() if trained} == {"assistant"}
    found = samples(tmp_path / "out")
    end = {"qwen3": "<|im_end|>", "deepseek_v3": "<｜end▁of▁sentence｜>"}[tokenizer]
    for number, record in enumerate(records):
        ids, labels = found[number]
        messages = joined(record)
        assert ids == reference.apply_chat_template(messages, return_dict=False)
        trained = reference.decode([label for label in labels if label != -100])
        answers = [m["content"] for m in messages if m["role"] == "assistant"]
        assert trained.count(end) == len(answers)
        turns = trained.split(end)[:-1]
        for place, (turn, answer) in enumerate(zip(turns, answers, strict=True)):
            # Qwen3's template puts an empty thought in front of the last answer; the model has to write it too.
            thought = "<think>\n\n</think>\n\n" if tokenizer == "qwen3" and place == len(answers) - 1 else ""
            assert turn == thought + answer.lstrip("\n") if thought else turn == answer
    assert verify(tmp_path / "out").problems == []


def test_show_decodes_a_real_pack_with_its_boundaries(shared, tmp_path):
    source = shared / "data" / "llama-factory" / "alpaca_en_demo.json"
    packtool.pack([source], max_seq_len=4096, tokenizer=shared / "tokenizers" / "qwen3", out=tmp_path / "out")
    records = json.loads(source.read_text("utf-8"))
    pieces, padding = view_pack(tmp_path / "out", 5)
    assert sum(piece.length for piece in pieces) + padding == 4096
    for piece in pieces:
        assert piece.origin == f"alpaca_en_demo.json:{piece.record + 1}"
        (prompt_trained, prompt), (answer_trained, answer) = piece.parts
        assert not prompt_trained
        assert prompt.endswith("### Response:\n")
        assert records[piece.record]["instruction"] in prompt
        assert answer_trained
        assert answer == records[piece.record]["output"] + "<|im_end|>"


def test_long_web_pages_are_split_and_nothing_is_lost(shared, qwen, tmp_path):
    source = shared / "data" / "llama-factory" / "c4_demo.jsonl"
    texts = [json.loads(line)["text"] for line in source.read_text("utf-8").splitlines()]
    summary = packtool.pack([source], max_seq_len=512, tokenizer=shared / "tokenizers" / "qwen3", out=tmp_path / "out")
    assert summary.kind == "text"
    assert summary.lost == {}
    ledger = read_ledger(tmp_path / "out" / "ledger.parquet")
    data = packtool.open_dataset(tmp_path / "out")
    offsets = np.cumsum(ledger.pieces) - ledger.pieces
    for number, text in enumerate(texts):
        ids = []
        for place in range(offsets[number], offsets[number] + ledger.pieces[number]):
            start = int(ledger.starts[place])
            ids += data[int(ledger.packs[place])].tokens[start : start + int(ledger.lengths[place])].tolist()
        assert ids == [*qwen(text)["input_ids"], qwen.eos_token_id]
    assert verify(tmp_path / "out").problems == []
