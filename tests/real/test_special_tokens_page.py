"""docs/special-tokens.md says what packtool does with real tokenizers."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "special_tokens.py"


@pytest.mark.shared
def test_the_page_is_what_packtool_says(shared):
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
