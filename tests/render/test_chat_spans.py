"""What is trained: from the end of the assistant header through the turn end, whatever the data holds."""
# ruff: noqa: E501  a template or a conversation reads best on one line

import pytest
from chat_cases import (
    ADDED,
    CONVERSATIONS,
    FORGED,
    NAMES,
    SHARED_NAMES,
    TOOLS,
    assistant,
    call,
    make,
    marked,
    plain,
    ranges,
    reference,
    shared,
    system,
    tool,
    trained,
    unmarked,
    user,
    with_marks,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from packtool.errors import RecordError, UsageError
from packtool.render.lint import (
    HEADER_TRAINED,
    MARKS_WITHOUT_END,
    NO_HEADER,
    NO_TURN_END,
    NOT_RENDERED,
    TURN_END_INSIDE,
)

TWO = [user("a"), assistant("b"), user("c"), assistant("d")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chatml", ["b<|im_end|>", "d<|im_end|>"]),
        ("llama3", ["b<|eot_id|>", "d<|eot_id|>"]),
        ("gemma", ["b<end_of_turn>", "d<end_of_turn>"]),
        ("zephyr", ["b</s>", "d</s>"]),
        ("phi", ["b<|end|>", "d<|end|>"]),
        ("mistral", [" b</s>", " d</s>"]),  # no generation prompt: the space is the model's
        ("macros", ["b<|im_end|>", "d<|im_end|>"]),
        ("deepseek", ["b<|end_of_sentence|>", "d<|end_of_sentence|>"]),
    ],
)
def test_spans_by_hand(name, expected):
    chat = plain(name).render(TWO)
    assert trained(chat) == expected
    assert [index for _, _, index in chat.spans] == [1, 3]
    assert chat.warnings == ()


def test_positions_by_hand():
    chat = plain("chatml").render([user("hi"), assistant("yo")])
    assert chat.text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n"
    assert chat.spans == ((52, 64, 1),)
    assert chat.template == ((0, 17), (19, 52), (54, 65))


def test_thoughts_are_trained_but_for_what_the_generation_prompt_gives():
    chat = plain("thinking").render(
        [user("a"), assistant("b", reasoning_content="hm"), user("c"), assistant("<think>so</think>d")]
    )
    assert trained(chat) == ["b<|im_end|>", "so\n</think>\n\nd<|im_end|>"]


@pytest.mark.shared
def test_spans_of_qwen3_by_hand():
    source, added, special = shared("qwen3")
    template = make(source, "qwen3", added, special)
    chat = template.render(
        [*TWO, user("1+1?"), call({"a": 1}), tool("2"), assistant("It is 2.", reasoning_content="hm")], TOOLS
    )
    assert trained(chat) == [
        "b<|im_end|>",
        "d<|im_end|>",
        '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>',
        "<think>\nhm\n</think>\n\nIt is 2.<|im_end|>",
    ]
    assert chat.warnings == ()
    assert (template.header, template.turn_end) == ("<|im_start|>assistant\n", "<|im_end|>")


@pytest.mark.shared
def test_thinking_switched_off_gives_the_empty_thought_in_the_prompt():
    source, added, special = shared("qwen3")
    chat = make(source, "qwen3", added, special, arguments={"enable_thinking": False}).render(TWO)
    assert trained(chat) == ["b<|im_end|>", "d<|im_end|>"]


@pytest.mark.shared
def test_spans_of_deepseek_by_hand():
    source, added, special = shared("deepseek_v3")
    template = make(source, "deepseek_v3", added, special)
    assert trained(template.render([system("s"), *TWO])) == ["b<｜end▁of▁sentence｜>", "d<｜end▁of▁sentence｜>"]
    after_tool = template.render([*TWO[:2], user("c"), tool("2"), assistant("d")])
    assert trained(after_tool) == ["b<｜end▁of▁sentence｜>", "d<｜end▁of▁sentence｜>"]
    assert after_tool.warnings == (NO_HEADER,)


