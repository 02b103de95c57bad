"""Every file of the shared data, one by one: what it is taken for and what becomes of it, or why it is refused."""

import pytest

import packtool
from packtool.errors import DataError, UsageError

pytestmark = pytest.mark.shared

# file -> kind, outcomes
PACKED = {
    "llama-factory/alpaca_en_demo.json": ("instruct", {"packed": 999}),
    "llama-factory/alpaca_zh_demo.json": ("instruct", {"packed": 1000}),
    "llama-factory/c4_demo.jsonl": ("text", {"packed": 300}),
    "llama-factory/glaive_toolcall_en_demo.json": ("chat", {"packed": 300}),
    "llama-factory/v1_sft_demo.jsonl": ("chat", {"packed": 500}),
    "llama-factory/wiki_demo.txt": ("text", {"packed": 30}),
    "litgpt/dolly.json": ("instruct", {"packed": 12}),
    "fastchat/dummy_conversation.json": ("chat", {"packed": 500}),
    "ms-swift/alpaca.csv": ("chat", {"packed": 3}),
    "ms-swift/alpaca.jsonl": ("chat", {"packed": 3}),
    "ms-swift/sharegpt.jsonl": ("chat", {"packed": 3}),
    "openai-cookbook/drone_training.excerpt.jsonl": ("chat", {"packed": 3}),
    "openai-cookbook/toy_chat_fine_tuning.jsonl": ("chat", {"packed": 5}),
    "dolma/cc_en_head-0091.jsonl": ("text", {"packed": 10}),
    "data-juicer/demo-dataset.parquet": ("text", {"packed": 6}),
    "functionary/test_case.json": ("chat", {"packed": 1}),
    "llm-jp-sft/example.jsonl": ("text", {"packed": 15}),
    "nemo-aligner/dummy-sft.jsonl": ("chat", {"packed": 30}),
    "llm-foundry/dolly_hhrlhf_train_small.jsonl": ("completion", {"packed": 1000}),
}
# file -> message, then settings with which it packs after all
REFUSED = {
    "dolma/test.jsonl.gz": ("cannot be told from its columns: `message`", {"columns": {"text": "message"}}, 1),
    "dolma/test.jsonl.zst": ("cannot be told from its columns: `message`", {"columns": {"text": "message"}}, 1),
    "stanford_alpaca/seed_tasks.jsonl": (
        "cannot be told from its columns: `id`, `name`, `instruction`, `instances`, `is_classification`",
        {"columns": {"input": "instances.0.input", "output": "instances.0.output"}}, 175,
    ),
    "axolotl/conversation.tokenized_llama2chat.json": ("expected 0 to 260", {"tokenizer": ""}, 1),
}  # fmt: skip


def check_roles(summary):
    """Every token made is somebody's, and what the model does not say is not trained."""
    assert sum(tokens for tokens, _ in summary.roles.values()) == summary.tokens + sum(summary.lost.values())
    said = {role for role, (_, trained) in summary.roles.items() if trained}
    assert said == {{"chat": "assistant", "text": "text"}.get(summary.kind, "completion")}


def test_no_file_is_left_out(shared):
    there = {path.relative_to(shared / "data").as_posix() for path in (shared / "data").rglob("*") if path.is_file()}
    assert there - {"INDEX.md"} == set(PACKED) | set(REFUSED)


@pytest.mark.parametrize("name", PACKED)
def test_packed(shared, tmp_path, name):
    kind, outcomes = PACKED[name]
    summary = packtool.pack(
        [shared / "data" / name], out=tmp_path / "out", max_seq_len=40_000, tokenizer="bytes", workers=1
    )
    assert (summary.kind, summary.outcomes) == (kind, outcomes)
    check_roles(summary)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(shared, tmp_path, name):
    message, settings, count = REFUSED[name]
    common = {"out": tmp_path / "out", "max_seq_len": 70_000, "workers": 1}
    with pytest.raises((DataError, UsageError), match=message):
        packtool.pack([shared / "data" / name], **{"tokenizer": "bytes", **common})
    summary = packtool.pack([shared / "data" / name], **{"tokenizer": "bytes", **common, **settings})
    assert summary.outcomes == {"packed": count}


@pytest.mark.parametrize(
    "name",
    [name for name, (kind, _) in PACKED.items() if kind == "chat" and not name.startswith("openai-cookbook/toy")],
)
@pytest.mark.parametrize("train_on", ["completion", "last"])
def test_chats_with_the_template_of_qwen3(shared, tmp_path, name, train_on):
    summary = packtool.pack(
        [shared / "data" / name], out=tmp_path / "out", max_seq_len=8192, tokenizer=shared / "tokenizers" / "qwen3",
        train_on=train_on, workers=1,
    )  # fmt: skip
    assert summary.outcomes == PACKED[name][1]
    check_roles(summary)
