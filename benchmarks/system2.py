"""The table of system 2, from one command: `python benchmarks/system2.py`.

784-100-10 with sigmoid, weights from N(0, 1), SGD 0.001, batches of 100, as many epochs for every
worker: the more workers, the more updates, and the higher the accuracy in the end. Exit code 1 if
it does not rise from 1 to 2 to 3 workers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from clusters import BenchmarkError, Running, Side

SETTINGS = {
    "algorithm": "hogwild",
    "model": "mlp",
    "hidden": "100",
    "activation": "sigmoid",
    "init": "normal",
    "optimizer": "sgd",
    "learning_rate": 0.001,
    "batch_size": 100,
    "seed": 1,
    "eval_every": 0,
}
LONGEST_SECONDS = 3600.0


def train(workers: int, epochs: int, folder: Path) -> dict[str, Any]:
    """Train to the end; what result.json says about it."""
    settings = {**SETTINGS, "epochs": epochs}
    side = Side(f"{workers} workers", settings, {"ps": 1, "worker": workers})
    with Running(side, folder) as running:
        running.wait_for_end("worker-0", LONGEST_SECONDS)
        text = (running.logdir() / "result.json").read_text(encoding="utf-8")
    result: dict[str, Any] = json.loads(text)
    wanted = ("accuracy", "cost", "global_step", "train_seconds")
    return {"workers": workers, "epochs": epochs, **{name: result[name] for name in wanted}}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="passes of each worker")
    parser.add_argument("--workers", default="1,2,3", help="numbers of workers, rising")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    given = parser.parse_args()
    table = given.output == "table"
    if table:
        print(f"{'workers':>7} {'epochs':>6} {'updates':>8} {'seconds':>8} {'accuracy':>8}")
    found = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for workers in map(int, given.workers.split(",")):
                found.append(train(workers, given.epochs, Path(folder)))
                if table:
                    print(
                        "{workers:7} {epochs:6} {global_step:8} {train_seconds:8.1f} "
                        "{accuracy:8.4f}".format(**found[-1]),
                        flush=True,
                    )
    except BenchmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    rises = all(a["accuracy"] < b["accuracy"] for a, b in itertools.pairwise(found))
    if table:
        print(f"rises with the workers: {'PASS' if rises else 'FAIL'}")
    else:
        print(json.dumps({"rows": found, "rises": rises}, indent=2))
    return 0 if rises else 1


if __name__ == "__main__":
    sys.exit(main())
