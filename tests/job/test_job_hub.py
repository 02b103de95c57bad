"""`--tokenizer org/name` through huggingface_hub, against a hub of the test's own on 127.0.0.1."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from job_helpers import TINY_CONFIG, samples, tiny_bpe, write_lines

import packtool

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.BaseHTTPRequestHandler):
    """The few answers that a download needs: the repository's files at a commit, and each file."""

    folder: Path
    asked: list[str]

    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def _answer(self, *, body):
        path = self.path.partition("?")[0]
        self.asked.append(f"{self.command} {path}")
        names = sorted(file.name for file in self.folder.iterdir())
        if path in ("/api/models/org/tiny", "/api/models/org/tiny/revision/main"):
            siblings = [{"rfilename": name} for name in names]
            self._send(json.dumps({"id": "org/tiny", "sha": COMMIT, "siblings": siblings}).encode(), {}, body)
        elif path.startswith("/api/models/org/tiny/tree/"):
            files = [
                {"type": "file", "path": name, "size": (self.folder / name).stat().st_size, "oid": self._oid(name)}
                for name in names
            ]
            self._send(json.dumps(files).encode(), {}, body)
        elif path.startswith("/org/tiny/resolve/") and path.rpartition("/")[2] in names:
            name = path.rpartition("/")[2]
            headers = {"ETag": f'"{self._oid(name)}"', "X-Repo-Commit": COMMIT}
            self._send((self.folder / name).read_bytes(), headers, body)
        else:
            self._send(b'{"error": "Repository not found"}', {"X-Error-Code": "RepoNotFound"}, body, status=404)

    def _oid(self, name):
        return hashlib.sha1((self.folder / name).read_bytes()).hexdigest()

    def _send(self, data, headers, body, status=200):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), "Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def hub(tmp_path):
    """A running hub: (address, requests)."""
    folder = tmp_path / "served"
    tiny_bpe(folder, config=TINY_CONFIG)
    (folder / "model.safetensors").write_bytes(b"not to be fetched")
    handler = type("Handler", (Hub,), {"folder": folder, "asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", handler.asked
        server.shutdown()
        thread.join()


def pack(folder, name, **environment):
    root = str(Path(packtool.__file__).parent.parent)
    foreign = ("HF_", "HUGGINGFACE", "TRANSFORMERS")
    keep = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    proxies = {key: "" for key in keep if key.lower().endswith("_proxy")}
    return subprocess.run(
        [sys.executable, "-m", "packtool", "pack", "data.jsonl", "--max-seq-len", "64", "--tokenizer", name, "--kind",
         "text", "--overwrite"],
        cwd=folder, capture_output=True, text=True, timeout=90, check=False,
        env={**keep, **proxies, "PYTHONPATH": root, "HF_HOME": str(folder / "hf"), **environment},
    )  # fmt: skip


def test_a_tokenizer_of_the_hub(tmp_path, hub):
    address, asked = hub
    write_lines(tmp_path / "data.jsonl", [{"text": "The quick brown fox"}])
    ran = pack(tmp_path, "org/tiny", HF_ENDPOINT=address)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("1 records -> 1 samples -> 1 packs of 64\n")
    from tokenizers import Tokenizer

    inner = Tokenizer.from_file(str(tmp_path / "served" / "tokenizer.json")).encode("The quick brown fox").ids
    assert samples(tmp_path / "data.packed")[0][0] == [*inner, 1]
    names = sorted(path.name for path in (tmp_path / "data.packed" / "tokenizer").iterdir())
    assert names == ["tokenizer.json", "tokenizer_config.json"]
    assert any(line.startswith("GET /org/tiny/resolve/") for line in asked)
    assert not any("safetensors" in line for line in asked)

    # From the cache, and not a single request.
    asked.clear()
    first = (tmp_path / "data.packed" / "manifest.json").read_bytes()
    ran = pack(tmp_path, "org/tiny", HF_ENDPOINT=address, HF_HUB_OFFLINE="1")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert asked == []
    assert (tmp_path / "data.packed" / "manifest.json").read_bytes() == first


def test_a_name_that_the_hub_does_not_know(tmp_path, hub):
    address, asked = hub
    write_lines(tmp_path / "data.jsonl", [{"text": "The quick brown fox"}])
    for name in ("org/nothing", "gpt-nothing"):
        ran = pack(tmp_path, name, HF_ENDPOINT=address)
        assert (ran.returncode, ran.stdout) == (2, "")
        first, blank, hint = ran.stderr.splitlines()
        assert first.startswith(
            f"error: there is no folder or file `{name}`, and the hub did not give a tokenizer by that name: "
        )
        assert (blank, hint) == ("", "hint: check the spelling, HF_HUB_OFFLINE and the network, or give a folder")
    assert asked
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "hf") == ["data.jsonl", "served"]


def test_offline_without_a_cache(tmp_path):
    write_lines(tmp_path / "data.jsonl", [{"text": "The quick brown fox"}])
    ran = pack(tmp_path, "org/tiny", HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:9")
    assert (ran.returncode, ran.stdout) == (2, "")
    first, blank, hint = ran.stderr.splitlines()
    assert first.startswith("error: there is no folder or file `org/tiny`, and the hub did not give a tokenizer")
    assert (blank, hint) == ("", "hint: check the spelling, HF_HUB_OFFLINE and the network, or give a folder")


def test_a_repository_without_a_tokenizer(tmp_path, hub):
    address, _ = hub
    (tmp_path / "served" / "tokenizer.json").unlink()
    write_lines(tmp_path / "data.jsonl", [{"text": "The quick brown fox"}])
    ran = pack(tmp_path, "org/tiny", HF_ENDPOINT=address)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "holds no tokenizer: expected tokenizer.json or one .model, got tokenizer_config.json\n" in ran.stderr
