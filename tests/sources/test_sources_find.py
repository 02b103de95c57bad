import gzip
import os
from pathlib import Path

import pytest
import zstandard

from packtool.errors import DataError, UsageError
from packtool.sources import find_inputs, read_block
from packtool.sources.split import BlockSplitter

LINE = b'{"text": "a"}\n'


def names(paths, **options):
    return [file.name for file in find_inputs(paths, **options)]


@pytest.mark.parametrize(
    ("name", "content", "container"),
    [
        ("a.jsonl", LINE, "jsonl"),
        ("a.ndjson", LINE, "jsonl"),
        ("lines.json", LINE * 2, "jsonl"),
        ("one.json", b'{"text": "a"}', "jsonl"),  # one object on one line reads the same either way
        ("array.json", b'[{"a": 1}, {"a": 2}]', "json"),
        ("array.jsonl", b'[\n{"a": 1},\n{"a": 2}\n]\n', "json"),
        ("one_line_array.jsonl", b'[{"a": 1}]\n', "json"),
        ("lines_of_lists.jsonl", b"[1, 2]\n[3]\n", "jsonl"),
        ("pretty.json", b'{\n  "a": 1\n}\n', "json"),
        ("pretty_twice.jsonl", b'{\n  "a": 1\n}\n{\n  "a": 2\n}\n', "json"),
        ("pretty_list.json", b'{"messages": [\n{"a": 1}\n]}\n', "json"),
        ("in_a_row.jsonl", b'{"a": 1} {"a": 2}\n', "json"),
        ("bom.json", b'\xef\xbb\xbf[{"a": 1}]', "json"),
        ("bom.jsonl", b"\xef\xbb\xbf" + LINE, "jsonl"),
        ("blank_first.jsonl", b"\r\n \n" + LINE, "jsonl"),
        ("broken_first.jsonl", b'{"a": "cut\n' + LINE, "jsonl"),
        ("python_first.jsonl", b"{'a': 1}\n" + LINE, "jsonl"),
        ("comma_first.jsonl", b'{"a": 1},\n' + LINE, "jsonl"),
        ("long_line.jsonl", b'{"a": "' + b"x" * 300_000 + b'"}\n' + LINE, "jsonl"),
        ("long_array.json", b'[{"a": "' + b"x" * 300_000 + b'"}]', "json"),
        ("bom_long_array.json", b'\xef\xbb\xbf[{"a": "' + b"x" * 300_000 + b'"}]', "json"),
        ("deep.jsonl", b"[" * 100_000 + b"\n" + LINE, "jsonl"),
        ("broken_array.json", b"[{'a': 1},\n{'a': 2}]", "json"),
        ("broken_one_line_array.json", b'[{"a": [1}, {"a": 2}]', "json"),
        ("data", LINE, "jsonl"),
        ("data.log", b'[{"a": 1}]', "json"),
        ("a.csv", b'{"a": 1}\n', "csv"),
        ("A.TSV", b"a\tb\n", "tsv"),
        ("a.txt", b'{"a": 1}\n', "text"),
        ("a.md", b"# a\n", "text"),
    ],
)
def test_content_decides_the_container_and_the_name_only_where_content_cannot(write, name, content, container):
    (file,) = find_inputs([write(name, content)])
    assert (file.name, file.container, file.compression, file.size) == (name, container, "none", len(content))
    assert os.path.isabs(file.path)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.gzip", "a.jsonl", "a.jsonl.zst"])
def test_compression_is_told_by_content_whatever_the_name(write, name):
    for content, compression in [
        (gzip.compress(LINE), "gzip"),
        (zstandard.compress(LINE), "zstd"),
        (LINE, "none"),
    ]:
        (file,) = find_inputs([write(name, content)])
        assert (file.container, file.compression) == ("jsonl", compression)


def test_the_ending_before_the_compression_tells_csv_and_text(write):
    files = find_inputs([write("a.csv.gz", gzip.compress(b"a,b\n")), write("b.txt.zst", zstandard.compress(b"hi\n"))])
    assert [(file.container, file.compression) for file in files] == [("csv", "gzip"), ("text", "zstd")]


