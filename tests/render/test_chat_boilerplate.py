"""Kind C: `--train-template-text no` leaves untrained what no message contributed, and nothing else."""
# ruff: noqa: E501  a template or a conversation reads best on one line

from itertools import pairwise

import pytest
from chat_cases import (
    CONVERSATIONS,
    NAMES,
    SHARED_NAMES,
    assistant,
    call,
    make,
    marked,
    shared,
    system,
    tool,
    unmarked,
    user,
)

from packtool.errors import RecordError
from packtool.render import make_renderer, read_template
from packtool.render.chat import ChatTemplates
from packtool.render.lint import HEADER_TRAINED, TURN_END_INSIDE

Q = user("q")


def shown(chat, messages, **settings):
    """The text from the first assistant header on, [[ and ]] around what is trained."""
    settings = {"train_template_text": False, **settings}
    rendered = make_renderer("chat", {"messages": "messages"}, chat=chat, **settings)({"messages": messages})
    text = rendered.text
    for start, stop in reversed(rendered.trained):
        text = f"{text[:start]}[[{text[start:stop]}]]{text[stop:]}"
    return text


QWEN = {
    "no thoughts": ([assistant("hi")], "<think>\n\n</think>\n\n[[hi<|im_end|>]]"),
    "thoughts in the content": ([assistant("<think>\nso\n</think>\n\nhi")], "[[<think>\nso\n</think>\n\nhi<|im_end|>]]"),
    "thoughts by themselves": ([assistant("hi", reasoning_content="so")], "[[<think>\nso\n</think>\n\nhi<|im_end|>]]"),
    "empty block in the content, written anew": (
        [assistant("<think>\n\n</think>\n\nhi")], "<think>\n\n</think>\n\n[[hi<|im_end|>]]",
    ),
    "empty thoughts": ([assistant("hi", reasoning_content="\n")], "<think>\n\n</think>\n\n[[hi<|im_end|>]]"),
    "nothing said": ([assistant("")], "<think>\n\n</think>\n\n[[<|im_end|>]]"),
    "a call": (
        [call({"a": 1})],
        '<think>\n\n</think>\n\n[[<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>]]',
    ),
    "a call without arguments": (
        [call({})], '<think>\n\n</think>\n\n[[<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call><|im_end|>]]',
    ),
    "words, two calls": (
        [call({"a": "é"}, "w") | {"tool_calls": call({"a": "é"})["tool_calls"] * 2}],
        '<think>\n\n</think>\n\n[[w\n<tool_call>\n{"name": "add", "arguments": {"a": "é"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "add", "arguments": {"a": "é"}}\n</tool_call><|im_end|>]]',
    ),
    "thoughts and a call": (
        [call({"a": 1}) | {"reasoning_content": "so"}],
        '[[<think>\nso\n</think>\n\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>]]',
    ),
    "two turns": (
        [assistant("a"), user("r"), assistant("b")],
        "[[a<|im_end|>]]\n<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n[[b<|im_end|>]]",
    ),
}  # fmt: skip


@pytest.mark.shared
@pytest.mark.parametrize("case", QWEN)
def test_qwen3(case):
    source, added, special = shared("qwen3")
    messages, expected = QWEN[case]
    found = shown(make(source, "qwen3", added, special), [Q, *messages])
    assert found == f"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n{expected}\n"


@pytest.mark.shared
def test_deepseek_has_no_boilerplate():
    source, added, special = shared("deepseek_v3")
    chat = make(source, "deepseek_v3", added, special)
    assert shown(chat, [Q, call({"a": 1}), tool("2"), assistant("x")]) == (
        "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜>[[<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n"
        '{"a": 1}\n```<｜tool▁call▁end｜>]]<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>2<｜tool▁output▁end｜>'
        "<｜tool▁outputs▁end｜>[[x<｜end▁of▁sentence｜>]]"
    )


