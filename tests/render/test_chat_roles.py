"""Whose every character of a rendered conversation is."""

import itertools

import pytest
from chat_cases import NAMES, TOOLS, assistant, call, make, plain, shared, system, tool, user, with_marks

TURNS = [system("be kind"), user("hi"), assistant("yes"), user("so?"), assistant("no")]


def parts(chat):
    """(role, text) of every range and of what is between them; neighbours of one role are put together."""
    found, at = [], 0
    for start, stop, role in (*chat.roles, (len(chat.text), len(chat.text), "")):
        assert at <= start <= stop
        found += [("template", chat.text[at:start]), (role, chat.text[start:stop])]
        at = stop
    runs = itertools.groupby((pair for pair in found if pair[1]), key=lambda pair: pair[0])
    return [(role, "".join(text for _, text in pairs)) for role, pairs in runs]


def test_header_and_turn_end_count_with_their_message():
    assert parts(plain("chatml").render(TURNS)) == [
        ("system", "<|im_start|>system\nbe kind<|im_end|>\n"),
        ("user", "<|im_start|>user\nhi<|im_end|>\n"),
        ("assistant", "<|im_start|>assistant\nyes<|im_end|>\n"),
        ("user", "<|im_start|>user\nso?<|im_end|>\n"),
        ("assistant", "<|im_start|>assistant\nno<|im_end|>\n"),
    ]


def test_what_no_message_contributed_is_the_templates():
    source = (
        "{{ bos_token }}You are helpful.{% for m in messages %}{{ '<|im_start|>' + m.role + m.content + '<|im_end|>' }}"
        "{% endfor %}{{ '<|im_start|>assistant' if add_generation_prompt else '<eos>' }}"
    )
    assert parts(make(source).render(TURNS[1:3])) == [
        ("template", "<s>You are helpful."),
        ("user", "<|im_start|>userhi<|im_end|>"),
        ("assistant", "<|im_start|>assistantyes<|im_end|>"),
        ("template", "<eos>"),
    ]


def test_a_message_that_no_loop_prints_has_its_own_data_only():
    source = (
        "{% if messages[0].role == 'system' %}{{ '[INST]' + messages[0].content + '[/INST]' }}{% endif %}"
        "{% for m in messages %}{% if m.role != 'system' %}{{ '<|im_start|>' + m.role + m.content + '<|im_end|>' }}"
        "{% endif %}{% endfor %}"
    )
    assert parts(make(source).render(TURNS[:3])) == [
        ("template", "[INST]"),
        ("system", "be kind"),
        ("template", "[/INST]"),
        ("user", "<|im_start|>userhi<|im_end|>"),
        ("assistant", "<|im_start|>assistantyes<|im_end|>"),
    ]


def test_a_system_text_in_the_users_turn_stays_the_systems():
    source = (
        "{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}"
        "{% set ns.s = m.content + '; ' %}"
        "{% else %}{{ '<|im_start|>' + m.role + ns.s + m.content + '<|im_end|>' }}{% set ns.s = '' %}{% endif %}"
        "{% endfor %}"
    )
    assert parts(make(source).render(TURNS[:3])) == [
        ("user", "<|im_start|>user"),
        ("system", "be kind"),
        ("user", "; hi<|im_end|>"),
        ("assistant", "<|im_start|>assistantyes<|im_end|>"),
    ]


def test_a_loop_inside_another_message_s_step_keeps_its_own():
    source = (
        "{% for m in messages %}{% if loop.first %}{{ '<s>' }}{% for t in messages %}{% if t.role == 'tool' %}"
        "{{ 'T' + t.content }}{% endif %}{% endfor %}{{ ':' }}{% endif %}{% if m.role != 'tool' %}"
        "{{ '<|im_start|>' + m.role + m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
    )
    assert parts(make(source).render([user("hi"), assistant("yes"), tool("4"), tool("5")])) == [
        ("user", "<s>"),
        ("tool", "T4T5"),
        ("user", ":<|im_start|>userhi<|im_end|>"),
        ("assistant", "<|im_start|>assistantyes<|im_end|>"),
    ]


def test_tools_and_their_results_of_qwen3():
    source, added, special = shared("qwen3")
    chat = make(source, "qwen3", added, special)
    found = parts(chat.render([system("be kind"), user("1+1?"), call({"a": 1}), tool("2"), assistant("two")], TOOLS))
    assert [role for role, _ in found] == [
        "template", "system", "template", "user", "assistant", "tool", "assistant"
    ]  # fmt: skip
    texts = [text for _, text in found]
    assert texts[0] == "<|im_start|>system\n"
    assert texts[1] == "be kind"
    assert texts[2].startswith("\n\n# Tools\n")
    assert TOOLS[0]["function"]["name"] in texts[2]  # the tools are of no message
    assert texts[5] == "<|im_start|>user\n<tool_response>\n2\n</tool_response><|im_end|>\n"
    assert texts[6] == "<|im_start|>assistant\n<think>\n\n</think>\n\ntwo<|im_end|>\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_message_s_own_words_are_its_own_and_only_assistants_are_trained(name):
    turns = [user("qq1"), assistant("zz1"), user("qq2"), assistant("zz2")]
    for chat in (plain(name).render(turns), with_marks(name).render(turns)):
        owners = {
            message["content"]: {role for role, text in parts(chat) if message["content"] in text} for message in turns
        }
        assert owners == {message["content"]: {message["role"]} for message in turns}
        spans = [(start, stop) for start, stop, role in chat.roles if role == "assistant"]
        assert all(any(begin <= start and stop <= end for begin, end in spans) for start, stop, _ in chat.spans)
