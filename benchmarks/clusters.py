"""Clusters of real processes on this machine that can be watched, held and measured.

Two clusters are compared in slices: one trains while the other is held by SIGSTOP, then the other
way round. Both therefore see the same machine, busy or not, within seconds of each other, and what
it takes to start them is in no slice.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 180.0  # for a cluster to make its first steps, on a machine with other work
SETTLE_SECONDS = 0.3  # after SIGCONT, before a slice counts
LONGEST_SECONDS = 180.0  # a turn may take so long until every worker has spoken

OLD_LINE = re.compile(r"Step: \d+,  Epoch: +(\d+),  Batch: +(\d+) of +(\d+)")
NOTICE = re.compile(r"port\.cc|absl::InitializeLog|Instructions for updating|non-resource")


class BenchmarkError(Exception):
    """A cluster did not do what it was started for."""


class SideFailed(BenchmarkError):
    """One side's processes ended or did not go on."""

    def __init__(self, side: Side, text: str) -> None:
        super().__init__(f"{side.name}: {text}")
        self.side = side


@dataclass(frozen=True)
class Side:
    """One side of a comparison: what to run, on how many tasks of which role."""

    name: str
    settings: Mapping[str, Any]
    roles: Mapping[str, int]  # empty: one process alone
    old_style: bool = False

    @property
    def batch_size(self) -> int:
        return int(self.settings.get("batch_size", 100))


@dataclass(frozen=True)
class Slice:
    """What a cluster did while it was looked at."""

    steps_per_second: float  # batches, all workers added
    cpu_per_step: float  # CPU-seconds, all tasks added, parameter servers included


@dataclass
class Worker:
    """What one worker has said so far."""

    spoken: list[tuple[float, int]] = field(default_factory=list)  # (when, steps it has made)
    lines: list[str] = field(default_factory=list)

    def between(self, start: float, end: float) -> list[tuple[float, int]]:
        return [each for each in self.spoken if start <= each[0] <= end]


class Running:
    """The processes of one side, from start to kill."""

    def __init__(self, side: Side, folder: Path) -> None:
        self.side = side
        self._folder = folder / side.name.replace(" ", "-").replace(",", "")
        self._folder.mkdir(parents=True, exist_ok=True)
        ports = iter(free_ports(sum(side.roles.values())))
        self._hosts = {
            role: [f"127.0.0.1:{next(ports)}" for _ in range(count)]
            for role, count in side.roles.items()
        }
        self.workers: dict[str, Worker] = {}
        self.processes: dict[str, psutil.Popen] = {}

    def __enter__(self) -> Running:
        try:
            for role, index in self._tasks():
                self._start(role, index)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill every process of this side, and no other."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        for process in self.processes.values():
            process.wait()

    def hold(self) -> None:
        """Let nothing of this side run until `go`."""
        self._signal(signal.SIGSTOP)

    def go(self) -> None:
        """Let this side run."""
        self._signal(signal.SIGCONT)

    def wait_for_lines(
        self, count: int, after: float = 0.0, seconds: float = START_SECONDS
    ) -> None:
        """Until every worker has spoken so many times."""
        deadline = time.monotonic() + seconds
        now = time.monotonic
        while any(len(w.between(after, now())) < count for w in self.workers.values()):
            self._refuse_the_dead()
            if now() > deadline:
                raise self._failed(f"too few steps in {seconds:g} s")
            time.sleep(0.02)

    def wait_for_end(self, task: str, seconds: float) -> None:
        """Until the task has ended by itself, and well."""
        try:
            code = self.processes[task].wait(seconds)
        except psutil.TimeoutExpired:
            raise self._failed(f"{task} did not end within {seconds:g} s") from None
        if code:
            raise self._failed(f"{task} ended with {code}")

    def slice(self, seconds: float) -> Slice:
        """Run for some seconds, at least until every worker has spoken thrice, and look."""
        self.go()
        time.sleep(SETTLE_SECONDS)
        start, cpu_before = time.monotonic(), self._cpu_seconds()
        time.sleep(seconds)
        self.wait_for_lines(3, after=start, seconds=LONGEST_SECONDS)
        end, cpu_after = time.monotonic(), self._cpu_seconds()
        self.hold()
        rate = 0.0
        for worker in self.workers.values():
            (first, before), *_, (last, after) = worker.between(start, end)
            rate += (after - before) / (last - first)
        return Slice(rate, (cpu_after - cpu_before) / (end - start) / rate)

    def logdir(self) -> Path:
        return self._folder / "logs"

    def _tasks(self) -> list[tuple[str, int]]:
        if not self._hosts:
            return [("worker", 0)]
        return [(role, i) for role, hosts in self._hosts.items() for i in range(len(hosts))]

    def _start(self, role: str, index: int) -> None:
        task = f"{role}-{index}"
        with open(self._folder / f"{task}.err", "wb") as errors:
            process = psutil.Popen(
                self._command(role, index),
                env=self._environment(role, index),
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.processes[task] = process
        worker = Worker()
        if role != "ps":
            self.workers[task] = worker
        threading.Thread(target=_listen, args=(process.stdout, worker), daemon=True).start()

    def _command(self, role: str, index: int) -> list[str]:
        flags = [f"--{name}={value}" for name, value in self.side.settings.items()]
        if not self.side.old_style:
            return [sys.executable, "-m", "trainer", *flags, f"--logdir={self.logdir()}"]
        flags += [f"--{role}_hosts={','.join(hosts)}" for role, hosts in self._hosts.items()]
        flags += [f"--job_name={role}", f"--task_index={index}"]
        flags += [f"--logs_path={self.logdir() / f'{role}-{index}'}"]
        return [sys.executable, str(ROOT / "benchmarks" / "baseline.py"), *flags]

    def _environment(self, role: str, index: int) -> dict[str, str]:
        env = clean_environment()
        if self._hosts and not self.side.old_style:
            config = {"cluster": self._hosts, "task": {"type": role, "index": index}}
            env["TF_CONFIG"] = json.dumps(config)
        return env

    def _cpu_seconds(self) -> float:
        times = [process.cpu_times() for process in self.processes.values()]
        return sum(each.user + each.system for each in times)

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(number)

    def _refuse_the_dead(self) -> None:
        for task, process in self.processes.items():
            if process.poll() is not None:
                raise self._failed(f"{task} ended with {process.returncode}")

    def _failed(self, text: str) -> SideFailed:
        """With the last lines of every task's stderr."""
        said = []
        for file in sorted(self._folder.glob("*.err")):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            own = [line for line in lines if not NOTICE.search(line)]
            said += [f"\n  {file.stem}: {line}" for line in own[-3:]]
        return SideFailed(self.side, text + "".join(said))


def clean_environment() -> dict[str, str]:
    """The environment of a task: nothing of a surrounding run, no GPU, this checkout."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "TFCLUSTER_"))}
    own = {"CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)}
    return {**env, **own}


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on right now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def steps_in(line: str) -> int | None:
    """How many steps its worker has made, if this log line says so."""
    if found := OLD_LINE.match(line):
        epoch, batch, batches = map(int, found.groups())
        return (epoch - 1) * batches + batch
    if line.startswith("{"):
        step = json.loads(line).get("step")
        return int(step) if step is not None else None
    return None


def _listen(stream: Any, worker: Worker) -> None:
    for line in stream:
        when = time.monotonic()
        worker.lines.append(line.rstrip("\n"))
        steps = steps_in(line)
        if steps is not None:
            worker.spoken.append((when, steps))
