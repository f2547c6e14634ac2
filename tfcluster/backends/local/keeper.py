"""The engine of a local run: starts the launchers and replaces one that was killed.

It plays the part that dockerd or the kubelet play elsewhere, so that a run outlives the command
that started it. It owns nothing that is not on disk: a later keeper of the same run adopts the
launchers it finds alive, and `tfcluster down` works without any keeper.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from tfcluster import launcher
from tfcluster.archive import Run
from tfcluster.backends.keeping import alive, announce_keeper, last_lines, next_attempt
from tfcluster.events import ENDED
from tfcluster.launch import exits
from tfcluster.launch import plan as launch_plan
from tfcluster.launch.record import Cause, TaskRecord
from tfcluster.launch.system import signal_group

POLL = 0.05
LAUNCHER = Path(launcher.__file__)


class Keeper:
    """Watches every task of one run until all of them are over."""

    def __init__(self, run: Run):
        self.run = run
        self.plan = run.files.require_launch()
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.open = launch_plan.tasks_of(self.plan)

    def keep(self) -> None:
        for task in self.open:
            if not alive(self.record(task).get("launcher")):
                self.start_unless_over(task)
        announce_keeper(self.run)
        while self.open:
            self.open = [task for task in self.open if not self.is_over(task)]
            time.sleep(POLL)

    def record(self, task: str) -> TaskRecord:
        return self.run.files.read_task(task) or {}

    def start_unless_over(self, task: str) -> None:
        record = self.record(task)
        if record.get("state") not in ENDED:
            self.start(task, attempt=next_attempt(self.run, task), failures=0)

    def start(self, task: str, *, attempt: int, failures: int) -> None:
        files = self.run.files
        argv = [sys.executable, "-I", str(LAUNCHER), "--plan", str(files.launch_file)]
        argv += ["--task", task, "--log", str(files.logs)]
        argv += ["--record", str(files.task_file(task))]
        argv += ["--events", str(files.events_file)]
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

    def replace(self, task: str, record: TaskRecord, returncode: int | None) -> bool:
        program = record.get("program")
        if program and program["pid"] and alive(program):
            signal_group(program["pid"], signal.SIGKILL)
        code = exits.exit_code_of(returncode) if returncode is not None else 137
        reason = f"its launcher was {exits.describe_exit(code)}"
        failures = record.get("failures", 0) + 1
        policy = self.plan["roles"][launch_plan.split_task(self.plan, task)[0]]["restarts"]
        allowed = exits.may_restart(policy["limit"], policy["on"], failures - 1, code)
        if record and allowed:
            self.run.note("restarting", f"{reason}; replaced", task)
            self.start(task, attempt=record.get("attempt", 0) + 1, failures=failures)
            return False
        self.fail(task, record, code, reason)
        return True

    def fail(self, task: str, record: TaskRecord, code: int, reason: str) -> None:
        """Say for the launcher what it can no longer say itself."""
        now = time.time()
        lines = record.get("lines") or last_lines(self.run.files.keeper_log)
        cause: Cause = {
            "task": task,
            "kind": exits.LAUNCHER_KILLED,
            "exitCode": code,
            "reason": reason,
            "lines": lines,
            "time": now,
        }
        final: TaskRecord = {
            "task": task,
            "state": "failed",
            "kind": exits.LAUNCHER_KILLED,
            "reason": reason,
            "exitCode": code,
            "ended": now,
            "cause": record.get("cause") or cause,
        }
        self.run.files.write_task(task, {**record, **final})
        self.run.note("failed", reason, task)
        message = {"run": self.run.id, "tell": "failed", "cause": cause}
        for peer in self.open:
            if peer != task and alive(self.record(peer).get("launcher")):
                try:
                    launcher.ask(launch_plan.control_address(self.plan, peer), message)
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
    run.note(status.state, "", data=status.result)
    run.settle(status)
    return 0
