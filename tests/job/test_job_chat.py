"""Runs over conversations: arguments and names of templates, who is trained, and what is recorded."""
# ruff: noqa: E501  a template or a conversation reads best on one line

import json

import pytest
import yaml
from job_helpers import TINY_CONFIG, pack, packed, samples, tiny_bpe, tree
from transformers import AutoTokenizer

import packtool
from packtool.errors import DataError, UsageError

TURNS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "world"}]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
CHAT = "{% for m in messages %}{{ '<|turn|>' + m.role + ':' + m.content + '<|turn|>' }}{% endfor %}"
MARKED = (
    "{% for m in messages %}{{ '<|begin|>' + m.role + ':' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|turn|>' }}"
    "{% endgeneration %}{% else %}{{ m.content + '<|turn|>' }}{% endif %}{% endfor %}"
)


def folder(path, *, template=None, more=None, **config):
    """A tokenizer's folder with templates as transformers stores them."""
    tiny_bpe(
        path,
        config={**TINY_CONFIG, "eos_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast", **config},
        adds_bos=False,
    )
    if template is not None:
        (path / "chat_template.jinja").write_text(template)
    for name, text in (more or {}).items():
        (path / "additional_chat_templates").mkdir(exist_ok=True)
        (path / "additional_chat_templates" / f"{name}.jinja").write_text(text)
    return path


def decoded(path, found):
    """record -> (text, trained text)"""
    tokenizer = AutoTokenizer.from_pretrained(path)
    return {
        record: (tokenizer.decode(ids), tokenizer.decode([label for label in labels if label != -100]))
        for record, (ids, labels) in found.items()
    }


def test_arguments_reach_the_template_and_are_recorded(tmp_path):
    source = "{{ 'think' if think else 'fast' }}{{ names | join('+') }}" + MARKED
    where = folder(tmp_path / "tok", template=source)
    arguments = {"think": False, "names": ["a", "b"]}
    _, out = pack(tmp_path, [{"messages": TURNS}], tokenizer=where, template_args=arguments)
    theirs = AutoTokenizer.from_pretrained(where)
    expected = theirs.apply_chat_template(TURNS, return_dict=True, return_assistant_tokens_mask=True, **arguments)
    ids, labels = samples(out)[0]
    assert ids == expected["input_ids"]
    assert [int(label != -100) for label in labels] == expected["assistant_masks"]
    assert decoded(where, samples(out))[0] == (
        "fasta+b<|begin|>user:Hello<|turn|><|begin|>assistant:world<|turn|>",
        "world<|turn|>",
    )
    assert yaml.safe_load((out / "settings.yaml").read_text())["template_args"] == arguments
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"]["template_args"] == {"names": '["a", "b"]', "think": "false"}


def test_a_dataset_with_arguments_is_made_again_from_its_settings(tmp_path):
    where = folder(tmp_path / "tok", template="{{ x }}" + MARKED)
    _, out = pack(tmp_path, [{"messages": TURNS}], tokenizer=where, template_args={"x": "1"})
    from packtool.job import read_config, run, settings_from

    values = {**read_config(out / "settings.yaml"), "root": str(tmp_path), "out": str(tmp_path / "again")}
    run(settings_from(values), progress=lambda *_: None, notice=lambda text: None)
    assert tree(tmp_path / "again") == tree(out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"messages": []}, "`template_args`: `messages` cannot be set, it comes from the records and the run"),
        ({"add_generation_prompt": True}, "`add_generation_prompt` cannot be set"),
        ({"a b": 1}, "`template_args`: expected names of template variables, got 'a b'"),
        ({"x": {1, 2}}, "`template_args`: expected values that JSON can hold"),
        ({"x": float("nan")}, "expected values that JSON can hold"),
        (["x"], "`template_args`: expected a mapping of name to value, got ['x']"),
    ],
)
def test_arguments_that_are_refused(tmp_path, arguments, words):
    with pytest.raises(UsageError) as caught:
        pack(tmp_path, [{"messages": TURNS}], template_args=arguments)
    assert words in str(caught.value)


def test_arguments_are_for_conversations(tmp_path):
    with pytest.raises(
        UsageError, match="`--template-arg` is for conversations, and these records are of the kind `text`"
    ):
        pack(tmp_path, [{"text": "a"}], template_args={"x": 1})


DEFAULT, FOR_TOOLS = "D" + MARKED, "T{{ tools | length }}" + MARKED


@pytest.mark.parametrize("stored", ["list", "files"])
def test_records_with_tools_take_the_template_for_tools(tmp_path, stored):
    if stored == "list":
        named = [{"name": "default", "template": DEFAULT}, {"name": "tool_use", "template": FOR_TOOLS}]
        where = folder(tmp_path / "tok", chat_template=named)
    else:
        where = folder(tmp_path / "tok", template=DEFAULT, more={"tool_use": FOR_TOOLS, "rag": "R" + MARKED})
    records = [
        {"messages": TURNS, "tools": TOOLS},
        {"messages": TURNS, "tools": None},
        {"messages": TURNS, "tools": []},
    ]
    found = packed(tmp_path, records, tokenizer=where)
    theirs = AutoTokenizer.from_pretrained(where)
    expected = theirs.apply_chat_template(TURNS, tools=TOOLS, return_dict=True, return_assistant_tokens_mask=True)
    assert found[0][0] == expected["input_ids"]
    assert [int(label != -100) for label in found[0][1]] == expected["assistant_masks"]
    assert [decoded(where, found)[record][0][:2] for record in range(3)] == ["T1", "D<", "D<"]
    copy = tmp_path / "data.packed" / "tokenizer"
    assert AutoTokenizer.from_pretrained(copy).chat_template == theirs.chat_template
    packtool.pack([tmp_path / "data.jsonl"], max_seq_len=512, out=tmp_path / "again", tokenizer=copy, workers=1)
    assert samples(tmp_path / "again") == found


