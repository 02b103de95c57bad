import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from source_helpers import take

from packtool.sources import BadRecord, Record, find_inputs


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def records(write: Callable[..., Path]) -> Callable[..., list[Record | BadRecord]]:
    """Write a file, find it, split it and read it."""

    def records(name: str, content: bytes | str, **options: Any) -> list[Record | BadRecord]:
        (file,) = find_inputs([write(name, content)])
        return take(file, **options)[1]

    return records


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def stdin(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return stdin
