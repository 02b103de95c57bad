"""Same inputs and settings, same bytes: whatever the workers, the process, its hash seed and locale, or the day."""

import functools
import os
import shutil
import subprocess
import sys

import pytest
import yaml
from job_helpers import TINY_CONFIG, ledger_rows, pack, tiny_bpe, tree, write_lines

import packtool
from packtool.cli import _run
from packtool.errors import DataError
from packtool.job import read_config, settings_from
from packtool.read import read_ledger
from packtool.sources import BlockSplitter

TURNS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
CHATML = (
    "{% for m in messages %}{{ '<|turn|>' + m.role + '\\n' + m.content + '<|end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn|>assistant\\n' }}{% endif %}"
)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 2 kB, so that small inputs have many. They are cut by the driver, so workers need no patch."""
    monkeypatch.setattr("packtool.job.reading.BlockSplitter", functools.partial(BlockSplitter, block_bytes=2048))


def records(count):
    """Texts of many lengths, some empty, some longer than a pack of 100."""
    return [{"text": f"record {n} " + "ab " * (n * 37 % 61) if n % 11 else ""} for n in range(count)]


def settings_of(case, folder):
    tok = folder / "tok"
    if not tok.exists():
        tiny_bpe(tok, config={**TINY_CONFIG, "chat_template": CHATML})
    return {
        "bytes": {"tokenizer": "bytes"},
        "bpe": {"tokenizer": tok},
        "parquet": {"tokenizer": "bytes", "format": "parquet"},
        "zstd": {"tokenizer": "bytes", "format": "parquet", "compression": "zstd"},
        "limit": {"tokenizer": "bytes", "limit": 77},
        "share": {"tokenizer": "bytes", "limit": "30%"},
        "greedy": {"tokenizer": "bytes", "strategy": "greedy", "split_across_packs": True},
        "shards": {"tokenizer": "bytes", "shard_size": 2000},
        "max packs": {"tokenizer": "bytes", "max_packs": 7},
    }[case]


@pytest.mark.parametrize("case", ["bytes", "bpe", "parquet", "zstd", "limit", "share", "greedy", "shards", "max packs"])
@pytest.mark.usefixtures("small_blocks")
def test_one_and_two_workers(tmp_path, case):
    settings = settings_of(case, tmp_path)
    summary, one = pack(tmp_path, records(300), name="one", max_seq_len=100, workers=1, **settings)
    write_lines(tmp_path / "two.jsonl", records(300))
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "one.jsonl", tmp_path / "again" / "one.jsonl")
    two = tmp_path / "again" / "two.packed"
    packtool.pack([tmp_path / "again" / "one.jsonl"], out=two, max_seq_len=100, workers=2, **settings)
    assert tree(one) == tree(two)
    assert summary.packs > 2


@pytest.mark.usefixtures("small_blocks")
def test_small_blocks_are_many_blocks(tmp_path, monkeypatch):
    """The tests above mean something only if there are several blocks."""
    from packtool.job import reading

    seen = []
    whole = reading.tokenize_block
    monkeypatch.setattr(reading, "tokenize_block", lambda task: seen.append(task.block.number) or whole(task))
    pack(tmp_path, records(300), max_seq_len=100)
    assert seen == list(range(len(seen)))
    assert len(seen) > 8


@pytest.mark.usefixtures("small_blocks")
def test_the_first_bad_record_is_named_by_any_number_of_workers(tmp_path):
    rows = records(300)
    rows[150] = rows[290] = {"text": 5}
    for workers in (1, 2):
        with pytest.raises(DataError, match="line 151: column `text`"):
            pack(tmp_path, rows, workers=workers)


@pytest.mark.usefixtures("small_blocks")
def test_limit_does_not_see_later_bad_records_with_any_number_of_workers(tmp_path):
    rows = records(300)
    rows[100] = {"text": 5}
    for workers in (1, 2):
        summary, out = pack(tmp_path, rows, limit=100, workers=workers)
        assert summary.records == len(ledger_rows(out)) == 100


def test_blocks_do_not_change_the_content(tmp_path, monkeypatch):
    digests = set()
    for block_bytes in (500, 2048, 1 << 20):
        monkeypatch.setattr(
            "packtool.job.reading.BlockSplitter", functools.partial(BlockSplitter, block_bytes=block_bytes)
        )
        digests.add(pack(tmp_path, records(200), max_seq_len=100)[0].content_sha256)
    assert len(digests) == 1


def test_content_digest_is_that_of_the_content(tmp_path):
    digests = {}
    for name, settings in {
        "npy": {},
        "parquet": {"format": "parquet"},
        "zstd": {"format": "parquet", "compression": "zstd"},
        "shards": {"shard_size": 3000},
        "two workers": {"workers": 2},
    }.items():
        digests[name] = pack(tmp_path, records(100), max_seq_len=100, **settings)[0].content_sha256
    assert len(set(digests.values())) == 1, digests
    for name, settings in {"seed": {"seed": 1}, "order": {"shuffle": False}, "length": {"max_seq_len": 101}}.items():
        changed = pack(tmp_path, records(100), **{"max_seq_len": 100, **settings})[0].content_sha256
        assert changed not in digests.values(), name
        digests[name] = changed


ENVIRONMENTS = {
    "hash seed 0": {"PYTHONHASHSEED": "0"},
    "hash seed 4711": {"PYTHONHASHSEED": "4711"},
    "C locale": {"LC_ALL": "C", "LANG": "C"},
    "C locale, no UTF-8 mode": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "far away": {"TZ": "Pacific/Kiritimati"},
}


def test_any_environment(tmp_path):
    tiny_bpe(tmp_path / "tok", config={**TINY_CONFIG, "chat_template": CHATML})
    source = write_lines(tmp_path / "dätä.jsonl", [{"messages": TURNS}, {"messages": [*TURNS, *TURNS]}] * 20)
    trees = {}
    for number, (name, environment) in enumerate(ENVIRONMENTS.items()):
        out = tmp_path / f"out{number}"
        command = [sys.executable, "-m", "packtool", "pack", str(source), "--max-seq-len", "64", "--out", str(out)]
        done = subprocess.run(
            [*command, "--tokenizer", str(tmp_path / "tok"), "--workers", "1", "--quiet"],
            env={**_environment(), **environment}, capture_output=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), name
        trees[name] = tree(out)
    first = trees.pop("hash seed 0")
    for name, other in trees.items():
        assert other == first, name


def _environment():
    names = ("PATH", "HOME", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
    here = {name: os.environ[name] for name in names if name in os.environ}
    root = os.path.dirname(os.path.dirname(packtool.__file__))
    return {**here, "PYTHONPATH": os.pathsep.join(filter(None, [root, here.get("PYTHONPATH")]))}


AGAIN = {
    "text": ([{"text": "one two"}, {"text": "x" * 70}, {"text": ""}], []),
    "completion": ([{"q": "a", "r": "b"}] * 3, ["--columns", "prompt=q,completion=r"]),
    "instruct": ([{"instruction": "Add", "input": "1", "output": "2"}, {"instruction": "Add", "output": "2"}],
                 ["--max-seq-len", "600"]),
    "template": (
        [{"q": "a: 'b' #c", "a": "d"}],
        ["--template", "  # {q}\t'\"{{}}: é \u2028 - \\n\r\n[{>}{a}]  "],
    ),
    "long template": ([{"q": "a", "a": "d"}], ["--template", "long " * 80 + "{q}{>}{a}", "--max-seq-len", "600"]),
    "chat": ([{"messages": TURNS}] * 3, ["--train-on", "all", "--seed", "5"]),
    "chat by a template of its own": (
        [{"conversations": TURNS}] * 3, ["--tokenizer", "tok", "--chat-template", "t.jinja"],
    ),
    "hf": (
        [{"prompt": TURNS[:1], "completion": TURNS[1:]}] * 3, ["--tokenizer", "tok", "--bos", "no", "--pad-id", "3"],
    ),
    "bare": ([{"text": "fox"}] * 3, ["--tokenizer", "tok/tokenizer.json", "--eos", "<|turn|>", "--allow-special"]),
    "tokens": ([{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}] * 3, ["--pad-id", "9"]),
    "tokens with a tokenizer": ([{"input_ids": [1, 2, 3], "m": [0, 1, 0]}] * 3,
                                ["--tokenizer", "bytes", "--columns", "tokens=input_ids,mask=m"]),
    "limits": ([{"text": "ab"}] * 50 + [{"text": 5}], ["--limit", "60%", "--max-packs", "2", "--on-bad", "skip"]),
    "parquet": ([{"text": "ab"}] * 50, ["--format", "parquet", "--compression", "zstd", "--shard-size", "300"]),
    "greedy": ([{"text": "abcdef" * 9}] * 5, ["--strategy", "greedy", "--split-across-packs", "--no-shuffle"]),
}  # fmt: skip


@pytest.mark.parametrize("case", AGAIN)
def test_settings_yaml_makes_the_same_dataset_again(tmp_path, monkeypatch, capsys, case):
    rows, flags = AGAIN[case]
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    write_lines(home / "data.jsonl", rows)
    (home / "t.jinja").write_text(CHATML.replace("'\\n'", "'\\n\\n'"))
    tiny_bpe(home / "tok", config={**TINY_CONFIG, "chat_template": CHATML})
    assert _run(["pack", "data.jsonl", "--max-seq-len", "64", "--workers", "1", *flags]) == 0, capsys.readouterr().err
    # Somewhere else, with nothing but the inputs and the dataset.
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(home / "data.jsonl", other / "data.jsonl")
    shutil.copytree(home / "data.packed", tmp_path / "out")
    shutil.rmtree(home / "tok")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    code = _run(["pack", "--config", "out/settings.yaml", "--root", str(other), "--out", "again", "--workers", "2"])
    assert code == 0, capsys.readouterr().err
    assert tree(tmp_path / "again") == tree(tmp_path / "out")
    assert set(tree(tmp_path / "again", leave_out=())) - set(tree(tmp_path / "again")) == {"build.json"}


def test_settings_yaml_of_several_files(tmp_path):
    for name in ("b/x.jsonl", "a.jsonl"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        write_lines(tmp_path / "in" / name, [{"text": name}])
    inputs = [tmp_path / "in" / "b", tmp_path / "in" / "a.jsonl"]
    packtool.pack(inputs, out=tmp_path / "out", max_seq_len=32, tokenizer="bytes")
    body = yaml.safe_load((tmp_path / "out" / "settings.yaml").read_text())
    assert body["inputs"] == ["b/x.jsonl", "a.jsonl"]
    assert body["tokenizer"] == "tokenizer/"
    assert not {"out", "workers", "overwrite", "root", "quiet"} & set(body)
    assert str(tmp_path) not in (tmp_path / "out" / "settings.yaml").read_text()
    assert str(tmp_path) not in (tmp_path / "out" / "manifest.json").read_text()
    settings = settings_from({**read_config(tmp_path / "out" / "settings.yaml"), "root": str(tmp_path / "in")})
    packtool.job.run(
        settings_from({**packtool.job.as_plain(settings), "out": str(tmp_path / "again")}),
        progress=lambda *a: None, notice=lambda text: None,
    )  # fmt: skip
    assert tree(tmp_path / "again") == tree(tmp_path / "out")


def test_settings_that_only_say_how_to_run_change_nothing(tmp_path):
    _, one = pack(tmp_path, records(50), max_seq_len=100)
    first = tree(one)
    pack(tmp_path, records(50), max_seq_len=100, workers=2, overwrite=True)
    assert tree(one) == first
    assert "build.json" in tree(one, leave_out=())


CONFIGS = {
    "c.yaml": "inputs: [data.jsonl]\nmax_seq_len: 8\ntokenizer: bytes\nlimit: 2\nshuffle: false\npad-id: 7\n",
    "c.yml": "inputs: data.jsonl\nmax-seq-len: 8\ntokenizer: bytes\nlimit: '2'\nshuffle: no\npad_id: 7\n",
    "c.toml": 'inputs = ["data.jsonl"]\nmax_seq_len = 8\ntokenizer = "bytes"\nlimit = 2\nshuffle = false\npad_id = 7\n',
}


@pytest.mark.parametrize("name", CONFIGS)
def test_config_files_and_flags_that_win(tmp_path, monkeypatch, capsys, name):
    folder = tmp_path / "config"
    folder.mkdir()
    write_lines(folder / "data.jsonl", [{"text": "ab"}, {"text": "cd"}, {"text": "ef"}])
    (folder / name).write_text(CONFIGS[name])
    monkeypatch.chdir(tmp_path)
    # Inputs are found beside the config, wherever the command was typed.
    assert _run(["pack", "--config", f"config/{name}", "--out", "one"]) == 0, capsys.readouterr().err
    data = packtool.open_dataset("one")
    assert (data.manifest.records, data.manifest.max_seq_len, data.manifest.tokenizer.pad) == (2, 8, 7)
    assert _run(["pack", "--config", f"config/{name}", "--out", "two", "--limit", "1", "--max-seq-len", "16"]) == 0
    data = packtool.open_dataset("two")
    assert (data.manifest.records, data.manifest.max_seq_len, data.manifest.tokenizer.pad) == (1, 16, 7)
    # Inputs on the command line are found from where it was typed.
    write_lines(tmp_path / "mine.jsonl", [{"text": "gh"}])
    assert _run(["pack", "mine.jsonl", "--config", f"config/{name}"]) == 0, capsys.readouterr().err
    assert read_ledger(tmp_path / "mine.packed" / "ledger.parquet").record.tolist() == [0]


def test_nulls_in_a_config_mean_not_given(tmp_path):
    write_lines(tmp_path / "data.jsonl", [{"text": "ab"}])
    (tmp_path / "c.yaml").write_text(
        "inputs: [data.jsonl]\nmax_seq_len: 8\ntokenizer: bytes\nformat: null\nlimit: ~\ncolumns:\nseed:\nout:\n"
    )
    settings = settings_from(read_config(tmp_path / "c.yaml"))
    assert (settings.format, settings.limit, settings.columns, settings.seed) == ("npy", "", {}, 0)


@pytest.mark.slow
def test_several_real_blocks(tmp_path):
    """20 MB of input: blocks of the usual size, workers that are really at work at the same time."""
    rows = [{"text": f"{n} " + "lorem ipsum " * (n % 90)} for n in range(40_000)]
    settings = {"max_seq_len": 2048, "tokenizer": "bytes"}
    write_lines(tmp_path / "data.jsonl", rows)
    for workers in (1, 2, 3):
        packtool.pack([tmp_path / "data.jsonl"], out=tmp_path / f"out{workers}", workers=workers, **settings)
    assert tree(tmp_path / "out1") == tree(tmp_path / "out2") == tree(tmp_path / "out3")
