"""How fast logs are streamed and read, as ratios within one run: `python benchmarks/logs.py`.

Three programs that print as fast as they can: under `tfcluster up`, which keeps and shows every
line, against pipes into `cat`. Then `tfcluster logs` against the least that a script would do:
merge the files by time and print each line with its task. Sides take turns, and ratios are taken
within a pair. No line may be missing. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from table import HEAD, Limit, Row

ROOT = Path(__file__).parent.parent
TASKS = 3
READ_LIMIT = 5.0  # it also reads times, leaves progress out and takes escape sequences out
PRINTS = "for n in range({lines}): print(f'line {{n}} of a training run, cost 0.123')"
SPEC = """\
name: talk
command: [{python}, -c, {program}]
roles: {{worker: {{replicas: {tasks}}}}}
"""
MERGES = """\
import heapq, pathlib, sys
def lines(path):
    task = path.name.split(".")[0].encode()
    with open(path, "rb") as file:
        for record in file:
            stamp, _, _, text = record.split(b" ", 3)
            yield stamp, task, text
out = sys.stdout.buffer
for _, task, text in heapq.merge(*map(lines, sorted(pathlib.Path(sys.argv[1]).glob("*.log")))):
    out.write(task + b" | " + text)
"""


def quoted(text: str) -> str:
    """As a YAML string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def seconds(argv: list[str], folder: Path, output: str) -> float:
    """Seconds of one call, start to end, its output in a file."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    env |= {"TFCLUSTER_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    with open(folder / output, "wb") as file:
        begun = time.perf_counter()
        subprocess.run(argv, cwd=folder, env=env, check=True, stdout=file, stderr=file)
        return time.perf_counter() - begun


def measure(folder: Path, lines: int, pairs: int) -> list[Row]:
    program = PRINTS.format(lines=lines)
    spec = SPEC.format(python=quoted(sys.executable), program=quoted(program), tasks=TASKS)
    (folder / "cluster.yaml").write_text(spec, encoding="utf-8")
    (folder / "merge.py").write_text(MERGES, encoding="utf-8")
    tfcluster = [sys.executable, "-m", "tfcluster"]
    alone = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} | cat > /dev/null"
    pipes = ["sh", "-c", f"{alone} & " * TASKS + "wait"]
    columns: list[list[float]] = [[], [], [], []]
    for number in range(pairs + 1):
        turn = [
            seconds([*tfcluster, "up"], folder, "up.txt"),
            seconds(pipes, folder, "pipes.txt"),
            seconds([*tfcluster, "logs"], folder, "ours.txt"),
        ]
        newest = max((folder / "home").rglob("worker-0.0.log"), key=os.path.getmtime)
        merge = [sys.executable, "merge.py", str(newest.parent)]
        turn.append(seconds(merge, folder, "other.txt"))
        for name in ("up.txt", "ours.txt", "other.txt"):
            found = (folder / name).read_bytes().count(b"of a training run")
            if found != TASKS * lines:
                raise SystemExit(
                    f"error: lines are missing: {name} has {found:,} lines of {TASKS * lines:,}"
                )
        if number:  # the first round warms the caches
            for column, value in zip(columns, turn, strict=True):
                column.append(value)
    up, piped, ours, other = columns
    return [
        Row("up, live", "pipes into cat", Limit("seconds"), up, piped),
        Row("logs, afterwards", "a merging script", Limit("seconds", most=READ_LIMIT), ours, other),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lines", type=int, default=50_000, help="that each of the tasks prints")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), given.lines, given.pairs)
    print("\n".join([HEAD, *map(str, rows)]))
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
