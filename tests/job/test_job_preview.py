"""The first records before they are packed: what is shown is what packing makes of them."""

import json

import hypothesis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_helpers import END, EOS, START, TINY_CONFIG, pack, samples, tiny_bpe, write_lines
from transformers import AutoTokenizer

from packtool.errors import DataError, UsageError
from packtool.format import OUTCOMES
from packtool.job import preview, settings_from
from packtool.read import read_ledger

N = -100
OUTCOME = {"packed": "sample", "dropped": "sample", "empty": "empty", "bad": "bad"}
CHAT = (
    "{% for m in messages %}{{ '<|turn|>' + m.role + ':' + m.content + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn|>assistant:' }}{% endif %}"
)
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["<eos>", "<|end|>", "<|turn|>x", "  ", "é" * 5, "日本語", "a\nb"]),
)
TURNS = st.lists(TEXT, min_size=1, max_size=2).map(
    lambda texts: [turn for text in texts for turn in ({"role": "user", "content": text}, said(text))]
)
IDS = st.lists(st.integers(0, 260), max_size=8)
RECORDS = {
    "text": st.fixed_dictionaries({"text": TEXT}),
    "completion": st.fixed_dictionaries({"prompt": TEXT, "completion": TEXT}),
    "instruct": st.fixed_dictionaries({"instruction": TEXT, "output": TEXT}, optional={"input": TEXT}),
    "chat": st.fixed_dictionaries({"messages": TURNS}),
    "tokens": IDS.flatmap(
        lambda ids: st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)).map(
            lambda mask: {"input_ids": ids, "loss_mask": mask}
        )
    ),
}
BAD = st.sampled_from([{"other": 1}, {"text": 3, "messages": 3, "input_ids": "x"}, [], 7])


def said(text):
    return {"role": "assistant", "content": text}


