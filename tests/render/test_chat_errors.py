"""Each refusal says which template or which roles, why, and what to do."""
# ruff: noqa: E501  a template or a conversation reads best on one line

import pytest
from chat_cases import assistant, make, marked, plain, unmarked, user, with_marks

from packtool.errors import RecordError, UsageError

CHATML = unmarked(marked("chatml"))
TURN = "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def over(turn, prompt=PROMPT):
    return "{% for m in messages %}" + turn + "{% endfor %}" + prompt


REFUSED = {
    "raises on a plain conversation of user, assistant, user: TemplateError: not today": "{{ raise_exception('not today') }}",
    "does not print an assistant turn in a loop over the messages": (
        "{{ '<|im_start|>assistant\n' ~ messages[1].role ~ '<|im_end|>' }}"
    ),
    "prints an assistant turn outside a loop over the messages": "{{ messages[1].content ~ '<|im_end|>' }}",
    "prints an assistant turn more than once": over(TURN) + over(TURN),
    "prints part of an assistant turn elsewhere": "{{ messages[1].content }}" + over(TURN),
    "does not print the content of a message once and as it is": over(TURN.replace("m.content", "m.content | reverse")),
    "prints something besides the assistant's content in its turn": over(TURN.replace("m.role", "m.role ~ loop.index")),
    "ends an assistant turn without an added token": over(TURN.replace("<|im_end|>", "<|stop|>")),
    "ends an assistant turn with two turn ends `<|im_end|>`": over(TURN + "<|im_end|>"),
    "ends an assistant turn with two added tokens, `<|im_end|>` and `</s>`": over(TURN + "</s>"),
    "prints a user turn inside or after the assistant turn that answers it": over(TURN).replace(
        "messages", "messages[::-1]", 1
    ),
    "ends a user turn otherwise when `add_generation_prompt` is set": over(
        "{% if m.role == 'user' and add_generation_prompt %}{{ m.content }}{% else %}" + TURN + "{% endif %}"
    ),
    "starts an assistant turn otherwise than `add_generation_prompt` does": over(
        TURN, PROMPT.replace("assistant\n", "bot\n")
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_template_that_cannot_be_told_is_refused_by_name_with_the_reason(reason):
    with pytest.raises(UsageError) as caught:
        make(REFUSED[reason], "their.jinja")
    assert caught.value.message.startswith(
        "cannot tell what the assistant writes: chat template `their.jinja` " + reason
    )
    marks = "mark what the assistant writes with `{% generation %}` and `{% endgeneration %}` in the template"
    of_end = reason.startswith("ends an assistant turn with")
    assert caught.value.hint == marks + (", or name what ends an assistant turn: `--turn-end TEXT`" if of_end else "")


def test_a_template_that_insists_on_a_system_turn_is_calibrated_with_one():
    source = "{% if messages[0].role != 'system' %}{{ raise_exception('system first') }}{% endif %}" + CHATML
    assert make(source).turn_end == "<|im_end|>"


def test_a_template_that_does_not_compile():
    with pytest.raises(UsageError, match=r"^chat template `t` does not compile: line 2: .*endfor"):
        make("\n{% for m in messages %}")
    with pytest.raises(UsageError, match=r"^chat template `t` does not compile: .*nonsense"):
        make("{{ messages | nonsense }}")


@pytest.mark.parametrize("name", ["messages", "tools", "documents", "add_generation_prompt"])
def test_an_argument_that_records_give(name):
    with pytest.raises(UsageError, match=f"^chat template argument `{name}` cannot be set$"):
        make(CHATML, arguments={name: []})


def test_a_template_that_raises_on_a_record():
    with pytest.raises(RecordError) as caught:
        plain("gemma").render([user("a"), user("b")])
    assert caught.value.message == (
        "the chat template raised: TemplateError: roles must alternate user/assistant; the roles are user, user"
    )


def test_a_template_that_does_what_the_sandbox_forbids():
    source = CHATML + "{{ messages.append(1) if messages | length > 3 }}"
    with pytest.raises(RecordError, match=r"^the chat template raised: SecurityError: "):
        make(source).render([user("a"), assistant("b")] * 2)


def test_long_role_lists_are_cut():
    turns = [user("a"), assistant("b")] * 7
    with pytest.raises(RecordError, match=r"the roles are (user, assistant, ){6}\.\.\.$"):
        plain("gemma").render([*turns, assistant("c")])


def test_a_message_or_tool_of_another_type():
    with pytest.raises(RecordError, match=r"^`messages\[1\]`: expected an object, got str$"):
        plain("chatml").render([user("a"), "b"])
    with pytest.raises(RecordError, match=r"^`tools\[0\]`: expected an object, got int$"):
        plain("chatml").render([user("a"), assistant("b")], [1])


RECORDS = {
    "prints two turn ends after an assistant turn": over(TURN + "{% if 'x' in m.content %}<|im_end|>{% endif %}"),
    "prints an assistant turn more than once": over(TURN) + "{% if 'x' in messages[-1].content %}" + over(TURN) + "{% endif %}",
    "prints part of an assistant turn elsewhere": over(TURN) + "{% if 'x' in messages[-1].content %}{{ messages[-1].content }}{% endif %}",
    "prints an assistant turn outside a loop over the messages": "{% if 'x' in messages[-1].content %}{{ messages[-1].content }}{% else %}" + over(TURN) + "{% endif %}",
    "prints another message inside an assistant turn": over(
        TURN.replace("+ m.content", "+ (m.content[:1] + messages[0].content + m.content[1:] if 'x' in m.content else m.content)")
    ),
    "prints the turn end before, or in one piece with, the last text of an assistant turn": over(
        "{% if 'x' in m.content %}{{ ('<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>') | safe }}{% else %}" + TURN + "{% endif %}"
    ),
    "goes on to another message in an assistant turn that has no turn end": over(
        "{% if 'x' in m.content %}{{ '<|im_start|>' + m.role + '\n' + m.content + messages[0].content }}{% else %}" + TURN + "{% endif %}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", RECORDS)
def test_a_record_whose_turns_cannot_be_told(reason):
    template = make(RECORDS[reason])
    template.render([user("a"), assistant("b")])
    with pytest.raises(RecordError) as caught:
        template.render([user("a"), assistant("xy")])
    assert (
        caught.value.message
        == f"cannot tell what the assistant wrote: the chat template {reason}; the roles are user, assistant"
    )


def test_nothing_to_train_although_the_assistant_spoke():
    source = CHATML.replace("{%- for message in messages -%}", "{%- for message in messages if not message.hide -%}")
    with pytest.raises(
        RecordError,
        match=r"^the chat template left nothing of the assistant turns to train; the roles are user, assistant$",
    ):
        make(source).render([user("a"), assistant("b", hide=True)])
    marks = marked("chatml").replace(
        "{%- for message in messages -%}", "{%- for message in messages if not message.hide -%}"
    )
    with pytest.raises(RecordError, match="left nothing of the assistant turns to train"):
        make(marks).render([user("a"), assistant("b", hide=True)])
    assert with_marks("chatml").render([user("a")]).spans == ()


def test_messages_hold_no_content_of_the_record():
    for template, messages in [(make(RECORDS[reason]), [user("a"), assistant("secret x")]) for reason in RECORDS]:
        with pytest.raises(RecordError) as caught:
            template.render(messages)
        assert "secret" not in caught.value.message
