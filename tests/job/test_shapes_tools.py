"""Kind H, tools: one call, however it is spelled, gives one text; what is no call is refused."""

import json

import pytest
from job_helpers import pack
from test_shapes_messages import CHATML, trained

from packtool.errors import DataError
from packtool.render import ChatTemplate, make_renderer
from packtool.render.conversations import read_conversation
from packtool.render.lint import CALLS_LEFT_OUT
from packtool.render.tool_calls import Spelling, spelling_of

ASK = {"role": "user", "content": "q"}
ARGUMENTS = {"x": 1, "y": ["é"]}
TEXT = json.dumps(ARGUMENTS, ensure_ascii=False, separators=(",", ":"))
CALL = {"type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}
SHOWN = '<tool_call>\n{"name": "f", "arguments": {"x": 1, "y": ["é"]}}\n</tool_call><|im_end|>'


def says(**keys):
    return {"role": "assistant", **keys}


def function(arguments):
    return [{"function": {"name": "f", "arguments": arguments}}]


CALLS = {
    "object": says(content=None, tool_calls=function(ARGUMENTS)),
    "text": says(content="", tool_calls=function(TEXT)),
    "text twice": says(tool_calls=function(json.dumps(TEXT))),
    "calls as text": says(content=None, tool_calls=json.dumps(function(TEXT))),
    "call as text": says(tool_calls=[json.dumps(function(TEXT)[0])]),
    "one call, no list": says(tool_calls=function(ARGUMENTS)[0]),
    "flat": says(tool_calls=[{"name": "f", "arguments": TEXT}]),
    "parameters": says(tool_calls=[{"name": "f", "parameters": ARGUMENTS}]),
    "legacy": says(content=None, function_call={"name": "f", "arguments": TEXT}),
    "legacy beside an empty list": says(content=None, tool_calls=[], function_call={"name": "f", "arguments": TEXT}),
    "ShareGPT": {"from": "function_call", "value": f'{{"name": "f", "arguments": {TEXT}}}'},
    "ShareGPT, arguments as text": {"from": "function_call", "value": json.dumps({"name": "f", "arguments": TEXT})},
    "ShareGPT, object": {"from": "tool_call", "value": {"name": "f", "arguments": ARGUMENTS}},
}


@pytest.mark.parametrize("name", CALLS)
def test_h_one_call_one_text(name):
    made = read_conversation([ASK, CALLS[name]], {}).items[1]
    assert made == {"role": "assistant", "content": "", "tool_calls": [CALL]}
    assert trained({"messages": [ASK, CALLS[name]]}) == SHOWN


def in_json(name, **more):
    return {"from": "function_call", "value": json.dumps({"name": name, "arguments": {}}), **more}


def shown(*names):
    return (
        "\n".join(f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>' for name in names)
        + "<|im_end|>"
    )


RESULT, SAYS = {"from": "observation", "value": "1"}, {"from": "gpt", "value": "a"}
IN_A_ROW = {
    "two": ([in_json("f"), in_json("g"), RESULT, RESULT, SAYS], [shown("f", "g"), "a<|im_end|>"]),
    "three": ([in_json("f"), in_json("g"), in_json("h")], [shown("f", "g", "h")]),
    "crossbreeds": ([in_json("f"), {"role": "tool_call", "content": {"name": "g"}}], [shown("f", "g")]),
    "a list and one": (
        [{"from": "function_call", "value": [{"name": "f"}, {"name": "g"}]}, in_json("h")], [shown("f", "g", "h")],
    ),
    "results between": ([in_json("f"), RESULT, in_json("g"), RESULT], [shown("f"), shown("g")]),
    "words before": ([SAYS, in_json("f"), in_json("g")], ["a<|im_end|>", shown("f", "g")]),
    "words after": ([in_json("f"), SAYS], [shown("f"), "a<|im_end|>"]),
    "OpenAI's turns stay apart": (
        [says(tool_calls=[{"name": "f"}]), says(tool_calls=[{"name": "g"}]), in_json("h")],
        [shown("f"), shown("g"), shown("h")],
    ),
    "thoughts of its own": (
        [in_json("f", reasoning_content="x"), in_json("g"), in_json("h", reasoning_content="y")],
        ["<think>\nx\n</think>\n\n" + shown("f", "g"), "<think>\ny\n</think>\n\n" + shown("h")],
    ),
    "both off": ([in_json("f", weight=0), in_json("g", train=False), SAYS], ["a<|im_end|>"]),
    "on, and nothing said": ([in_json("f", weight=1), in_json("g"), SAYS], [shown("f", "g"), "a<|im_end|>"]),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_A_ROW)
def test_h_calls_in_a_row_are_one_turn(name):
    turns, expected = IN_A_ROW[name]
    assert trained({"conversations": [ASK, *turns]}, {"messages": "conversations"}) == "|".join(expected)


def test_h_calls_in_a_row_by_hand():
    made = read_conversation([ASK, in_json("f", id=1), in_json("g", id=2, step="x"), RESULT, RESULT], {})
    calls = [{"type": "function", "function": {"name": name, "arguments": {}}} for name in "fg"]
    result = {"role": "tool", "content": "1"}
    assert made.items == (
        ASK, {"role": "assistant", "content": "", "tool_calls": calls, "id": 1, "step": "x"}, result, result,
    )  # fmt: skip
    assert made.switches == (None,) * 4


def test_h_a_switch_on_one_call_is_the_turn_s():
    assert read_conversation([in_json("f"), in_json("g", weight=1), in_json("h")], {}).switches == (True,)


@pytest.mark.parametrize("value", ["print(1)", "5", "[1]", '"x"', "{broken", '{"x": NaN}'])
def test_h_arguments_that_are_no_object_stay_as_they_are(value):
    made = read_conversation([says(tool_calls=function(value))], {}).items[0]
    assert made["tool_calls"][0]["function"]["arguments"] == value


@pytest.mark.parametrize("value", [None, "", " ", "{}", {}])
def test_h_no_arguments(value):
    assert trained({"messages": [ASK, says(tool_calls=function(value))]}) == (
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>'
    )


@pytest.mark.parametrize("value", [None, "", "[]", "null", [], {}])
def test_h_no_calls(value):
    assert trained({"messages": [ASK, says(content="a", tool_calls=value, function_call=None)]}) == "a<|im_end|>"


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
TOOLS = {
    "list": [TOOL],
    "text": json.dumps([TOOL]),
    "list of texts": [json.dumps(TOOL)],
    "one object": TOOL,
    "parameters as text": [{**TOOL, "function": {"name": "f", "parameters": '{"type": "object"}'}}],
}


@pytest.mark.parametrize("name", TOOLS)
def test_h_tools(name):
    render = make_renderer("chat", {"messages": "messages"}, chat=CHATML)
    assert (
        f"These functions can be called:\n{json.dumps(TOOL)}\n"
        in render({"messages": [ASK, says(content="a")], "tools": TOOLS[name]}).text
    )


@pytest.mark.parametrize("value", ["", "[]", "null", None, []])
def test_h_no_tools(value):
    render = make_renderer("chat", {"messages": "messages"}, chat=CHATML)
    assert "functions" not in render({"messages": [ASK, says(content="a")], "tools": value}).text


REFUSED = {
    "tools no list": ({"tools": 5}, "column `tools` is of type int, expected a list of tools"),
    "tools a number as text": ({"tools": "5"}, "column `tools` is of type int, expected a list of tools"),
    "tool no object": ({"tools": [5]}, "column `tools` has a tool 0 of type int, expected an object"),
    "calls no JSON": (
        {"messages": [ASK, says(tool_calls="f(1)")]}, "message 1 has `tool_calls` 'f(1)', expected a list of calls",
    ),
    "call without a name": (
        {"messages": [ASK, says(tool_calls=[{"id": "x"}])]},
        "message 1 has `tool_calls` {'id': 'x'}, expected an object with the `name` of a function",
    ),
    "function_call turn of words": (
        {"messages": [ASK, {"from": "function_call", "value": "f please"}]},
        "message 1 has `function_call` 'f please', expected a list of calls",
    ),
    "function_call turn, empty": (
        {"messages": [ASK, {"from": "function_call", "value": ""}]},
        "message 1 is a function call without a call, expected JSON with `name`, `arguments`",
    ),
    "calls of one turn, one off": (
        {"messages": [ASK, in_json("f"), in_json("g", weight=0)]},
        "message 2 is a call of the same turn as message 1, and one says to train it, the other not to",
    ),
    "calls of one turn, one on": (
        {"messages": [ASK, in_json("f", masked=True), in_json("g", train=1)]},
        "message 2 is a call of the same turn as message 1, and one says to train it, the other not to",
    ),
    "both": (
        {"messages": [ASK, says(tool_calls=function({}), function_call={"name": "g"})]},
        "message 1 has `tool_calls` and `function_call`, expected one of them",
    ),
    "user calls": (
        {"messages": [{**ASK, "tool_calls": function({})}]},
        "message 0 (user) calls a tool, which only the assistant does",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_h_refused(tmp_path, name):
    record, message = REFUSED[name]
    with pytest.raises(DataError) as caught:
        pack(tmp_path, [{"messages": [ASK, says(content="a")], **record}])
    assert caught.value.message == f"`{tmp_path / 'data.jsonl'}`, line 1: {message}"


TURN = "<|im_start|>{{ m.role }}\n%s<|im_end|>\n"
LOOP = "{%% for m in messages %%}%s{%% endfor %%}{%% if add_generation_prompt %%}<|im_start|>assistant\n{%% endif %%}"


def template(body):
    source = LOOP % (TURN % body)
    return ChatTemplate(source, name="t", added_tokens=["<|im_start|>", "<|im_end|>"], special={})


JOINS_TEXT = "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments }}{% endfor %}"
ABSENT_ONLY = (
    "{% if m.content is not defined %}{% for c in m.tool_calls %}{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}"
    "{% endfor %}{% else %}{{ m.content }}{% endif %}"
)


def test_h_the_spelling_is_the_template_s():
    assert spelling_of(CHATML) == Spelling("null")
    assert spelling_of(template(JOINS_TEXT)) == Spelling("text", as_text=True)
    assert spelling_of(template(ABSENT_ONLY)) == Spelling("missing", beside_text=False)


@pytest.mark.parametrize("name", CALLS)
def test_h_a_template_that_joins_text_gets_text(name):
    render = make_renderer("chat", {"messages": "messages"}, chat=template(JOINS_TEXT))
    rendered = render({"messages": [ASK, CALLS[name]]})
    assert [rendered.text[a:b] for a, b in rendered.trained] == ['f{"x": 1, "y": ["é"]}<|im_end|>']
    assert spelling_of(template("{{ m.content }}")) == Spelling(alone=False, beside_text=False)


def test_h_a_template_without_calls_is_counted():
    render = make_renderer("chat", {"messages": "messages"}, chat=template("{{ m.content }}"))
    assert render({"messages": [ASK, says(tool_calls=[CALL])]}).warnings == (CALLS_LEFT_OUT,)


def test_h_calls_that_a_template_drops_are_counted():
    render = make_renderer("chat", {"messages": "messages"}, chat=template(ABSENT_ONLY))
    assert render({"messages": [ASK, says(content="a", tool_calls=[CALL])]}).warnings == (CALLS_LEFT_OUT,)
    rendered = render({"messages": [ASK, says(content="", tool_calls=[CALL])]})
    assert rendered.warnings == ()
    assert 'f{"x": 1, "y": ["é"]}' in rendered.text
