"""Settings from named values and config files: types, ranges, choices, unknown names, and rules between them."""

import dataclasses
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from packtool.errors import UsageError
from packtool.job import Settings, as_plain, read_config, settings_from
from packtool.job.settings import parse_limit, parse_max_lost, parse_size

LEAST = {"inputs": ["a.jsonl"], "max_seq_len": 8}


def refused(values):
    with pytest.raises(UsageError) as caught:
        settings_from({**LEAST, **values})
    return caught.value


def test_defaults():
    settings = settings_from(LEAST)
    assert settings == Settings(inputs=("a.jsonl",), max_seq_len=8)
    assert (settings.kind, settings.overlong, settings.strategy, settings.format) == ("auto", "auto", "mixed", "npy")
    assert (settings.shuffle, settings.seed, settings.workers, settings.pad_id) == (True, 0, None, None)


def test_every_field_has_a_default_and_can_be_given():
    values = {
        "inputs": ["a", "b"], "max_seq_len": 16, "out": "o", "kind": "chat", "columns": {"text": "body"},
        "text_by": "paragraph", "template": "alpaca", "tokenizer": "t", "chat_template": "c", "eos": "<e>", "bos": "no",
            "template_args": {"x": [1, None]}, "turn_end": "\n", "date": "2024-07-05T13:04:59",
        "pad_id": 7, "allow_special": True, "train_on": "last", "train_template_text": "no",
        "overlong": "split", "strategy": "greedy",
        "split_across_packs": True, "shuffle": False, "seed": 5, "limit": "3", "max_packs": 9, "shard_size": "1MB",
        "format": "parquet", "compression": "zstd", "on_bad": "skip", "max_lost": "1%", "strict": True, "root": "r",
        "overwrite": True, "workers": 2,
    }  # fmt: skip
    others = {"max_samples_per_pack": 4, "pack_multiple": 3, "balance_batch": 2}  # not with a stream
    assert set(values) | set(others) == {field.name for field in dataclasses.fields(Settings)}
    defaults = as_plain(settings_from(LEAST))
    for given in (values, {**LEAST, "strategy": "bfd", **others}):
        plain = as_plain(settings_from(given))
        assert {name: plain[name] for name in given} == given | {"inputs": plain["inputs"]}
        assert [name for name in set(given) - set(LEAST) if plain[name] == defaults[name]] == []


def test_plain_settings_make_the_same_settings_again():
    settings = settings_from({**LEAST, "columns": {"text": "x"}, "pad_id": 0, "limit": "5%"})
    assert settings_from(as_plain(settings)) == settings


def test_names_may_be_written_with_hyphens():
    assert settings_from({"inputs": "a", "max-seq-len": 8, "pad-id": 3}).pad_id == 3


def test_one_input_may_be_a_plain_string_or_path():
    assert settings_from({**LEAST, "inputs": "a.jsonl"}).inputs == ("a.jsonl",)
    assert settings_from({**LEAST, "inputs": Path("d/a.jsonl")}).inputs == ("d/a.jsonl",)
    assert settings_from({**LEAST, "inputs": ("a", Path("b"))}).inputs == ("a", "b")


@pytest.mark.parametrize("value", [5, True, 1.5, {"a": "b"}])
def test_inputs_that_are_no_names_are_refused(value):
    assert "`inputs`" in refused({"inputs": value}).message


INTEGERS = {"max_seq_len": 2, "seed": 0, "max_packs": 1, "workers": 1, "pad_id": 0}


@pytest.mark.parametrize(("name", "least"), INTEGERS.items())
def test_integers_have_a_least_value(name, least):
    assert getattr(settings_from({**LEAST, name: least}), name) == least
    assert refused({name: least - 1}).message == f"`{name}`: expected at least {least}, got {least - 1}"


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", ["8", 8.0, True, [8], ""])
def test_integers_are_integers(name, value):
    assert refused({name: value}).message == f"`{name}`: expected an integer, got {value!r}"


def test_null_means_not_given():
    names = {field.name for field in dataclasses.fields(Settings)} - {"inputs", "max_seq_len"}
    assert settings_from({**LEAST, **dict.fromkeys(names)}) == settings_from(LEAST)
    with pytest.raises(UsageError, match="`max_seq_len` was not given"):
        settings_from({**LEAST, "max_seq_len": None})
    assert refused({"inputs": None}).message == "no input was given"


