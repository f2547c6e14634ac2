"""The engine of a local run: starts the launchers and replaces one that was killed.

It plays the part that dockerd or the kubelet play elsewhere, so that a run outlives the command
that started it. It owns nothing that is not on disk: a later keeper of the same run adopts the
launchers it finds alive, and `tfcluster down` works without any keeper.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tfcluster import launcher
from tfcluster.archive import Run, read_json
from tfcluster.backends.keeping import alive, announce_keeper, last_lines, next_attempt
from tfcluster.events import ENDED

POLL = 0.05
LAUNCHER = Path(launcher.__file__)


class Keeper:
    """Watches every task of one run until all of them are over."""

    def __init__(self, run: Run):
        self.run = run
        self.plan: dict[str, Any] = read_json(run.path / "launch.json")
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.open = launcher.tasks_of(self.plan)

    def keep(self) -> None:
        for task in self.open:
            if not alive(self.record(task).get("launcher")):
                self.start_unless_over(task)
        announce_keeper(self.run)
        while self.open:
            self.open = [task for task in self.open if not self.is_over(task)]
            time.sleep(POLL)

    def record(self, task: str) -> dict[str, Any]:
        return read_json(self.run.path / "tasks" / f"{task}.json") or {}

    def start_unless_over(self, task: str) -> None:
        record = self.record(task)
        if record.get("state") not in ENDED:
            self.start(task, attempt=next_attempt(self.run, task), failures=0)

    def start(self, task: str, *, attempt: int, failures: int) -> None:
        folder = self.run.path
        argv = [sys.executable, "-I", str(LAUNCHER), "--plan", str(folder / "launch.json")]
        argv += ["--task", task, "--log", str(self.run.logs)]
        argv += ["--record", str(folder / "tasks" / f"{task}.json")]
        argv += ["--events", str(self.run.events_path)]
        argv += ["--attempt", str(attempt), "--restarts-used", str(failures)]
        self.children[task] = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def is_over(self, task: str) -> bool:
        """Whether the task has ended for good; a launcher that was killed is replaced here."""
        child = self.children.get(task)
        if child is not None and child.poll() is None:
            return False
        record = self.record(task)
        if child is None and alive(record.get("launcher")):
            return False
        if record.get("state") in ENDED:
            return True
        return self.replace(task, record, child.returncode if child else None)

    def replace(self, task: str, record: dict[str, Any], returncode: int | None) -> bool:
        program = record.get("program") or {}
        if alive(program):
            launcher.signal_group(program["pid"], signal.SIGKILL)
        code = launcher.exit_code_of(returncode) if returncode is not None else 137
        reason = f"its launcher was {launcher.describe_exit(code)}"
        failures = record.get("failures", 0) + 1
        policy = self.plan["roles"][launcher.split_task(self.plan, task)[0]]["restarts"]
        allowed = policy["on"] is None or code in policy["on"]
        if record and allowed and failures <= policy["limit"]:
            self.run.note("restarting", f"{reason}; replaced", task)
            self.start(task, attempt=record.get("attempt", 0) + 1, failures=failures)
            return False
        self.fail(task, record, code, reason)
        return True

    def fail(self, task: str, record: dict[str, Any], code: int, reason: str) -> None:
        """Say for the launcher what it can no longer say itself."""
        now = time.time()
        lines = record.get("lines") or last_lines(self.run.path / "keeper.log")
        cause = {"task": task, "exitCode": code, "reason": reason, "lines": lines, "time": now}
        final = {"task": task, "state": "failed", "reason": reason, "exitCode": code}
        final.update(ended=now, cause=record.get("cause") or cause)
        launcher.write_json(str(self.run.path / "tasks" / f"{task}.json"), {**record, **final})
        self.run.note("failed", reason, task)
        message = {"run": self.run.id, "tell": "failed", "cause": cause}
        for peer in self.open:
            if peer != task and alive(self.record(peer).get("launcher")):
                try:
                    launcher.ask(launcher.control_address(self.plan, peer), message)
                except (OSError, ValueError) as error:
                    self.run.note("warning", f"could not be told of it: {error}", peer)


def main(path: str) -> int:
    folder = Path(path)
    run = Run.at(folder)
    if run.final_status() is not None:
        return 0  # somebody ended the run before it was watched
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Keeper(run).keep()
    from tfcluster.backends.local.backend import BACKEND

    status = BACKEND.observe(run)
    run.note(status.state, json.dumps(status.result) if status.result else "", None)
    run.settle(status)
    return 0
