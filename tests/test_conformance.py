"""Runs tests/conformance: every case against manifest_problems and against the JSON Schema."""

import copy
import hashlib
import json
from pathlib import Path

import jsonschema
import pytest

from packtool.format import manifest_problems

ROOT = Path(__file__).parents[1]
CORPUS = Path(__file__).parent / "conformance"
BASE = json.loads((CORPUS / "base.json").read_text())
SCHEMA = json.loads((ROOT / "schemas" / "manifest.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(CORPUS.glob("*.json"))
    if path.name != "base.json"
    for case in json.loads(path.read_text())
]


def manifest_of(case):
    """A case's manifest: the base with its edits, and the sum that fits it."""
    if "manifest" in case:
        return case["manifest"]
    body = copy.deepcopy(BASE)
    for edit in case["edits"]:
        *path, last = edit["at"]
        place = body
        for step in path:
            place = place[step]
        if edit.get("remove"):
            del place[last]
        else:
            place[last] = edit["to"]
    if "manifest_sha256" in body and not case.get("keep_sum"):
        del body["manifest_sha256"]
        text = json.dumps(body, sort_keys=True, indent=2) + "\n"
        body["manifest_sha256"] = hashlib.sha256(text.encode("ascii")).hexdigest()
    return body


def test_the_corpus_is_there():
    assert len(CASES) > 250
    assert {path.name for path in CORPUS.iterdir()} == {
        "README.md", "base.json", "keys.json", "sums.json", "valid.json", "values.json",
    }  # fmt: skip
    names = [case.values[0]["name"] for case in CASES]
    assert len(set(names)) == len(names)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("case", CASES)
def test_the_code_agrees(case):
    manifest = manifest_of(case)
    before = copy.deepcopy(manifest)
    problems = manifest_problems(manifest)
    assert sorted(problem.where for problem in problems) == sorted(case["problems"])
    assert case["valid"] == (not case["problems"])
    assert manifest == before
    for problem in problems:
        assert problem.where in str(problem)
        assert problem.message
        assert not problem.message.endswith(".")


@pytest.mark.parametrize("case", CASES)
def test_the_schema_agrees_or_is_said_not_to(case):
    accepted = VALIDATOR.is_valid(manifest_of(case))
    if case.get("beyond_schema"):
        assert accepted, "the schema sees it after all: drop `beyond_schema`"
        assert not case["valid"]
    else:
        assert accepted == case["valid"]


def test_problems_come_in_a_fixed_order():
    case = next(case.values[0] for case in CASES if case.values[0]["name"].startswith("all missing and unknown keys"))
    assert [problem.where for problem in manifest_problems(manifest_of(case))] == case["problems"]
