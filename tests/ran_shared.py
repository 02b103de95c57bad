"""Fail if tests that need PACKTOOL_SHARED were skipped although it was set: a green run would hide them.

python tests/ran_shared.py JUNIT.xml
"""

import sys
import xml.etree.ElementTree as ElementTree


def main() -> None:
    ran, skipped = 0, []
    for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        reason = case.find("skipped")
        if reason is not None and "PACKTOOL_SHARED" in (reason.get("message") or ""):
            skipped.append(name)
        elif "tests.real" in name:
            ran += 1
    if skipped or not ran:
        raise SystemExit(f"tests on real data did not run: {ran} ran, skipped: {skipped[:10]}")
    print(f"{ran} tests in tests/real ran on real tokenizers and data")


if __name__ == "__main__":
    main()
