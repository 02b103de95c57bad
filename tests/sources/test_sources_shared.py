"""The real training files that PACKTOOL_SHARED points to, against their index."""

import os
import re
from pathlib import Path

import pytest
from source_helpers import take

from packtool.sources import BadRecord, find_inputs

SHARED = os.environ.get("PACKTOOL_SHARED", "")
pytestmark = [pytest.mark.shared, pytest.mark.skipif(not SHARED, reason="PACKTOOL_SHARED is not set")]


def indexed() -> dict[str, int]:
    """Records of each file, as INDEX.md has them."""
    counts = {}
    for row in (Path(SHARED) / "data/INDEX.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) > 7 and re.fullmatch(r"[\w.-]+/\S+", cells[2]):
            counts[cells[2]] = int(cells[7])
    return counts


def test_every_file_has_the_records_its_index_says():
    counts = indexed()
    assert len(counts) == 23
    folder = Path(SHARED) / "data"
    files = find_inputs([folder / name for name in counts])
    assert [file.name for file in files] == list(counts)
    for file in files:
        for block_bytes in (8 << 20, 10_000):
            _, found, splitter = take(file, block_bytes=block_bytes)
            assert (file.name, len(found)) == (file.name, counts[file.name])
            assert not [record for record in found if isinstance(record, BadRecord)]
            assert len(splitter.sha256) == 64


def test_numbers_in_cells_stay_text():
    (file,) = find_inputs([Path(SHARED) / "data/ms-swift/alpaca.csv"])
    first = take(file)[1][0]
    assert first.value == {"system": "00000", "instruction": "11111", "input": "22222", "output": "3.3"}