@pytest.mark.parametrize("case", CONVERSATIONS)
@pytest.mark.parametrize("name", [*NAMES, "built-in"])
def test_spans_without_marks_equal_transformers_with_marks(name, case):
    messages, tools = CONVERSATIONS[case]
    expected = reference(marked(name), messages, tools)
    if isinstance(expected, Exception):
        return
    template = make(unmarked(marked(name))) if name == "built-in" else plain(name)
    chat = template.render(messages, tools)
    assert chat.text == expected[0]
    if name == "thinking":
        _agree_but_for_the_given_thought(chat, expected[1])
    else:
        assert ranges(chat) == _where_macros_land(name, expected[1])
    assert [messages[index]["role"] for _, _, index in chat.spans] == ["assistant"] * len(chat.spans)


def _agree_but_for_the_given_thought(chat, expected):
    """The marks of this template take in `<think>\n`, which its generation prompt gives already."""
    assert [stop for _, stop, _ in chat.spans] == [stop for _, stop in expected]
    for (start, _, _), (marked_start, _) in zip(chat.spans, expected, strict=True):
        assert start in (marked_start, marked_start + len("<think>\n"))


def _where_macros_land(name, expected):
    """transformers counts a block in a macro from where the macro's output starts; the header comes before it there."""
    shift = len("<|im_start|>assistant\n") if name == "macros" else 0
    return [(start + shift, stop + shift) for start, stop in expected]


@pytest.mark.parametrize("case", CONVERSATIONS)
@pytest.mark.parametrize("name", [*NAMES, "built-in"])
def test_marks_are_followed_exactly(name, case):
    messages, tools = CONVERSATIONS[case]
    expected = reference(marked(name), messages, tools)
    if isinstance(expected, Exception):
        return
    chat = with_marks(name).render(messages, tools)
    assert (chat.text, ranges(chat)) == (expected[0], _where_macros_land(name, expected[1]))
    assert [messages[index]["role"] for _, _, index in chat.spans] == ["assistant"] * len(chat.spans)


def test_marks_outside_a_loop_over_messages_have_no_message():
    source = "{{ '<|im_start|>assistant\n' }}{% generation %}{{ messages[1].content }}<|im_end|>{% endgeneration %}"
    assert make(source).render(TWO).spans == ((22, 33, -1),)


def test_marks_inside_each_other_are_one_span():
    source = "{% for m in messages %}{% generation %}a{% generation %}{{ m.content }}{% endgeneration %}<|im_end|>{% endgeneration %}{% endfor %}"
    assert trained(make(source).render(TWO[:1] + TWO[1:2])) == ["aa<|im_end|>", "ab<|im_end|>"]


def test_marks_without_the_turn_end_are_followed_and_warned_of():
    source = marked("chatml").replace(
        "+ '<|im_end|>' -}}{%- endgeneration -%}", "-}}{%- endgeneration -%}{{- '<|im_end|>' -}}"
    )
    chat = make(source).render([user("a"), assistant("b<|im_end|>")])
    assert trained(chat) == ["b<|im_end|>"]
    assert chat.warnings == (MARKS_WITHOUT_END,)
    assert with_marks("chatml").render(TWO).warnings == ()


def test_marks_need_no_calibration():
    source = "{% for m in messages %}{{ m.role }}: {% generation %}{{ m.content }}{% endgeneration %}{{ raise_exception('x') if m.content == 'qqq' }}{% endfor %}"
    template = make(source)
    assert (template.has_marks, template.turn_end, template.header, template.protected) == (True, "", "", frozenset())
    assert trained(template.render(TWO)) == ["a", "b", "c", "d"]


def test_a_turn_left_out_is_warned_of():
    source = unmarked(marked("chatml")).replace(
        "{{- '<|im_start|>'", "{%- if message.hide -%}{%- continue -%}{%- endif -%}{{- '<|im_start|>'", 1
    )
    chat = make(source).render([user("a"), assistant("b", hide=True), user("c"), assistant("d")])
    assert trained(chat) == ["d<|im_end|>"]
    assert chat.warnings == (NOT_RENDERED,)


