"""The built-in chat templates, by hand, against transformers, and with a tokenizer trained here that has their marks."""
# ruff: noqa: E501  a template or a conversation reads best on one line

import json

import pytest
import tokenizers
from chat_cases import (
    CONVERSATIONS,
    TOOLS,
    assistant,
    call,
    make,
    ranges,
    reference,
    system,
    tool,
    trained,
    unmarked,
    user,
)
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import packtool
from packtool.errors import RecordError
from packtool.render import read_template
from packtool.render.chat import missing_marks

NAMES = ["chatml", "llama3", "mistral", "gemma", "zephyr"]
TALK = [system("Be brief. "), user(" hi"), assistant("yo "), user("1"), assistant("2")]
OFFERED = '{"type": "function", "function": {"name": "add", "description": "Adds <b> & \\"c\\" <|im_end|>", "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "ß": {"type": "string"}}}}}'

# What [[ and ]] enclose is trained.
BY_HAND = {
    "chatml": "<|im_start|>system\nBe brief. <|im_end|>\n<|im_start|>user\n hi<|im_end|>\n<|im_start|>assistant\n[[yo <|im_end|>]]\n"
    "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n[[2<|im_end|>]]\n",
    "llama3": "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n[[yo<|eot_id|>]]<|start_header_id|>user<|end_header_id|>\n\n1<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n[[2<|eot_id|>]]",
    "mistral": "<s>[INST] Be brief. \n\n hi[/INST][[ yo </s>]][INST] 1[/INST][[ 2</s>]]",
    "gemma": "<s><start_of_turn>user\nBe brief.\n\nhi<end_of_turn>\n<start_of_turn>model\n[[yo<end_of_turn>]]\n"
    "<start_of_turn>user\n1<end_of_turn>\n<start_of_turn>model\n[[2<end_of_turn>]]\n",
    "zephyr": "<|system|>\nBe brief. </s>\n<|user|>\n hi</s>\n<|assistant|>\n[[yo </s>]]\n<|user|>\n1</s>\n<|assistant|>\n[[2</s>]]\n",
}
WITH_TOOLS = {
    "llama3": "<s><|start_header_id|>system<|end_header_id|>\n\ns\n\nEnvironment: ipython\n\nTo call one of these functions, answer with one "
    'JSON object {"name": NAME, "parameters": {...}} and nothing else:\n\n' + OFFERED + "<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n1+1?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    '[[{"name": "add", "parameters": {"a": 1}}<|eot_id|>]]<|start_header_id|>ipython<|end_header_id|>\n\n2<|eot_id|>'
    "<|start_header_id|>assistant<|end_header_id|>\n\n[[It is 2.<|eot_id|>]]",
    "mistral": "<s>[AVAILABLE_TOOLS] [" + OFFERED + "][/AVAILABLE_TOOLS][INST] s\n\n1+1?[/INST]"
    '[[[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}, "id": "call00001"}]</s>]]'
    '[TOOL_RESULTS] {"content": "2", "call_id": "call00001"}[/TOOL_RESULTS][[ It is 2.</s>]]',
}  # fmt: skip


def spans_shown(chat):
    text = chat.text
    for start, stop in reversed(ranges(chat)):
        text = f"{text[:start]}[[{text[start:stop]}]]{text[stop:]}"
    return text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("marks", [True, False])
def test_rendering_and_spans_by_hand(name, marks):
    source = read_template(f"{name}.jinja")
    assert spans_shown(make(source if marks else unmarked(source)).render(TALK)) == BY_HAND[name]


@pytest.mark.parametrize("name", WITH_TOOLS)
def test_tools_by_hand(name):
    messages = [system("s"), user("1+1?"), call({"a": 1}), tool("2"), assistant("It is 2.")]
    assert spans_shown(make(read_template(f"{name}.jinja")).render(messages, TOOLS)) == WITH_TOOLS[name]


