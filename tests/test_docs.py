"""Documentation that runs: code blocks, the command reference, README's promises."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import cli_reference
import pytest

import packtool
from packtool.render import lint

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [body for name, body in FENCE.findall((ROOT / page).read_text("utf-8")) if name == language]


def test_the_command_reference_is_what_help_says():
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == cli_reference.page()


def test_every_warning_has_its_row():
    page = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    section = page.split("## What the summary warns of\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?!warning|---)(.*?) \| ", section, re.MULTILINE)
    texts = [getattr(lint, name).format("system", "completion") for name in lint.__all__ if name.isupper()]
    assert sorted(rows) == sorted(texts)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A folder with the repository's docs and the dataset that the pages use."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "docs").symlink_to(ROOT / "docs")
    out = folder / "instruct.packed"
    packtool.pack([ROOT / "docs/examples/instruct.jsonl"], max_seq_len=2048, tokenizer="bytes", out=out)
    return folder


def test_the_reader_in_the_format_page_reads_what_packtool_reads(example, monkeypatch):
    monkeypatch.chdir(example)
    (code,) = blocks("docs/format.md", "python")
    collected = []
    code = code.replace(
        "            start = stop\n", "            start = stop\n            collect(sample_tokens, sample_labels)\n"
    )
    exec(code, {"collect": lambda tokens, labels: collected.append((tokens.tolist(), labels.tolist()))})
    expected = []
    for pack in packtool.open_dataset("instruct.packed"):
        start = 0
        for length in pack.seq_lens.tolist():
            expected.append(
                (pack.tokens[start : start + length].tolist(), pack.labels[start : start + length].tolist())
            )
            start += length
    assert collected == expected


def test_the_guide_runs_from_start_to_end(example):
    shell = [line for body in blocks("docs/guide.md", "sh") for line in body.splitlines()]
    commands = [line for line in shell if line.startswith("packtool ") and "path/to/" not in line]
    assert len(commands) >= 3
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command in commands:
        command = command.replace("packtool ", f"{sys.executable} -m packtool ", 1)
        if " pack " in command and "--overwrite" not in command:
            command += " --overwrite"
        done = subprocess.run(command, shell=True, cwd=example, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, (command, done.stderr)
    script = "\n".join(blocks("docs/guide.md", "python"))
    done = subprocess.run([sys.executable, "-c", script], cwd=example, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[1]) for line in done.stdout.splitlines() if re.fullmatch(r"\d+ [\d.]+", line)]
    assert len(losses) == 3


def test_the_guide_shows_a_record_as_show_does(tmp_path):
    ((command, shown),) = re.findall(
        r"^```sh\n(echo [^\n]* packtool show - [^\n]*)\n```\n\n```text\n(.*?)^```$",
        (ROOT / "docs/guide.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    command = command.replace(" packtool ", f" {sys.executable} -m packtool ")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, shown), done.stderr


def test_readme_s_first_command_says_what_the_project_needs():
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = [line for line in readme.splitlines() if line.startswith("python3 -m venv ")]
    assert len(commands) == 2
    assert "packtool pack docs/examples/" in commands[0]
    assert commands[1].endswith("-m pytest")


@pytest.mark.parametrize("name", ["instruct", "chat"])
def test_example_configs_pack_every_record_of_the_examples(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "packtool", "pack", "--config", str(ROOT / f"docs/examples/{name}.yaml"),
         "-o", str(tmp_path / "out"), "--json"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    lines = (ROOT / f"docs/examples/{name}.jsonl").read_text("utf-8").splitlines()
    assert summary["outcomes"] == {"packed": len(lines)}
    assert len(lines) >= 100
    assert summary["lost"] == {}


def test_links_between_pages_lead_somewhere():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
