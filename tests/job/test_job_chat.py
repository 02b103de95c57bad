"""Runs over conversations: arguments and names of templates, who is trained, and what is recorded."""
# ruff: noqa: E501  a template or a conversation reads best on one line

import json
from datetime import date

import pytest
import yaml
from job_helpers import TINY_CONFIG, pack, packed, samples, tiny_bpe, tree
from transformers import AutoTokenizer

import packtool
from packtool.errors import DataError, UsageError
from packtool.job import read_config, run, settings_from

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


def again(out, tmp_path, **more):
    """The dataset made again from its settings."""
    values = {**read_config(out / "settings.yaml"), "root": str(tmp_path), "out": str(tmp_path / "again"), **more}
    run(settings_from(values), progress=lambda *_: None, notice=lambda text: None)
    return tmp_path / "again"


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
    assert tree(again(out, tmp_path)) == tree(out)


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


@pytest.mark.parametrize(
    ("flag", "given"),
    [
        ("--template-arg", {"template_args": {"x": 1}}),
        ("--turn-end", {"turn_end": "\n"}),
        ("--date", {"date": "2024-07-05"}),
    ],
)
def test_flags_for_templates_are_for_conversations(tmp_path, flag, given):
    with pytest.raises(UsageError, match=f"`{flag}` is for conversations, and these records are of the kind `text`"):
        pack(tmp_path, [{"text": "a"}], **given)


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
    with pytest.raises(
        DataError, match=r"the tokenizer's chat template `tool_use` ends an assistant turn without an added token"
    ):
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


WORDS = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"


def test_a_turn_end_of_text_is_trained_recorded_and_used_for_tools_too(tmp_path):
    where = folder(tmp_path / "tok", template=WORDS, more={"tool_use": "T" + WORDS})
    records = [{"messages": LONG}, {"messages": TURNS, "tools": TOOLS}]
    with pytest.raises(UsageError, match="ends an assistant turn without an added token"):
        pack(tmp_path, records, tokenizer=where)
    _, out = pack(tmp_path, records, tokenizer=where, turn_end="\n")
    assert decoded(where, samples(out)) == {
        0: (
            "user: Hello\nassistant: world\nuser: one\nassistant: two\n",
            "assistant: world\nassistant: two\n",  # without a generation prompt the header is the model's
        ),
        1: ("Tuser: Hello\nassistant: world\n", "assistant: world\n"),
    }
    assert yaml.safe_load((out / "settings.yaml").read_text())["turn_end"] == "\n"
    assert json.loads((out / "manifest.json").read_text())["settings"]["turn_end"] == "\n"
    assert tree(again(out, tmp_path)) == tree(out)


DATED = "{{ strftime_now('%Y-%m-%d %H:%M:%S ') }}" + MARKED


@pytest.fixture
def on_the_day(monkeypatch):
    """A function that sets the day that runs take place on."""

    def put(text):
        class Day(date):
            @classmethod
            def today(cls):
                return date.fromisoformat(text)

        monkeypatch.setattr("packtool.job.prepare.date", Day)

    return put


@pytest.mark.parametrize("workers", [1, 2])
def test_the_day_of_the_run_is_recorded_where_the_template_asks_for_it(tmp_path, on_the_day, workers):
    where = folder(tmp_path / "tok", template=DATED)
    on_the_day("2024-07-05")
    _, out = pack(tmp_path, [{"messages": TURNS}], tokenizer=where, workers=workers)
    assert decoded(where, samples(out))[0][0].startswith("2024-07-05 00:00:00 <|begin|>")
    assert yaml.safe_load((out / "settings.yaml").read_text())["date"] == "2024-07-05"
    assert json.loads((out / "manifest.json").read_text())["settings"]["date"] == "2024-07-05"
    on_the_day("2031-01-01")
    assert tree(again(out, tmp_path)) == tree(out)
    assert tree(again(out, tmp_path, overwrite=True, date="2024-07-06")) != tree(out)


def test_a_given_date_is_the_same_on_any_day(tmp_path, on_the_day):
    where = folder(tmp_path / "tok", template="D" + MARKED, more={"tool_use": DATED})
    records = [{"messages": TURNS, "tools": TOOLS}, {"messages": TURNS}]
    made = []
    for day in ("2024-07-05", "2031-01-01"):
        on_the_day(day)
        made.append(pack(tmp_path, records, name="same", tokenizer=where, date="2023-02-01T04:05:06")[1])
        made[-1] = decoded(where, samples(made[-1])), tree(made[-1])
    assert made[0] == made[1]
    assert made[0][0][0][0].startswith("2023-02-01 04:05:06 <|begin|>")
    assert yaml.safe_load(made[0][1]["settings.yaml"])["date"] == "2023-02-01T04:05:06"


def test_no_date_is_recorded_where_the_template_does_not_ask(tmp_path, on_the_day):
    where = folder(tmp_path / "tok", template=MARKED)
    made = []
    for day in ("2024-07-05", "2031-01-01"):
        on_the_day(day)
        made.append(tree(pack(tmp_path, [{"messages": TURNS}], name="same", tokenizer=where)[1]))
    assert made[0] == made[1]
    assert b"date" not in made[0]["settings.yaml"]
    assert tree(pack(tmp_path, [{"messages": TURNS}], name="same", tokenizer=where, date="2020-01-01")[1]) == made[0]


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