def test_folders_are_walked_in_name_order_and_give_data_files_only(write, tmp_path):
    for name in [
        "b.jsonl",
        "a/z.jsonl",
        "a/10.jsonl",
        "a/9.jsonl",
        "c.jsonl.gz",
        "D.JSONL",
        ".hidden.jsonl",
        "_SUCCESS.json",
        "_tmp/a.jsonl",
        ".cache/a.jsonl",
        "README.md",
        "dataset_info.json",
        "state.json",
        "train.py",
        "notes.md",
    ]:
        write(name, LINE)
    assert names([tmp_path]) == ["D.JSONL", "a/10.jsonl", "a/9.jsonl", "a/z.jsonl", "b.jsonl", "c.jsonl.gz", "notes.md"]
    assert find_inputs([tmp_path])[-1].container == "text"


def test_given_order_is_kept_and_globs_are_sorted(write, tmp_path):
    for name in ["x/b.jsonl", "x/a.jsonl", "x/y/c.jsonl", "x/_d.jsonl", "x/train.py", "z.jsonl"]:
        write(name, LINE)
    assert names([tmp_path / "z.jsonl", f"{tmp_path}/x/*.jsonl"]) == ["z.jsonl", "x/a.jsonl", "x/b.jsonl"]
    assert names([f"{tmp_path}/x/**"]) == ["a.jsonl", "b.jsonl", "y/c.jsonl"]
    assert names([f"{tmp_path}/**/*.jsonl"]) == ["x/a.jsonl", "x/b.jsonl", "x/y/c.jsonl", "z.jsonl"]
    assert names([f"{tmp_path}/x/_*.jsonl"]) == ["_d.jsonl"]


def test_a_glob_that_says_something_of_names_takes_all_it_matches(write, tmp_path):
    for name in ["part-00001", "part-00000", "_SUCCESS"]:
        write(name, LINE)
    assert names([f"{tmp_path}/part-*"]) == ["part-00000", "part-00001"]
    assert names(f"{tmp_path}/part-*1") == ["part-00001"]


def test_names_are_relative_to_the_common_parent(write, tmp_path, monkeypatch):
    one, two = write("data/en/a.jsonl", LINE), write("data/zh/a.jsonl", LINE)
    assert names([one]) == ["a.jsonl"]
    assert names([one, two]) == ["en/a.jsonl", "zh/a.jsonl"]
    monkeypatch.chdir(tmp_path / "data/en")
    assert names(["a.jsonl", "../zh/a.jsonl"]) == ["en/a.jsonl", "zh/a.jsonl"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(write):
    assert names([write("a[1].jsonl", LINE)]) == ["a[1].jsonl"]


def test_links_are_followed_but_loops_are_not(write, tmp_path):
    write("real/a.jsonl", LINE)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "loop").symlink_to(folder)
    (folder / "linked").symlink_to(tmp_path / "real")
    (folder / "b.jsonl").symlink_to(tmp_path / "real/a.jsonl")
    assert names([folder]) == ["b.jsonl", "linked/a.jsonl"]


