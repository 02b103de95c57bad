"""docs/faults.md: the tests that it names are there, and it names all tests of the kinds."""

import re

from test_rules_are_needed import FILES, HERE, named_in

TESTS = HERE.parent
PAGE = (TESTS.parent / "docs" / "faults.md").read_text("utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)


def test_every_test_that_the_page_names_is_there():
    assert len(NAMED) == PAGE.count("::")
    for path, name in NAMED:
        assert name in named_in(TESTS / path), f"{path}::{name}"


def test_the_page_names_every_test_of_the_kinds():
    for path in FILES.values():
        listed = [name for found, name in NAMED if found == f"kinds/{path.name}"]
        assert sorted(listed) == sorted(named_in(path))


def test_every_kind_is_a_heading_and_every_row_names_a_test():
    assert re.findall(r"^## ([A-I])\. ", PAGE, re.MULTILINE) == [kind.upper() for kind in FILES]
    rows = re.findall(r"^\| (?!elsewhere).*$", PAGE, re.MULTILINE)
    assert len(rows) > 70
    assert all(re.search(r"\| `\w+/test_\w+\.py::\w+`.* \|$", row) and row.count(" | ") == 2 for row in rows)
