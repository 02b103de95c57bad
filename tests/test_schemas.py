"""schemas/ against what packtool writes: real outputs validate, changed ones do not, and the keys are the code's."""

import copy
import dataclasses
import json
import random
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

import packtool
from packtool.cli.program import app
from packtool.format import (
    COMPRESSIONS,
    OUTCOMES,
    REASONS,
    STORAGES,
    FileEntry,
    InputEntry,
    Manifest,
    ShardEntry,
    TokenizerEntry,
    manifest_problems,
)
from packtool.format.rules import TOKENIZER_KINDS
from packtool.inspect import Report
from packtool.job import Choice, Forecast, Summary
from packtool.plan import STRATEGIES
from packtool.render import KINDS
from packtool.render.rendered import ROLES

FOLDER = Path(__file__).parents[1] / "schemas"
SCHEMAS = {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in FOLDER.glob("*.json")}


def errors(name, value):
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMAS[name]).iter_errors(value)]


def test_the_schemas_are_there_and_are_schemas():
    assert sorted(SCHEMAS) == ["forecast", "manifest", "summary", "verify"]
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert schema["$id"] == f"urn:packtool:schema:1:{name}"


def objects(schema):
    """Every part of a schema that describes an object with named keys."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


@pytest.mark.parametrize("name", ["forecast", "manifest", "summary", "verify"])
def test_every_object_is_closed(name):
    for schema in objects(SCHEMAS[name]):
        assert "additionalProperties" in schema
        if "required" in schema:
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) == set(schema["properties"])


def fields(*classes):
    return {field.name for one in classes for field in dataclasses.fields(one)}


def test_keys_are_the_codes_keys():
    manifest, parts = SCHEMAS["manifest"], SCHEMAS["manifest"]["$defs"]
    written = {"format", "format_version", "columns", "manifest_sha256"}
    assert set(manifest["properties"]) == set(manifest["required"]) == fields(Manifest) | written
    for name, one in (("file", FileEntry), ("input", InputEntry), ("shard", ShardEntry), ("tokenizer", TokenizerEntry)):
        assert set(parts[name]["properties"]) == set(parts[name]["required"]) == fields(one), name
    assert set(SCHEMAS["summary"]["properties"]) == fields(Summary)
    assert set(SCHEMAS["verify"]["properties"]) == fields(Report)
    forecast = SCHEMAS["forecast"]["properties"]
    assert set(forecast) == fields(Forecast)
    assert set(forecast["choices"]["items"]["properties"]) == fields(Choice)


def test_words_are_the_codes_words():
    manifest = SCHEMAS["manifest"]["properties"]
    assert manifest["storage"]["enum"] == list(STORAGES)
    assert manifest["compression"]["enum"] == list(COMPRESSIONS)
    assert set(manifest["outcomes"]["properties"]) == set(OUTCOMES)
    assert set(manifest["lost"]["properties"]) == set(REASONS) - {""}
    assert SCHEMAS["manifest"]["$defs"]["tokenizer"]["properties"]["kind"]["enum"] == list(TOKENIZER_KINDS)
    summary = SCHEMAS["summary"]["properties"]
    assert set(summary["outcomes"]["properties"]) == set(OUTCOMES)
    assert set(summary["lost"]["properties"]) == set(REASONS) - {""}
    assert summary["kind"]["enum"] == list(KINDS)
    assert list(summary["roles"]["properties"]) == list(ROLES)
    forecast = SCHEMAS["forecast"]["properties"]
    choice = forecast["choices"]["items"]["properties"]
    assert forecast["kind"]["enum"] == list(KINDS)
    assert choice["strategy"]["enum"] == list(STRATEGIES)
    assert set(choice["size"]["properties"]) == set(STORAGES)
    assert choice["reasons"]["patternProperties"] == summary["reasons"]["patternProperties"]
    assert set(choice["lost"]["properties"]) == set(REASONS) - {""}


# --------------------------------------------------------------------------------------------------------- real outputs

RECORDS = {
    "text": [{"text": "some words"}, {"text": " "}, {"text": "many more words than a pack of sixteen can hold"}],
    "completion": [{"prompt": "2 + 2 =", "completion": " 4"}, {"prompt": "", "completion": "a long answer " * 3}],
    "instruct": [{"instruction": "Greet", "input": "", "output": "Hello"}, {"instruction": "x", "output": "y"}],
    "chat": [{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}],
    "tokens": [{"input_ids": [5, 6, 7], "labels": [-100, 6, 7]}, {"input_ids": []}],
}
FORMATS = [["--format", "npy"], ["--format", "parquet"], ["--format", "parquet", "--compression", "zstd"]]
WAYS = [
    [],
    ["--dry-run"],
    ["--limit", "1"],
    ["--limit", "60%", "--seed", "3"],
    ["--max-packs", "1"],
    ["--strategy", "greedy", "--split-across-packs"],
    ["--overlong", "drop", "--train-on", "all"],
]


def run_json(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("form", FORMATS, ids=" ".join)
@pytest.mark.parametrize("kind", KINDS)
def test_what_packtool_writes_and_prints_validates(tmp_path, kind, form, way):
    path, out = tmp_path / "in.jsonl", tmp_path / "out"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS[kind] * 4))
    length = 16 if kind != "instruct" else 256
    length = 64 if kind == "chat" else length
    summary = run_json(
        "pack", path, "--max-seq-len", length, "-o", out, "--json", "--quiet", "--workers", 1, *form, *way
    )
    assert errors("summary", summary) == []
    assert summary["kind"] == kind
    if "--dry-run" in way:
        assert not out.exists()
        assert (summary["out"], summary["trained"], summary["size"]) == ("", None, 0)
        return
    manifest = json.loads((out / "manifest.json").read_text())
    assert errors("manifest", manifest) == []
    report = run_json("verify", out, "--json")
    assert errors("verify", report) == []
    assert report["problems"] == []


def test_reports_of_broken_datasets_validate(tmp_path):
    path, out = tmp_path / "in.jsonl", tmp_path / "out"
    path.write_text('{"text": "some words"}\n')
    packtool.pack([path], out=out, max_seq_len=16, workers=1)
    (out / "shard-00000" / "tokens.npy").unlink()
    report = run_json("verify", out, "--json", code=1)
    assert errors("verify", report) == []
    assert len(report["problems"]) == 1
    assert errors("verify", run_json("verify", tmp_path / "none", "--json", code=1)) == []


def test_a_summary_with_warnings_and_bad_records_validates(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "a \\ud800 b"}\n{"text": 5}\n{"text": "fine"}\n')
    summary = run_json("pack", path, "--max-seq-len", 16, "--json", "--on-bad", "skip", "-q", "--workers", 1)
    assert errors("summary", summary) == []
    assert summary["outcomes"] == {"packed": 2, "bad": 1}
    assert list(summary["warnings"].values()) == [[1, "in.jsonl, line 1"]]


# ------------------------------------------------------------------------------------------------------ changed outputs


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    (folder / "in.jsonl").write_text('{"text": "some words"}\n{"text": "others"}\n{"text": " "}\n')
    summary = packtool.pack([folder / "in.jsonl"], out=folder / "out", max_seq_len=12, shard_size="1", workers=1)
    return json.loads((folder / "out" / "manifest.json").read_text()), json.loads(
        json.dumps(dataclasses.asdict(summary))
    )


def places(value, path=()):
    """The path of every value in a JSON document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def at(value, path):
    for step in path:
        value = value[step]
    return value


