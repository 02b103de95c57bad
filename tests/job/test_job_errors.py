"""What a run refuses, with which words. One case for every message of the rooms that a run is made of."""

import json
from pathlib import Path

import pytest
from job_helpers import TINY_CONFIG, pack, tiny_bpe, write_lines

import packtool
from packtool.errors import DataError, UsageError
from packtool.job import read_config, settings_from
from packtool.job.settings import parse_limit, parse_size
from packtool.render import make_renderer, parse_instruct, read_template

HI = {"role": "user", "content": "hi"}


def message(text):
    return {"messages": [text]}


# record, settings -> message
BAD_RECORDS = {
    "column missing": ({"a": "b"}, {"kind": "text"}, "column `text` is missing; the record's columns: `a`"),
    "no column at all": ({}, {"kind": "text"}, "column `text` is missing; the record's columns: none"),
    "column null": ({"text": None}, {"kind": "text"}, "column `text` is null; the record's columns: `text`"),
    "column of numbers": ({"text": 5}, {"kind": "text"}, "column `text` is of type int, expected text"),
    "prompt missing": (
        {"completion": "a"}, {"kind": "completion"}, "column `prompt` is missing; the record's columns: `completion`",
    ),
    "instruct field missing": (
        {"output": "a"}, {"kind": "instruct"}, "column `instruction` is missing; the record's columns: `output`",
    ),
    "instruct field of a list": (
        {"instruction": ["a"], "output": "b"}, {"kind": "instruct"},
        "column `instruction` is of type list, expected text",
    ),
    "tools no list": (
        {"messages": [HI], "tools": "f"}, {"kind": "chat"},
        "column `tools` is text that is not JSON (Expecting value: line 1 column 1 (char 0)), expected a list of "
        "tools",

    ),
    "messages missing": ({"a": 1}, {"kind": "chat"}, "column `messages` is missing, expected a list of messages"),
    "messages text": (
        {"messages": "a"}, {"kind": "chat"}, "column `messages` is of type str, expected a list of messages",
    ),
    "message text": (
        message("a"), {"kind": "chat"}, "message 0 is of type str, expected an object with a role and content",
    ),
    "message without role": (
        message({"content": "a"}), {"kind": "chat"}, "message 0 has no `role` (or `from`); its keys: `content`",
    ),
    "empty message": (message({}), {"kind": "chat"}, "message 0 has no `role` (or `from`); its keys: none"),
    "unknown role": (
        message({"role": "judge", "content": "a"}), {"kind": "chat"},
        "message 0 has the role 'judge', expected one of ai, assistant, bot, chatbot, chatgpt, developer, environment, "
        "function, function_call, function_response, gpt, human, ipython, model, observation, prompter, system, tool, "
        "tool_call, tool_response, tool_result, user",
    ),
    "content number": (
        message({"role": "user", "content": 5}), {"kind": "chat"}, "message 0 has content of type int, expected text",
    ),
    "image part": (
        message({"role": "user", "content": [{"type": "image", "url": "x"}]}), {"kind": "chat"},
        "message 0 has a part of type 'image', expected text: packtool packs text only",
    ),
    "part of a number": (
        message({"role": "user", "content": [5]}), {"kind": "chat"},
        "message 0 has a part of type 'int', expected text: packtool packs text only",
    ),
    "weight of a half": (
        message({**HI, "weight": 0.5}), {"kind": "chat"},
        "message 0 has `weight` 0.5, expected 0 or 1: a label is trained or it is not",
    ),
    "completion message": (
        {"prompt": [HI], "completion": [5]}, {"kind": "completion"},
        "message 0 is of type int, expected an object with a role and content",
    ),
    "ids missing": ({"a": 1}, {"kind": "tokens"}, "column `input_ids` is missing, expected a list of integers"),
    "ids text": (
        {"input_ids": "5"}, {"kind": "tokens"}, "column `input_ids` is of type str, expected a list of integers",
    ),
    "ids nested": ({"input_ids": [[1]]}, {"kind": "tokens"}, "column `input_ids` is not a flat list of integers"),
    "ids ragged": ({"input_ids": [1, [2]]}, {"kind": "tokens"}, "column `input_ids` is not a flat list of integers"),
    "ids floats": ({"input_ids": [1.0]}, {"kind": "tokens"}, "column `input_ids` is not a flat list of integers"),
    "ids strings": ({"input_ids": ["1"]}, {"kind": "tokens"}, "column `input_ids` is not a flat list of integers"),
    "ids null": ({"input_ids": [1, None]}, {"kind": "tokens"}, "column `input_ids` is not a flat list of integers"),
    "ids huge": ({"input_ids": [2**70]}, {"kind": "tokens"}, "column `input_ids` is not a flat list of integers"),
    "id negative": (
        {"input_ids": [1, -1]}, {"kind": "tokens", "tokenizer": ""},
        "column `input_ids` holds the id -1, expected 0 to 2147483647",
    ),
    "id beyond the vocabulary": (
        {"input_ids": [260, 261]}, {"kind": "tokens"}, "column `input_ids` holds the id 261, expected 0 to 260",
    ),
    "labels shorter": (
        {"input_ids": [1, 2], "labels": [1]}, {"kind": "tokens"},
        "column `labels` has 1 entries, expected one for each of 2 tokens",
    ),
    "labels shifted": (
        {"input_ids": [5, 6, 7, 8], "labels": [6, 7, 8, -100]}, {"kind": "tokens"},
        "column `labels` is shifted by one: label 0 is the id of token 1",
    ),
    "labels shifted behind a prompt": (
        {"input_ids": [5, 6, 7, 8], "labels": [-100, 7, 8, -100]}, {"kind": "tokens"},
        "column `labels` is shifted by one: label 1 is the id of token 2",
    ),
    "labels differ": (
        {"input_ids": [5, 6, 7], "labels": [5, 9, 7]}, {"kind": "tokens"},
        "column `labels` differs from the ids at 1: label 9, token 6",
    ),
    "labels of -1": (
        {"input_ids": [5, 6], "labels": [-1, 6]}, {"kind": "tokens"},
        "column `labels` differs from the ids at 0: label -1, token 5",
    ),
    "mask of twos": (
        {"input_ids": [5, 6], "loss_mask": [0, 2]}, {"kind": "tokens"}, "column `loss_mask` holds 2, expected 0 or 1",
    ),
    "mask longer": (
        {"input_ids": [5], "loss_mask": [0, 1]}, {"kind": "tokens"},
        "column `loss_mask` has 2 entries, expected one for each of 1 tokens",
    ),
    "attention with a hole": (
        {"input_ids": [5, 6, 7], "attention_mask": [1, 0, 1]}, {"kind": "tokens"},
        "column `attention_mask` has zeros between ones, so the record is no single sequence",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_bad_records(tmp_path, name):
    record, settings, expected = BAD_RECORDS[name]
    with pytest.raises(DataError) as caught:
        pack(tmp_path, [record], **settings)
    assert caught.value.message == f"`{tmp_path / 'data.jsonl'}`, line 1: {expected}"
    assert caught.value.hint
    summary, out = pack(tmp_path, [record, _good(settings["kind"], record)], on_bad="skip", **settings)
    assert summary.outcomes == {"bad": 1, "packed": 1}
    from packtool.read import read_ledger

    assert read_ledger(out / "ledger.parquet").details == {0: expected}


def test_a_record_that_is_no_object(tmp_path):
    with pytest.raises(DataError) as caught:
        pack(tmp_path, [{"text": "a"}, ["a"]])
    expected = "the record is of type list, expected an object with named columns"
    assert caught.value.message == f"`{tmp_path / 'data.jsonl'}`, line 2: {expected}"


def _good(kind, bad):
    beside = {"labels": [1, 2], "loss_mask": [1, 1]}
    return {
        "text": {"text": "ab"},
        "completion": {"prompt": "a", "completion": "b"},
        "instruct": {"instruction": "a", "output": "b"},
        "chat": {"messages": [HI, {"role": "assistant", "content": "yo"}]},
        "tokens": {"input_ids": [1, 2], **{name: flags for name, flags in beside.items() if name in bad}},
    }[kind]


def test_records_that_are_wrong_name_file_and_place(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "a"}])
    (tmp_path / "b.jsonl").write_text('{"text": "ab"}\n\n{"text": "c"\n')
    with pytest.raises(DataError, match=r"b\.jsonl`, line 3: not JSON: Expecting ',' delimiter at column 13"):
        packtool.pack([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], out=tmp_path / "o", max_seq_len=8)
    (tmp_path / "c.json").write_text('[{"text": "ab"}, {"text": 5}]')
    with pytest.raises(DataError, match=r"c\.json`, element 2: column `text` is of type int, expected text"):
        packtool.pack([tmp_path / "c.json"], out=tmp_path / "o", max_seq_len=8)


