"""Real tasks of a real cluster, as processes on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.settings import settings_from

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # seconds, for a machine that does other things as well


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


def trainer_env(**more: str) -> dict[str, str]:
    """The environment of a task, without anything of a surrounding run."""
    drop = ("TF_CONFIG", "TFCLUSTER_", "PYTEST_", "COV_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(drop)}
    return {**env, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


def run_alone(*arguments: object, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """`python -m trainer ...` with no cluster, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "trainer", *map(str, arguments)],
        env=trainer_env(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def train_here(folder: Path, **settings: object) -> None:
    """Train alone in this process, with checkpoints in the folder: no import to wait for."""
    from trainer.algorithms import load_algorithm
    from trainer.cluster import ClusterInfo
    from trainer.data import load_mnist
    from trainer.job import Job
    from trainer.loop import train
    from trainer.run import Run

    made, alone = settings_from(settings), ClusterInfo()
    train(Run(Job(made, alone, load_algorithm(made, alone), load_mnist(), checkpoints=folder)))


class Cluster:
    """Starts, kills and restarts tasks, each with its own TF_CONFIG and log file."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], **roles: int) -> None:
        self.folder = folder
        self.logdir, self.checkpoints = folder / "logs", folder / "checkpoints"
        self._flags = [f"--{k}={v}" for k, v in settings.items()]
        self._flags += [f"--logdir={self.logdir}", f"--checkpoints={self.checkpoints}"]
        ports = iter(free_ports(sum(roles.values())))
        self.jobs = {r: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for r, n in roles.items()}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._attempts: dict[str, int] = {}

    @property
    def tasks(self) -> list[str]:
        return [f"{role}-{i}" for role, hosts in self.jobs.items() for i in range(len(hosts))]

    def start(self, *tasks: str) -> None:
        """Start these tasks (all if none is named), or start them again."""
        for task in tasks or self.tasks:
            role, _, index = task.rpartition("-")
            attempt = self._attempts.get(task, -1) + 1
            self._attempts[task] = attempt
            config = {"cluster": self.jobs, "task": {"type": role, "index": int(index)}}
            env = trainer_env(
                TF_CONFIG=json.dumps(config),
                TFCLUSTER_TASK=task,
                TFCLUSTER_RUN="test",
                TFCLUSTER_ATTEMPT=str(attempt),
                CUDA_VISIBLE_DEVICES="",
            )
            with open(self.folder / f"{task}.log", "ab") as log:
                self._processes[task] = subprocess.Popen(
                    [sys.executable, "-m", "trainer", *self._flags],
                    env=env,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )

    def kill(self, task: str) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._processes[task].kill()
        self._processes[task].wait(10)

    def signal(self, task: str, number: int) -> None:
        """Send a signal."""
        self._processes[task].send_signal(number)

    def terminate(self, task: str) -> int:
        """SIGTERM; the exit code."""
        self._processes[task].send_signal(signal.SIGTERM)
        return self._processes[task].wait(10)

    def wait(self, task: str, seconds: float = PATIENCE) -> int:
        """The exit code of a task that ends by itself."""
        try:
            return self._processes[task].wait(seconds)
        except subprocess.TimeoutExpired:
            logs = "\n".join(f"--- {t}\n{self.log(t)[-2000:]}" for t in self.tasks)
            raise AssertionError(f"{task} did not end within {seconds} s\n{logs}") from None

    def log(self, task: str) -> str:
        path = self.folder / f"{task}.log"
        return path.read_text() if path.exists() else ""

    def progress(self, task: str) -> list[dict[str, Any]]:
        """The progress lines of a task so far that tell a step."""
        prefix = "tfcluster-progress "
        lines = self.log(task).splitlines(keepends=True)
        return [
            json.loads(line[len(prefix) :])
            for line in lines
            if line.startswith(prefix) and line.endswith("\n") and '"step"' in line
        ]

    def phases(self, task: str) -> list[str | None]:
        """What a task has said to be at, in order."""
        found = re.findall(r'^tfcluster-progress (\{"phase": .*\})$', self.log(task), re.MULTILINE)
        return [json.loads(text)["phase"] for text in found]

    def wait_for_line(self, task: str, text: str, seconds: float = PATIENCE) -> None:
        """Until the task has said this."""
        deadline = time.monotonic() + seconds
        while text not in self.log(task):
            assert time.monotonic() < deadline, f"{task} never said {text!r}:\n{self.log(task)}"
            time.sleep(0.05)

    def wait_for_step(self, task: str, step: int, seconds: float = PATIENCE) -> None:
        """Until the task has reported this step."""
        deadline = time.monotonic() + seconds
        while not any(p["step"] >= step for p in self.progress(task)):
            ended = self._processes[task].poll()
            assert ended is None, f"{task} ended with {ended}:\n{self.log(task)}"
            assert time.monotonic() < deadline, f"{task} never got to {step}:\n{self.log(task)}"
            time.sleep(0.05)

    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.logdir / "result.json").read_text())
        return result

    def close(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait(10)
