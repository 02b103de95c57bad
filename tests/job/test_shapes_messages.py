"""Kind H: every shape of a conversation gives the messages worked out here, and the text that is trained."""

import pytest
from job_helpers import BOS, END, EOS, START, pack, packed

from packtool.errors import DataError, UsageError
from packtool.render import ChatTemplate, make_renderer, read_template
from packtool.render.conversations import read_conversation
from packtool.render.lint import MASK_LEAVES_USER

ASK, SAY = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
TALK = [ASK, SAY]
CHATML = ChatTemplate(
    read_template("chatml.jinja"), name="chatml", added_tokens=["<|im_start|>", "<|im_end|>"], special={}
)


def turns(*pairs):
    """[("user", "q"), ...] as messages."""
    return [{"role": role, "content": content} for role, content in pairs]


def trained(record, columns=None, **settings):
    """The trained text of a chat record on the built-in template."""
    rendered = make_renderer("chat", columns or {"messages": "messages"}, chat=CHATML, **settings)(record)
    return "|".join(rendered.text[start:stop] for start, stop in rendered.trained)


SHAPES = {
    "OpenAI": (TALK, TALK),
    "ShareGPT": ([{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], TALK),
    "role and value": ([{"role": "user", "value": "q"}, {"role": "assistant", "value": "a"}], TALK),
    "from and content": ([{"from": "human", "content": "q"}, {"from": "assistant", "content": "a"}], TALK),
    "unions with null keys, as Parquet has them": (
        [{"role": None, "from": "human", "content": None, "value": "q", "tool_calls": None}, SAY], TALK,
    ),
    "pairs": ([["q", "a"], ["r", "b"]], [*TALK, *turns(("user", "r"), ("assistant", "b"))]),
    "pair that the assistant opens": ([[None, "hi"], ["q", "a"]], [*turns(("assistant", "hi")), *TALK]),
    "one object a round": ([{"human": "q", "assistant": "a"}], TALK),
    "one object a round, answer first": ([{"assistant": "a", "user": "q", "system": None}], TALK),
    "one object a round, with a system": (
        [{"human": "q", "gpt": "a", "system": "s"}], [*turns(("system", "s")), *TALK],
    ),
    "one message": (SAY, [SAY]),
    "columns of messages": ({"role": ["user", "assistant"], "content": ["q", "a"]}, TALK),
    "columns, a null one": ({"from": ["human", "gpt"], "value": ["q", "a"], "weight": None}, TALK),
    "parts": (
        [{"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "text", "value": "r"}, "s",
                                      {"content": "t"}, {"type": "text", "text": "u", "image": None}]}, SAY],
        [*turns(("user", "qrstu")), SAY],
    ),
    "one part": ([{"role": "user", "content": {"type": "text", "text": "q"}}, SAY], TALK),
    "more keys are handed on": (
        [ASK, {**SAY, "reasoning_content": "so", "name": "n"}], [ASK, {**SAY, "reasoning_content": "so", "name": "n"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_h_shapes(name):
    value, expected = SHAPES[name]
    assert list(read_conversation({"c": value}, {"messages": "c"}).items) == expected


@pytest.mark.parametrize(
    ("spelled", "role"),
    [
        *[(name, "user") for name in ("human", "User", " HUMAN ", "prompter")],
        *[(name, "assistant") for name in ("gpt", "Bot", "model", "ChatGPT", "Assistant\n", "AI")],
        *[(name, "tool") for name in ("tool", "observation", "function", "ipython", "tool_response", "Environment")],
        ("System", "system"),
        ("developer", "developer"),
    ],
)
def test_h_role_aliases(spelled, role):
    assert read_conversation([{"role": spelled, "content": "x"}], {}).items == ({"role": role, "content": "x"},)


def test_h_a_bare_list_is_a_record(tmp_path):
    ids = [START, *b"user\nq", END, 10, START, *b"assistant\n", 97, END, 10]
    labels = [-100] * (len(ids) - 3) + [97, END, -100]
    (tmp_path / "a.jsonl").write_text("\n")
    assert packed(tmp_path, [TALK, [["q", "a"]]]) == {0: (ids, labels), 1: (ids, labels)}


SYSTEMS = {
    "beside": ({"system": "s", "messages": TALK}, [*turns(("system", "s")), *TALK]),
    "system_prompt": ({"system_prompt": "s", "messages": TALK}, [*turns(("system", "s")), *TALK]),
    "both, equal": ({"system": "s", "system_prompt": "s", "messages": TALK}, [*turns(("system", "s")), *TALK]),
    "empty": ({"system": "", "messages": TALK}, TALK),
    "null": ({"system": None, "messages": TALK}, TALK),
    "in the list already": (
        {"system": "s", "messages": [*turns(("system", "s")), *TALK]}, [*turns(("system", "s")), *TALK],
    ),
    "NeMo": (
        {"system": "", "mask": "User",
         "messages": [{"from": "User", "value": "q"}, {"from": "Assistant", "value": "a"}]},
        TALK,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SYSTEMS)
def test_h_system_beside_the_list(name):
    record, expected = SYSTEMS[name]
    assert list(read_conversation(record, {"messages": "messages", "mask": "mask"}).items) == expected


def test_h_history_columns():
    columns = {"prompt": "instruction", "input": "input", "completion": "output", "history": "history"}
    record = {"instruction": "q", "input": "i", "output": "a", "history": [["x", "y"]], "system": "s"}
    assert list(read_conversation(record, columns).items) == turns(
        ("system", "s"), ("user", "x"), ("assistant", "y"), ("user", "q\ni"), ("assistant", "a")
    )
    assert trained(record, columns) == "y<|im_end|>|a<|im_end|>"
    assert trained({"instruction": "q", "output": "a"}, columns) == "a<|im_end|>"


def test_i_nemo_masks_that_leave_the_user_on_are_counted():
    record = {"messages": TALK, "mask": "System"}
    assert read_conversation(record, {"messages": "messages", "mask": "mask"}).warnings == (MASK_LEAVES_USER,)


# messages or record -> message
REFUSED = {
    "unknown part": (
        [{"role": "user", "content": [{"url": "x"}]}],
        "message 0 has a part of type 'unknown', expected text: packtool packs text only",
    ),
    **{
        f"part with {name}": (
            [{"role": "user", "content": [{name: "x"}]}],
            f"message 0 has a part of type '{name}', expected text: packtool packs text only",
        )
        for name in ("image", "image_url", "audio", "video")
    },
    "input_audio": (
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}],
        "message 0 has a part of type 'input_audio', expected text: packtool packs text only",
    ),
    "images in a message": (
        [{"role": "user", "content": "<image>", "images": ["x"]}],
        "message 0 has `images`: packtool packs text only",
    ),
    "images beside": ({"messages": TALK, "images": ["x"]}, "the record has `images`: packtool packs text only"),
    "role and from differ": (
        [{"role": "user", "from": "gpt", "content": "x"}], "message 0 has the role 'user' and is from 'gpt'",
    ),
    "content and value differ": (
        [{"role": "user", "content": "x", "value": "y"}], "message 0 has `content` and `value`, and they differ",
    ),
    "null content": ([{"role": "user", "content": None}], "message 0 (user) has content that is null"),
    "no content": ([{"role": "user"}], "message 0 (user) has content that is missing"),
    "assistant without anything": (
        [ASK, {"role": "assistant", "content": None}],
        "message 1 (assistant) has content that is null, and it calls no tool",
    ),
    "pair without an answer": (
        [["q", None]], "column `messages` has a pair 0 without an answer, expected two texts",
    ),
    "columns of two lengths": (
        {"messages": {"role": ["user", "assistant"], "content": ["q"]}},
        "column `messages` holds lists that differ in length: `role` 2, `content` 1",
    ),
    "columns, one no list": (
        {"messages": {"role": ["user"], "content": "q"}},
        "column `messages` holds lists that differ in length: `role` 1, `content` no list",
    ),
    "system differs": (
        {"system": "s", "messages": [*turns(("system", "t")), *TALK]},
        "column `system` and the first message are both system texts, and they differ",
    ),
    "systems differ": (
        {"system": "s", "system_prompt": "t", "messages": TALK},
        "the record has `system` and `system_prompt`, and they differ",
    ),
    "system no text": ({"system": 5, "messages": TALK}, "column `system` is of type int, expected text"),
    "mask of the assistant": (
        {"mask": "User,Assistant", "messages": TALK},
        "column `mask` is 'User,Assistant', which leaves the assistant untrained, and the assistant is what is trained",
    ),
    "mask of nobody": (
        {"mask": "Judge", "messages": TALK}, "column `mask` names the role 'Judge', expected roles such as `User`",
    ),
    "mask of numbers": (
        {"mask": [0, 1], "messages": TALK}, "column `mask` is of type list, expected roles such as `User`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_h_refused(tmp_path, name):
    value, message = REFUSED[name]
    record = value if isinstance(value, dict) else {"messages": value}
    with pytest.raises(DataError) as caught:
        pack(tmp_path, [record])
    assert caught.value.message == f"`{tmp_path / 'data.jsonl'}`, line 1: {message}"


def test_g_columns_of_mixed_and_late_changing_types(tmp_path):
    parts = {"role": "user", "content": [{"type": "text", "text": "q"}]}
    records = [{"messages": TALK}] * 70 + [{"messages": [parts, SAY]}, {"messages": [["q", "a"]]}]
    found = packed(tmp_path, records, max_seq_len=64)
    assert len(found) == 72
    assert all(value == found[0] for value in found.values())


def test_g_messages_among_the_first_records_make_room_for_later_text(tmp_path):
    found = packed(tmp_path, [{"prompt": "q", "completion": "a"}, {"prompt": [ASK], "completion": [SAY]}])
    assert found[0] == ([113, 97, EOS], [-100, 97, EOS])
    assert found[1][0][0] == START


def test_g_messages_after_text_that_was_all_text(tmp_path):
    records = [{"prompt": "q", "completion": "a"}] * 64 + [{"prompt": [ASK], "completion": [SAY]}]
    with pytest.raises(DataError, match="line 65: column `prompt` holds messages, and no chat template is at hand"):
        pack(tmp_path, records)


def test_g_nested_columns(tmp_path):
    record = {"q": {"text": "ab"}, "r": [{"text": "c"}], "a.b": "d", "a": {"b": "e"}}
    found = packed(tmp_path, [record], columns={"prompt": "q.text", "completion": "r.0.text"})
    assert found == {0: ([97, 98, 99, EOS], [-100, -100, 99, EOS])}
    found = packed(tmp_path, [record], columns={"text": "a.b"}, bos="yes")
    assert found == {0: ([BOS, 100, EOS], [-100, 100, EOS])}  # a column with a dot in its name comes first
    for wrong in ("q.none", "r.1.text", "r.x.text", "q.text.0"):
        with pytest.raises(UsageError, match=f"`--columns` names `{wrong}`, which none of the first records has"):
            pack(tmp_path, [record], columns={"text": wrong})
    with pytest.raises(DataError, match=r"line 2: column `q\.text` is missing; the record.s columns: `q`"):
        pack(tmp_path, [record, {"q": {"other": "ab"}}], columns={"text": "q.text"})


def test_n_a_completion_that_repeats_its_prompt_is_taken_once(tmp_path):
    record = {"prompt": [ASK], "chosen": [ASK, SAY], "rejected": [ASK, SAY]}
    summary, _ = pack(tmp_path, [record], kind="completion", columns={"completion": "chosen"})
    assert "the completion repeats the messages of the prompt, which were taken once" in str(summary)
    found = packed(tmp_path, [record], kind="completion", columns={"completion": "chosen"})
    assert found == packed(tmp_path, [{"messages": TALK}], name="other")
