"""The whole `packtool pack` command beside a bare encoder over the same texts, in one run.

    python tests/benchmarks/pack_instruct.py DATA.jsonl --tokenizer FOLDER [--repeats 3] [--workers 1]

DATA.jsonl holds `question` and `answer`. Each repeat runs, in fresh processes and in turn: the command, and a script
that does nothing but load the tokenizer and call `encode_batch_fast` on the rendered texts. Prints the least wall time
of each, their ratio, with and without the time that loading takes, and the command's peak resident memory over all its
processes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BARE = """
import json, sys, time
from tokenizers import Tokenizer
from packtool.render import parse_instruct, read_template
template = parse_instruct(read_template("alpaca.txt"), "alpaca")
texts = []
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line)
    prompt, answer = template.fill({"instruction": record["question"], "input": "", "output": record["answer"]})
    texts.append(prompt + answer)
began = time.perf_counter()
tokenizer = Tokenizer.from_file(sys.argv[2])
loaded = time.perf_counter()
tokens = 0
for start in range(0, len(texts), 1000):
    encodings = tokenizer.encode_batch_fast(texts[start : start + 1000], add_special_tokens=False)
    tokens += sum(len(encoding.ids) for encoding in encodings)
done = time.perf_counter()
size = sum(len(text.encode()) for text in texts)
print(json.dumps({"load": loaded - began, "encode": done - loaded, "tokens": tokens, "bytes": size}))
"""


def tree_memory(pid: int) -> int:
    """Resident bytes of a process and all below it."""
    total, todo = 0, [pid]
    while todo:
        one = todo.pop()
        try:
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * 4096
            for task in Path(f"/proc/{one}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, IndexError):
            continue
    return total


def watched(command: list[str], environment: dict[str, str]) -> tuple[float, int, str]:
    """Wall seconds, peak memory and stdout of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, tree_memory(process.pid))

    thread = threading.Thread(target=watch)
    thread.start()
    out, _ = process.communicate()
    done.set()
    thread.join()
    if process.returncode:
        raise SystemExit(f"{command} failed with {process.returncode}")
    return time.perf_counter() - began, peak, out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--format", default="npy")
    parser.add_argument("--compression", default="none")
    args = parser.parse_args()
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false" if args.workers == 1 else "true"}
    walls, bares, peaks = [], [], []
    for _ in range(args.repeats):
        with tempfile.TemporaryDirectory() as folder:
            flags = "--max-seq-len 4096 --template alpaca --columns instruction=question,output=answer --json"
            flags += f" -o {folder}/out --workers {args.workers} --format {args.format}"
            flags += f" --compression {args.compression}"
            command = [sys.executable, "-m", "packtool", "pack", str(args.data), "--tokenizer", str(args.tokenizer)]
            wall, peak, out = watched([*command, *flags.split()], environment)
            shards = sum(path.stat().st_size for path in Path(f"{folder}/out").glob("shard-*/*"))
            shards += sum(path.stat().st_size for path in Path(f"{folder}/out").glob("shard-*.*"))
        summary = json.loads(out)
        walls.append(wall)
        peaks.append(peak)
        _, _, text = watched(
            [sys.executable, "-c", BARE, str(args.data), f"{args.tokenizer}/tokenizer.json"], environment
        )
        bares.append(json.loads(text))
    bare = min(item["encode"] for item in bares)
    loading = min(item["load"] for item in bares)
    bound = -(-summary["tokens"] // 4096)
    print(f"records {summary['records']:,}  tokens {summary['tokens']:,}  text {bares[0]['bytes'] / 1e6:.1f} MB")
    print(f"packs {summary['packs']:,}  bound {bound:,}  over the bound {summary['packs'] / bound - 1:.3%}")
    print(f"shards {shards / (summary['packs'] * 4096):.2f} bytes a slot")
    print(f"command {min(walls):.2f} s  bare encode {bare:.2f} s  ratio {min(walls) / bare:.2f}")
    print(f"ratio with the bare script's loading ({loading:.2f} s) counted: {min(walls) / (bare + loading):.2f}")
    print(f"peak resident memory over all processes {max(peaks) / 1e9:.3f} GB")
    print("stages", summary["seconds"])


if __name__ == "__main__":
    main()