WRONG = [None, True, -7, 1.5, "no such word", [], {"x": 1}]


def mutations(body):
    """Every value, in turn, replaced by something of another type or range, removed, or given an unknown neighbour."""
    for path in places(body):
        old = at(body, path)
        for new in WRONG:
            if path and type(new) is not type(old):
                changed = copy.deepcopy(body)
                at(changed, path[:-1])[path[-1]] = new
                yield (*path, new), changed
        if path and isinstance(path[-1], str):
            changed = copy.deepcopy(body)
            del at(changed, path[:-1])[path[-1]]
            yield (*path, "removed"), changed
        if isinstance(old, dict):
            changed = copy.deepcopy(body)
            at(changed, path)["unknown"] = None
            yield (*path, "unknown"), changed


def test_changed_manifests_are_refused_by_both(real):
    manifest, _ = real
    assert errors("manifest", manifest) == []
    assert manifest_problems(manifest) == []
    refused_by_sum_only = set()
    tried = 0
    for what, changed in mutations(manifest):
        tried += 1
        problems = [problem.where for problem in manifest_problems(changed)]
        assert problems, what
        if not errors("manifest", changed):
            # Nothing is wrong with the value itself, only with a sum over it.
            assert set(problems) <= {"manifest_sha256", "records", "columns"}, (what, problems)
            refused_by_sum_only.add(what[0])
        else:  # and the code sees it without the help of the sum
            assert problems != ["manifest_sha256"] or what[0] == "manifest_sha256", what
    assert tried > 500
    assert refused_by_sum_only <= {"settings", "outcomes", "lost", "inputs", "tokenizer"}


