"""What a task is at the moment, as records, commands and other launchers may see it."""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import time
from typing import Any, Dict, Optional, Tuple

from tfcluster.launch.control import Control
from tfcluster.launch.exits import EXIT_STALLED, STALLED, Stop
from tfcluster.launch.history import kept_moments
from tfcluster.launch.output import Output
from tfcluster.launch.plan import LaunchPlan, LaunchRole, split_task
from tfcluster.launch.program import Program
from tfcluster.launch.progress import PROBLEM, PROBLEM_OVER, problem_in
from tfcluster.launch.record import RECORD_VERSION, Cause, Doing, TaskRecord
from tfcluster.launch.report import Reporter
from tfcluster.launch.stalls import (
    FAIL,
    RESTART,
    Stall,
    StallWatch,
    find_stall,
    still_since,
    waits_for,
)
from tfcluster.launch.system import is_stopped, process_start

RECORD_PATIENCE = 3600.0  # how long the record of an ended task waits for room on the disk


class Standing:
    """One task's state, and how others hear of it. `Task` says what it becomes, and when."""

    def __init__(self, plan: LaunchPlan, task: str, key: bytes, options: argparse.Namespace):
        self.plan, self.task, self.options = plan, task, options
        self.role, self.index = split_task(plan, task)
        self.entry: LaunchRole = plan["roles"][self.role]
        self.inbox: "queue.SimpleQueue[Tuple[str, Any]]" = queue.SimpleQueue()
        self.output = Output(
            options.log,
            task,
            key if options.report else None,
            lambda: self.hear("progress", None),
            has_gpu=not self.entry.get("mask_gpus", True),
            # A launcher that replaces another one goes on with the history of the task.
            moments=kept_moments(options.record) if options.attempt else (),
        )
        self.reporter = Reporter(self.output, options.record, options.events, options.final)
        self.state, self.kind, self.reason = "pending", "", ""
        self.exit_code: Optional[int] = None
        self.attempt = options.attempt
        self.failures = options.restarts_used
        self.started = time.time()
        self.ended: Optional[float] = None
        self.program: Optional[Program] = None
        self.cause: Optional[Cause] = None
        self.silent: Dict[str, float] = {}
        self.problem = ""  # what its program says to be wrong although it goes on
        self.stalls = StallWatch(plan.get("stall"))
        self.doing: Doing = {"state": "pending", "since": self.started}
        self.identity = {"pid": os.getpid(), "start": process_start(os.getpid())}
        self.control = Control(plan, task, key, self.hear, self.describe)

    def hear(self, kind: str, value: Any) -> None:
        self.inbox.put((kind, value))

    def snapshot(self) -> TaskRecord:
        program = self.program
        return {
            "version": RECORD_VERSION,
            "run": self.plan["run"],
            "job": self.plan["job"],
            "task": self.task,
            "state": self.state,
            "kind": self.kind,
            "reason": self.reason,
            "exitCode": self.exit_code,
            "attempt": self.attempt,
            "restarts": max(self.attempt, self.failures),
            "failures": self.failures,
            "progress": self.output.log.progress,
            "progressed": self.output.log.progressed,
            "result": self.output.result,
            "lines": list(self.output.lines),
            "launcher": {"pid": self.identity["pid"], "start": self.identity["start"]},  # type: ignore[typeddict-item]
            "program": {
                "pid": program.pid if program else None,
                "start": program.start if program else None,
            },
            "started": self.started,
            "ended": self.ended,
            "cause": self.cause,
            "doing": self.doing,
            "silent": self.silent,
            "history": self.output.log.history.copy(),
        }

    def describe(self) -> Dict[str, Any]:
        """For whoever asks: what the record says, or would say if it could be written."""
        found = dict(self.snapshot())
        words = (self.reason, self.reporter.trouble or self.output.trouble)
        return {**found, "reason": "; ".join(word for word in words if word)}

    def become(
        self,
        state: str,
        kind: str = "",
        reason: str = "",
        *,
        event: str = "",
        waits_for: Tuple[str, ...] = (),
    ) -> None:
        """Change state; the record on disk is written before anyone is told."""
        self.state, self.kind, self.reason = state, kind, reason
        self.doing = {"state": state, "since": time.time()}
        if waits_for:
            self.doing["waitsFor"] = list(waits_for)
        if self.ended is not None:
            self.doing["ended"] = True
        self.tell(event or state)

    def tell(self, event: str) -> None:
        """Let the record, its readers and the hub know what the task is at now."""
        self.output.log.history.become(self.snapshot(), time.time())
        self.reporter.changed(self.snapshot(), event)
        self.control.report(dict(self.doing))

    def stay_for_record(self) -> None:
        """Where the end cannot be written down we are all that is known of it, so we stay."""
        until = time.monotonic() + RECORD_PATIENCE
        while (self.reporter.behind or self.output.behind) and time.monotonic() < until:
            if not os.path.isdir(os.path.dirname(self.options.record)):
                return  # nobody would look for it there
            with contextlib.suppress(queue.Empty):
                if self.inbox.get(timeout=0.5)[0] == "signal":
                    return
            self.output.look()
            self.reporter.catch_up(self.snapshot())

    def say(self, text: str) -> None:
        self.output.announce(f"tfcluster: {text}")

    def take_progress(self) -> None:
        """The program has said something of its progress; a problem, and its end, is an event."""
        self.reporter.refresh(self.snapshot())
        words = problem_in(self.output.log.progress)
        if words != self.problem:
            self.problem = words
            self.reporter.note(PROBLEM if words else PROBLEM_OVER, self.task, words)

    def watch_progress(self) -> None:
        """Tell the hub, and whoever reads the record, when the program stands still."""
        program, now = self.program, time.time()
        if program is None or self.state not in ("running", "serving"):
            return
        log, before = self.output.log, self.doing
        stopped = (before.get("stopped") or now) if is_stopped(program.pid) else None
        stalled = still_since(log, self.attempt, now, self.stalls.patience)
        peers = waits_for(log) if log.attempt == self.attempt else []
        found = (stalled, stopped, peers)
        if found == (before.get("stalled"), before.get("stopped"), before.get("waitsFor", [])):
            return
        self.doing = {**before, "stalled": stalled, "stopped": stopped, "waitsFor": peers}
        self.tell("stalled" if stalled or stopped else "progress")

    def own_stall(self) -> Optional[Stall]:
        """The stall that our own program is to blame for, if that is known."""
        now = time.time()
        if not self.stalls.own(self.doing, now) or not self.stalls.may_ask():
            return None
        known = self.control.job_table()
        tasks = {**known["tasks"], self.task: self.doing}
        stall = find_stall(tasks, known["silent"], self.stalls.timeout, now)
        return stall if stall is not None and stall.task == self.task else None

    def watch_stall(self) -> None:
        """If our own program stands still and is to blame, do what the plan wants."""
        if self.stalls.told:
            if not self.stalls.own(self.doing, time.time()):
                self.stalls.told = False
                self.tell_stall("")
            return
        stall = self.own_stall()
        if stall is None:
            return
        self.stalls.told = True
        words = stall.words(time.time())
        if self.stalls.action == FAIL:
            raise Stop("failed", EXIT_STALLED, STALLED, words)
        self.tell_stall(words)
        if self.stalls.action == RESTART:
            self.hear("stalled", words)

    def watch_silent(self) -> None:
        """As the hub: end the job for a task that does not answer, if the plan says so."""
        for task in self.stalls.silent_for_long(self.silent, time.time()):
            if self.stalls.action == FAIL:
                reason = f"did not answer for {self.stalls.timeout:g} s"
                self.say(f"{task} {reason}")
                self.control.speak_for(task, STALLED, EXIT_STALLED, reason)

    def tell_stall(self, words: str) -> None:
        """Say that our program stands still; no words when that is over."""
        self.kind, self.reason = (STALLED, words) if words else ("", "")
        self.say(words or "goes on")
        self.tell(STALLED if words else "progress")

    def hear_silent(self, silent: Dict[str, float]) -> None:
        """As the hub: these tasks do not answer, since when."""
        for task in sorted(silent.keys() - self.silent.keys()):
            self.say(f"{task} does not answer")
            self.reporter.note("silent", task, "does not answer")
        self.silent = silent
        self.reporter.changed(self.snapshot(), "silent")