def test_stdin_is_spooled_and_named_stdin(write, tmp_path, stdin):
    stdin(LINE * 3)
    files = find_inputs(["-", write("deep/a.jsonl", LINE)], scratch=tmp_path)
    assert [file.name for file in files] == ["stdin", "a.jsonl"]
    (block,) = BlockSplitter(files[0], 0)
    assert len(list(read_block(block))) == 3
    assert Path(files[0].path).read_bytes() == LINE * 3


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("a.jsonl", b"", "`a.jsonl` is empty", "write its records again"),
        ("a.jsonl.gz", gzip.compress(b""), "`a.jsonl.gz` is empty once decompressed", "write its records again"),
        ("a.jsonl", b" \n\r\n\n", "`a.jsonl` has only blank lines", "write its records again"),
        (
            "a.jsonl",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "`a.jsonl` is a git-LFS pointer, not the data",
            "git lfs pull",
        ),
        ("a.json", '[{"a": 1}]'.encode("utf-16"), "`a.json` is UTF-16, expected UTF-8", "iconv -f UTF-16"),
        ("a.json", '{"a": 1}'.encode("utf-16-le"), "`a.json` is UTF-16, expected UTF-8", "iconv -f UTF-16"),
        ("a.csv", "a,b".encode("utf-16"), "`a.csv` is UTF-16, expected UTF-8", "iconv -f UTF-16"),
        ("a.json", "[]".encode("utf-32"), "`a.json` is UTF-32, expected UTF-8", "iconv -f UTF-32"),
        (
            "a.gz",
            gzip.compress(gzip.compress(LINE)),
            "`a.gz` is compressed twice (with gzip inside)",
            "decompress it once",
        ),
        (
            "a.parquet.gz",
            gzip.compress(b"PAR1...."),
            "`a.parquet.gz` is a parquet file inside gzip",
            "only be read from its end",
        ),
        (
            "a.parquet",
            b"<html>not found",
            "`a.parquet` is not a parquet file: it starts with b'<html>no'",
            "download may have failed",
        ),
        ("a.jsonl.gz", gzip.compress(LINE)[:-9], "`a.jsonl.gz` ends inside its gzip stream", "cut short"),
    ],
)
def test_files_that_cannot_be_read_as_they_are(write, name, content, message, hint):
    with pytest.raises(DataError) as caught:
        find_inputs([write(name, content)])
    assert caught.value.message == message
    assert hint in caught.value.hint


@pytest.mark.parametrize("content", [b"some words\n", b"[Chorus]\nla la\n", b"{not json}\n"])
def test_text_is_never_guessed(write, content):
    with pytest.raises(UsageError) as caught:
        find_inputs([write("notes", content)])
    assert caught.value.message == "`notes`: cannot tell what this file holds"
    assert "give it an ending that says so: .json" in caught.value.hint


def test_requests_that_cannot_be_met(write, tmp_path):
    write("one/a.jsonl", LINE)
    empty = tmp_path / "empty"
    empty.mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    one = tmp_path / "one"
    for paths, message in [
        ([], "no inputs"),
        ([tmp_path / "none.jsonl"], f"`{tmp_path}/none.jsonl`: no such file or folder"),
        ([empty], f"`{empty}` has no data files"),
        ([f"{empty}/*"], f"`{empty}/*` matches no file"),
        ([pipe], f"`{pipe}` is neither a file nor a folder"),
        ([one, f"{one}/*.jsonl"], f"`{one}/a.jsonl` is named twice: by `{one}` and by `{one}/*.jsonl`"),
        (["-"], "`-`: standard input needs a scratch folder"),
    ]:
        with pytest.raises(UsageError) as caught:
            find_inputs(paths)
        assert caught.value.message == message


def test_stdin_twice_is_named_twice(tmp_path, stdin):
    stdin(LINE)
    with pytest.raises(UsageError, match="is named twice: by `-` and by `-`"):
        find_inputs(["-", "-"], scratch=tmp_path)


def test_stdin_and_a_file_of_its_name(write, tmp_path, stdin):
    stdin(LINE)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(UsageError, match="a file has the name that standard input goes by"):
        find_inputs(["-", write("stdin", LINE)], scratch=scratch)


def test_stdin_that_cannot_be_spooled(tmp_path, stdin):
    stdin(LINE)
    with pytest.raises(DataError, match="cannot spool standard input to"):
        find_inputs(["-"], scratch=tmp_path / "none")


def test_a_glob_of_folders_says_how_to_go_into_them(write, tmp_path):
    write("one/a.jsonl", LINE)
    with pytest.raises(UsageError) as caught:
        find_inputs([f"{tmp_path}/*"])
    assert caught.value.hint == "it matches folders only: end it with /**"


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    raw = os.fsencode(tmp_path) + b"/\xff.jsonl"
    with open(raw, "wb") as file:
        file.write(LINE)
    with pytest.raises(UsageError, match="the file's name is not UTF-8"):
        find_inputs([tmp_path])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(write):
    path = write("a.jsonl", LINE)
    path.chmod(0)
    with pytest.raises(DataError, match=r"cannot read .*: Permission denied"):
        find_inputs([path])
