"""A world of real launchers around small programs, without any backend."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tfcluster.launch.bundle import source
from tfcluster.launch.plan import PLAN_VERSION, control_address, tasks_of
from tfcluster.launch.wire import ask

KEY = bytes(range(32))
SERVE_FOR_EVER = (
    "import socket, time; server = socket.create_server(('127.0.0.1', $(PORT))); time.sleep(600)"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def role(argv: list[str], replicas: int = 1, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "replicas": replicas,
        "argv": argv,
        "env": {},
        "addresses": [f"127.0.0.1:{free_port()}" for _ in range(replicas)],
        "control": [f"127.0.0.1:{free_port()}" for _ in range(replicas)],
        "restarts": {"limit": 0, "on": None},
        "needs": [],
        "serves": False,
        "listens": False,
    }
    return {**base, **changes}


def ps(code: str = SERVE_FOR_EVER, **changes: Any) -> dict[str, Any]:
    return role(python(code), **{"serves": True, "listens": True, **changes})


def worker(code: str, replicas: int = 1, **changes: Any) -> dict[str, Any]:
    return role(python(code), replicas, **{"needs": ["ps"], **changes})


class World:
    """Launchers of one plan, with their records, in one folder."""

    def __init__(self, folder: Path, roles: dict[str, dict[str, Any]], **settings: Any):
        self.folder = folder
        self.plan: dict[str, Any] = {
            "version": PLAN_VERSION,
            "job": "test",
            "run": "run1",
            "success": ["worker"] if "worker" in roles else list(roles),
            "start_timeout": 20,
            "deadline": None,
            "stop_grace": 5,
            "barrier": "tasks",
            "bind": "127.0.0.1",
            "cluster_roles": [name for name in roles if name != "evaluator"],
            "roles": roles,
            **settings,
        }
        (folder / "launch.json").write_text(json.dumps(self.plan))
        (folder / "control.key").write_text(KEY.hex())
        # As containers get it: one file.
        self.launcher = folder / "launcher.py"
        self.launcher.write_text(source(), encoding="utf-8")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *tasks: str, interpreter: str = sys.executable, extra: tuple[str, ...] = ()):
        for task in tasks or tasks_of(self.plan):
            argv = [
                interpreter,
                "-I",
                str(self.launcher),
                "--plan",
                str(self.folder / "launch.json"),
            ]
            argv += ["--task", task, "--record", str(self.folder / f"{task}.json"), *extra]
            out, err = self.folder / f"{task}.out", self.folder / f"{task}.err"
            with open(out, "ab") as stdout, open(err, "ab") as stderr:
                self.processes[task] = subprocess.Popen(
                    argv, stdout=stdout, stderr=stderr, start_new_session=True
                )
        return self

    def wait(self, task: str, timeout: float = 60) -> int:
        return self.processes[task].wait(timeout)

    def codes(self, timeout: float = 60) -> dict[str, int]:
        return {task: self.wait(task, timeout) for task in self.processes}

    def record(self, task: str) -> dict[str, Any]:
        return json.loads((self.folder / f"{task}.json").read_text())

    def ask(self, task: str, **message: Any) -> dict[str, Any]:
        address = control_address(self.plan, task)
        return ask(address, KEY, task, message or {"ask": "state"})

    def table(self, task: str) -> dict[str, Any]:
        """What the hub knows of all tasks, asked through this one."""
        return self.ask(task, ask="job")

    def out(self, task: str) -> bytes:
        return (self.folder / f"{task}.out").read_bytes()

    def err(self, task: str) -> str:
        return (self.folder / f"{task}.err").read_text()

    def state_becomes(self, task: str, *states: str) -> dict[str, Any]:
        def there() -> bool:
            try:
                return self.record(task)["state"] in states
            except FileNotFoundError:
                return False

        until(there, f"{task} to become {' or '.join(states)}")
        return self.record(task)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)


def pour(connect: Callable[[], socket.socket], amount: int) -> None:
    """Send so many bytes of garbage, over a new connection whenever one is closed."""
    block = b"x" * (1 << 20)
    while amount > 0:
        with connect() as connection, contextlib.suppress(ConnectionError):
            while amount > 0:
                amount -= connection.send(block)


@contextlib.contextmanager
def many_files(count: int) -> Iterator[None]:
    """Room for so many open files in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def until(
    condition: Callable[[], Any], what: str, timeout: float = 60, pause: float = 0.02
) -> None:
    """Wait for a named condition."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:g} s for {what}"
        time.sleep(pause)
