"""`--turn-end`: templates whose assistant turns end with ordinary text, or with another token than the first one."""
# ruff: noqa: E501  a template or a conversation reads best on one line

import pytest
from chat_cases import assistant, call, make, marked, system, trained, user

from packtool.errors import RecordError, UsageError

MARKS = "mark what the assistant writes with `{% generation %}` and `{% endgeneration %}` in the template"


def plain(end, start="{{ m.role ~ ': ' }}", more=""):
    """A template like those from before chat tokens; `end` is printed after each turn."""
    return (
        f"{{% for m in messages %}}{start}{{{{ m.content }}}}{more}{{{{ {end!r} }}}}{{% endfor %}}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
    )


@pytest.mark.parametrize("end", ["\n", "\n\n", "###", "<stop>\n", " "])
def test_text_ends_a_turn_and_is_trained(end):
    template = make(plain(end), turn_end=end)
    assert (template.header, template.turn_end, template.protected) == ("assistant: ", end, frozenset())
    messages = [system("s"), user("a"), assistant("b"), user("c" + end), assistant("d" + end + "e" + end)]
    chat = template.render(messages)
    assert chat.text == f"system: s{end}user: a{end}assistant: b{end}user: c{end}{end}assistant: d{end}e{end}{end}"
    assert (trained(chat), chat.warnings) == (["b" + end, f"d{end}e{end}{end}"], ())


def test_what_follows_the_turn_end_is_not_trained():
    chat = make(plain("#\n"), turn_end="#").render([user("a"), assistant("b#"), user("c"), assistant("")])
    assert chat.text == "user: a#\nassistant: b##\nuser: c#\nassistant: #\n"
    assert (trained(chat), chat.warnings) == (["b##", "#"], ())


def test_it_may_stand_in_for_the_added_token():
    source = plain("<|im_end|></s>\n")
    with pytest.raises(UsageError, match=r"ends an assistant turn with two added tokens, `<\|im_end\|>` and `</s>`$"):
        make(source)
    for end in ("<|im_end|>", "</s>", "<|im_end|></s>\n", "\n"):
        template = make(source, turn_end=end)
        stop = "<|im_end|></s>\n".index(end) + len(end)
        assert trained(template.render([user("a"), assistant("b")])) == ["b" + "<|im_end|></s>\n"[:stop]]
        assert template.protected == {"<|im_end|>", "</s>"}


REFUSED = {
    ("\n", "###"): "ends an assistant turn with '\\n', in which there is no '###'",
    ("", "###"): "ends an assistant turn with '', in which there is no '###'",
    ("# #", "#"): "ends an assistant turn with '# #', in which '#' stands more than once",
    ("\n\n\n", "\n\n"): "ends an assistant turn with '\\n\\n\\n', in which '\\n\\n' stands more than once",
    ("<|im_end|>", "<|im_"): "ends an assistant turn with '<|im_end|>', in which '<|im_' ends inside the token '<|im_end|>'",
    (".\n\n", ".\n"): "ends an assistant turn with '.\\n\\n', in which '.\\n' ends inside the token '\\n\\n'",
}  # fmt: skip


@pytest.mark.parametrize(("printed", "end"), REFUSED)
def test_a_turn_end_that_is_not_there_once_and_whole(printed, end):
    with pytest.raises(UsageError) as caught:
        make(plain(printed), "their.jinja", turn_end=end)
    assert caught.value.message == (
        "cannot tell what the assistant writes: chat template `their.jinja` " + REFUSED[printed, end]
    )
    assert caught.value.hint == MARKS + ", or name what ends an assistant turn: `--turn-end TEXT`"


def test_marks_decide():
    with pytest.raises(UsageError) as caught:
        make(marked("chatml"), "their.jinja", turn_end="<|im_end|>")
    assert caught.value.message == (
        "`--turn-end` was given, and chat template `their.jinja` has `{% generation %}` marks, which decide"
    )
    assert caught.value.hint == "leave it out: what the marks enclose is trained"


def test_data_may_hold_it_without_a_warning():
    source = plain("\n", more="{{ m.extra | reverse if m.extra }}")  # reversed text is of unknown origin
    chat = make(source, turn_end="\n").render(
        [
            user(
                "a",
            ),
            assistant("b\n", extra="\nc\n"),
        ]
    )
    assert (trained(chat), chat.warnings) == (["b\n\nc\n\n"], ())


def test_an_added_token_of_unknown_origin_is_warned_of_still():
    source = plain("<|im_end|>", more="{{ m.extra | reverse if m.extra }}")
    chat = make(source, turn_end="<|im_end|>").render([user("a"), assistant("b", extra="<|im_end|>"[::-1])])
    assert "control token in text of unknown origin" in chat.warnings


def test_other_text_after_it_is_warned_of():
    calls = "{% if m.tool_calls %}{{ '\nand calls' }}{% endif %}"
    template = make(plain("#", more=calls.replace("\n", "#")), turn_end="#")
    assert template.render([user("a"), assistant("b")]).warnings == ()
    source = plain("", more=f"{{{{ '' if m.tool_calls else '#' }}}}{calls.replace(chr(10), '#')}")
    chat = make(source, turn_end="#").render([user("a"), call({"x": 1}, "b")])
    assert trained(chat) == ["b#"]
    assert chat.text == "user: a#assistant: b#and calls"
    assert chat.warnings == ("other text than usual after the turn end",)


def test_a_last_turn_without_what_follows_is_not_warned_of():
    source = plain("", more="{{ '#' if loop.last and m.role == 'assistant' else '#\n' }}")
    chat = make(source, turn_end="#").render([user("a"), assistant("b")])
    assert (chat.text, trained(chat), chat.warnings) == ("user: a#\nassistant: b#", ["b#"], ())


def test_a_turn_without_it_is_warned_of():
    source = plain("", more="{{ '' if loop.last and m.role == 'assistant' else '\n' }}")
    chat = make(source, turn_end="\n").render([user("a"), assistant("b\n")])
    assert (trained(chat), chat.warnings) == (["b\n"], ("no turn end",))


def test_two_that_overlap_after_a_turn_are_refused():
    source = plain("\n\n", more="{{ '\n' if 'x' in m.content }}")
    template = make(source, turn_end="\n\n")
    assert trained(template.render([user("x"), assistant("b")])) == ["b\n\n"]
    with pytest.raises(RecordError, match="prints two turn ends after an assistant turn"):
        template.render([user("a"), assistant("x")])