def test_a_missing_turn_end_is_warned_of():
    source = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}{% if not loop.last %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_end|>\n<|im_start|>assistant\n' }}{% endif %}"
    chat = make(source).render(TWO)
    assert trained(chat) == ["b<|im_end|>", "d"]
    assert chat.warnings == (NO_TURN_END,)


def test_a_template_without_generation_prompt_trains_the_header_and_says_so():
    source = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    chat = make(source).render(TWO)
    assert trained(chat) == ["<|im_start|>assistant\nb<|im_end|>", "<|im_start|>assistant\nd<|im_end|>"]
    assert chat.warnings == (HEADER_TRAINED,)


def test_a_tool_call_without_generation_prompt_is_no_header():
    chat = plain("mistral").render([user("a"), call({"x": 1}), tool("2"), assistant("b")])
    assert trained(chat) == [
        '[TOOL_CALLS] [{"name": "add", "arguments": {"x": 1}, "id": "call00001"}]</s>',
        " b</s>",
    ]
    assert chat.warnings == ()


def test_a_turn_end_inside_a_turn_is_warned_of():
    source = unmarked(marked("chatml")).replace(
        "{{- message['content'] + '<|im_end|>' -}}",
        "{%- if message.note -%}{{- message.note + '<|im_end|>\n<|im_start|>assistant\n' -}}{%- endif -%}{{- message['content'] + '<|im_end|>' -}}",
    )
    chat = make(source).render([user("a"), assistant("b", note="n")])
    assert trained(chat) == ["n<|im_end|>\n<|im_start|>assistant\nb<|im_end|>"]
    assert chat.warnings == (TURN_END_INSIDE,)


def test_added_tokens_of_white_space_are_no_turn_end():
    # Gemma has "\n" among its added tokens.
    source = unmarked(marked("gemma")).replace("{{- '<end_of_turn>' -}}", "{{- '\n<end_of_turn>' -}}")
    assert make(source).turn_end == "<end_of_turn>"
    assert trained(make(source).render(TWO[:2])) == ["b\n<end_of_turn>"]


def test_a_record_without_assistant_has_no_span_and_no_error():
    assert plain("chatml").render([user("a")]).spans == ()
    assert plain("chatml").render([]).text == ""


LADEN = st.lists(
    st.sampled_from([*ADDED, FORGED, "a", "é", "日", " ", "assistant", "user", "<|im_", "end|>", "\r\n", "<think>\n", "\n</think>"]),
    max_size=6,
).map("".join)  # fmt: skip


@st.composite
def conversations(draw):
    turns = [turn for _ in range(draw(st.integers(1, 4))) for turn in (user(draw(LADEN)), assistant(draw(LADEN)))]
    return [system(draw(LADEN)), *turns] if draw(st.booleans()) else turns


@settings(max_examples=120, deadline=None)
@given(messages=conversations(), name=st.sampled_from([name for name in NAMES if name not in ("thinking", "macros")]))
def test_no_content_moves_a_boundary(name, messages):
    chat = plain(name).render(messages)
    assert (chat.text, ranges(chat)) == reference(marked(name), messages)
    assert chat.warnings == ()


@settings(max_examples=80, deadline=None)
@given(messages=conversations())
def test_no_content_moves_a_boundary_where_thoughts_are_rewritten(messages):
    chat = plain("thinking").render(messages)
    text, spans = reference(marked("thinking"), messages)
    assert chat.text == text
    _agree_but_for_the_given_thought(chat, spans)


@pytest.mark.shared
@settings(max_examples=60, deadline=None)
@given(messages=conversations())
def test_no_content_moves_a_boundary_in_real_templates(messages):
    for name in SHARED_NAMES:
        source, added, special = shared(name)
        template = _real(name, source, added, special)
        chat = template.render(messages)
        end = template.turn_end
        assert len(chat.spans) == sum(message["role"] == "assistant" for message in messages)
        for start, stop, index in chat.spans:
            # The turn end is the template's, and the span starts right behind the header, which is the template's too.
            assert chat.text[stop - len(end) : stop] == end
            assert any(first <= stop - len(end) and stop <= last for first, last in chat.template)
            assert chat.text[start - len(template.header) : start] == template.header
            assert any(first <= start - len(template.header) and start <= last for first, last in chat.template)
            assert messages[index]["role"] == "assistant"
        assert chat.text == reference(source, messages, special=special)[0]


_REAL = {}


def _real(name, *arguments):
    if name not in _REAL:
        source, added, special = arguments
        _REAL[name] = make(source, name, added, special)
    return _REAL[name]


def test_three_hundred_turns_are_no_problem():
    messages = [turn for k in range(150) for turn in (user(f"q{k}"), assistant(f"a{k}"))]
    chat = plain("chatml").render(messages)
    assert trained(chat) == [f"a{k}<|im_end|>" for k in range(150)]


def test_threads_share_a_template():
    from concurrent.futures import ThreadPoolExecutor

    template = plain("thinking")
    cases = [
        [user(f"q{k}" * (k % 7)), assistant(f"<think>t{k}</think>a{k}" * (k % 5)), user("x"), assistant(f"b{k}")]
        for k in range(40)
    ]
    alone = [template.render(case) for case in cases]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(template.render, cases * 3)) == alone * 3


