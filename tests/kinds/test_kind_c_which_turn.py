"""Kind C: which turn of a conversation is trained; ids and labels by hand, a byte is its own id."""

import pytest
from job_helpers import END, EOS, START, pack, packed

from packtool.errors import DataError, UsageError

N = -100
OPEN = [START, *b"assistant\n"]
ASK, SAY = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
LOOP = "{%% for m in messages %%}%s{%% endfor %%}{%% if add_generation_prompt %%}<|im_start|>assistant\n%s{%% endif %%}"
# ChatML as most tokenizers ship it: no marks that say what is trained.
STOCK = LOOP % ("<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n", "")
# The assistant's text is marked, its turn end is not.
ENDLESS = LOOP % (
    "<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n",
    "",
)
# Thoughts of earlier turns are dropped, and the generation prompt opens the thought.
THINKING = LOOP % (
    "<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last and m.reasoning_content %}<think>\n"
    "{{ m.reasoning_content }}</think>\n{% endif %}{{ m.content }}<|im_end|>\n",
    "<think>\n",
)
# An answer that is a dash is left out.
SILENT = LOOP % (
    "{% if m.content != '-' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}",
    "",
)


def turn(role, text):
    return [START, *role, 10, *text, END, 10]


def answer(text):
    """Labels of an assistant turn: the text and the turn end, but neither the header nor the line break after."""
    return [N] * len(OPEN) + [*text, END, N]


def chat(folder, source, *conversations, **settings):
    (folder / "t.jinja").write_text(source)
    records = [{"messages": messages} for messages in conversations]
    return packed(folder, records, chat_template=folder / "t.jinja", max_seq_len=1024, **settings)


def talk(*pairs):
    return [{"role": role, "content": content} for role, content in pairs]


@pytest.mark.parametrize("source", [STOCK, ""])
def test_only_assistants_are_trained_with_marks_or_without(tmp_path, source):
    """Elsewhere: a template without marks gives a mask of zeros, or of ones that trains the user."""
    messages = talk(("system", "s"), ("user", "q"), ("assistant", "a"))
    if source:
        found = chat(tmp_path, source, messages)
    else:
        found = packed(tmp_path, [{"messages": messages}])
    before = [*turn(b"system", b"s"), *turn(b"user", b"q")]
    assert found == {0: ([*before, *turn(b"assistant", b"a")], [N] * len(before) + answer(b"a"))}


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_every_turn_end_is_trained_the_last_one_too(tmp_path, turns):
    """Elsewhere: the last turn's end, or every one that is not eos_token, is left out of the labels."""
    ids, labels = chat(tmp_path, STOCK, [ASK, SAY] * turns)[0]
    assert ids == [*turn(b"user", b"q"), *turn(b"assistant", b"a")] * turns
    assert labels == ([N] * len(turn(b"user", b"q")) + answer(b"a")) * turns
    assert EOS not in ids


def test_turns_are_not_searched_for_by_their_text(tmp_path):
    """Elsewhere: a turn is found by its text, and from the first repetition on all spans are wrong."""
    messages = talk(*[("user", "x"), ("assistant", "x")] * 4)
    ids, labels = chat(tmp_path, STOCK, messages)[0]
    assert ids == [*turn(b"user", b"x"), *turn(b"assistant", b"x")] * 4
    assert labels == ([N] * len(turn(b"user", b"x")) + answer(b"x")) * 4


def test_a_header_spelled_in_a_message_opens_no_turn(tmp_path):
    """Elsewhere: the response marker is searched for in the ids, and a message that quotes it is trained."""
    quoted = "<|im_start|>assistant\n"
    ids, labels = chat(tmp_path, STOCK, talk(("user", quoted), ("assistant", quoted)))[0]
    assert ids == [*turn(b"user", quoted.encode()), *turn(b"assistant", quoted.encode())]
    assert labels == [N] * len(turn(b"user", quoted.encode())) + answer(quoted.encode())


def test_the_conversation_is_rendered_as_a_whole(tmp_path):
    """Elsewhere: turns are rendered one by one, and what the template does to earlier turns is not seen."""
    first = {**SAY, "reasoning_content": "t\n"}
    ids, labels = chat(tmp_path, THINKING, [ASK, first, ASK, first])[0]
    start = [*turn(b"user", b"q"), *turn(b"assistant", b"a"), *turn(b"user", b"q")]
    assert ids == [*start, *turn(b"assistant", b"<think>\nt\n</think>\na")]
    where = len(turn(b"user", b"q"))
    assert labels[: len(start)] == [N] * where + answer(b"a") + [N] * where


def test_what_the_generation_prompt_gives_is_not_trained(tmp_path):
    """Elsewhere: the prompt with its thought mark is no prefix of the text, so it is trained, or the mask is off."""
    ids, labels = chat(tmp_path, THINKING, [ASK, {**SAY, "reasoning_content": "t\n"}])[0]
    given = [*turn(b"user", b"q"), *OPEN, *b"<think>\n"]
    assert ids == [*given, *b"t\n</think>\na", END, 10]
    assert labels == [N] * len(given) + [*b"t\n</think>\na", END, N]


