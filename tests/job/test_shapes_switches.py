"""Kind I: a message's own switch is honoured, counted or refused, and never ignored in silence."""

import pytest
from job_helpers import pack
from test_shapes_messages import trained

from packtool.errors import DataError
from packtool.render import make_renderer
from packtool.render.lint import SWITCHED_ON
from packtool.render.switches import SWITCHES

ASK, SAY = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
LAST = {"role": "assistant", "content": "b"}


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, True, False, None])
def test_i_on_and_off(name, value):
    record = {"messages": [ASK, {**SAY, name: value}, ASK, LAST]}
    on = value is None or bool(value) == (name != "masked")
    assert trained(record) == ("a<|im_end|>|b<|im_end|>" if on else "b<|im_end|>")


def test_i_masked_in_metadata():
    record = {"messages": [ASK, {**SAY, "metadata": {"masked": True}}, ASK, {**LAST, "metadata": {"masked": False}}]}
    assert trained(record) == "b<|im_end|>"


def test_i_on_elsewhere_is_counted_and_off_is_harmless(tmp_path):
    on = {"messages": [{**ASK, "weight": 1}, SAY]}
    off = {"messages": [{**ASK, "loss_weight": 0.0}, {**SAY, "loss_weight": 1.0}]}
    assert trained(on) == trained(off) == "a<|im_end|>"
    other = {"messages": [{**ASK, "weight": 1}, {**SAY, "content": "b"}]}
    summary, _ = pack(tmp_path, [on, {"messages": [{**off["messages"][0], "content": "r"}, SAY]}, other])
    assert {text: found[0] for text, found in summary.warnings.items()} == {SWITCHED_ON: 2}


def test_i_off_against_train_on_all_is_counted():
    from test_shapes_messages import CHATML

    render = make_renderer("chat", {"messages": "messages"}, chat=CHATML, train_on="all")
    rendered = render({"messages": [ASK, {**SAY, "weight": 0}]})
    assert rendered.trained == ((0, len(rendered.text)),)
    assert rendered.warnings == ("a switch turns a turn off, and `--train-on all` trains it",)


REFUSED = {
    "half": ({"weight": 0.5}, "message 1 has `weight` 0.5, expected 0 or 1: a label is trained or it is not"),
    "two": ({"loss_mask": 2}, "message 1 has `loss_mask` 2, expected 0 or 1: a label is trained or it is not"),
    "text": ({"train": "no"}, "message 1 has `train` 'no', expected 0 or 1: a label is trained or it is not"),
    "list": ({"loss_mask": [0]}, "message 1 has `loss_mask` [0], expected 0 or 1: a label is trained or it is not"),
    "metadata": (
        {"metadata": {"masked": 3}},
        "message 1 has `metadata.masked` 3, expected 0 or 1: a label is trained or it is not",
    ),
    "contradiction": (
        {"weight": 1, "train": False},
        "message 1 has `weight` and `train`, and one says to train it, the other not to",
    ),
    "a part": ({"train_detail": [{"begin_offset": 0}]},
               "message 1 has `train_detail`: packtool trains a whole turn or nothing of it"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_i_refused(tmp_path, name):
    keys, message = REFUSED[name]
    with pytest.raises(DataError) as caught:
        pack(tmp_path, [{"messages": [ASK, {**SAY, **keys}]}])
    assert caught.value.message == f"`{tmp_path / 'data.jsonl'}`, line 1: {message}"