# With marks a thought's mark is trained; without, the generation prompt gives it.
THINKING = {
    "no thoughts": ([assistant("hi")], "<think>\n\n</think>\n\n[[hi<|im_end|>]]"),
    "thoughts": ([assistant("hi", reasoning_content="so")], "{}so\n</think>\n\nhi<|im_end|>]]"),
    "thoughts in the content": ([assistant("<think>so</think>hi")], "{}so\n</think>\n\nhi<|im_end|>]]"),
    "a call": (
        [call({"a": 1})],
        '<think>\n\n</think>\n\n\n[[<tool_call>\n{{"name": "add", "arguments": {{"a": 1}}}}\n</tool_call><|im_end|>]]',
    ),
}  # fmt: skip


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("case", THINKING)
def test_thoughts_that_start_in_the_header(case, marks):
    messages, expected = THINKING[case]
    source = marked("thinking") if marks else unmarked(marked("thinking"))
    expected = expected.format("[[<think>\n" if marks else "<think>\n[[")
    assert shown(make(source), [Q, *messages]) == (
        f"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n{expected}\n"
    )


@pytest.mark.parametrize("marks", [True, False])
def test_the_built_in_templates_have_no_boilerplate(marks):
    for name in ("chatml", "llama3", "mistral", "gemma", "zephyr"):
        source = read_template(f"{name}.jinja")
        chat = make(source if marks else unmarked(source))
        talk = [system("s"), Q, assistant("a", reasoning_content="so"), Q, assistant("")]
        if name in ("chatml", "llama3", "mistral"):
            talk += [Q, call({"a": 1}, "w"), tool("2"), assistant("x")]
        assert shown(chat, talk) == shown(chat, talk, train_template_text=True)


# A plain turn, also for the calibration, or an assistant turn with BODY.
TURN = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role != 'assistant' or m.content == 'zzz' %}{{ m.content + '<|im_end|>' }}"
    "{% else %}{% generation %}BODY{% endgeneration %}{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