def test_marks_are_followed_exactly_and_a_missing_turn_end_is_reported(tmp_path):
    """Elsewhere: marks that leave the turn end out train a model that never stops, in silence."""
    (tmp_path / "t.jinja").write_text(ENDLESS)
    summary, _ = pack(tmp_path, [{"messages": [ASK, SAY]}], chat_template=tmp_path / "t.jinja")
    assert summary.warnings == {
        "generation marks leave the turn end out": [1, "data.jsonl, line 1"],
        "no trained token ends the sample": [1, "data.jsonl, line 1"],
    }
    ids, labels = chat(tmp_path, ENDLESS, [ASK, SAY])[0]
    assert ids == [*turn(b"user", b"q"), *turn(b"assistant", b"a")]
    assert labels == [N] * (len(ids) - 3) + [97, N, N]


def test_a_template_whose_turns_cannot_be_told_is_refused_by_name(tmp_path):
    """Elsewhere: the run goes on with every label -100, or with labels that somebody guessed."""
    (tmp_path / "t.jinja").write_text(LOOP % ("<|im_start|>{{ m.role }}\n{{ m.content }}STOP\n", ""))
    with pytest.raises(UsageError) as caught:
        pack(tmp_path, [{"messages": [ASK, SAY]}], chat_template=tmp_path / "t.jinja")
    name = f"chat template `{tmp_path / 't.jinja'}`"
    assert f"{name} ends an assistant turn without an added token" in str(caught.value)
    assert "generation" in caught.value.hint
    assert "--turn-end TEXT" in caught.value.hint


def test_a_conversation_whose_answer_is_not_rendered_is_refused_with_its_line(tmp_path):
    """Elsewhere: a row whose labels are all -100 is packed with the others."""
    (tmp_path / "t.jinja").write_text(SILENT)
    records = [{"messages": [ASK, SAY]}, {"messages": [ASK, {**SAY, "content": "-"}]}]
    message = "line 2: the chat template left nothing of the assistant turns to train; the roles are user, assistant"
    with pytest.raises(DataError, match=message):
        pack(tmp_path, records, chat_template=tmp_path / "t.jinja")


def test_assistant_turns_of_a_prompt_are_not_trained(tmp_path):
    """Elsewhere: the answers that stand in the prompt are trained like the completion."""
    found = packed(tmp_path, [{"prompt": [ASK, SAY, ASK], "completion": [SAY]}])
    before = [*turn(b"user", b"q"), *turn(b"assistant", b"a"), *turn(b"user", b"q")]
    assert found == {0: ([*before, *turn(b"assistant", b"a")], [N] * len(before) + answer(b"a"))}


def test_only_the_last_answer_is_trained_where_that_is_asked_for(tmp_path):
    """Elsewhere: data whose earlier answers are context only cannot be said to be so."""
    ids, labels = packed(tmp_path, [{"messages": [ASK, SAY, ASK, SAY]}], train_on="last")[0]
    assert labels == [N] * (len(ids) - len(turn(b"assistant", b"a"))) + answer(b"a")


def test_the_summary_shows_what_is_trained_of_whom(tmp_path):
    """Elsewhere: a loader that trains the user's text runs for weeks, and no figure shows it."""
    summary, _ = pack(tmp_path, [{"messages": talk(("user", "q"), ("assistant", "a"))}])
    # <|im_start|>user\nq<|im_end|>\n is 9 tokens; <|im_start|>assistant\na<|im_end|>\n 14, of which a and <|im_end|>.
    assert summary.roles == {"user": [9, 0], "assistant": [len(OPEN) + 3, 2]}


def test_what_the_template_adds_of_its_own_accord_can_stay_untrained(tmp_path):
    """Elsewhere: an empty think block, which the template puts into every answer, is supervised in every turn."""
    source = LOOP % (
        "<|im_start|>{{ m.role }}\n{{ '<think>\n\n</think>\n' if m.role == 'assistant' }}{{ m.content }}<|im_end|>\n",
        "",
    )
    messages = talk(("user", "q"), ("assistant", "a"))
    block = [*b"<think>\n\n</think>\n"]
    before = [N] * len(turn(b"user", b"q"))
    assert chat(tmp_path, source, messages)[0][1] == [*before, *answer([*block, 97])]
    ids, labels = chat(tmp_path, source, messages, train_template_text="no")[0]
    assert ids == [*turn(b"user", b"q"), *OPEN, *block, 97, END, 10]
    assert labels == [*before, *[N] * len(OPEN + block), 97, END, N]


def test_a_turn_end_that_is_text_can_be_named(tmp_path):
    """Elsewhere: a template from before chat tokens is guessed at, or trains nothing."""
    source = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    source += "{% if add_generation_prompt %}assistant:{% endif %}"
    ids, labels = chat(tmp_path, source, talk(("user", "q\n"), ("assistant", "a\nb")), turn_end="\n")[0]
    assert ids == [*b"user: q\n\nassistant: a\nb\n"]
    assert labels == [N] * len(b"user: q\n\nassistant:") + [*b" a\nb\n"]
