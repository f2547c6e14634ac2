"""System 1's chart for this machine: `python benchmarks/cnn.py --out cnn.svg`.

Time against images for the deep MNIST network, with batches of 50 and of 1,000 images: one process
with all cores, and two and three workers with one parameter server. The sides take turns (see
clusters.py); time is the time of their own turns.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from clusters import BenchmarkError, Running, Side
from svg import Line, Panel, draw

IMAGES_BETWEEN = 2000  # images of one worker between two exchanges
COMMON = {
    "model": "cnn",
    "optimizer": "sgd",
    "learning_rate": 0.01,
    "epochs": 1_000_000,
    "eval_every": 0,
    "log_format": "json",
    "log_every": 1,
    "log_seconds": 0,
}


def sides(batch: int) -> list[Side]:
    """One process, two workers, three workers, at this batch size."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    own = {**COMMON, "batch_size": batch}
    window = max(1, IMAGES_BETWEEN // batch)
    found = [Side("one process", {**own, "algorithm": "single", "threads": cores}, {})]
    for name, workers in (("two workers", 2), ("three workers", 3)):
        settings = {**own, "algorithm": "agn", "window": window}
        found.append(Side(name, settings, {"ps": 1, "worker": workers}))
    return found


def measure(batch: int, rounds: int, seconds: float, folder: Path) -> dict[str, Line]:
    """For each side its points (thousand images, seconds), one for every turn."""
    with ExitStack() as stack:
        running = []
        for side in sides(batch):
            print(f"batch {batch}: starting {side.name}", file=sys.stderr, flush=True)
            running.append(stack.enter_context(Running(side, folder)))
            running[-1].wait_for_lines(1, seconds=600)
            running[-1].hold()
        points: dict[str, Line] = {each.side.name: [(0.0, 0.0)] for each in running}
        for _ in range(rounds):
            for each in running:
                rate = each.slice(seconds).steps_per_second * batch
                images, spent = points[each.side.name][-1]
                points[each.side.name].append((images + rate * seconds / 1000, spent + seconds))
    return points


def rates(lines: dict[str, Line]) -> dict[str, float]:
    """Images per second of each side, over all its turns."""
    return {name: points[-1][0] * 1000 / points[-1][1] for name, points in lines.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("cnn.svg"), help="the chart")
    parser.add_argument("--batches", default="50,1000", help="batch sizes, a panel for each")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--seconds", type=float, default=8.0, help="least length of a turn")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    given = parser.parse_args()
    panels: list[Panel] = []
    found: dict[int, dict[str, Any]] = {}
    try:
        for batch in map(int, given.batches.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                lines = measure(batch, given.rounds, given.seconds, Path(folder))
            panels.append(Panel(f"{batch:,} images a step", lines))
            found[batch] = rates(lines)
    except BenchmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    svg = draw(panels, across="thousand images", up="seconds")
    given.out.write_text(svg, encoding="utf-8")
    if given.output == "json":
        print(json.dumps({"images_per_second": found, "chart": str(given.out)}, indent=2))
        return 0
    print(f"{'batch':>6}  {'':14} {'images/s':>9} {'over one process':>17}")
    for batch, own in found.items():
        for name, rate in own.items():
            print(f"{batch:6}  {name:14} {rate:9.1f} {rate / own['one process']:17.2f}")
    print(f"chart: {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