@pytest.mark.parametrize(("name", "start"), [("rag", "R"), ("tool_use", "T1"), ("default", "D")])
def test_one_of_the_tokenizers_own_by_name(tmp_path, name, start):
    where = folder(tmp_path / "tok", template=DEFAULT, more={"tool_use": FOR_TOOLS, "rag": "R" + MARKED})
    found = packed(tmp_path, [{"messages": TURNS, "tools": TOOLS}], tokenizer=where, chat_template=name)
    assert decoded(where, found)[0][0].startswith(start + "<|begin|>")
    assert not (tmp_path / "data.packed" / "tokenizer" / "additional_chat_templates").exists()


def test_a_name_that_is_none_of_them(tmp_path):
    where = folder(tmp_path / "tok", template=DEFAULT, more={"rag": "R" + MARKED})
    with pytest.raises(UsageError, match="no chat template or file `rage`") as caught:
        pack(tmp_path, [{"messages": TURNS}], tokenizer=where, chat_template="rage")
    assert caught.value.hint == "`packtool ls templates` lists the built-in ones; the tokenizer's own are rag"


def test_names_without_a_default_must_be_chosen(tmp_path):
    where = folder(tmp_path / "tok", chat_template=[{"name": "rag", "template": "R" + MARKED}])
    with pytest.raises(UsageError, match="the tokenizer has the chat templates rag and no default") as caught:
        pack(tmp_path, [{"messages": TURNS}], tokenizer=where)
    assert caught.value.hint == "choose one: `--chat-template rag`"
    assert len(packed(tmp_path, [{"messages": TURNS}], tokenizer=where, chat_template="rag")) == 1


def test_a_tool_template_that_is_refused_hurts_only_records_with_tools(tmp_path):
    where = folder(
        tmp_path / "tok", template=DEFAULT, more={"tool_use": CHAT.replace("+ '<|turn|>' }}", "+ 'stop' }}")}
    )
    assert len(packed(tmp_path, [{"messages": TURNS}], tokenizer=where)) == 1
    with pytest.raises(DataError, match=r"`tool_use` template of the tokenizer.* without an added token"):
        pack(tmp_path, [{"messages": TURNS, "tools": TOOLS}], tokenizer=where)


LONG = [*TURNS, {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]


@pytest.mark.parametrize("template", [CHAT.replace("<|turn|>' + m", "<|begin|>' + m"), MARKED])
def test_only_the_last_assistant_turn(tmp_path, template):
    where = folder(tmp_path / "tok", template=template)
    records = [
        {"messages": LONG},
        {"messages": TURNS},
        {"messages": [*LONG, {"role": "user", "content": "three"}]},
        {"prompt": [LONG[0]], "completion": LONG[1:]},
    ]
    found = packed(tmp_path, records[:3], tokenizer=where, train_on="last")
    assert [decoded(where, found)[record][1].split(":")[-1] for record in range(3)] == [
        "two<|turn|>",
        "world<|turn|>",
        "two<|turn|>",
    ]
    found = packed(tmp_path, records[3:], tokenizer=where, train_on="last")
    assert decoded(where, found)[0][1].split(":")[-1] == "two<|turn|>"


def test_a_last_turn_that_is_switched_off_leaves_the_record_without_a_target(tmp_path):
    off = [*LONG[:3], {**LONG[3], "weight": 0}]
    summary, _ = pack(tmp_path, [{"messages": off}, {"messages": LONG}], train_on="last")
    assert summary.samples == 1


def test_last_is_for_conversations(tmp_path):
    with pytest.raises(UsageError, match="`--train-on last` is for conversations, and these records are of the kind"):
        pack(tmp_path, [{"prompt": "a", "completion": "b"}], train_on="last")


ADDS = (
    "{% for m in messages %}{{ '<|begin|>' + m.role + ':' }}{% if m.role == 'assistant' %}{% generation %}"
    "{{ '<think></think>Well, ' + m.content + '<|turn|>' }}{% endgeneration %}{% else %}{{ m.content + '<|turn|>' }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize("template", [ADDS, ADDS.replace("{% generation %}", "").replace("{% endgeneration %}", "")])
def test_text_that_the_template_adds_is_trained_or_not(tmp_path, template):
    if "generation" not in template:  # what a header shares with the generation prompt is no one's to train
        template += "{% if add_generation_prompt %}<|begin|>assistant:{% endif %}"
    where = folder(tmp_path / "tok", template=template)
    records = [{"messages": TURNS}, {"prompt": TURNS[:1], "completion": TURNS[1:]}]
    for record in records:
        trained = {}
        for choice in ("yes", "no"):
            _, out = pack(tmp_path, [record], tokenizer=where, train_template_text=choice)
            ids, labels = samples(out)[0]
            trained[choice] = decoded(where, samples(out))[0][1]
            manifest = json.loads((out / "manifest.json").read_text())
            assert manifest["settings"]["train_template_text"] == choice
            assert yaml.safe_load((out / "settings.yaml").read_text())["train_template_text"] == choice
            assert all(label in (-100, token) for token, label in zip(ids, labels, strict=True))
        assert trained == {"yes": "<think></think>Well, world<|turn|>", "no": "world<|turn|>"}


@pytest.mark.parametrize("record", [{"text": "a"}, {"prompt": "a", "completion": "b"}])
def test_template_text_is_for_conversations(tmp_path, record):
    words = "`--train-template-text no` is for conversations, and these records are of the kind"
    with pytest.raises(UsageError, match=words):
        pack(tmp_path, [record], train_template_text="no")
    assert pack(tmp_path, [record, record], train_template_text="yes", bos="yes")[0].samples == 2
