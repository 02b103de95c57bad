"""Kind I: what a message says of its own training; ids and labels by hand, a byte is its own id."""

import pytest
from job_helpers import END, START, pack, packed

from packtool.errors import DataError

N = -100
ASK, SAY = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
TALK_IDS = [START, *b"user\nq", END, 10, START, *b"assistant\n", 97, END, 10]
ON = [N] * (len(TALK_IDS) - 3) + [97, END, N]
OFF = [N] * len(TALK_IDS)


@pytest.mark.parametrize(
    "off",
    [{"weight": 0}, {"weight": 0.0}, {"loss": 0}, {"loss": False}, {"loss_weight": 0}, {"loss_mask": 0},
     {"train": False}, {"trainable": False}],
)  # fmt: skip
def test_a_turn_that_is_switched_off_is_not_trained(tmp_path, off):
    """Elsewhere: weight, loss or loss_mask of a message is ignored, and thousands of turns are trained by mistake."""
    found = packed(tmp_path, [{"messages": [ASK, {**SAY, **off}, ASK, SAY]}])
    assert found == {0: ([*TALK_IDS, *TALK_IDS], [*OFF, *ON])}


@pytest.mark.parametrize("off", [{"masked": True}, {"metadata": {"masked": True}}])
def test_masked_turns_a_turn_off_and_not_on(tmp_path, off):
    """Elsewhere: `masked` is read the wrong way round, or not at all."""
    on = {"masked": False}
    found = packed(tmp_path, [{"messages": [ASK, {**SAY, **off}, ASK, {**SAY, **on}]}])
    assert found == {0: ([*TALK_IDS, *TALK_IDS], [*OFF, *ON])}


@pytest.mark.parametrize("value", [0.5, 2, "no", -1])
def test_a_weight_that_labels_cannot_hold_is_refused(tmp_path, value):
    """Elsewhere: half a weight trains in full."""
    with pytest.raises(DataError, match=r"line 1: message 1 has `weight` .*, expected 0 or 1: a label is trained"):
        pack(tmp_path, [{"messages": [ASK, {**SAY, "weight": value}]}])


def test_switches_that_contradict_each_other_are_refused(tmp_path):
    """Elsewhere: one of the two wins, and nobody knows which."""
    with pytest.raises(DataError, match="line 1: message 1 has `weight` and `masked`, and one says to train it"):
        pack(tmp_path, [{"messages": [ASK, {**SAY, "weight": 1, "masked": True}]}])


def test_a_switch_against_train_on_all_is_counted(tmp_path):
    """Elsewhere: a switch and a setting of the run contradict each other in silence."""
    records = [{"messages": [ASK, {**SAY, "weight": 0}]}, {"messages": [ASK, {**SAY, "content": "b"}]}]
    summary, _ = pack(tmp_path, records, train_on="all")
    warning = "a switch turns a turn off, and `--train-on all` trains it"
    assert summary.warnings == {warning: [1, "data.jsonl, line 1"]}


def test_a_switch_that_would_train_the_user_is_counted_and_does_not(tmp_path):
    """Elsewhere: the user's turn is trained, or the wish is ignored without a word."""
    record = {"messages": [{**ASK, "weight": 1}, SAY]}
    assert packed(tmp_path, [record]) == {0: (TALK_IDS, ON)}
    summary, _ = pack(tmp_path, [record])
    warning = "a switch turns on a turn that is not the assistant's, which stays untrained"
    assert summary.warnings == {warning: [1, "data.jsonl, line 1"]}


def test_a_record_whose_turns_are_all_off_is_dropped_with_its_reason(tmp_path):
    """Elsewhere: a row without a target stays in, and its loss is NaN."""
    summary, _ = pack(tmp_path, [{"messages": [ASK, {**SAY, "weight": 0}]}, {"messages": [ASK, SAY]}])
    assert summary.reasons == {"dropped/no_target": 1}