# settings, message, hint
WRONG_REQUESTS = {
    "no inputs": ({"inputs": []}, "no input was given", "name files, folders, globs, or `-` for standard input"),
    "no length": ({"max_seq_len": 0}, "`max_seq_len`: expected at least 2, got 0", ""),
    "length of 1": ({"max_seq_len": 1}, "`max_seq_len`: expected at least 2, got 1", ""),
    "kind": ({"kind": "poem"}, "`kind`: expected one of `auto`, `text`, `completion`, `instruct`, `chat`, `tokens`, "
                               "got `poem`", ""),
    "text_by": ({"text_by": "page"}, "`text_by`: expected one of `line`, `paragraph`, `file`, got `page`", ""),
    "bos": ({"bos": "maybe"}, "`bos`: expected one of `auto`, `yes`, `no`, got `maybe`", ""),
    "train_on": ({"train_on": "none"}, "`train_on`: expected one of `completion`, `all`, `last`, got `none`", ""),
    "overlong": ({"overlong": "wrap"}, "`overlong`: expected one of `auto`, `truncate`, `drop`, `split`, `error`, "
                                       "got `wrap`", ""),
    "strategy": (
        {"strategy": "best"},
        "`strategy`: expected one of `mixed`, `ffd`, `bfd`, `shuffle`, `greedy`, `none`, got `best`", "",
    ),
    "format": ({"format": "csv"}, "`format`: expected one of `npy`, `parquet`, got `csv`", ""),
    "compression": ({"compression": "lz4"}, "`compression`: expected one of `none`, `zstd`, got `lz4`", ""),
    "on_bad": ({"on_bad": "stop"}, "`on_bad`: expected one of `error`, `skip`, got `stop`", ""),
    "seed below 0": ({"seed": -1}, "`seed`: expected at least 0, got -1", ""),
    "seed too large": ({"seed": 2**63}, "`seed`: expected at most 9223372036854775807, got 9223372036854775808", ""),
    "max_packs": ({"max_packs": 0}, "`max_packs`: expected at least 1, got 0", ""),
    "workers": ({"workers": 0}, "`workers`: expected at least 1, got 0", ""),
    "pad_id below 0": ({"pad_id": -1}, "`pad_id`: expected at least 0, got -1", ""),
    "pad_id beyond": ({"pad_id": 261}, "`--pad-id 261` is outside the vocabulary of 261 ids", ""),
    "integer": ({"seed": "x"}, "`seed`: expected an integer, got 'x'", ""),
    "integer, not a flag": ({"seed": True}, "`seed`: expected an integer, got True", ""),
    "boolean": ({"shuffle": "yes"}, "`shuffle`: expected true or false, got 'yes'", ""),
    "text, not a list": ({"eos": ["x"]}, "`eos`: expected text, got ['x']", ""),
    "columns": ({"columns": "a=b"}, "`columns`: expected a mapping of field to column, got 'a=b'", ""),
    "inputs of a number": ({"inputs": 5}, "`inputs`: expected a list of files, got 5", ""),
    "several": (
        {"seed": -1, "bos": "maybe"},
        "these settings are wrong:\n  `seed`: expected at least 0, got -1\n  "
        "`bos`: expected one of `auto`, `yes`, `no`, got `maybe`", "",
    ),
    "unknown": ({"max_seq_length": 5}, "`max_seq_length` is no setting; did you mean `max_seq_len`?", ""),
    "unknown, not like any": ({"zzz": 5}, "`zzz` is no setting", ""),
    "limit": ({"limit": "many"}, "`limit`: expected a number of records such as 1000 or a share such as 5%, got `many`",
              ""),
    "shard_size": ({"shard_size": "big"}, "`shard_size`: expected a size such as 512MB or 1GiB, got `big`", ""),
    "shard_size of nothing": ({"shard_size": "0MB"}, "`shard_size`: expected at least one byte, got `0MB`", ""),
    "train_template_text": (
        {"train_template_text": "maybe"}, "`train_template_text`: expected one of `yes`, `no`, got `maybe`", "",
    ),
    "all, but not what the template wrote": (
        {"train_template_text": "no", "train_on": "all"},
        "`--train-on all` trains what the template wrote, and `--train-template-text no` does not",
        "leave one of them out",
    ),
    "split needs greedy": (
        {"split_across_packs": True}, "`--split-across-packs` needs `--strategy greedy`, got `mixed`",
        "only packs that keep the order can go on where the last one ended",
    ),
    "split and drop": (
        {"split_across_packs": True, "strategy": "greedy", "overlong": "drop"},
        "`--split-across-packs` cuts every long sample, so `--overlong drop` cannot hold", "",
    ),
    "zstd needs parquet": (
        {"compression": "zstd"}, "`--compression zstd` needs `--format parquet`, got `npy`", "",
    ),
    "eos that is no token": (
        {"eos": "</s>"}, "`--eos </s>`: the tokenizer has no such token",
        "spell it as in the tokenizer's added tokens",
    ),
    "template of no name": (
        {"template": "vicuna", "kind": "instruct"}, "there is no instruct template or file `vicuna`",
        "built-in: alpaca; or write one: `--template 'Question: {question} Answer: {>}{answer}'`",
    ),
    "template without a mark": (
        {"template": "{a}{b}"}, "instruct template `--template` has 0 marks `{>}` in a variant, expected one",
        "put `{>}` where training begins, for example `Q: {question} A: {>}{answer}`",
    ),
    "template of two marks": (
        {"template": "{a}{>}{b}{>}"}, "instruct template `--template` has 2 marks `{>}` in a variant, expected one",
        "put `{>}` where training begins, for example `Q: {question} A: {>}{answer}`",
    ),
    "template that trains nothing": (
        {"template": "{a}{>}b"}, "instruct template `--template` has no field after its mark `{>}`",
        "what follows the mark is trained",
    ),
    "template with a lone brace": (
        {"template": "{a}{>}{b}}"}, "instruct template `--template` has a lone `}`",
        "a literal brace is doubled: `{{` or `}}`",
    ),
    "chat template of no name": (
        {"chat_template": "llama"}, "there is no chat template or file `llama`",
        "`packtool ls templates` lists the built-in ones",
    ),
    "tokenizer of no name": (
        {"tokenizer": "./nowhere"}, "there is no tokenizer `./nowhere`",
        "give a folder with tokenizer.json, a tokenizer.json, a SentencePiece .model, a hub name, or `bytes`",
    ),
    "tokenizer by its name": (
        {"tokenizer": "data.jsonl"}, "`data.jsonl` is no tokenizer by its name: expected a .json or a .model file",
        "give tokenizer.json, a SentencePiece .model, or the folder that holds it",
    ),
    "tokenizer of a long name": ({"tokenizer": "x" * 300 + "!"}, "there is no tokenizer `xxx", ""),
    "template of a long name": ({"template": "x" * 300}, "there is no instruct template or file `xxx", ""),
    "chat template of a long name": ({"chat_template": "x" * 300}, "there is no chat template or file `xxx", ""),
    "out in no folder": (
        {"out": "no/where"}, "is no folder, so `where` cannot be made in it",
        "make it first, or choose another `--out`",
    ),
    "input": ({"inputs": ["nothing.jsonl"]}, "`nothing.jsonl`: no such file or folder", ""),
    "two kinds": ({"columns": {}, "kind": "chat", "chat_template": "data.jsonl"}, "cannot tell what the assistant", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_REQUESTS)
def test_wrong_requests(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    changed, expected, hint = WRONG_REQUESTS[name]
    write_lines(tmp_path / "data.jsonl", [{"text": "ab"}])
    before = sorted(tmp_path.iterdir())
    values = {"inputs": ["data.jsonl"], "max_seq_len": 8, "tokenizer": "bytes", **changed}
    with pytest.raises(UsageError) as caught:
        _run(values)
    assert expected in caught.value.message
    assert not caught.value.message.endswith(".")
    assert caught.value.hint == hint or not hint
    assert sorted(tmp_path.iterdir()) == before


def _run(values, **options):
    from packtool.job import run

    return run(settings_from(values), progress=lambda *a: None, notice=lambda text: None, **options)


def test_length_must_be_given():
    with pytest.raises(UsageError, match="`max_seq_len` was not given"):
        settings_from({"inputs": ["a"]})


def test_stdin_and_globs_need_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="standard input has no name to call the dataset by") as caught:
        packtool.pack(["-"], max_seq_len=8)
    assert caught.value.hint == "name it: `--out DIR`"
    with pytest.raises(UsageError, match=r"the glob `\*\.jsonl` has no name to call the dataset by"):
        packtool.pack(["*.jsonl"], max_seq_len=8)


def test_no_record_at_all(tmp_path):
    (tmp_path / "a.jsonl").write_text("[]")
    with pytest.raises(DataError) as caught:
        packtool.pack([tmp_path / "a.jsonl"], max_seq_len=8, kind="text", out=tmp_path / "o")
    assert caught.value.message == "the inputs hold no record at all"
    assert caught.value.hint == "every file was read to its end; are they the right ones?"


NOTHING_LEFT = {
    "empty": ([{"text": ""}, {"text": " \n"}], {}, "of 2 records, 2 are empty"),
    "bad": ([{"text": 1}], {"kind": "text", "on_bad": "skip"}, "of 1 records, 1 are bad"),
    "untrained": (
        [{"input_ids": [1, 2], "labels": [-100, -100]}], {}, "of 1 records, 1 have no trained token",
    ),
    "too long": ([{"text": "abcdefgh"}], {"overlong": "drop", "max_seq_len": 4}, "of 1 records, 1 are too long"),
    "prompt fills the pack": (
        [{"prompt": "abcdefgh", "completion": "i"}], {"max_seq_len": 4}, "of 1 records, 1 have no trained token",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTHING_LEFT)
def test_nothing_left_to_pack(tmp_path, name):
    records, settings, why = NOTHING_LEFT[name]
    with pytest.raises(DataError) as caught:
        pack(tmp_path, records, **settings)
    assert caught.value.message == f"nothing is left to pack: {why}"
    assert caught.value.hint == "`--overlong`, `--kind`, `--columns` and `--train-on` decide what is kept"
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_overlong_error_names_the_first_record(tmp_path):
    with pytest.raises(DataError) as caught:
        pack(tmp_path, [{"text": "ab"}, {"text": ""}, {"text": "abcdef"}], overlong="error", max_seq_len=4)
    where = tmp_path / "data.jsonl"
    assert caught.value.message == f"`{where}`, line 3: the sample has 7 tokens, more than `max_seq_len` 4"
    assert caught.value.hint == "choose what to do with such samples: `--overlong truncate`, `drop` or `split`"


def test_conversations_without_a_chat_template(tmp_path):
    tiny_bpe(tmp_path / "tok", config=TINY_CONFIG)
    with pytest.raises(UsageError) as caught:
        pack(tmp_path, [{"messages": [HI]}], tokenizer=tmp_path / "tok")
    assert caught.value.message == "the tokenizer has no chat template, and these are conversations"
    assert caught.value.hint == ("give one: `--chat-template FILE`, or a built-in one such as `--chat-template chatml`")


def test_instruct_without_a_template():
    with pytest.raises(UsageError, match="instruct records need a template"):
        make_renderer("instruct", {})({"a": "b"})


def test_templates_that_are_not_built_in():
    with pytest.raises(UsageError, match=r"there is no built-in template `x\.txt`"):
        read_template("x.txt")


def test_parse_instruct_names_its_template():
    with pytest.raises(UsageError, match=r"instruct template `mine\.txt` has a lone `\{`"):
        parse_instruct("{a}{>}{b} {", "mine.txt")


def _tokenizer(folder, **files):
    folder.mkdir()
    for name, content in files.items():
        name = name.replace("__", ".")
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


def test_tokenizer_files_that_are_wrong(tmp_path):
    good = json.loads((tiny_bpe(tmp_path / "tok") and (tmp_path / "tok" / "tokenizer.json")).read_text())
    cases = [
        ({}, UsageError, "holds no tokenizer: expected tokenizer.json or one .model, got nothing"),
        ({"a__txt": 1}, UsageError, "holds no tokenizer: expected tokenizer.json or one .model, got a.txt"),
        ({"a__model": 1, "b__model": 1}, UsageError, "holds no tokenizer: expected tokenizer.json or one .model, "
                                                     "got a.model, b.model"),
        ({"tokenizer__json": {"a": 1}}, DataError, "has no list of added tokens, so it is no tokenizer.json"),
        ({"tokenizer__json": {"added_tokens": []}}, DataError, "cannot be loaded by tokenizers"),
        ({"tokenizer__json": good, "tokenizer_config__json": b"{"}, DataError, "tokenizer_config.json` is not JSON: "),
        ({"tokenizer__json": good, "tokenizer_config__json": [1]}, DataError,
         "tokenizer_config.json` is not a configuration: expected an object, got list"),
        ({"tokenizer__json": good, "tokenizer_config__json": b"{\xff"}, DataError,
         "tokenizer_config.json` is not UTF-8 text: invalid start byte at byte 1"),
        ({"tokenizer__json": good, "chat_template__jinja": b"\xff"}, DataError,
         "chat_template.jinja` is not UTF-8 text: invalid start byte at byte 0"),
        ({"a__model": b"nonsense"}, DataError, "a.model` cannot be loaded by sentencepiece"),
    ]  # fmt: skip
    for number, (files, kind, expected) in enumerate(cases):
        folder = _tokenizer(tmp_path / f"case{number}", **files)
        with pytest.raises(kind) as caught:
            pack(tmp_path, [{"text": "a"}], tokenizer=folder)
        assert expected in caught.value.message, number
        assert str(folder) in caught.value.message or kind is DataError, number


def test_a_chat_template_file_that_is_not_text(tmp_path):
    (tmp_path / "t.jinja").write_bytes(b"ab\xff")
    with pytest.raises(DataError, match=r"chat template `.*t\.jinja` is not UTF-8 text: invalid start byte at byte 2"):
        pack(tmp_path, [{"messages": [HI]}], chat_template=tmp_path / "t.jinja")


def test_an_instruct_template_file_that_is_not_text(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"ab\xff")
    with pytest.raises(DataError, match=r"instruct template `.*t\.txt` is not UTF-8 text: invalid start byte"):
        pack(tmp_path, [{"a": "b"}], template=str(tmp_path / "t.txt"))


def test_bos_that_the_tokenizer_does_not_have(tmp_path):
    tiny_bpe(tmp_path / "tok", config={"eos_token": "<|end|>"}, adds_bos=False)
    with pytest.raises(UsageError, match="`--bos yes`: the tokenizer names no BOS token") as caught:
        pack(tmp_path, [{"text": "a"}], tokenizer=tmp_path / "tok", bos="yes")
    assert caught.value.hint == "use a tokenizer folder that names one, or `--bos no`"


@pytest.mark.parametrize("kind", ["text", "completion", "instruct"])
def test_a_bare_tokenizer_json_needs_an_eos(tmp_path, kind):
    tiny_bpe(tmp_path / "tok")
    with pytest.raises(UsageError) as caught:
        pack(tmp_path, [_good(kind, {})], tokenizer=tmp_path / "tok" / "tokenizer.json", kind=kind)
    assert caught.value.message == "the tokenizer names no EOS token, and this kind of data ends with one"
    assert caught.value.hint == "name it: `--eos TOKEN`"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("c.yaml", None, "cannot be read: No such file or directory"),
        ("c.yaml", "a: [", "cannot be parsed: "),
        ("c.toml", "a = ", "cannot be parsed: "),
        ("c.yaml", "- a\n", "is no mapping of settings"),
        ("c.yaml", "", "is no mapping of settings"),
        ("c.yaml", b"\xff", "cannot be parsed: "),
    ],
)
def test_config_files_that_are_wrong(tmp_path, name, content, expected):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError) as caught:
        read_config(path)
    assert caught.value.message.startswith(f"config `{path}` {expected}")


