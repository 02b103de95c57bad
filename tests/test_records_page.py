"""docs/records.md: every example packs, and what the page says is trained is trained."""

import json
import re
from pathlib import Path

import pytest

import packtool

PAGE = (Path(__file__).parent.parent / "docs" / "records.md").read_text("utf-8")
EXAMPLES = re.findall(r"^## (.*)\n\n```json\n(.*)\n```\n\nTrained: `(.*)`$", PAGE, re.MULTILINE)
NAMES = {256: "", 258: "", 259: "<|im_start|>", 260: "<|im_end|>"}


def test_every_heading_has_an_example():
    assert len(EXAMPLES) == len(re.findall(r"^## ", PAGE, re.MULTILINE)) > 10


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
