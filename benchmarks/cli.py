"""How quick the command line is, as ratios within one run: `python benchmarks/cli.py`.

Start-up: `tfcluster --help` and `tfcluster status` of a local job, over the help of a typer program
with two commands. Calls take turns, and medians are compared, so that a busy machine slows all
alike. Planning and rendering: what 10, 100, 1,000 and 10,000 tasks cost, each over ten times fewer.
Exit code 1 if a limit is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tfcluster.backends.kubernetes.plan import plan as plan_of_pods
from tfcluster.plan import Plan, Site, plan_job
from tfcluster.render import render_plan
from tfcluster.spec.loader import load_spec_text
from tfcluster.spec.model import JobSpec

ROOT = Path(__file__).parent.parent
SIZES = (10, 100, 1_000, 10_000)
HELP_LIMIT, STATUS_LIMIT, PLAN_LIMIT = 1.3, 2.0, 12.0

TWO_COMMANDS = '''
import typer

app = typer.Typer()


@app.command()
def hello(name: str = "world") -> None:
    """Say hello."""
    print(f"Hello {name}")


@app.command()
def goodbye(name: str = "world") -> None:
    """Say goodbye."""
    print(f"Goodbye {name}")


if __name__ == "__main__":
    app()
'''
JOB = """
name: bench
command: [python3, -c, "print('hello')"]
roles:
  worker: {replicas: 3}
"""


def call(argv: list[str], folder: Path, env: dict[str, str]) -> float:
    """Seconds of one call, start to end."""
    begun = time.perf_counter()
    subprocess.run(argv, cwd=folder, env=env, check=True, capture_output=True)
    return time.perf_counter() - begun


def start_up(folder: Path, rounds: int) -> dict[str, float]:
    """Median seconds per command; the commands take turns."""
    (folder / "two.py").write_text(TWO_COMMANDS)
    (folder / "cluster.yaml").write_text(JOB)
    env = {**os.environ, "TFCLUSTER_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    tfcluster = [sys.executable, "-m", "tfcluster"]
    call([*tfcluster, "up"], folder, env)
    commands = {
        "typer --help": [sys.executable, "two.py", "--help"],
        "tfcluster --help": [*tfcluster, "--help"],
        "tfcluster status": [*tfcluster, "status"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, argv in commands.items():
            seconds = call(argv, folder, env)
            if number:  # the first round warms the caches
                times[name].append(seconds)
    return {name: statistics.median(found) for name, found in times.items()}


def spec_of(size: int) -> JobSpec:
    return load_spec_text(
        "name: bench\ncommand: [python3, train.py]\n"
        f"roles: {{ps: {{replicas: 1}}, worker: {{replicas: {size - 1}}}}}\n"
    ).spec


def plan_of(spec: JobSpec) -> Plan:
    """The plan of a spec, written out as it is when a run starts; loading the spec is not in it."""
    site = Site(
        backend="local",
        python="python3",
        address=lambda role, index: (f"{role}-{index}:2222", f"{role}-{index}:2223"),
        logdir="logs",
        checkpoints="checkpoints",
    )
    plan = plan_job(spec, site)
    json.dumps(plan.to_dict())
    return plan


def pods_of(spec: JobSpec) -> Plan:
    """The plan of the same spec for a cluster."""
    return plan_of_pods(spec.model_copy(update={"image": "bench:1"}), None, Path("."))


def growth(work: Callable[[int], object], rounds: int) -> dict[int, float]:
    """Median seconds per size; the sizes take turns."""
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    for number in range(rounds + 1):
        for size in SIZES:
            begun = time.perf_counter()
            work(size)
            if number:
                times[size].append(time.perf_counter() - begun)
    return {size: statistics.median(found) for size, found in times.items()}


class Report:
    """A table of ratios, and whether all are within their limits."""

    def __init__(self) -> None:
        self.passed = True

    def line(self, what: str, seconds: float, ratio: float | None, limit: float | None) -> None:
        verdict = ""
        if ratio is not None and limit is not None:
            within = ratio <= limit
            self.passed = self.passed and within
            verdict = f"at most {limit:4.1f}  {'PASS' if within else 'FAIL'}"
        shown = f"{ratio:6.2f}" if ratio is not None else " " * 6
        print(f"{what:28} {seconds * 1000:9.1f} ms  {shown}  {verdict}".rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="calls per command")
    rounds = parser.parse_args().rounds
    report = Report()
    print(f"{'':28} {'median':>12}  {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        medians = start_up(Path(folder), rounds)
    base = medians["typer --help"]
    report.line("typer, two commands: --help", base, 1.0, None)
    report.line(
        "tfcluster --help",
        medians["tfcluster --help"],
        medians["tfcluster --help"] / base,
        HELP_LIMIT,
    )
    report.line(
        "tfcluster status",
        medians["tfcluster status"],
        medians["tfcluster status"] / base,
        STATUS_LIMIT,
    )
    specs = {size: spec_of(size) for size in SIZES}
    plans = {size: plan_of(spec) for size, spec in specs.items()}
    pods = {size: pods_of(spec) for size, spec in specs.items()}
    works: dict[str, Callable[[int], object]] = {
        "plan": lambda size: plan_of(specs[size]),
        "script": lambda size: render_plan(plans[size], "local"),
        "manifests": lambda size: render_plan(pods[size], "kubernetes"),
    }
    for name, work in works.items():
        before: float | None = None
        for size, seconds in growth(work, max(3, rounds // 3)).items():
            limit = PLAN_LIMIT if size == 1_000 else None
            ratio = None if before is None else seconds / before
            report.line(f"{name} {size:,} tasks", seconds, ratio, limit)
            before = seconds
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