def test_limits_and_sizes():
    assert [parse_limit(text) for text in ("", "7", "5%", "0.5%", "100%")] == [
        (-1, 1.0), (7, 1.0), (-1, 0.05), (-1, 0.005), (-1, 1.0)
    ]  # fmt: skip
    for text in ("0", "-1", "5 %", "0%", "100.1%", "1.5", "1e3", "%"):
        with pytest.raises(UsageError, match="`limit`: expected a number of records"):
            parse_limit(text)
    assert [parse_size(text) for text in ("1", "10B", "2kB", "2KiB", "3M", "1 GiB", "1TB")] == [
        1, 10, 2000, 2048, 3_000_000, 1 << 30, 10**12
    ]  # fmt: skip
    for text in ("", "MB", "1.5GB", "-1", "1XB"):
        with pytest.raises(UsageError, match="`shard_size`: expected a size"):
            parse_size(text)


def test_what_is_there_is_not_replaced(tmp_path):
    _, out = pack(tmp_path, [{"text": "ab"}])
    with pytest.raises(UsageError) as caught:
        pack(tmp_path, [{"text": "cd"}], overwrite=False)
    assert caught.value.message == f"`{out}` is there already"
    assert caught.value.hint == "choose another `--out`, or replace it with `--overwrite`"
    pack(tmp_path, [{"text": "cd"}])
    assert packtool.open_dataset(out)[0].tokens[:2].tolist() == [99, 100]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl", "data.packed"]