@pytest.mark.parametrize("case", CONVERSATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_text_and_spans_equal_transformers(name, case):
    messages, tools = CONVERSATIONS[case]
    source = read_template(f"{name}.jinja")
    expected = reference(source, messages, tools)
    for template in (make(source), make(unmarked(source))):
        if isinstance(expected, Exception):
            with pytest.raises(RecordError):
                template.render(messages, tools)
        else:
            chat = template.render(messages, tools)
            assert (chat.text, ranges(chat)) == expected
            assert chat.warnings == ()


@pytest.mark.parametrize("name", NAMES)
def test_the_generation_prompt_is_what_comes_before_an_answer(name):
    source = read_template(f"{name}.jinja")
    asked, _ = reference(source, TALK[:2], add_generation_prompt=True)
    chat = make(source).render(TALK[:3])
    assert chat.text[: chat.spans[0][0]] == asked


@pytest.mark.parametrize(
    ("name", "reason"),
    [("gemma", "Gemma has no tools"), ("zephyr", "Zephyr has no tools")],
)
def test_a_format_without_tools_refuses_them(name, reason):
    with pytest.raises(RecordError, match=reason):
        make(read_template(f"{name}.jinja")).render(TALK, TOOLS)
    with pytest.raises(RecordError, match="no tool calls"):
        make(read_template(f"{name}.jinja")).render([user("a"), call({"a": 1}), tool("2"), assistant("b")])


def test_llama3_holds_one_call_a_turn():
    turn = call({"a": 1})
    turn["tool_calls"] *= 2
    with pytest.raises(RecordError, match="holds one tool call, got several"):
        make(read_template("llama3.jinja")).render([user("a"), turn])


def test_missing_marks():
    assert missing_marks("llama3", ["<|eot_id|>"], {}) == ["<|start_header_id|>", "<|end_header_id|>"]
    assert missing_marks("zephyr", ["<|system|>", "<|user|>", "<|assistant|>"], {}) == ["</s>"]
    assert missing_marks("mistral", ["[INST]", "[/INST]", "<end>"], {"eos_token": "<end>"}) == []
    assert missing_marks("their.jinja", [], {}) == []


MARKS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
         "[INST]", "[/INST]", "<start_of_turn>", "<end_of_turn>", "<|system|>", "<|user|>", "<|assistant|>"]  # fmt: skip


def trained_tokenizer(folder, marks=MARKS):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=marks
    )
    tokenizer.train_from_iterator(["user assistant system model Be brief. hi yo", "the quick brown fox " * 9], trainer)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


def packed(folder, tokenizer, messages, **settings):
    (folder / "d.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    notices = []
    packtool.pack(
        [folder / "d.jsonl"], out=folder / "out", max_seq_len=1024, tokenizer=tokenizer, workers=1, overwrite=True,
        notice=notices.append, **settings,
    )  # fmt: skip
    row = packtool.open_dataset(folder / "out")[0]
    size = int(row.seq_lens[0])
    return row.tokens[:size].tolist(), row.labels[:size].tolist(), notices


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_labels_of_a_run_equal_transformers(tmp_path, name):
    theirs = trained_tokenizer(tmp_path / "tok")
    ids, labels, notices = packed(tmp_path, tmp_path / "tok", TALK, chat_template=name)
    expected = theirs.apply_chat_template(
        TALK, chat_template=read_template(f"{name}.jinja"), return_assistant_tokens_mask=True, return_dict=True
    )
    assert ids == expected["input_ids"]
    assert [label != -100 for label in labels] == [bool(on) for on in expected["assistant_masks"]]
    assert not [text for text in notices if "chat template" in text]
    last = {"chatml": "<|im_end|>", "llama3": "<|eot_id|>", "gemma": "<end_of_turn>"}.get(name, "</s>")
    assert [label for label in labels if label != -100][-1] == theirs.convert_tokens_to_ids(last)


def test_marks_that_are_no_token_are_named_once_and_still_trained(tmp_path):
    trained_tokenizer(tmp_path / "tok", ["<s>", "</s>", "<|eot_id|>"])
    ids, labels, notices = packed(tmp_path, tmp_path / "tok", TALK, chat_template="llama3")
    assert [text for text in notices if "chat template" in text] == [
        "chat template `llama3`: `<|start_header_id|>`, `<|end_header_id|>` are no added token of this tokenizer, so each "
        "becomes several ordinary tokens"
    ]
    assert any(label != -100 for label in labels)
    assert len(ids) == len(labels)


def test_a_template_whose_end_is_no_token_trains_the_end_all_the_same(tmp_path):
    theirs = trained_tokenizer(tmp_path / "tok", ["<s>", "</s>"])
    _, labels, _ = packed(tmp_path, tmp_path / "tok", TALK, chat_template="gemma")
    assert theirs.decode([label for label in labels if label != -100]) == "yo<end_of_turn>2<end_of_turn>"
    assert trained(make(read_template("gemma.jinja"), added=[]).render(TALK)) == ["yo<end_of_turn>", "2<end_of_turn>"]
