"""`--kind auto`: what it takes records for, the reason it gives, and when it refuses to guess."""

import pytest
from job_helpers import pack

from packtool.errors import UsageError
from packtool.render import KINDS, choose_kind

TURNS = [{"role": "user", "content": "hi"}]

# columns of the first record -> kind, columns, template
CHOSEN = {
    "text": ({"text": "a", "id": 1}, "text", {"text": "text"}, ""),
    "content": ({"content": "a"}, "text", {"text": "content"}, ""),
    "text before content": ({"content": "a", "text": "b"}, "text", {"text": "text"}, ""),
    "prompt, completion": (
        {"prompt": "a", "completion": "b"}, "completion", {"prompt": "prompt", "completion": "completion"}, "",
    ),
    "prompt, response": (
        {"prompt": "a", "response": "b"}, "completion", {"prompt": "prompt", "completion": "response"}, "",
    ),
    "alpaca": (
        {"instruction": "a", "input": "", "output": "b"}, "instruct",
        {"instruction": "instruction", "output": "output", "input": "input"}, "alpaca",
    ),
    "dolly": (
        {"instruction": "a", "context": "", "response": "b"}, "instruct",
        {"instruction": "instruction", "output": "response", "input": "context"}, "alpaca",
    ),
    "instruction and prompt": (
        {"instruction": "a", "prompt": "a", "output": "b", "response": "b"}, "instruct",
        {"instruction": "instruction", "output": "output"}, "alpaca",
    ),
    "messages": ({"messages": TURNS}, "chat", {"messages": "messages"}, ""),
    "conversations": ({"conversations": TURNS, "tools": []}, "chat",
                      {"messages": "conversations", "tools": "tools"}, ""),
    "messages before conversations": (
        {"conversations": TURNS, "messages": TURNS}, "chat", {"messages": "messages"}, "",
    ),
    "ids": (
        {"input_ids": [1], "attention_mask": [1], "labels": [1]}, "tokens",
        {"tokens": "input_ids", "labels": "labels", "attention_mask": "attention_mask"}, "",
    ),
    "tokens with a mask": (
        {"tokens": [1], "assistant_masks": [1]}, "tokens", {"tokens": "tokens", "mask": "assistant_masks"}, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOSEN)
def test_what_auto_chooses(name):
    record, kind, columns, template = CHOSEN[name]
    choice = choose_kind("auto", {}, "", [record])
    assert (choice.kind, dict(choice.columns), choice.template) == (kind, columns, template)
    assert choice.why.startswith("the records have ")
    for column in columns.values():
        assert f"`{column}`" in choice.why


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"messages": "x"}, "chat"),
        ({"tokens": "x"}, "tokens"),
        ({"prompt": "x", "completion": "y"}, "completion"),
        ({"instruction": "x", "output": "y"}, "instruct"),
        ({"text": "x"}, "text"),
    ],
)
def test_named_fields_decide(columns, kind):
    choice = choose_kind("auto", columns, "", [{"x": "1", "y": "2", "text": "z"}])
    assert (choice.kind, choice.why) == (kind, "as the fields of `--columns` say")
    assert {field: choice.columns[field] for field in columns} == columns


def test_a_template_means_instruct():
    choice = choose_kind("auto", {"a": "b"}, "{a}{>}{c}", [{"b": "x"}])
    assert (choice.kind, dict(choice.columns), choice.template) == ("instruct", {"a": "b"}, "{a}{>}{c}")
    assert choice.why == "an instruct template was given; columns: `b`"


def test_columns_that_no_record_has_and_fields_that_the_kind_lacks_are_refused():
    with pytest.raises(UsageError, match="`--columns` names `inptu`, which none of the first records has"):
        choose_kind("completion", {"prompt": "inptu"}, "", [{"input": "a", "completion": "b"}])
    with pytest.raises(UsageError, match="`--columns` names the field `foo`, which kind `text` does not have"):
        choose_kind("text", {"foo": "text"}, "", [{"text": "a"}])


