"""Tests of kinds use the helpers of tests/job, also when they run alone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "job"))
