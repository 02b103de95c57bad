"""docs/records.md: every example packs, and what the page says is trained is trained."""

import ast
import json
import re
from pathlib import Path

import pytest

import packtool
from packtool.errors import PackError

PAGE = (Path(__file__).parent.parent / "docs" / "records.md").read_text("utf-8")
ROWS = re.findall(r"^\| (?!shape |---|file )(.*) \| `(.*)` \| `(.*)` \|$", PAGE, re.MULTILINE)
EXAMPLES = [tuple(cell.replace("\\|", "|") for cell in row) for row in ROWS]  # a table's cells cannot hold a bare bar
NAMES = {256: "", 258: "", 259: "<|im_start|>", 260: "<|im_end|>"}


def test_every_row_is_read():
    assert len(EXAMPLES) == len(re.findall(r"^\| ", PAGE.split("| shape |")[1].split("\n\n")[0], re.MULTILINE)) > 10


@pytest.mark.parametrize(("name", "record", "expected"), EXAMPLES, ids=[name for name, *_ in EXAMPLES])
def test_the_example_is_trained_as_the_page_says(tmp_path, name, record, expected):
    (tmp_path / "a.jsonl").write_text(record + "\n" + record + "\n")
    # Plain text has no token before its first one, so it gets a BOS here.
    packtool.pack([tmp_path / "a.jsonl"], out=tmp_path / "o", max_seq_len=512, tokenizer="bytes", bos="yes", workers=1)
    pack = packtool.open_dataset(tmp_path / "o")[0]
    length = int(pack.seq_lens[0])
    runs, before = [], False
    for label in pack.labels[:length].tolist():
        if label != -100:
            if not before:
                runs.append("")
            runs[-1] += NAMES.get(label) if label in NAMES else chr(label)
        before = label != -100
    assert "|".join(runs) == json.loads(expected)


FILES = re.findall(r"^\| `(a\..*?)` \| `(b'.*')` \| (.*) \|$", PAGE, re.MULTILINE)


def test_every_file_is_read():
    assert len(FILES) == len(re.findall(r"^\| `a\.", PAGE, re.MULTILINE)) > 15


@pytest.mark.parametrize(("name", "body", "expected"), FILES, ids=[body for _, body, _ in FILES])
def test_the_file_becomes_what_the_page_says(tmp_path, name, body, expected):
    (tmp_path / name).write_bytes(ast.literal_eval(body))
    try:
        summary = packtool.pack([tmp_path / name], out=tmp_path / "o", max_seq_len=64, tokenizer="bytes", workers=1)
    except PackError as error:
        found = "error: " + error.message.replace(f"{tmp_path}/", "")
    else:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in summary.outcomes.items())
        found = "; ".join([counts, *summary.warnings])
    assert found == expected
