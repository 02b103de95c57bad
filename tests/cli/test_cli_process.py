"""What only a real process shows: signals, pipes, terminals, what is left behind."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from cli_helpers import command, environment, run_process, write_lines

LINE = b'{"text": "' + b"lorem ipsum dolor sit amet " * 30 + b'"}\n'


def test_a_plain_run(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "hello"}])
    ran = run_process("pack", "a.jsonl", "--max-seq-len", 8, "--kind", "text", "--tokenizer", "bytes", cwd=tmp_path)
    assert ran.code == 0
    assert ran.err == ""  # no bar: stderr is no terminal
    assert ran.out.endswith("  written    [DIR]/a.packed ([SIZE]) in [TIME]\n")
    assert run_process("--version", cwd=tmp_path).out == "packtool [VERSION]\n"
    assert run_process("verify", "none", cwd=tmp_path).code == 1
    assert run_process("pack", cwd=tmp_path).code == 2


@pytest.fixture(scope="module")
def long_input(tmp_path_factory):
    """About 40 MB: several seconds of tokenizing on the byte tokenizer with one worker, more with labels."""
    path = tmp_path_factory.mktemp("long") / "long.jsonl"
    with path.open("wb") as file:
        for _ in range(500):
            file.write(LINE * 100)
    return path


def children(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]
    return []


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def scratch_has(folder, pattern):
    return any((folder / ".out.packing").glob(pattern))


SIGNALS = {
    signal.SIGTERM: (143, "error: terminated; nothing was changed\n"),
    signal.SIGINT: (130, "error: interrupted; nothing was changed\n"),
}


def ends_well(process, number, folder, pids):
    """Send the signal, and see the end: in time, with the right words, and nothing left behind."""
    before = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    took = time.monotonic() - before
    code, words = SIGNALS[number]
    assert (process.returncode, out, err.decode().lstrip("\n")) == (code, b"", words)
    assert took < 1.0, f"it took {took:.2f} s"
    assert not [path.name for path in folder.iterdir() if path.name != "in"]
    wait_for(lambda: not any(alive(pid) for pid in pids), 5)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_while_reading_endless_stdin(tmp_path, number):
    with subprocess.Popen(
        command("pack", "-", "-o", "out", "--max-seq-len", 64, "-q"), cwd=tmp_path, env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write(LINE * 10)
        process.stdin.flush()
        wait_for(lambda: scratch_has(tmp_path, "stdin"))
        time.sleep(0.1)
        stdin, process.stdin = process.stdin, None  # stays open: the process waits for more
        ends_well(process, number, tmp_path, [])
        with contextlib.suppress(BrokenPipeError):
            stdin.close()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_while_tokenizing(tmp_path, long_input, number, workers):
    with subprocess.Popen(
        command("pack", long_input, "-o", "out", "--max-seq-len", 64, "-q", "--workers", workers), cwd=tmp_path,
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        wait_for(lambda: scratch_has(tmp_path, "store/seg-*/tokens.bin"))
        pids = children(process.pid)
        assert len(pids) >= workers if workers > 1 else process.poll() is None
        ends_well(process, number, tmp_path, pids)


def test_a_signal_leaves_the_dataset_that_was_there(tmp_path, long_input):
    small = write_lines(tmp_path / "a.jsonl", [{"text": "hello"}])
    out = tmp_path / "out"
    assert run_process("pack", small, "-o", "out", "--max-seq-len", 64, "-q", cwd=tmp_path).code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with subprocess.Popen(
        command("pack", long_input, "-o", "out", "--max-seq-len", 64, "-q", "--workers", 1, "--overwrite"),
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        wait_for(lambda: scratch_has(tmp_path, "store/seg-*/tokens.bin"))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == 143
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "out"]


def test_workers_that_are_killed(tmp_path, long_input):
    """As the kernel does when memory runs out: every worker, again and again."""
    with subprocess.Popen(
        command("pack", long_input, "-o", "out", "--max-seq-len", 64, "-q", "--workers", 2), cwd=tmp_path,
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        end = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < end:
            for pid in children(process.pid):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                    if b"spawn_main" in file.read():
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (3, b"")
    first, _, hint = err.decode().splitlines()
    assert first.startswith("error: a worker process died twice (exit code -9) on `")
    assert hint == "hint: it may have run out of memory (exit code -9 usually means that): use fewer `--workers`"
    assert list(tmp_path.iterdir()) == []


def pipeline(script, cwd, **changed):
    """A shell pipeline; its last line of stdout is the exit code of the first command."""
    done = subprocess.run(
        ["bash", "-c", f'{script}; echo "${{PIPESTATUS[0]}}"'],
        cwd=cwd, env=environment(PY=sys.executable, **changed), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    *lines, code = done.stdout.decode().splitlines()
    return int(code), lines, done.stderr.decode()


def test_a_reader_that_goes_away(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": f"line {number} " * 20} for number in range(2000)])
    assert run_process("pack", "a.jsonl", "--max-seq-len", 500_000, "-q", cwd=tmp_path).code == 0
    code, lines, err = pipeline('"$PY" -m packtool show a.packed | head -1', tmp_path)
    assert (code, len(lines), err) == (0, 1, "")
    assert lines[0].startswith("---- piece 0: record ")
    # Little output, read by nobody: the pipe breaks only when Python flushes at the very end.
    assert pipeline('"$PY" -m packtool ls | true', tmp_path) == (0, [], "")
    assert pipeline('"$PY" -m packtool pack --help | true', tmp_path) == (0, [], "")
    for unbuffered in ("", "1"):
        code, _, err = pipeline(
            '"$PY" -m packtool pack a.jsonl --max-seq-len 500000 -o b --overwrite --json --quiet | true',
            tmp_path, PYTHONUNBUFFERED=unbuffered,
        )  # fmt: skip
        assert (code, err) == (0, "")
        assert (tmp_path / "b" / "manifest.json").is_file()


def in_terminal(arguments, cwd, **changed):
    """Run with stdout and stderr on a pseudo-terminal; exit code and everything it showed."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        command(*arguments), cwd=cwd, env=environment(TERM="xterm", **changed), stdin=child, stdout=child, stderr=child
    )
    os.close(child)
    shown = b""
    with contextlib.suppress(OSError):  # Linux ends a pty with EIO
        while chunk := os.read(parent, 4096):
            shown += chunk
    os.close(parent)
    return process.wait(timeout=60), shown.decode().replace("\r\n", "\n")


