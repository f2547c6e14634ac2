"""The engine of a local run: starts the launchers and replaces one that was killed.

It plays the part that dockerd or the kubelet play elsewhere, so that a run outlives the command
that started it. It owns nothing that is not on disk: a later keeper of the same run adopts the
launchers it finds alive, and `tfcluster down` works without any keeper.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tfcluster.archive import Run
from tfcluster.backends.jobend import Ends, JobWatch, ends_of
from tfcluster.backends.keeping import (
    alive,
    announce_keeper,
    last_lines,
    next_attempt,
    python_running,
    sweep,
)
from tfcluster.events import ENDED
from tfcluster.launch import exits
from tfcluster.launch import plan as launch_plan
from tfcluster.launch.record import Cause, TaskRecord
from tfcluster.launch.system import signal_group
from tfcluster.launch.wire import ask

POLL = 0.05
LOOK_EVERY = 1.0  # at the job as a whole
GUARD = "tfcluster.backends.local.guard"
LAUNCHER = "tfcluster.launch.__main__"


class Keeper:
    """Watches every task of one run until all of them are over."""

    def __init__(self, run: Run):
        self.run = run
        self.plan = run.files.require_launch()
        self.key = run.files.require_key()
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.open = launch_plan.tasks_of(self.plan)
        self.tasks = launch_plan.tasks_of(self.plan)
        required = launch_plan.required_tasks(self.plan)
        self.watch = JobWatch(required, self.plan["stop_grace"])
        self.looked = 0.0

    def keep(self) -> None:
        start_guard(self.run)
        for task in self.open:
            if not alive(self.record(task).get("launcher")):
                self.start_unless_over(task)
        announce_keeper(self.run)
        while self.open:
            self.open = [task for task in self.open if not self.is_over(task)]
            if time.monotonic() - self.looked > LOOK_EVERY:
                self.looked = time.monotonic()
                self.look_at_job()
            time.sleep(POLL)

    def record(self, task: str) -> TaskRecord:
        return self.run.files.read_task(task) or {}

    def start_unless_over(self, task: str) -> None:
        record = self.record(task)
        if record.get("state") not in ENDED:
            self.start(task, attempt=next_attempt(self.run, task), failures=0)

    def start(self, task: str, *, attempt: int, failures: int) -> None:
        files = self.run.files
        argv = [*python_running(LAUNCHER), "--plan", str(files.launch_file)]
        argv += ["--key", str(files.key_file), "--task", task, "--log", str(files.logs)]
        argv += ["--record", str(files.task_file(task))]
        argv += ["--events", str(files.events_file)]
        argv += ["--attempt", str(attempt), "--restarts-used", str(failures)]
        self.children[task] = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, start_new_session=True
        )
        if attempt:
            self.watch.note_replaced(task, time.monotonic())

    # -- One task

    def is_over(self, task: str) -> bool:
        """Whether the task has ended for good; a launcher that was killed is replaced here."""
        child = self.children.get(task)
        if child is not None and child.poll() is None:
            return False
        record = self.record(task)
        if child is None and alive(record.get("launcher")):
            return False
        returncode = child.returncode if child else None
        told_to_go = record.get("kind") == exits.SIGNALLED
        if record.get("state") in ENDED and not told_to_go:
            if returncode is not None and returncode < 0:
                self.speak()  # it was killed while it told the others of its end
            return True
        return self.replace(task, record, returncode)

    def replace(self, task: str, record: TaskRecord, returncode: int | None) -> bool:
        """Put another launcher in the place of one that was ended from outside."""
        sweep(self.run, task)
        told_to_go = record.get("kind") == exits.SIGNALLED
        code = exits.exit_code_of(returncode) if returncode is not None else 137
        words = exits.describe_exit(code)
        reason = f"its launcher was {words}"
        if told_to_go:
            words = words.replace("killed by", "told to stop by").partition(" (")[0]
            reason = f"its launcher was {words}, and not by tfcluster"
        failures = record.get("failures", 0) + 1
        rule = self.plan["roles"][launch_plan.split_task(self.plan, task)[0]]["restarts"]
        if record and exits.may_restart(rule["limit"], rule["on"], failures - 1, code):
            self.run.note("restarting", f"{reason}; replaced", task)
            self.start(task, attempt=record.get("attempt", 0) + 1, failures=failures)
            return False
        self.fail(task, record, code, reason)
        return True

    def fail(self, task: str, record: TaskRecord, code: int, reason: str) -> None:
        """Say for the launcher what it can no longer say itself."""
        now = time.time()
        kind = exits.SIGNALLED if record.get("kind") == exits.SIGNALLED else exits.LAUNCHER_KILLED
        cause: Cause = {
            "task": task,
            "kind": kind,
            "exitCode": code,
            "reason": reason,
            "lines": record.get("lines") or last_lines(self.run.files.keeper_log),
            "time": now,
        }
        earlier = record.get("cause")
        final: TaskRecord = {
            "task": task,
            "state": "failed",
            "kind": kind,
            "reason": reason,
            "exitCode": code,
            "ended": now,
            "cause": earlier or cause,
        }
        self.run.files.write_task(task, {**record, **final})
        self.run.note("failed", reason, task)
        self.speak()

    # -- The job as a whole

    def look_at_job(self) -> None:
        """Speak for the dead, and end what does not hear that the job is over."""
        if len(self.open) == len(self.tasks) and not self.watch.replaced:
            return  # no task has ended yet
        records = {task: self.record(task) for task in self.tasks}
        duty = self.watch.look(records, time.monotonic())
        for task in duty.brief:
            self.speak(duty.ends, [task])
        if duty.tell:
            self.speak(duty.ends, duty.tell)
        for task in duty.end:
            self.end_by_rule(task, duty.ends)

    def end_by_rule(self, task: str, ends: Ends) -> None:
        """The launcher does not answer: end it, and write down what the rule says of its task."""
        record = self.record(task)
        self.run.files.write_task(task, {**record, **ends.rule_for(task)})
        self.run.note(ends.rule_for(task)["state"], ends.rule_for(task)["reason"], task)
        launcher = record.get("launcher") or {"pid": None, "start": None}
        if launcher["pid"] and alive(launcher):
            signal_group(launcher["pid"], signal.SIGKILL)
        sweep(self.run, task)

    def speak(self, ends: Ends | None = None, peers: Sequence[str] = ()) -> None:
        """Tell one launcher that lives, and with it all, how tasks ended."""
        if ends is None:
            ends = ends_of({task: self.record(task) for task in self.tasks}, self.watch.required)
        for peer in peers or self.open:
            if not alive(self.record(peer).get("launcher")):
                continue
            try:
                address = launch_plan.control_address(self.plan, peer)
                for message in ends.messages():
                    ask(address, self.key, peer, message)
                return
            except (OSError, ValueError):
                continue  # the next one may answer


def start_guard(run: Run) -> None:
    """A process that ends what is left of a task whose launcher is killed after the keeper was."""
    subprocess.Popen(
        [*python_running(GUARD), str(run.path), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def main(path: str) -> int:
    run = Run.at(Path(path))
    if run.final_status() is not None:
        return 0  # the run was ended before it was watched
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Keeper(run).keep()
    from tfcluster.backends.local.backend import BACKEND

    status = BACKEND.observe(run)
    run.note(status.state, "", data=status.result)
    run.settle(status)
    return 0