XML = (
    "{{ m.content }}{% for c in m.tool_calls or [] %}{{ '<tool_call>\n<function=' ~ c.function.name ~ '>\n' }}"
    "{% for k in c.function.arguments %}{{ '<parameter=' + k + '>' }}{{ c.function.arguments[k] }}{{ '</parameter>' }}{% endfor %}"
    "{{ '</function>\n</tool_call>' }}{% endfor %}{{ '<|im_end|>' }}"
)
END = "{{ '<|im_end|>' }}"
SAYS = [assistant("a")]
BY_HAND = {
    "before and after the content": (
        "{{ 'The answer: ' + m.content + ' (done)' }}" + END, SAYS, "The answer: [[a (done)<|im_end|>]]",
    ),
    "an empty content": ("{{ 'The answer: ' + m.content }}" + END, [assistant("")], "The answer: [[<|im_end|>]]"),
    "white space": ("{{ ' \n' + m.content }}" + END, SAYS, "[[ \na<|im_end|>]]"),
    "prose before thoughts": (
        "{{ 'Hm:\n<think>' + m.content.split('|')[0] + '</think>So: ' + m.content.split('|')[1] }}" + END,
        [assistant("x|y")], "Hm:[[\n<think>x</think>]]So: [[y<|im_end|>]]",
    ),
    "prose before thoughts of a key": (
        "{% if m.reasoning_content %}{{ 'Hm: <think>' + m.reasoning_content + '</think>So: ' }}{% endif %}{{ m.content }}" + END,
        [assistant("y", reasoning_content="x")], "[[Hm: <think>x</think>So: y<|im_end|>]]",
    ),
    "a closing mark alone": ("{{ 'x</think>' + m.content }}" + END, SAYS, "x</think>[[a<|im_end|>]]"),
    "marks of other names": (
        "{{ '<reasoning></reasoning>\n<thought> </thought><answer>' + m.content + '</answer>' }}" + END, SAYS,
        "<reasoning></reasoning>\n<thought> </thought><answer>[[a</answer><|im_end|>]]",
    ),
    "marks of two names are no block": (
        "{{ '<think></thought>' + m.content }}" + END, SAYS, "<think></thought>[[a<|im_end|>]]",
    ),
    "an empty block between": (
        "{{ m.content + '<think></think>' + m.content }}" + END, SAYS, "[[a]]<think></think>[[a<|im_end|>]]",
    ),
    "an empty block right before a call": (
        "{{ m.content }}{% for c in m.tool_calls or [] %}{{ '<think></think>' ~ (c.function | tojson) }}{% endfor %}" + END,
        [call({}, "w")], '[[w]]<think></think>[[{"name": "add", "arguments": {}}<|im_end|>]]',
    ),
    "an empty block right before the turn end": (
        "{{ m.content + '<think> </think>' }}" + END, SAYS, "[[a]]<think> </think>[[<|im_end|>]]",
    ),
    "a closing mark after the header": ("{{ '</think>' + m.content }}" + END, SAYS, "</think>[[a<|im_end|>]]"),
    "an opening mark before nothing": (
        "{{ 'x<think>' + m.content }}" + END, [assistant("")], "x<think>[[<|im_end|>]]",
    ),
    "a call that has an empty id": (
        "{% for c in m.tool_calls or [] %}{{ '<tool_call id=\"' + c.id + '\">' + c.function.name }}{% endfor %}" + END,
        [assistant("", tool_calls=[{"id": "", "function": {"name": "f"}}])], '[[<tool_call id="">f<|im_end|>]]',
    ),
    "text of unknown origin": (
        "{{ m.content }}{{ 'n=' }}{{ 5 }}{{ '. ' + m.content.center(3, '*') }}{{ '!' + m.content }}" + END, SAYS,
        "[[an=5. *a*!a<|im_end|>]]",
    ),
    "JSON of a whole message": (
        "{{ 'JSON: ' ~ ({'x': m.content} | tojson) ~ '; ' + m.content }}" + END, SAYS,
        '[[JSON: {"x": "a"}; a<|im_end|>]]',
    ),
    "a name beside the content": (
        "{{ m.content }}{% if m.name %}{{ ' - ' + m.name }}{% endif %}" + END, [assistant("a", name="b")],
        "[[a]] - [[b<|im_end|>]]",
    ),
    "calls in XML": (
        XML, [call({"n": 5, "s": "t"})],
        "[[<tool_call>\n<function=add>\n<parameter=n>5</parameter><parameter=s>t</parameter></function>\n</tool_call><|im_end|>]]",
    ),
    "a call without parameters in XML": (
        XML, [call({}, "w")], "[[w<tool_call>\n<function=add>\n</function>\n</tool_call><|im_end|>]]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("case", BY_HAND)
def test_by_hand(case, marks):
    body, messages, expected = BY_HAND[case]
    source = TURN.replace("BODY", body)
    found = shown(make(source if marks else unmarked(source)), [Q, *messages])
    assert found == f"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n{expected}\n"


@pytest.mark.parametrize("marks", [True, False])
def test_a_turn_end_inside_a_turn_stays(marks):
    body = "{{ m.content }}{% if m.name %}{{ ' so <|im_end|> and ' + m.name }}{% endif %}{{ '<|im_end|>' }}"
    chat = make(TURN.replace("BODY", body) if marks else unmarked(TURN.replace("BODY", body)))
    messages = [Q, assistant("a", name="b")]
    assert shown(chat, messages).endswith("assistant\n[[a so <|im_end|>]] and [[b<|im_end|>]]\n")
    assert marks or chat.render(messages).warnings == (TURN_END_INSIDE,)


def test_last_takes_the_whole_of_the_last_block():
    body = "{% generation %}{{ 'A: ' + messages[1].content + ' and B: ' + messages[2].content + '<|im_end|>' }}{% endgeneration %}"
    messages = [Q, assistant("a"), assistant("b")]
    assert shown(make(body), messages, train_on="last") == "A: [[a]] and B: [[b<|im_end|>]]"
    source = TURN.replace("BODY", "{{ 'A: ' + m.content + '<|im_end|>' }}")
    assert shown(make(source), [assistant("a"), assistant("b")], train_on="last") == (
        "<|im_start|>assistant\nA: a<|im_end|>\n<|im_start|>assistant\nA: [[b<|im_end|>]]\n"
    )


def test_a_turn_that_is_switched_off_stays_off():
    chat = make(TURN.replace("BODY", "{{ 'A: ' + m.content + '<|im_end|>' }}"))
    messages = [Q, assistant("a", weight=0), assistant("b")]
    assert shown(chat, messages).endswith("A: a<|im_end|>\n<|im_start|>assistant\nA: [[b<|im_end|>]]\n")


def test_a_header_that_would_be_trained_is_boilerplate():
    source = "{% for m in messages %}{{ '<|' + m.role + '|>says: ' + m.content + '</s>' }}{% endfor %}"
    messages = [Q, assistant("a")]
    assert make(source).render(messages).warnings == (HEADER_TRAINED,)
    found = make(source).render(messages, find_boilerplate=True)
    assert (found.text, found.warnings) == ("<|user|>says: q</s><|assistant|>says: a</s>", ())
    assert shown(make(source), messages) == "<|user|>says: q</s><|assistant|>says: [[a</s>]]"
    assert make(source).render([Q, assistant("a"), Q]).boilerplate == ()


def test_the_header_s_warning_stays_where_a_header_is_trained():
    source = (
        "{% for m in messages %}{{ '<|' + m.role + '|>' }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{% endfor %}"
        "{{ m.content + '</s>' }}{% endfor %}"
    )
    found = make(source).render([Q, call({}), assistant("a")], find_boilerplate=True)
    assert found.warnings == (HEADER_TRAINED,)


def test_named_templates_hand_the_question_on():
    one, two = (make(TURN.replace("BODY", f"{{{{ '{word}: ' + m.content + '<|im_end|>' }}}}")) for word in ("A", "BB"))
    chat = ChatTemplates(one, two)
    assert shown(chat, [assistant("a")]) == "<|im_start|>assistant\nA: [[a<|im_end|>]]\n"
    record = {"messages": [assistant("a")], "tools": [{"name": "f"}]}
    rendered = make_renderer("chat", {"messages": "messages"}, chat=chat, train_template_text=False)(record)
    assert [rendered.text[start:stop] for start, stop in rendered.trained] == ["a<|im_end|>"]
    assert rendered.text.endswith("BB: a<|im_end|>\n")


ALL = [*NAMES, *SHARED_NAMES]


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.shared] * (name in SHARED_NAMES)) for name in ALL]
)
def test_boilerplate_is_the_template_s_and_never_a_turn_end(name, marks):
    if name in SHARED_NAMES:
        source, added, special = shared(name)
        chat = make(source, name, added, special)
    else:
        chat = make(marked(name) if marks else unmarked(marked(name)))
    seen = 0
    for messages, tools in CONVERSATIONS.values():
        try:
            whole = chat.render(messages, tools)
        except RecordError:
            continue
        found = chat.render(messages, tools, find_boilerplate=True)
        assert (found.text, found.spans, found.template) == (whole.text, whole.spans, whole.template)
        assert all(one[1] <= two[0] for one, two in pairwise(found.boilerplate))
        for start, stop in found.boilerplate:
            assert start < stop
            assert any(a <= start and stop <= b for a, b in found.template)
            assert any(a <= start and stop <= b for a, b, _ in found.spans)
            assert chat.turn_end not in found.text[start:stop]
        ends = [stop for _, stop, _ in found.spans if found.text[:stop].endswith(chat.turn_end)]
        assert not {stop for _, stop in found.boilerplate} & set(ends)
        seen += len(ends)
    assert seen > 20