def test_a_terminal_gets_a_bar_for_each_stage(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "hello"}])
    code, shown = in_terminal(["pack", "a.jsonl", "--max-seq-len", "8"], tmp_path)
    assert code == 0
    assert "tokenize: 100%|" in shown
    assert "write: 100%|" in shown
    assert "note: kind `text`" in shown
    code, shown = in_terminal(["pack", "a.jsonl", "--max-seq-len", "8", "--overwrite", "--quiet"], tmp_path)
    assert (code, shown) == (0, "")


def test_colour_on_a_terminal_only_and_never_with_no_color(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "hello"}])
    assert run_process("pack", "a.jsonl", "--max-seq-len", 8, "-q", cwd=tmp_path).code == 0
    plain = run_process("show", "a.packed", cwd=tmp_path)
    assert "h[[ello<eos>]]\n" in plain.out
    code, shown = in_terminal(["show", "a.packed"], tmp_path)
    assert code == 0
    assert "h\x1b[32mello<eos>\x1b[0m\n" in shown
    assert "\x1b[1m---- piece 0: record 0 (a.jsonl:1)" in shown
    code, shown = in_terminal(["show", "a.packed"], tmp_path, NO_COLOR="1")
    assert (code, shown) == (0, plain.out)


def test_stdout_holds_only_the_answer(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "hello"}] * 3)
    ran = run_process("pack", "-", "-o", "out", "--max-seq-len", 8, "--json", cwd=tmp_path, stdin=LINE * 3)
    assert ran.code == 0
    assert json.loads(ran.out)["records"] == 3
    assert ran.err.startswith("note: kind `text`")


def test_the_installed_program_and_the_module_are_the_same(tmp_path):
    from packtool.cli import main

    assert main.__module__ == "packtool.cli"
    ran = run_process("ls", "kinds", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "text\ncompletion\ninstruct\nchat\ntokens\n")
