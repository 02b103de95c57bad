"""The trained share per role: [tokens, trained tokens] of every role, worked out by hand on the byte tokenizer."""

import json

import pytest
from job_helpers import TINY_CONFIG, pack, tiny_bpe, write_lines

import packtool

SYSTEM, USER = {"role": "system", "content": "s"}, {"role": "user", "content": "hi"}
ANSWER, TOOL = {"role": "assistant", "content": "yes"}, {"role": "tool", "content": "4"}
# <|im_start|>system\ns<|im_end|>\n is 11 tokens, the user's turn 10, the tool's 9, the answer's 16: 4 of it trained.
TALK = {"messages": [SYSTEM, USER, ANSWER, TOOL, ANSWER]}
PAIR = {"prompt": "ab", "completion": "cdé"}
INSTRUCT = {"q": "hi", "a": "yes"}

CASES = {
    "text": ({"text": "aé"}, {}, {"text": [4, 3]}),
    "text with BOS": ({"text": "aé"}, {"bos": "yes"}, {"template": [1, 0], "text": [4, 4]}),
    "completion": (PAIR, {}, {"prompt": [2, 0], "completion": [5, 5]}),
    "completion, all": (PAIR, {"train_on": "all"}, {"prompt": [2, 1], "completion": [5, 5]}),
    "completion with BOS": (PAIR, {"bos": "yes"}, {"template": [1, 0], "prompt": [2, 0], "completion": [5, 5]}),
    "no prompt": ({"prompt": "", "completion": "ab"}, {}, {"completion": [3, 2]}),
    "instruct": (
        INSTRUCT, {"kind": "instruct", "template": "Q: {q} A: {>}{a}"}, {"prompt": [9, 0], "completion": [4, 4]},
    ),
    "chat": (TALK, {}, {"system": [11, 0], "user": [10, 0], "assistant": [32, 8], "tool": [9, 0]}),
    "chat, last": (
        TALK, {"train_on": "last"}, {"system": [11, 0], "user": [10, 0], "assistant": [32, 4], "tool": [9, 0]},
    ),
    "chat, all": (
        TALK, {"train_on": "all"}, {"system": [11, 10], "user": [10, 10], "assistant": [32, 32], "tool": [9, 9]},
    ),
    "a turn switched off": (
        {"messages": [USER, {**ANSWER, "weight": 0}, USER, ANSWER]}, {}, {"user": [20, 0], "assistant": [32, 4]},
    ),
    "developer": (
        {"messages": [{**SYSTEM, "role": "developer"}, USER, ANSWER]}, {},
        {"developer": [14, 0], "user": [10, 0], "assistant": [16, 4]},
    ),
    "aliases": (
        {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}]}, {},
        {"user": [10, 0], "assistant": [16, 4]},
    ),
    "completion of messages": ({"prompt": [USER], "completion": [ANSWER]}, {}, {"user": [10, 0], "assistant": [16, 4]}),
    "tokens": ({"input_ids": [7, 8, 9], "labels": [-100, 8, -100]}, {}, {"ids": [3, 1]}),
    "tokens, all": ({"input_ids": [7, 8, 9], "loss_mask": [0, 1, 0]}, {"train_on": "all"}, {"ids": [3, 2]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_tokens_and_trained_tokens_of_every_role(tmp_path, name):
    record, settings, roles = CASES[name]
    summary, _ = pack(tmp_path, [record] * 3, **settings)
    assert summary.roles == {role: [3 * tokens, 3 * trained] for role, (tokens, trained) in roles.items()}
    assert (summary.tokens, summary.trained) == tuple(map(sum, zip(*summary.roles.values(), strict=True)))


def test_a_template_that_trains_on_the_users_text_shows_in_the_users_share(tmp_path):
    """A template whose marks take in every turn: labels that look right in the whole, and are not."""
    wrong, right = (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% generation %}{{ m.content + '<|im_end|>' }}"
        "{% endgeneration %}{{ '\n' }}{% endfor %}",
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}"
        "{{ '\n' }}{% endfor %}",
    )
    for source, share in ((wrong, [10, 3]), (right, [10, 0])):
        (tmp_path / "t.jinja").write_text(source)
        summary, _ = pack(tmp_path, [{"messages": [USER, ANSWER]}], chat_template=tmp_path / "t.jinja")
        assert summary.roles == {"user": share, "assistant": [16, 4]}


def test_what_no_message_contributed_is_the_templates(tmp_path):
    tiny_bpe(tmp_path / "tok", config=TINY_CONFIG, adds_bos=False)
    (tmp_path / "tok" / "chat_template.jinja").write_text(
        "{{ '<|turn|>' }}{% for m in messages %}{{ '<|turn|>' + m.content + '<|end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|turn|>' }}{% endif %}"
    )
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "<|end|>"}]
    summary, _ = pack(tmp_path, [{"messages": turns}], tokenizer=tmp_path / "tok")
    # A look-alike of the turn end, spelled by the assistant, is one byte a token or more, all of it the assistant's.
    spelled = summary.roles["assistant"][0] - 2
    assert spelled > 1
    assert summary.roles == {"template": [1, 0], "user": [3, 0], "assistant": [spelled + 2, spelled + 1]}


def test_roles_are_counted_before_any_cut_and_in_a_dry_run(tmp_path):
    source = write_lines(
        tmp_path / "a.jsonl", [{"prompt": "abcd", "completion": "e"}, {"prompt": "", "completion": "ab"}]
    )
    keywords = {"max_seq_len": 4, "tokenizer": "bytes", "workers": 1}
    summary = packtool.pack([source], out=tmp_path / "out", **keywords)
    assert (summary.tokens, summary.lost) == (3, {"no_target": 6})
    assert summary.roles == {"prompt": [4, 0], "completion": [5, 4]}
    from packtool.job import run, settings_from

    values = {"inputs": [str(source)], "out": str(tmp_path / "dry"), **keywords}
    dry = run(settings_from(values), progress=lambda *_: None, notice=lambda text: None, dry_run=True)
    assert (dry.out, dry.roles) == ("", summary.roles)


@pytest.mark.parametrize("workers", [1, 2])
def test_roles_are_of_the_records_that_a_limit_reads(tmp_path, workers):
    """The second file holds more records than the limit has room for: the worker had read them all."""
    for name in "abc":
        write_lines(tmp_path / f"{name}.jsonl", [{"prompt": "p", "completion": name * 2}] * 3)
    inputs = [tmp_path / f"{name}.jsonl" for name in "abc"]
    summary = packtool.pack(inputs, out=tmp_path / "out", max_seq_len=16, tokenizer="bytes", limit="4", workers=workers)
    assert summary.records == 4
    assert summary.roles == {"prompt": [4, 0], "completion": [12, 12]}


def test_records_that_are_empty_or_bad_have_no_tokens(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(PAIR) + '\n{"prompt": "a", "completion": " "}\n{broken\n')
    summary = packtool.pack(
        [tmp_path / "a.jsonl"], out=tmp_path / "out", max_seq_len=16, tokenizer="bytes", on_bad="skip", workers=1
    )
    assert summary.outcomes == {"packed": 1, "empty": 1, "bad": 1}
    assert summary.roles == {"prompt": [2, 0], "completion": [5, 5]}
