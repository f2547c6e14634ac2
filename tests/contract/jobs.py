"""A job for a contract test: a spec from a dict, brought up for real, always cleaned up."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.launchers import until
from tfcluster.archive import Run
from tfcluster.backends import Backend, load_backend
from tfcluster.converge import Deployment, bring_down, deploy
from tfcluster.events import JobStatus, LogQuery, Observed
from tfcluster.spec.loader import load_spec

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
    "local": Surroundings(sys.executable, "127.0.0.1", 1),
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

    def becomes(self, condition: Callable[[JobStatus], Any], what: str) -> JobStatus:
        until(lambda: condition(self.status()), f"{what}; it is {self.status()}", timeout=60)
        return self.status()

    def over(self) -> JobStatus:
        return self.becomes(lambda status: status.over, "the job to be over")

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

    def kill_program(self, task: str) -> None:
        pid = self.task(task).pid
        assert pid is not None
        if self.backend_name == "local":
            os.kill(pid, signal.SIGKILL)
        else:
            assert self.run is not None
            assert self.backend.exec(self.run, task, ["sh", "-c", f"kill -9 {pid}"]) == 0

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