@pytest.mark.parametrize("kind", KINDS)
def test_a_named_kind_is_taken_whatever_the_columns(kind):
    choice = choose_kind(kind, {}, "", [{"nothing": "known"}])
    assert (choice.kind, choice.why) == (kind, "as `--kind` says")
    assert choice.template == ("alpaca" if kind == "instruct" else "")


def test_a_column_that_is_null_at_first_is_looked_for_further_on():
    records = [{"text": None}] * 63 + [{"text": "a"}]
    assert choose_kind("auto", {}, "", records).kind == "text"
    with pytest.raises(UsageError, match="cannot be told from its columns: `text`"):
        choose_kind("auto", {}, "", [{"text": None}, *records])  # the 65th is not looked at


def test_only_the_first_records_are_taken_from_the_iterator():
    taken = []

    def records():
        for number in range(1000):
            taken.append(number)
            yield {"text": "a"}

    choose_kind("auto", {}, "", records())
    assert taken == list(range(64))


REFUSED = {
    "nothing known": (
        [{"question": "a", "answer": "b"}],
        "what kind of data this is cannot be told from its columns: `question`, `answer`",
        "name it and its columns, for example `--kind completion --columns prompt=question,completion=answer`",
    ),
    "no record": ([], "what kind of data this is cannot be told from its columns: none", "name it and its columns"),
    "no objects": ([[1], "a", 3], "cannot be told from its columns: none", "name it and its columns"),
    "preferences": (
        [{"prompt": "a", "chosen": "b", "rejected": "c"}],
        "these look like preference records (columns: `prompt`, `chosen`, `rejected`), which have two answers to "
        "choose from",
        "say which to train on, for example `--kind completion --columns prompt=prompt,completion=chosen`",
    ),
    "text and messages": (
        [{"text": "a", "messages": TURNS}],
        "these records could be `text` or `chat` (columns: `text`, `messages`)",
        "say which: `--kind text` or `--kind chat`",
    ),
    "text and completion": (
        [{"text": "a", "prompt": "b", "completion": "c"}],
        "these records could be `text` or `completion` (columns: `text`, `prompt`, `completion`)",
        "say which: `--kind text` or `--kind completion`",
    ),
    "messages that are text": ([{"messages": "hi"}], "cannot be told from its columns: `messages`", "name it"),
    "text that is a list": ([{"text": ["hi"]}], "cannot be told from its columns: `text`", "name it"),
    "only a prompt": ([{"prompt": "hi"}], "cannot be told from its columns: `prompt`", "name it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_auto_refuses_to_guess(name):
    records, message, hint = REFUSED[name]
    with pytest.raises(UsageError) as caught:
        choose_kind("auto", {}, "", records)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_an_unknown_kind():
    with pytest.raises(UsageError, match="kind `poem` is unknown, expected `auto` or one of `text`, `completion`"):
        choose_kind("poem", {}, "", [{"text": "a"}])


def test_the_choice_is_said_and_only_for_auto(tmp_path):
    said = []
    pack(tmp_path, [{"prompt": "a", "completion": "b"}], notice=said.append)
    assert said == ["kind `completion`: the records have `prompt`, `completion`"]
    said.clear()
    pack(tmp_path, [{"prompt": "a", "completion": "b"}], kind="completion", notice=said.append)
    assert said == []


def test_the_choice_is_in_the_summary_and_recorded(tmp_path):
    import packtool

    summary, out = pack(tmp_path, [{"prompt": "a", "response": "b"}])
    assert (summary.kind, summary.why) == ("completion", "the records have `prompt`, `response`")
    settings = packtool.open_dataset(out).manifest.settings
    assert settings["kind"] == "completion"
    assert settings["columns"] == {"prompt": "prompt", "completion": "response"}
    assert settings["overlong"] == "truncate"


def test_preference_records_can_be_trained_on_one_answer(tmp_path):
    from job_helpers import EOS, packed

    found = packed(
        tmp_path, [{"prompt": "a", "chosen": "b", "rejected": "c"}], kind="completion",
        columns={"prompt": "prompt", "completion": "chosen"},
    )  # fmt: skip
    assert found[0] == ([97, 98, EOS], [-100, 98, EOS])
