"""Kind H: a call reaches the text of every template that has calls, and the text is what transformers renders."""
# ruff: noqa: E501  a template or a conversation reads best on one line

import json

import pytest
from chat_cases import SPECIAL, assistant, make, marked, shared, tool, unmarked, user
from transformers.utils.chat_template_utils import render_jinja_template

from packtool.render import make_renderer, read_template
from packtool.render.lint import CALLS_LEFT_OUT, NO_HEADER, NO_TURN_END
from packtool.render.tool_calls import Spelling, spelling_of

TURN = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% generation %}BODY{{ '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% endfor %}"
ONE = "{{ c.function.name ~ (c.function.arguments | tojson) }}"
EACH = "{% for c in m.tool_calls or [] %}" + ONE + "{% endfor %}"


def body(text):
    return TURN.replace("BODY", text)


# What each does with the content of a turn that only calls, and the spelling that suits it.
WRITTEN = {
    "prints None": (body("{{ m.content }}" + EACH), "text"),
    "prints None at the end only": (body("{{ m.content if loop.last else m.content or '' }}" + EACH), "text"),
    "adds to None": (body("{{ '' + m.content }}" + EACH), "text"),
    "prints null": (body("{{ m.content | tojson if m.content is not string else m.content }}" + EACH), "text"),
    "asks for none": (body("{% if m.content is none %}" + EACH + "{% else %}{{ m.content }}{% endif %}"), "null"),
    "has words unless none": (body("{% if m.content is not none %}{{ 'all:' + m.content }}{% endif %}" + EACH), "null"),
    "asks for a key": (body("{% if 'content' not in m %}" + EACH + "{% else %}{{ m.content }}{% endif %}"), "missing"),
    "speaks of None and null": ("{{ 'None, null' }}" + body("{{ m.content or '' }}" + EACH), "null"),
    "refuses a call at the end": (
        body("{% if loop.last and m.tool_calls %}{{ raise_exception('no') }}{% endif %}{{ m.content }}" + EACH), "text",
    ),
}  # fmt: skip
SPELLED = {"null": {"content": None}, "text": {"content": ""}, "missing": {}}


@pytest.mark.parametrize("name", WRITTEN)
def test_h_how_no_content_is_spelled(name):
    source, content = WRITTEN[name]
    found = spelling_of(make(source))
    assert (found.content, found.as_text, found.alone) == (content, False, True)


CALL = {"id": "call00001", "type": "function", "function": {"name": "add", "arguments": {"a": [1, "é"]}}}
CALL_TURN = {"role": "assistant", "tool_calls": [CALL]}
MISSING = object()


def spelled(content, as_text=False):
    call = CALL
    if as_text:
        call = {**CALL, "function": {"name": "add", "arguments": json.dumps({"a": [1, "é"]}, ensure_ascii=False)}}
    return {"role": "assistant", **SPELLED[content], "tool_calls": [call]}


TEMPLATES = {
    **{name: (source, content, False) for name, (source, content) in WRITTEN.items()},
    **{f"built-in {name}": (read_template(f"{name}.jinja"), "null", False) for name in ("chatml", "llama3", "mistral")},
    **{name: (marked(name), "null", False) for name in ("llama3", "mistral", "thinking")},
    **{f"{name} without marks": (unmarked(marked(name)), "null", False) for name in ("llama3", "mistral", "thinking")},
}


@pytest.mark.parametrize("own", [None, "", MISSING], ids=["null", "empty", "missing"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_h_the_text_is_what_transformers_renders_in_that_spelling(name, own):
    """`apply_chat_template` of transformers 5 drops a None before it calls `render_jinja_template`, which keeps it."""
    source, content, as_text = TEMPLATES[name]
    turn = {**CALL_TURN, **({} if own is MISSING else {"content": own})}
    records, expected = ([user("a"), one, tool("2"), assistant("b")] for one in (turn, spelled(content, as_text)))
    rendered = make_renderer("chat", {"messages": "messages"}, chat=make(source))({"messages": records})
    assert [rendered.text] == render_jinja_template([expected], chat_template=source, **SPECIAL)[0]
    assert '"a": [1, "é"]' in rendered.text
    assert CALLS_LEFT_OUT not in rendered.warnings


@pytest.mark.shared
@pytest.mark.parametrize("own", [None, "", MISSING], ids=["null", "empty", "missing"])
@pytest.mark.parametrize(
    ("name", "spelling"), [("qwen3", Spelling("text")), ("deepseek_v3", Spelling("null", True, True, False))]
)
def test_h_real_templates(name, spelling, own):
    source, added, special = shared(name)
    chat = make(source, name, added, special)
    assert spelling_of(chat) == spelling
    turn = {**CALL_TURN, **({} if own is MISSING else {"content": own})}
    one = spelled(spelling.content, spelling.as_text)
    records, expected = ([user("a"), calling, tool("2"), assistant("b")] for calling in (turn, one))
    rendered = make_renderer("chat", {"messages": "messages"}, chat=chat)({"messages": records})
    assert [rendered.text] == render_jinja_template([expected], chat_template=source, **special)[0]
    assert "add" in rendered.text
    assert CALLS_LEFT_OUT not in rendered.warnings


@pytest.mark.shared
def test_h_deepseek_trains_a_call_and_counts_what_its_template_does_wrong():
    source, added, special = shared("deepseek_v3")
    render = make_renderer("chat", {"messages": "messages"}, chat=make(source, "deepseek_v3", added, special))
    rendered = render({"messages": [user("a"), {**CALL_TURN, "content": None}, tool("2"), assistant("b")]})
    assert [rendered.text[start:stop] for start, stop in rendered.trained] == [
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{"a": [1, "é"]}\n```<｜tool▁call▁end｜>',
        "b<｜end▁of▁sentence｜>",
    ]
    assert rendered.warnings == (NO_TURN_END, NO_HEADER)
    beside = render({"messages": [user("a"), {**CALL_TURN, "content": "words"}, tool("2"), assistant("b")]})
    assert beside.warnings[0] == CALLS_LEFT_OUT
    assert "add" not in beside.text
