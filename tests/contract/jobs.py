"""A job for a contract test: a spec from a dict, brought up for real, always cleaned up."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.launchers import until
from tfcluster.archive import Run
from tfcluster.backends import Backend, load_backend
from tfcluster.converge import Deployment, bring_down, deploy
from tfcluster.events import JobStatus, LogQuery, Observed
from tfcluster.launch.plan import control_address
from tfcluster.spec.loader import load_spec

# A program that holds still here until the test lets it go on; see Job.let_go.
HOLD = (
    "import os, time\n"
    "print('up', flush=True)\n"
    "gate = os.path.join(os.environ['TFCLUSTER_LOGDIR'], os.environ['TFCLUSTER_TASK'] + '.go')\n"
    "while not os.path.exists(gate): time.sleep(0.05)\n"
)
LET_GO = 'mkdir -p "$TFCLUSTER_LOGDIR" && touch "$TFCLUSTER_LOGDIR/$TFCLUSTER_TASK.go"'
SERVE = (
    "import socket, time; server = socket.create_server(('{}', $(PORT))); "
    "print('serving', flush=True); time.sleep(600)"
)


@dataclass(frozen=True)
class Surroundings:
    """What differs between backends in a test."""

    python: str
    listens_on: str
    short: float  # a start_timeout that is over soon, but not before every task has started
    settings: dict[str, Any] = field(default_factory=dict)


BACKENDS = {
    "local": Surroundings(sys.executable, "127.0.0.1", 4),
    "docker": Surroundings("python3", "", 8, {"image": "python:3.11-slim"}),
    "kubernetes": Surroundings("python3", "", 20, {"image": "python:3.11-slim"}),
}


class Job:
    """One spec on one backend."""

    def __init__(self, backend: str, folder: Path, name: str = "contract"):
        self.name, self.folder = name, folder
        self.backend_name = backend
        self.backend: Backend = load_backend(backend)
        self.surroundings = BACKENDS[backend]
        self.run: Run | None = None

    def python(self, code: str) -> list[str]:
        return [self.surroundings.python, "-c", code]

    @property
    def serve(self) -> str:
        """A ps that listens and serves for ever."""
        return SERVE.format(self.surroundings.listens_on)

    def spec(
        self, worker: str, *, ps: str | None = "serve", workers: int = 2, **settings: Any
    ) -> dict:
        roles: dict[str, Any] = {"worker": {"replicas": workers, "command": self.python(worker)}}
        if ps is not None:
            roles["ps"] = {"command": self.python(self.serve if ps == "serve" else ps)}
        for role, changes in settings.pop("roles", {}).items():
            roles.setdefault(role, {}).update(changes)
        return self.spec_of(roles, **settings)

    def spec_of(self, roles: dict[str, Any], **settings: Any) -> dict:
        """A spec of any roles."""
        return {
            "name": self.name,
            "backend": self.backend_name,
            "start_timeout": 20,
            "stop_grace": 3,
            "roles": roles,
            **self.surroundings.settings,
            **settings,
        }

    def up(self, spec: dict, *, same_run: bool = False) -> Deployment:
        path = self.folder / "cluster.yaml"
        path.write_text(json.dumps(spec))
        made = deploy(load_spec(path), folder=self.folder, same_run=same_run)
        self.run = made.run
        return made

    def status(self) -> JobStatus:
        assert self.run is not None
        return self.backend.observe(self.run)

    def task(self, name: str) -> Observed:
        return next(task for task in self.status().tasks if task.task == name)

    def becomes(
        self, condition: Callable[[JobStatus], Any], what: str, timeout: float = 60
    ) -> JobStatus:
        until(lambda: condition(self.status()), f"{what}; it is {self.status()}", timeout)
        return self.status()

    def over(self, timeout: float = 60) -> JobStatus:
        return self.becomes(lambda status: status.over, "the job to be over", timeout)

    def task_is(self, name: str, *states: str) -> Observed:
        self.becomes(
            lambda _: self.run is not None and self.task(name).state in states,
            f"{name} to be {' or '.join(states)}",
        )
        return self.task(name)

    def log(self, *tasks: str, **query: Any) -> bytes:
        """The program's bytes, without what the launcher says itself."""
        assert self.run is not None
        lines = self.backend.logs(self.run, LogQuery(tasks=tasks, **query))
        return b"".join(
            line.data + (b"\n" if line.complete else b"")
            for line in lines
            if not line.data.startswith(b"tfcluster:")
        )

    def says(self, task: str, text: bytes) -> None:
        until(lambda: text in self.log(task), f"{task} to say {text!r}", timeout=60)

    def let_go(self, *tasks: str) -> None:
        """Let the programs of these tasks go on from where they HOLD."""
        assert self.run is not None
        for task in tasks:
            assert self.backend.exec(self.run, task, ["sh", "-c", LET_GO]) == 0

    def kill_program(self, task: str) -> None:
        pid = self.task(task).pid
        assert pid is not None
        if self.backend_name == "local":
            os.kill(pid, signal.SIGKILL)
        else:
            assert self.run is not None
            assert self.backend.exec(self.run, task, ["sh", "-c", f"kill -9 {pid}"]) == 0

    # -- Faults of a task's launcher. Each backend's tests have a subclass with the other ways.

    def launcher_pid(self, task: str) -> int:
        assert self.run is not None
        record = self.run.files.read_task(task)
        assert record is not None and record["launcher"]["pid"] is not None
        return record["launcher"]["pid"]

    def kill_launcher(self, task: str) -> None:
        os.kill(self.launcher_pid(task), signal.SIGKILL)

    def pause(self, task: str) -> None:
        """Stop the launcher and its program, as `docker pause` would."""
        for pid in (self.task(task).pid, self.launcher_pid(task)):
            if pid is not None:
                os.kill(pid, signal.SIGSTOP)

    def resume(self, task: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            for pid in (self.launcher_pid(task), self.task(task).pid):
                if pid is not None:
                    os.kill(pid, signal.SIGCONT)

    def cut_off(self, task: str) -> None:
        """Keep every packet from and to the task's control port. Needs iptables."""
        self.change_rules("-I", task)

    def heal(self, task: str) -> None:
        self.change_rules("-D", task)

    def change_rules(self, action: str, task: str) -> None:
        assert self.run is not None
        if os.getuid() != 0 or shutil.which("iptables") is None:
            pytest.skip("cutting off a local task needs root and iptables")
        port = str(control_address(self.run.files.require_launch(), task)[1])
        for side in ("--dport", "--sport"):
            rule = ["OUTPUT", "-o", "lo", "-p", "tcp", side, port, "-j", "DROP"]
            made = subprocess.run(["iptables", "-w", action, *rule], capture_output=True, text=True)
            if made.returncode != 0:
                pytest.skip(f"iptables: {made.stderr.strip()}")

    def identity(self, task: str) -> tuple[Any, ...]:
        """What tells a task's process from a later one of the same task."""
        assert self.run is not None
        record = json.loads((self.run.path / "tasks" / f"{task}.json").read_text())
        return record.get("container"), self.task(task).pid

    def identity_of_running(self, task: str) -> tuple[Any, ...]:
        self.task_is(task, "running", "serving")
        return self.identity(task)

    def down(self) -> None:
        if self.run is not None:
            bring_down(self.run, grace=3)