def views(path, take=100, notices=None, **values):
    given = {"inputs": [path], "tokenizer": "bytes", **values}
    told = (lambda text: None) if notices is None else notices.append
    return list(preview(settings_from(given, packs=False), take, told))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "tok"
    config = {**TINY_CONFIG, "eos_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    tiny_bpe(folder, config=config, adds_bos=False)
    (folder / "chat_template.jinja").write_text(CHAT)
    return folder


@pytest.mark.parametrize("kind", RECORDS)
@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_shown_is_what_is_packed(tmp_path, tiny, kind, data):
    records = data.draw(st.lists(RECORDS[kind], min_size=1, max_size=5))
    if kind == "tokens":  # all records of a set have a mask
        records.append({"input_ids": [5, 6, 7], "loss_mask": [1, 1, 1]})
    else:
        for bad in data.draw(st.lists(BAD, max_size=2)):
            records.insert(data.draw(st.integers(0, len(records))), bad)
    keywords = {
        "kind": kind,
        "train_on": data.draw(st.sampled_from(["completion", "all"])),
        "allow_special": data.draw(st.booleans()),
        "tokenizer": "bytes" if kind == "tokens" else data.draw(st.sampled_from(["bytes", str(tiny)])),
        "bos": data.draw(st.sampled_from(["auto", "yes"])),
        "limit": data.draw(st.sampled_from(["", "2", "60%"])),
    }
    try:
        _, out = pack(tmp_path, records, max_seq_len=1 << 12, on_bad="skip", **keywords)
    except DataError as error:
        hypothesis.assume(not error.message.startswith("nothing is left to pack"))  # nothing to compare with
        raise
    found = views(tmp_path / "data.jsonl", **keywords)
    ledger, kept = read_ledger(out / "ledger.parquet"), samples(out)
    rows = [row for row in range(len(ledger.place)) if ledger.place[row] >= 0]
    assert [view.origin for view in found] == [f"data.jsonl, line {ledger.place[row]}" for row in rows]
    for row, view in zip(rows, found, strict=True):
        outcome = OUTCOMES[ledger.outcome[row]]
        assert (view.kind, view.outcome) == (kind, OUTCOME[outcome])
        assert len(view.ids) == ledger.tokens[row]
        assert view.problem == (ledger.details[row] if outcome == "bad" else "")
        assert view.fate == ("no token of it is trained, so it is dropped" if outcome == "dropped" else "")
        if outcome == "packed":
            assert (list(view.ids), list(view.labels)) == kept[row]


def test_ids_and_labels_by_hand(tmp_path):
    turns = [{"role": "user", "content": "hi"}, said("é")]
    path = write_lines(tmp_path / "a.jsonl", [{"messages": turns}])
    notices = []
    (view,) = views(path, notices=notices)
    prompt = [START, *b"user\nhi", END, 10, START, *b"assistant\n"]
    assert view.ids == (*prompt, 195, 169, END, 10)
    assert view.labels == (*[N] * len(prompt), 195, 169, END, N)
    assert view.parts == (
        (False, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"),
        (True, "é<|im_end|>"),
        (False, "\n"),
    )
    assert (view.origin, view.kind, view.outcome) == ("a.jsonl, line 1", "chat", "sample")
    assert (view.warnings, view.fate, view.problem, view.hint) == ((), "", "", "")
    assert notices == ["kind `chat`: the records have `messages`"]


def test_ids_of_a_chat_equal_transformers(tmp_path, tiny):
    turns = [{"role": "user", "content": "Hello"}, said("world, one two")]
    (view,) = views(write_lines(tmp_path / "a.jsonl", [{"messages": turns}]), tokenizer=str(tiny))
    theirs = AutoTokenizer.from_pretrained(tiny)
    assert list(view.ids) == theirs.apply_chat_template(turns, return_dict=True)["input_ids"]
    assert view.parts == (
        (False, "<|turn|>user:Hello<|end|>\n<|turn|>assistant:"),
        (True, "world, one two<|end|>"),
        (False, "\n"),
    )


def test_a_character_or_a_space_is_not_lost_where_training_begins(tmp_path):
    # Ids as bytes: é is 195 169, and the mask begins inside it.
    rows = [{"input_ids": [97, 195, 169, 98], "loss_mask": [0, 0, 1, 1]}]
    (view,) = views(write_lines(tmp_path / "a.jsonl", rows))
    assert view.parts == ((False, "a"), (True, "éb"))
    (view,) = views(tmp_path / "a.jsonl", tokenizer="")
    assert view.parts == ((False, "97 195"), (True, " 169 98"))
    import sentencepiece

    sentences = iter(["the quick brown fox jumps over the lazy dog"] * 50)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sentences, model_prefix=str(tmp_path / "sp"), vocab_size=60, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    path = write_lines(tmp_path / "b.jsonl", [{"prompt": "the quick", "completion": " fox"}])
    (view,) = views(path, tokenizer=str(tmp_path / "sp.model"))
    assert view.parts == ((False, "<s>the quick"), (True, " fox</s>"))


def test_only_what_is_asked_for_is_read(tmp_path):
    for name in "ab":
        write_lines(tmp_path / f"{name}.jsonl", [{"text": f"{name}{row}"} for row in range(2)])
    notices = []
    assert [view.origin for view in views(tmp_path, 3, notices)] == [
        "a.jsonl, line 1", "a.jsonl, line 2", "b.jsonl, line 1"
    ]  # fmt: skip
    assert len(views(tmp_path, limit="1")) == 1
    with (tmp_path / "b.jsonl").open("a") as file:
        file.write("not JSON\n")
    assert [view.outcome for view in views(tmp_path)] == ["sample"] * 4 + ["bad"]


def test_bad_and_empty_records_say_why_and_count(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text"\n\n{"text": " "}\n{"text": 5}\n{"text": "b\\ud83d"}\n')
    found = views(path, 4)
    assert [(view.origin, view.outcome, view.problem) for view in found] == [
        ("a.jsonl, line 1", "sample", ""),
        ("a.jsonl, line 2", "bad", "not JSON: Expecting ':' delimiter at column 8"),
        ("a.jsonl, line 4", "empty", ""),
        ("a.jsonl, line 5", "bad", "column `text` is of type int, expected text"),
    ]
    last = views(path)[-1]
    assert last.warnings == ("lone surrogates became U+FFFD",)
    assert last.ids == (98, 239, 191, 189, EOS)


@pytest.mark.parametrize(
    ("values", "record", "fate"),
    [
        ({}, {"prompt": "a", "completion": "b"}, ""),
        ({"max_seq_len": 3}, {"prompt": "a", "completion": "b"}, ""),
        (
            {"max_seq_len": 2},
            {"prompt": "a", "completion": "b"},
            "longer than `max_seq_len` 2, so it is truncated: 1 tokens are lost",
        ),
        (
            {"max_seq_len": 3},
            {"prompt": "abc", "completion": "b"},
            "longer than `max_seq_len` 3, and no token of what is kept is trained, so it is dropped",
        ),
        (
            {"max_seq_len": 2, "overlong": "drop"},
            {"prompt": "a", "completion": "b"},
            "longer than `max_seq_len` 2, so it is dropped",
        ),
        (
            {"max_seq_len": 2, "overlong": "error"},
            {"prompt": "a", "completion": "b"},
            "longer than `max_seq_len` 2, which `--overlong error` refuses",
        ),
        ({"max_seq_len": 4}, {"text": "abcdef"}, "longer than `max_seq_len` 4, so it is split over several pieces"),
        ({}, {"input_ids": [5, 6], "loss_mask": [1, 0]}, "no token of it is trained, so it is dropped"),
        (
            {"max_seq_len": 2, "overlong": "drop"},
            {"input_ids": [5, 6, 7], "loss_mask": [0, 0, 0]},
            "longer than `max_seq_len` 2, so it is dropped",
        ),
    ],
)
def test_what_the_length_policy_would_do(tmp_path, values, record, fate):
    (view,) = views(write_lines(tmp_path / "a.jsonl", [record]), **values)
    assert view.fate == fate


def test_inputs_without_a_record(tmp_path):
    (tmp_path / "a.csv").write_text("text\n")
    with pytest.raises(DataError, match=r"^the inputs hold no record at all$"):
        views(tmp_path / "a.csv", kind="text")
    with pytest.raises(UsageError, match=r"^what kind of data this is cannot be told from its columns: none$"):
        views(tmp_path / "a.csv")


def test_the_scratch_is_removed(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    path = write_lines(tmp_path / "a.jsonl", [{"text": "a"}, {"text": "b"}])
    shown = preview(settings_from({"inputs": [path], "tokenizer": "bytes"}, packs=False), 2, lambda text: None)
    next(shown)
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    shown.close()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.jsonl", "tmp"]
    assert json.loads(path.read_text().splitlines()[0]) == {"text": "a"}
