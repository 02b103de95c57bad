"""The rooms of the design: each imports only rooms above it. Told by the source, and by what a process loads."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "packtool"
# The table of the design, top first.
ROOMS = (
    "errors", "format", "masks", "storage", "sources", "render", "tokenizer", "store", "plan", "write", "read", "torch",
    "inspect", "engine", "job", "cli",
)  # fmt: skip
# Libraries that only some rooms may know.
ONLY_IN = {
    "torch": {"torch"},
    "typer": {"cli"},
    "click": {"cli"},
    "tqdm": {"cli"},
    "transformers": set(),
    "tokenizers": {"tokenizer"},
    "sentencepiece": {"tokenizer"},
    "huggingface_hub": {"tokenizer"},
    "jinja2": {"render"},
}
FILE_ROOMS = {"storage", "sources", "store", "write", "read", "inspect", "job", "cli"}
FILE_MODULES = {"pathlib", "os", "io", "shutil", "tempfile", "mmap", "glob"}


def modules(package):
    """(path, room, tree) of every module."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        yield path, parts[0].removesuffix(".py"), ast.parse(path.read_text("utf-8"))


def imports(tree, path, package):
    """(line, dotted name) of everything a module imports, at its top or anywhere in it."""
    here = ["packtool", *path.relative_to(package).with_suffix("").parts]
    if here[-1] == "__init__":
        here.pop()
        is_package = True
    else:
        is_package = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                start = here[: len(here) - node.level + is_package]
                base = ".".join([*start, *([base] if base else [])])
            if base == "packtool":  # `from packtool import masks` names rooms
                for alias in node.names:
                    yield node.lineno, f"packtool.{alias.name}"
            else:
                yield node.lineno, base
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def violations(package):
    """Every import and print that the table forbids, as text with its place."""
    found = []
    for path, room, tree in modules(package):
        if room in ("__init__", "__main__"):  # the front door opens every room, lazily
            continue
        for line, name in imports(tree, path, package):
            place = f"{path.relative_to(package.parent)}:{line}"
            top, *rest = name.split(".")
            if top == "packtool":
                other = rest[0] if rest else ""
                if other in ROOMS and ROOMS.index(other) > ROOMS.index(room):
                    found.append(f"{place}: room {room} imports {name}, which is below it")
                if room in ("plan", "masks", "format") and other in FILE_ROOMS:
                    found.append(f"{place}: room {room} imports {name}, which touches files")
            elif room not in ONLY_IN.get(top, {room}):
                found.append(f"{place}: room {room} imports {name}")
            if room in ("plan", "masks", "format") and top in FILE_MODULES:
                found.append(f"{place}: room {room} imports {name}, which touches files")
        if room != "cli":
            for node in ast.walk(tree):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in ("print", "input")
                ):
                    found.append(f"{path.relative_to(package.parent)}:{node.lineno}: room {room} calls {node.func.id}")
                if (
                    isinstance(node, ast.Attribute)
                    and node.attr in ("stdout", "stderr", "exit")
                    and (isinstance(node.value, ast.Name) and node.value.id == "sys")
                ):
                    found.append(f"{path.relative_to(package.parent)}:{node.lineno}: room {room} uses sys.{node.attr}")
    return found


def test_every_module_has_a_room_and_every_room_a_module():
    rooms = {room for _, room, _ in modules(PACKAGE)}
    assert rooms - {"__init__", "__main__"} == set(ROOMS)


def test_rooms_import_only_rooms_above_them():
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "line", "words"),
    [
        ("plan/decreasing.py", "import packtool.read", "room plan imports packtool.read, which is below it"),
        (
            "plan/decreasing.py",
            "from packtool import storage",
            "room plan imports packtool.storage, which touches files",
        ),
        ("plan/greedy.py", "    from ..job import run", "room plan imports packtool.job, which is below it"),
        ("masks.py", "from pathlib import Path", "room masks imports pathlib, which touches files"),
        ("format/rules.py", "from packtool.store import Store", "room format imports packtool.store"),
        ("read/npy.py", "import torch", "room read imports torch"),
        ("read/npy.py", "    import packtool.tokenizer.hf", None),
        ("job/run.py", "from tqdm import tqdm", "room job imports tqdm"),
        ("job/run.py", "import importlib; importlib.import_module('typer')", "room job imports typer"),
        ("engine.py", "from packtool.cli.console import say", "room engine imports packtool.cli.console"),
        ("inspect/show.py", "print('hello')", "room inspect calls print"),
        ("write/npy.py", "import sys; sys.stderr.write('hello')", "room write uses sys.stderr"),
        ("errors.py", "from .format import Problem", "room errors imports packtool.format"),
        ("storage.py", "from packtool.sources import find", "room storage imports packtool.sources"),
    ],
)
def test_a_forbidden_line_is_caught(tmp_path, file, line, words):
    package = tmp_path / "packtool"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    path = package / file
    if line.startswith("    "):
        line = f"def later() -> None:\n{line}"
    path.write_text(f"{path.read_text('utf-8')}\n{line}\n", "utf-8")
    found = [text for text in violations(package) if text not in violations(PACKAGE)]
    if words is None:  # tokenizer is above read: the table allows it, and the test below does not
        assert found == []
    else:
        assert any(words in text and file in text for text in found), found


# ------------------------------------------------------------------------------------------------- what a process loads

HEAVY = (
    "torch",
    "pyarrow",
    "tokenizers",
    "sentencepiece",
    "typer",
    "tqdm",
    "yaml",
    "jinja2",
    "huggingface_hub",
    "zstandard",
)


def loaded_by(code, folder):
    """The heavy modules that a fresh process has loaded after `code`."""
    code = f"{code}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}} & {set(HEAVY)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "code",
    [
        "import packtool",
        "import packtool; packtool.open_dataset",
        "import packtool.read",
        "import packtool.masks",
        "import packtool.plan",
        "import packtool.format",
        "import packtool.errors",
        "import packtool.engine",
        "import packtool.storage, packtool.store",
    ],
)
def test_the_training_path_loads_nothing_heavy(tmp_path, code):
    assert loaded_by(code, ROOT) == []


def test_heavy_modules_are_seen_when_they_are_loaded():
    assert loaded_by("import yaml, jinja2", ROOT) == ["jinja2", "yaml"]


@pytest.mark.parametrize("storage", ["npy", "parquet"])
def test_reading_packs_loads_nothing_heavy(tmp_path, storage):
    import packtool

    (tmp_path / "a.jsonl").write_text('{"text": "some words"}\n{"text": "and some more"}\n')
    packtool.pack([tmp_path / "a.jsonl"], out=tmp_path / "out", max_seq_len=16, format=storage, workers=1)
    code = (
        "import packtool, pickle\n"
        f"data = pickle.loads(pickle.dumps(packtool.open_dataset({str(tmp_path / 'out')!r}, check='full')))\n"
        "assert sum(len(data[i].tokens) for i in range(len(data))) == 16 * len(data)\n"
        "assert data.rows(0, len(data)).labels.shape == (len(data), 16)"
    )
    assert loaded_by(code, ROOT) == []


def test_the_top_level_is_what_the_design_names():
    allowed = {"packtool", "tests", "schemas", "docs", "pyproject.toml", "Dockerfile", "README.md", "LICENSE"}
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    names = {line.split("/")[0].strip('"') for line in done.stdout.splitlines()}
    assert {name for name in names if not name.startswith(".")} <= allowed
