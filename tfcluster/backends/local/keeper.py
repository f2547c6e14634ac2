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
from tfcluster.backends.keeping import announce_keeper, next_attempt, sweep
from tfcluster.backends.local.look import status_of
from tfcluster.backends.local.notebook import Notebook
from tfcluster.backends.processes import LAUNCHER as LAUNCHER_PART
from tfcluster.backends.processes import Found, find_processes
from tfcluster.backends.records import silent_tasks
from tfcluster.backends.start import last_lines, python_running
from tfcluster.disk import disk_trouble
from tfcluster.events import ENDED, implied_kind, state_of_code
from tfcluster.fetching import bring_results
from tfcluster.launch import exits, stalls
from tfcluster.launch import plan as launch_plan
from tfcluster.launch.record import Cause, TaskRecord
from tfcluster.launch.system import is_stopped, signal_group
from tfcluster.launch.wire import ask
from tfcluster.refusals import in_brief

POLL = 0.05
LOOK_EVERY = 1.0  # at the job as a whole
SETTLE_PATIENCE = 3600.0  # for room to write down how the run ended
GUARD = "tfcluster.backends.local.guard"
LAUNCHER = "tfcluster.launch.__main__"


class Keeper:
    """Watches every task of one run until all of them are over.

    A disk that is full or gone does not concern the tasks: what cannot be written down stays in
    memory, and is written once there is room.
    """

    def __init__(self, run: Run):
        self.run = run
        self.plan = run.files.require_launch()
        self.key = run.files.require_key()
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.adopted: dict[str, Found] = {}
        self.open = launch_plan.tasks_of(self.plan)
        self.tasks = launch_plan.tasks_of(self.plan)
        required = launch_plan.required_tasks(self.plan)
        self.watch = JobWatch(required, self.plan["stop_grace"])
        self.looked = 0.0
        self.book = Notebook(run, self.plan)
        self.failures: dict[str, int] = {}  # a record that cannot be written does not count them

    def keep(self) -> None:
        start_guard(self.run)
        living = [one for one in find_processes(self.run.path) if one.part == LAUNCHER_PART]
        self.adopted = {one.task: one for one in living if one.task}
        for task in self.open:
            if task not in self.adopted:
                self.start_unless_over(task)
        announce_keeper(self.run)
        while self.open:
            self.open = [task for task in self.open if not self.is_over(task)]
            if time.monotonic() - self.looked > LOOK_EVERY:
                self.looked = time.monotonic()
                self.book.catch_up()
                self.look_at_job()
            time.sleep(POLL)

    def start_unless_over(self, task: str) -> None:
        record = self.book.read(task)
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
        self.adopted.pop(task, None)
        self.book.forget(task)
        if attempt:
            self.watch.note_replaced(task, time.monotonic())

    # -- One task

    def launcher(self, task: str) -> int | None:
        """The pid of the task's launcher, if it lives."""
        child, adopted = self.children.get(task), self.adopted.get(task)
        if child is not None:
            return child.pid if child.poll() is None else None
        return adopted.pid if adopted is not None and adopted.alive else None

    def is_over(self, task: str) -> bool:
        """Whether the task has ended for good; a launcher that was killed is replaced here."""
        if self.launcher(task) is not None:
            return False
        child, record = self.children.get(task), self.book.read(task)
        returncode = child.returncode if child else None
        told_to_go = record.get("kind") == exits.SIGNALLED
        if record.get("state") in ENDED and not told_to_go:
            if returncode is not None and returncode < 0:
                self.speak()  # it was killed while it told the others of its end
            return True
        if returncode is not None and returncode >= 0 and disk_trouble(self.run.path):
            return self.conclude(task, record, returncode)
        return self.replace(task, record, returncode)

    def conclude(self, task: str, record: TaskRecord, code: int) -> bool:
        """A launcher has ended that could not write down how: its exit code counts."""
        reason = f"{exits.describe_exit(code)}; its last record could not be written"
        if (state := state_of_code(code)) == "failed":
            self.fail(task, record, code, reason, exits.kind_of_exit(code))
        else:
            final: TaskRecord = {"task": task, "state": state, "reason": reason, "exitCode": code}
            final["kind"], final["ended"] = implied_kind(state, code), time.time()
            self.book.write(task, {**record, **final})
        return True

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
        failures = max(record.get("failures", 0), self.failures.get(task, 0)) + 1
        self.failures[task] = failures
        rule = self.plan["roles"][launch_plan.split_task(self.plan, task)[0]]["restarts"]
        if record and exits.may_restart(rule["limit"], rule["on"], failures - 1, code):
            try:
                self.start(task, attempt=record.get("attempt", 0) + 1, failures=failures)
                self.book.note("restarting", f"{reason}; replaced", task)
                return False
            except OSError as error:
                reason = f"{reason}, and cannot be replaced: {in_brief(error)}"
        kind = exits.SIGNALLED if told_to_go else exits.LAUNCHER_KILLED
        self.fail(task, record, code, reason, kind)
        return True

    def fail(self, task: str, record: TaskRecord, code: int, reason: str, kind: str) -> None:
        """Say for the launcher what it can no longer say itself."""
        now = time.time()
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
        self.book.write(task, {**record, **final})
        self.book.note("failed", reason, task)
        self.speak()

    # -- The job as a whole

    def look_at_job(self) -> None:
        """Speak for the dead, and end what does not hear that the job is over."""
        self.end_silent()
        if len(self.open) == len(self.tasks) and not self.watch.replaced:
            return  # no task has ended yet
        records = {task: self.book.read(task) for task in self.tasks}
        duty = self.watch.look(records, time.monotonic())
        for task in duty.brief:
            self.speak(duty.ends, [task])
        if duty.tell:
            self.speak(duty.ends, duty.tell)
        for task in duty.end:
            self.end_by_rule(task, duty.ends)

    def end_silent(self) -> None:
        """End launchers that do not answer, where a stall is to be restarted: see `replace`."""
        rule = self.plan.get("stall")
        if rule is None or rule["action"] != stalls.RESTART:
            return
        silent = silent_tasks(self.book.read(task) for task in self.tasks)
        for task in set(silent).intersection(self.open):
            pid, now = self.launcher(task), time.time()
            if pid is not None and is_stopped(pid) and now - silent[task] > rule["timeout"]:
                words = f"stopped for {now - silent[task]:.0f} s (SIGSTOP), with its launcher"
                self.book.note(exits.STALLED, words, task)
                signal_group(pid, signal.SIGKILL)

    def end_by_rule(self, task: str, ends: Ends) -> None:
        """The launcher does not answer: end it, and write down what the rule says of its task."""
        record = self.book.read(task)
        rule = ends.rule_for(task)
        self.book.write(task, {**record, **rule})
        self.book.note(rule["state"], rule["reason"], task)
        if (pid := self.launcher(task)) is not None:
            signal_group(pid, signal.SIGKILL)
        sweep(self.run, task)

    def speak(self, ends: Ends | None = None, peers: Sequence[str] = ()) -> None:
        """Tell one launcher that lives, and with it all, how tasks ended."""
        if ends is None:
            ends = ends_of({task: self.book.read(task) for task in self.tasks}, self.watch.required)
        for peer in peers or self.open:
            if self.launcher(peer) is None:
                continue
            try:
                address = launch_plan.control_address(self.plan, peer)
                for message in ends.messages():
                    ask(address, self.key, peer, message)
                return
            except (OSError, ValueError):
                continue  # the next one may answer

    def bring_results(self) -> None:
        from tfcluster.backends.local.backend import BACKEND

        self.book.attempt(lambda: bring_results(BACKEND.send_output, self.run))

    def settle(self) -> None:
        """Write down how the run ended, as soon as there is room for it."""
        until = time.monotonic() + SETTLE_PATIENCE
        records = {task: self.book.read(task) for task in self.tasks}
        while self.run.path.is_dir() and time.monotonic() < until:
            if self.book.catch_up() and self.book.attempt(lambda: self.write_end(records)):
                return
            time.sleep(LOOK_EVERY)

    def write_end(self, records: dict[str, TaskRecord]) -> None:
        status = status_of(self.run, self.plan, records)
        self.run.note(status.state, "", data=status.result)
        self.run.settle(status)


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
    keeper = Keeper(run)
    keeper.keep()
    keeper.bring_results()
    keeper.settle()
    return 0
