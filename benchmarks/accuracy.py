"""Time from the first update to a test accuracy: the best that either side can do.

Scheme and learning rate of both sides are chosen on images that nobody trains on: the first 5,000
of the training set, in place of the test set. Then the chosen ones take turns with the real one.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from clusters import ROOT, BenchmarkError, Running, Side

CLUSTER = {"ps": 1, "worker": 2}
SHIPPED = ROOT / "trainer" / "data"
HELD_OUT = 5000  # the first so many training images; neither side trains on them
TARGET, QUICK_TARGET = 0.97, 0.90
LONGEST_SECONDS = 120.0  # of one run, start included; a rate that takes longer is not the best
STEPS_BETWEEN = 1000  # two evaluations, counted in batches of all workers
NEVER = float("inf")

# Weights from N(0, 1) never reach 0.97 in this network, so both sides start from scaled ones.
NETWORK = {"init": "scaled", "batch_size": 100, "epochs": 100}
OLD_RATES = (0.5, 1.0, 2.0, 3.0)
SCHEMES = {  # (algorithm, window): learning rates
    ("hogwild", 1): (1.0, 2.0),
    ("downpour-sgd", 10): (0.5, 1.0, 2.0),
    ("downpour-sgd", 40): (0.5, 1.0),
    ("agn", 10): (2.0, 4.0),
    ("aeasgd", 10): (0.2, 0.5),
    ("aeamsgd", 40): (0.2, 0.4, 0.6),
    ("aeamsgd", 100): (0.2, 0.4),
}
OLD_EVALUATION = re.compile(r"After ([\d.]+) s: Test-Accuracy: ([\d.]+)")


@dataclass(frozen=True)
class Comparison:
    """The chosen sides, and the seconds of each in every pair."""

    target: float
    ours: str
    other: str
    seconds: tuple[list[float], list[float]]


def time_to_accuracy(folder: Path, pairs: int, quick: bool) -> Comparison:
    """Choose, then measure; `quick` chooses nothing and is content with less accuracy."""
    target = QUICK_TARGET if quick else TARGET
    ours = our_sides()
    others = [old_side(rate) for rate in OLD_RATES]
    if quick:
        best, other = ours[0], others[1]
    else:
        held_out = held_out_data(folder / "held-out")
        best = quickest(ours, folder, held_out, target)
        other = quickest(others, folder, held_out, target)
    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(pairs):
        for side, column in zip((best, other), seconds, strict=True):
            column.append(seconds_to(side, folder, target))
            say(f"{side.name}: {column[-1]:.2f} s to {target:g}")
    if NEVER in seconds[0] + seconds[1]:
        raise BenchmarkError(f"{best.name} or {other.name} did not reach {target:g}")
    return Comparison(target, best.name, other.name, seconds)


def our_sides() -> list[Side]:
    sides = []
    for (algorithm, window), rates in SCHEMES.items():
        settings = {"algorithm": algorithm, "eval_every": STEPS_BETWEEN // window}
        if window > 1:
            settings["window"] = window
        name = algorithm if window == 1 else f"{algorithm}-{window}"
        for rate in rates:
            own = {**NETWORK, **settings, "learning_rate": rate}
            sides.append(Side(f"{name} rate {rate:g}", own, CLUSTER))
    return sides


def old_side(rate: float) -> Side:
    settings = {**NETWORK, "learning_rate": rate, "eval_every": STEPS_BETWEEN}
    return Side(f"baseline rate {rate:g}", settings, CLUSTER, old_style=True)


def quickest(sides: list[Side], folder: Path, held_out: Path, target: float) -> Side:
    """The side that reaches the target first on the images that were held out."""
    found: dict[str, float] = {}
    for side in sides:
        own = replace(side, settings={**side.settings, "data_dir": held_out})
        found[side.name] = seconds_to(own, folder, target)
        say(f"choosing: {side.name}: {found[side.name]:.2f} s to {target:g} on held-out images")
    return min(sides, key=lambda side: found[side.name])


def seconds_to(side: Side, folder: Path, target: float) -> float:
    """Seconds from the first update to an evaluation that reaches the target; or NEVER."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    wanted = replace(side, settings={**side.settings, "target_accuracy": target})
    try:
        with Running(wanted, folder) as running:
            running.wait_for_end("worker-0", LONGEST_SECONDS)
            lines = running.workers["worker-0"].lines
            result = running.logdir() / "result.json"
            found = _from_lines(lines, target) if side.old_style else _from_result(result, target)
    except BenchmarkError as error:
        say(str(error))
        found = NEVER
    shutil.rmtree(folder)
    return found


def held_out_data(folder: Path) -> Path:
    """A data folder whose test set is the part of the training set that was held out."""
    folder.mkdir()
    sums = []
    for kind, header, each in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        train = gzip.decompress((SHIPPED / f"train-{kind}-ubyte.gz").read_bytes())
        count = HELD_OUT.to_bytes(4, "big")
        test = train[:4] + count + train[8:header] + train[header : header + HELD_OUT * each]
        for name, content in ((f"train-{kind}-ubyte", train), (f"t10k-{kind}-ubyte", test)):
            (folder / f"{name}.gz").write_bytes(gzip.compress(content, 1))
            sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    return folder


def _from_result(path: Path, target: float) -> float:
    reached = json.loads(path.read_text(encoding="utf-8"))["time_to_accuracy"]
    return float(reached.get(f"{target:.2f}", NEVER))


def _from_lines(lines: list[str], target: float) -> float:
    found = [match.groups() for line in lines if (match := OLD_EVALUATION.match(line))]
    return min((float(s) for s, accuracy in found if float(accuracy) >= target), default=NEVER)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
