"""What the control plane costs per task: real launchers of `sleep`, and simulated ones.

    python benchmarks/control.py [--sizes 25,50,100,200,400] [--seconds 30] [--simulated 10000]

Per size: CPU seconds and peak memory per launcher, and how long after its last worker the job was
over. The limits are ratios within this run and constants of the protocol, so they hold on any
machine; the exit code is 1 if one is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.simulation.world import Faults, World  # noqa: E402
from tfcluster.backends.keeping import python_running  # noqa: E402
from tfcluster.backends.local.resources import free_ports  # noqa: E402
from tfcluster.launch.neighbours import MOST_VISITORS  # noqa: E402
from tfcluster.launch.plan import PLAN_VERSION, tasks_of  # noqa: E402
from tfcluster.launch.proof import make_key  # noqa: E402
from tfcluster.launch.ranks import MOST_CHILDREN  # noqa: E402

MOST_GROWTH = 1.5  # CPU per task of the largest job over that of the smallest
MOST_LATE = 10.0  # seconds from the end of the last worker to the end of the job
MOST_MEMORY = 20.0  # MB per launcher
MOST_MESSAGES = 100  # per simulated task
MOST_CONNECTIONS = MOST_CHILDREN + MOST_VISITORS + 2  # of one task, by the protocol


def write_plan(folder: Path, workers: int, seconds: float) -> dict:
    """One ps and so many workers, all of which only sleep."""
    ports = iter(free_ports(2 * (workers + 1), range(20000, 32000), set()))

    def role(count: int, **changes: object) -> dict:
        return {
            "replicas": count,
            "argv": ["sleep", str(seconds)],
            "env": {},
            "addresses": [f"127.0.0.1:{next(ports)}" for _ in range(count)],
            "control": [f"127.0.0.1:{next(ports)}" for _ in range(count)],
            "restarts": {"limit": 0, "on": None},
            "needs": [],
            "serves": False,
            "listens": False,
            **changes,
        }

    plan = {
        "version": PLAN_VERSION,
        "job": "sleepers",
        "run": "bench",
        "success": ["worker"],
        "start_timeout": 300,
        "deadline": None,
        "stop_grace": 5,
        "barrier": "tasks",
        "bind": "127.0.0.1",
        "cluster_roles": ["ps", "worker"],
        "roles": {
            "ps": role(1, serves=True, argv=["sleep", "100000"]),
            "worker": role(workers),
        },
    }
    (folder / "launch.json").write_text(json.dumps(plan))
    (folder / "control.key").write_text(make_key().hex())
    return plan


def peak_memory(pid: int) -> int:
    """KiB that a process has ever used. What wait4 says would include our own, as it forks."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if "VmHWM" in line), 0)


def measure(workers: int, seconds: float) -> dict[str, float]:
    """Start every launcher, wait for all, and add up what the system says that they used."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        plan = write_plan(folder, workers, seconds)
        processes = {}
        with open(folder / "output", "ab") as output:
            for task in tasks_of(plan):  # type: ignore[arg-type]
                argv = [*python_running("tfcluster.launch.__main__")]
                argv += ["--plan", str(folder / "launch.json"), "--task", task]
                argv += ["--record", str(folder / f"{task}.json")]
                started = subprocess.Popen(argv, stdout=output, stderr=output)
                processes[started.pid] = task
        used, memory, codes = 0.0, 0, []
        ends = {}
        while processes:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            task = processes.pop(pid, None)
            if task is not None:
                ends[task] = time.time()
                used += usage.ru_utime + usage.ru_stime
                codes.append(os.waitstatus_to_exitcode(status))
            elif pid == 0:
                memory = max([memory, *map(peak_memory, processes)])
                time.sleep(0.1)
        records = [json.loads((folder / f"worker-{n}.json").read_text()) for n in range(workers)]
        last_worker = max(record["ended"] for record in records)
        if any(codes):
            raise SystemExit(f"{workers} workers: exit codes {sorted(set(codes))}")
    return {
        "cpu": used / (workers + 1),
        "late": max(ends.values()) - last_worker,
        "memory": memory / 1024,
    }


def simulate(tasks: int) -> dict[str, float]:
    """Ten thousand tasks with deaths, replacements, pauses and cuts, on simulated time."""
    faults = Faults(kills=30, pauses=20, cuts=20)
    world = World(1, {"ps": 4, "worker": tasks - 4}, serving={"ps"}, faults=faults)
    begun = time.perf_counter()
    world.run(1000.0)
    open_tasks = [world.names[node.rank] for node in world.nodes if node.outcome is None]
    if open_tasks:
        raise SystemExit(f"simulated: {len(open_tasks)} tasks never ended: {open_tasks[:5]}")
    sent = sorted(node.sent for node in world.nodes)
    return {
        "mean": sum(sent) / len(sent),
        "most": sent[-1],
        "connections": max(node.most_links for node in world.nodes),
        "attempts": sum(node.connects for node in world.nodes) / len(world.nodes),
        "seconds": time.perf_counter() - begun,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="25,50,100,200,400")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--simulated", type=int, default=10_000)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    broken = []
    found = {}
    print(f"{'workers':>8} {'CPU s/task':>11} {'growth':>7} {'over after':>11} {'memory':>8}")
    for size in sizes:
        found[size] = measure(size, options.seconds)
        row = found[size]
        growth = row["cpu"] / found[sizes[0]]["cpu"]
        print(
            f"{size:8} {row['cpu']:11.3f} {growth:6.2f}x"
            f" {row['late']:9.1f} s {row['memory']:5.1f} MB",
            flush=True,
        )
        if growth > MOST_GROWTH:
            broken.append(f"{size} workers: CPU per task grew {growth:.2f} times")
        if row["late"] > MOST_LATE:
            broken.append(f"{size} workers: over {row['late']:.1f} s after the last worker")
        if row["memory"] > MOST_MEMORY:
            broken.append(f"{size} workers: {row['memory']:.1f} MB per launcher")
    if options.simulated:
        row = simulate(options.simulated)
        print(
            f"{options.simulated} simulated: {row['mean']:.0f} messages per task,"
            f" {row['connections']:.0f} connections at most (of {MOST_CONNECTIONS}),"
            f" {row['attempts']:.1f} attempts per task"
            f" ({row['seconds']:.0f} s)"
        )
        if row["mean"] > MOST_MESSAGES or row["connections"] > MOST_CONNECTIONS:
            broken.append("the simulated job: messages or connections are not bounded")
    for words in broken:
        print(f"limit not kept: {words}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