@pytest.mark.parametrize("name", ["allow_special", "split_across_packs", "shuffle", "overwrite"])
@pytest.mark.parametrize("value", [1, 0, "true", "no"])
def test_switches_are_true_or_false(name, value):
    assert refused({name: value}).message == f"`{name}`: expected true or false, got {value!r}"


CHOICES = {
    "kind": "`auto`, `text`, `completion`, `instruct`, `chat`, `tokens`",
    "text_by": "`line`, `paragraph`, `file`",
    "bos": "`auto`, `yes`, `no`",
    "train_on": "`completion`, `all`, `last`",
    "train_template_text": "`yes`, `no`",
    "overlong": "`auto`, `truncate`, `drop`, `split`, `error`",
    "strategy": "`mixed`, `ffd`, `bfd`, `shuffle`, `greedy`, `none`",
    "format": "`npy`, `parquet`",
    "compression": "`none`, `zstd`",
    "on_bad": "`error`, `skip`",
}


@pytest.mark.parametrize(("name", "words"), CHOICES.items())
def test_choices_are_listed(name, words):
    assert refused({name: "other"}).message == f"`{name}`: expected one of {words}, got `other`"
    for word in words.replace("`", "").split(", "):
        changes = {name: word, "format": "parquet"} if word == "zstd" else {name: word}
        assert getattr(settings_from({**LEAST, **changes}), name) == word


@pytest.mark.parametrize("value", [True, ["a"], {"a": 1}])
@pytest.mark.parametrize("name", ["out", "template", "eos", "root", "limit"])
def test_text_is_text(name, value):
    assert refused({name: value}).message == f"`{name}`: expected text, got {value!r}"


def test_columns_are_a_mapping():
    assert settings_from({**LEAST, "columns": {"text": "body"}}).columns == {"text": "body"}
    assert refused({"columns": "text=body"}).message == (
        "`columns`: expected a mapping of field to column, got 'text=body'"
    )


def test_unknown_names_come_with_a_guess():
    assert refused({"max_sequence_len": 8}).message == "`max_sequence_len` is no setting; did you mean `max_seq_len`?"
    assert refused({"stratgy": "ffd"}).message == "`stratgy` is no setting; did you mean `strategy`?"
    assert refused({"zzz": 1}).message == "`zzz` is no setting"


def test_all_faults_are_named_at_once():
    message = refused({"seed": -1, "shuffel": True, "bos": "maybe"}).message
    assert message.splitlines() == [
        "these settings are wrong:",
        "  `seed`: expected at least 0, got -1",
        "  `shuffel` is no setting; did you mean `shuffle`?",
        "  `bos`: expected one of `auto`, `yes`, `no`, got `maybe`",
    ]


# ----------------------------------------------------------------------------------------------- rules between settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inputs": []}, "no input was given"),
        (
            {"train_template_text": "no", "train_on": "all"},
            "`--train-on all` trains what the template wrote, and `--train-template-text no` does not",
        ),
        ({"split_across_packs": True}, "`--split-across-packs` needs `--strategy greedy`, got `mixed`"),
        (
            {"split_across_packs": True, "strategy": "greedy", "overlong": "drop"},
            "`--split-across-packs` cuts every long sample, so `--overlong drop` cannot hold",
        ),
        (
            {"split_across_packs": True, "strategy": "greedy", "max_samples_per_pack": 3},
            "`--split-across-packs` fills every pack, so `--max-samples-per-pack` cannot hold",
        ),
        (
            {"balance_batch": 8, "strategy": "greedy"},
            "`--balance-batch` reorders packs, and `--strategy greedy` keeps the order of the records",
        ),
        ({"max_packs": 9, "pack_multiple": 2}, "`--max-packs 9` is no multiple of `--pack-multiple 2`"),
        ({"balance_batch": 1}, "`balance_batch`: expected at least 2, got 1"),
        ({"pack_multiple": 0}, "`pack_multiple`: expected at least 1, got 0"),
        ({"max_samples_per_pack": 0}, "`max_samples_per_pack`: expected at least 1, got 0"),
        ({"compression": "zstd"}, "`--compression zstd` needs `--format parquet`, got `npy`"),
        ({"seed": 2**63}, f"`seed`: expected at most {2**63 - 1}, got {2**63}"),
        ({"limit": "many"}, "`limit`: expected a number of records such as 1000 or a share such as 5%, got `many`"),
        ({"shard_size": "big"}, "`shard_size`: expected a size such as 512MB or 1GiB, got `big`"),
        ({"shard_size": "0"}, "`shard_size`: expected at least one byte, got `0`"),
    ],
)
def test_settings_that_do_not_go_together(values, message):
    assert refused(values).message == message


