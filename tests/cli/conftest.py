"""Runs the command line in this process, in a folder of its own."""

import signal

import pytest
from cli_helpers import Ran, filtered

from packtool.cli import _run


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """run(*arguments) -> Ran; relative paths are below tmp_path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    before = signal.getsignal(signal.SIGTERM)

    def run(*arguments):
        capsys.readouterr()
        code = _run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ran(code, filtered(out, tmp_path), filtered(err, tmp_path))

    yield run
    signal.signal(signal.SIGTERM, before)