@pytest.mark.parametrize("way", [[], ["--batch", "2"], ["--sample", "3"], ["--overlong", "drop"]], ids=" ".join)
@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_validate_and_changed_ones_do_not(tmp_path, kind, way):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS[kind] * 4))
    strategies = ",".join(STRATEGIES)
    forecast = run_json(
        "plan", path, "--max-seq-len", "32,512", "--strategy", strategies, "--json", "--quiet", "--workers", 1, *way
    )
    assert errors("forecast", forecast) == []
    assert forecast["kind"] == kind
    assert len(forecast["choices"]) == 2 * len(STRATEGIES)
    for name in forecast:
        assert errors("forecast", {key: value for key, value in forecast.items() if key != name})
        assert errors("forecast", {**forecast, name: None})
    for name in forecast["choices"][0]:
        first = {key: value for key, value in forecast["choices"][0].items() if key != name}
        assert errors("forecast", {**forecast, "choices": [first]})
    assert errors("forecast", {**forecast, "unknown": 1})


def test_changed_summaries_are_refused(real):
    _, summary = real
    assert errors("summary", summary) == []
    open_keys = {"seconds", "warnings"}  # their names are not fixed
    nullable = {"trained", "trained_share", "cut_targets", "packs_without_target", "targets_per_pack"}
    tried = 0
    for what, changed in mutations(summary):
        if what[0] in open_keys or (what[0] in nullable and what[1] is None):
            continue
        if what[-1] == "removed" and len(what) > 2:  # counts that are zero are left out
            continue
        if errors("summary", changed) == []:
            allowed = isinstance(at(changed, what[:-1]), str | float | int | dict)
            assert allowed, what
            assert what[0] in {
                "out",
                "why",
                "fill",
                "trained_share",
                "samples_per_pack",
                "outcomes",
                "reasons",
                "lost",
            }, what
        tried += 1
    assert tried > 200


def test_a_random_pick_of_paths_is_judged_alike_by_code_and_schema(real):
    """The two spellings of the path rule agree on random strings over the characters that matter."""
    manifest, _ = real
    rng = random.Random(5)
    pattern = jsonschema.Draft202012Validator({"$ref": "#/$defs/path", "$defs": SCHEMAS["manifest"]["$defs"]})
    verdicts = set()
    for _ in range(3000):
        text = "".join(rng.choice("a./\\\n\0é .") for _ in range(rng.randrange(6)))
        changed = {**manifest, "files": [{**manifest["files"][0], "path": text}]}
        by_code = not any(problem.where == "files[0].path" for problem in manifest_problems(changed))
        assert pattern.is_valid(text) == by_code, repr(text)
        verdicts.add(by_code)
    assert verdicts == {True, False}