def test_the_length_of_a_pack_must_be_given():
    with pytest.raises(UsageError) as caught:
        settings_from({"inputs": ["a"]})
    assert caught.value.message == "`max_seq_len` was not given"
    assert "--max-seq-len" in caught.value.hint


@pytest.mark.parametrize("overlong", ["auto", "split"])
def test_settings_that_do(overlong):
    settings_from({**LEAST, "split_across_packs": True, "strategy": "greedy", "overlong": overlong})
    settings_from({**LEAST, "compression": "zstd", "format": "parquet", "seed": 2**63 - 1})


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0%", 0),
        ("0.0%", 0),
        ("1%", Fraction(1, 100)),
        ("0.1%", Fraction(1, 1000)),
        ("100%", 1),
        ("007.50%", Fraction(3, 40)),
    ],
)
def test_what_may_be_lost(text, share):
    assert parse_max_lost(text) == share


@pytest.mark.parametrize(
    "text", ["1", "0", "-1%", "100.1%", "1.%", ".5%", "1 %", "%", "1e1%", "nan%", "١%", "1%\n", "many"]
)
def test_what_no_share_is(text):
    error = refused({"max_lost": text})
    assert error.message == f"`max_lost`: expected a share such as 1% or 0.5%, got `{text}`"


@pytest.mark.parametrize(
    ("text", "limit"),
    [("", (-1, 1.0)), ("1", (1, 1.0)), ("1000", (1000, 1.0)), ("5%", (-1, 0.05)), ("0.5%", (-1, 0.005)),
     ("100%", (-1, 1.0))],
)  # fmt: skip
def test_limits(text, limit):
    assert parse_limit(text) == limit


@pytest.mark.parametrize("text", ["0", "-1", "0%", "101%", "5 %", "1e3", "1.5", "%", "all"])
def test_no_limits(text):
    with pytest.raises(UsageError, match="limit"):
        parse_limit(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("100000", 100_000),
        ("5B", 5),
        ("3k", 3000),
        ("3KiB", 3072),
        ("512MB", 512_000_000),
        ("1GiB", 1 << 30),
        ("2 gb", 2_000_000_000),
        ("1TiB", 1 << 40),
        ("4Mi", 4 << 20),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5GB", "MB", "1PB", "1 G i B", "0MB"])
def test_no_sizes(text):
    with pytest.raises(UsageError, match="shard_size"):
        parse_size(text)


# --------------------------------------------------------------------------------------------------------- config files


def write(path, text):
    path.write_text(text)
    return path


YAML = (
    "inputs: [a.jsonl, sub/b.jsonl]\nmax-seq-len: 64\ncolumns:\n  text: body\n"
    "seed: 3\nshuffle: false\nmax_packs: null\n"
)
TOML = 'inputs = ["a.jsonl", "sub/b.jsonl"]\nmax-seq-len = 64\nseed = 3\nshuffle = false\n[columns]\ntext = "body"\n'


@pytest.mark.parametrize(("name", "text"), [("c.yaml", YAML), ("c.yml", YAML), ("c.toml", TOML), ("no-ending", YAML)])
def test_yaml_and_toml_say_the_same(tmp_path, name, text):
    settings = settings_from(read_config(write(tmp_path / name, text)))
    assert settings == Settings(
        inputs=("a.jsonl", "sub/b.jsonl"),
        root=str(tmp_path),
        max_seq_len=64,
        columns={"text": "body"},
        seed=3,
        shuffle=False,
    )


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"\xef\xbb\xbfmax_seq_len: 8\n")
    assert read_config(tmp_path / "c.yaml") == {"max_seq_len": 8}