@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_what_is_no_dataset_is_never_replaced(tmp_path, what):
    precious = tmp_path / "data.packed"
    if what == "folder":
        precious.mkdir()
        (precious / "thesis.txt").write_text("years of work")
    elif what == "file":
        precious.write_text("years of work")
    else:
        (tmp_path / "real").mkdir()
        precious.symlink_to(tmp_path / "real")
    with pytest.raises(UsageError) as caught:
        pack(tmp_path, [{"text": "ab"}])
    assert caught.value.message == f"`{precious}` is no packed dataset, so `--overwrite` does not replace it"
    assert what == "link" or "years of work" in (precious / "thesis.txt" if what == "folder" else precious).read_text()


def test_an_empty_folder_may_be_the_output(tmp_path):
    (tmp_path / "data.packed").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        pack(tmp_path, [{"text": "ab"}], overwrite=False)
    assert pack(tmp_path, [{"text": "ab"}])[0].packs == 1


UNREADABLE = Path("/proc/self/mem")  # a file that even root cannot read from its beginning


@pytest.mark.skipif(not UNREADABLE.exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_tokenizer_files_that_cannot_be_read(tmp_path, name):
    tiny_bpe(tmp_path / "tok", config=TINY_CONFIG)
    path = tmp_path / "tok" / name
    path.unlink()
    path.symlink_to(UNREADABLE)
    with pytest.raises(UsageError) as caught:
        pack(tmp_path, [{"text": "a"}], tokenizer=tmp_path / "tok")
    assert caught.value.message == f"`{path}` cannot be read: Input/output error"


@pytest.mark.skipif(not UNREADABLE.exists(), reason="needs Linux's /proc")
def test_templates_that_cannot_be_read(tmp_path):
    (tmp_path / "t").symlink_to(UNREADABLE)
    for settings, what in (({"template": str(tmp_path / "t")}, "instruct template"),
                           ({"chat_template": str(tmp_path / "t")}, "chat template")):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            pack(tmp_path, [{"text": "a"}], **settings)
        assert caught.value.message == f"{what} `{tmp_path / 't'}` cannot be read: Input/output error"


def test_a_tokenizer_without_eos_says_so_when_a_text_asks_for_one():
    from packtool.render import Rendered
    from packtool.tokenizer import Tokenizer
    from packtool.tokenizer.byte_level import ByteEngine

    tokenizer = Tokenizer(ByteEngine(), (), None, 0)
    assert tokenizer.encode([Rendered("ab", ((0, 2),))]).ids.tolist() == [97, 98]
    with pytest.raises(UsageError, match="the tokenizer names no EOS token, and this kind of data needs one"):
        tokenizer.encode([Rendered("ab", ((0, 2),), eos=True)])
