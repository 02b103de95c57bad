"""Real tokenizers and data: found by PACKTOOL_SHARED, skipped without it."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared():
    folder = os.environ.get("PACKTOOL_SHARED")
    if not folder:
        pytest.skip("PACKTOOL_SHARED does not name a folder with `tokenizers` and `data`")
    return Path(folder)