def test_paths_are_relative_to_the_config(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    for name in ("tok", "alpaca2.txt", "chat.jinja"):
        (tmp_path / "deep" / name).touch()
    text = "inputs: data.jsonl\ntokenizer: tok\ntemplate: alpaca2.txt\nchat_template: chat.jinja\n"
    write(tmp_path / "deep" / "c.yaml", text)
    monkeypatch.chdir(tmp_path)
    assert read_config(Path("deep/c.yaml")) == {
        "inputs": ["data.jsonl"],
        "root": str(tmp_path / "deep"),
        "tokenizer": str(tmp_path / "deep" / "tok"),
        "template": str(tmp_path / "deep" / "alpaca2.txt"),
        "chat_template": str(tmp_path / "deep" / "chat.jinja"),
    }


def test_names_that_are_no_paths_stay_names(tmp_path):
    text = "tokenizer: bytes\ntemplate: alpaca\nchat_template: chatml\n"
    assert read_config(write(tmp_path / "c.yaml", text)) == {
        "tokenizer": "bytes",
        "template": "alpaca",
        "chat_template": "chatml",
    }


def test_a_root_of_its_own_is_kept(tmp_path):
    values = read_config(write(tmp_path / "c.yaml", "inputs: [a]\nroot: /data\n"))
    assert values["root"] == "/data"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("c.yaml", "a: [", "cannot be parsed"),
        ("c.yaml", "max_seq_len: !!python/object:os.system 3", "cannot be parsed"),
        ("c.toml", "a = ", "cannot be parsed"),
        ("c.toml", "max_seq_len: 8", "cannot be parsed"),
        ("c.yaml", "- a\n- b\n", "is no mapping of settings"),
        ("c.yaml", "", "is no mapping of settings"),
        ("c.yaml", "just words", "is no mapping of settings"),
    ],
)
def test_configs_that_cannot_be_used(tmp_path, name, text, words):
    path = write(tmp_path / name, text)
    with pytest.raises(UsageError, match=words) as caught:
        read_config(path)
    assert f"`{path}`" in caught.value.message


def test_configs_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_config(tmp_path / "missing.yaml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_config(tmp_path)
    (tmp_path / "c.yaml").write_bytes(b"eos: \xff\n")
    with pytest.raises(UsageError, match="cannot be parsed"):
        read_config(tmp_path / "c.yaml")


@pytest.mark.parametrize("word", ["yes", "no"])
def test_bos_may_be_written_as_yaml_people_do(tmp_path, word):
    """`--bos yes|no` under the same key: YAML reads the bare words as true and false."""
    values = read_config(write(tmp_path / "c.yaml", f"bos: {word}\n"))
    assert settings_from({**LEAST, **values}).bos == word


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2024-02-29", "2024-02-29"),
        ("2024-07-05T13:04:59", "2024-07-05T13:04:59"),
        (date(2024, 7, 5), "2024-07-05"),  # as YAML and TOML read it without quotes
        (datetime(2024, 7, 5, 13, 4, 59), "2024-07-05T13:04:59"),
        ("", ""),
    ],
)
def test_dates(value, text):
    assert settings_from({**LEAST, "date": value}).date == text


@pytest.mark.parametrize(
    "value",
    ["today", "2024-02-30", "2024-7-5", "20240705", "2024-07-05 13:04:59", "2024-07-05T13:04", "2024-07-05T25:00:00",
     "2024-07-05T13:04:59+02:00", "2024-07-05\n", 20240705, datetime(2024, 7, 5, tzinfo=UTC)],
)  # fmt: skip
def test_dates_that_are_none(value):
    text = value.isoformat() if isinstance(value, datetime) else value
    assert refused({"date": value}).message == f"`date`: expected YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS, got `{text}`"


def test_a_turn_end_is_text():
    assert settings_from({**LEAST, "turn_end": " \n"}).turn_end == " \n"
    assert refused({"turn_end": "\ud800"}).message == "`turn_end`: expected UTF-8 text without NUL, got '\\ud800'"