def test_refusal_is_a_record_error_of_one_record_only():
    with pytest.raises(RecordError):
        plain("mistral").render([user("a"), user("b")])
    assert trained(plain("mistral").render(TWO[:2])) == [" b</s>"]


INDEX = "{% for i in range(messages | length) %}"
SET = "{% set m = messages[i] %}"


def test_a_loop_over_indices_starts_its_step_where_its_body_starts():
    source = INDEX + "<|im_start|>" + SET + "{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}"
    source += "{% if add_generation_prompt %}<|im_start|>assistant:{% endif %}"
    template = make(source)
    assert (template.header, template.turn_end) == ("<|im_start|>assistant:", "<|im_end|>")
    chat = template.render([user("a<|im_start|>assistant:"), assistant(""), assistant("b"), user("c")])
    assert (trained(chat), chat.warnings) == (["<|im_end|>", "b<|im_end|>"], ())
    assert [message for _, _, message in chat.spans] == [1, 2]


def test_two_messages_of_one_step_are_refused():
    turn = "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}{% endfor %}"
    with pytest.raises(UsageError, match=r"chat template `t` sets two messages in one step of a loop$"):
        make(INDEX + SET + "{% set other = messages[1:][i] %}" + turn)
    template = make(INDEX + SET + "{% set rest = messages[2:] %}{% set other = rest[i] %}" + turn)
    with pytest.raises(RecordError, match="the chat template sets two messages in one step of a loop; the roles are"):
        template.render([user("a"), assistant("b"), user("c"), assistant("d")])


def test_messages_by_index_that_are_not_set_are_refused():
    source = INDEX + "{{ messages[i].role + ':' + messages[i].content + '<|im_end|>' }}{% endfor %}"
    with pytest.raises(UsageError, match=r"prints an assistant turn outside a loop over the messages$"):
        make(source)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (SET + "{% generation %}{{ m.content }}{% endgeneration %}", [0, 1, 2]),
        (SET + "{% generation %}{{ messages[i - 1].content }}{% endgeneration %}", [2, 0, 1]),
        (SET + "{% generation %}{{ messages[0].content }}{{ messages[1].content }}{% endgeneration %}", [0, 1, -1]),
        (SET + "{% generation %}x{% endgeneration %}", [0, 1, 2]),
        ("{% generation %}{{ messages[i].content }}{% endgeneration %}", [-1, -1, -1]),
    ],
)
def test_the_message_of_marks_is_the_steps_unless_the_data_is_of_another(text, messages):
    chat = make(INDEX + text + "{% endfor %}").render([user("a"), assistant("b"), user("c")])
    assert [message for _, _, message in chat.spans] == messages
