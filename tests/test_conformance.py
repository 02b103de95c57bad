"""Runs tests/conformance: every case against manifest_problems and against the JSON Schema."""

import copy
import hashlib
import inspect
import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest

from packtool.format import manifest_problems, rules

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


def test_every_rule_has_a_case():
    """Every line of the rules is run by the corpus, and every key is at fault in some case."""
    path = manifest_problems.__code__.co_filename
    ran = set()

    def trace(frame, event, argument):
        if frame.f_code.co_filename != path:
            return None
        ran.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for case in CASES:
            for problem in manifest_problems(manifest_of(case.values[0])):
                str(problem)
    finally:
        sys.settrace(before)
    functions = [
        value for value in vars(rules).values() if inspect.isfunction(value) and value.__code__.co_filename == path
    ]
    assert len(functions) > 10
    lines = {line for function in functions for _, _, line in function.__code__.co_lines() if line is not None}
    assert sorted(lines - ran - {function.__code__.co_firstlineno for function in functions}) == []
    at_fault = {re.split(r"[.\[]", where)[0] for case in CASES for where in case.values[0]["problems"]}
    assert set(BASE) <= at_fault
