"""What is known of a run's tasks, as it is kept in the run's folder: records and log files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.backends.reports import claim_in
from tfcluster.errors import UsageError
from tfcluster.events import (
    ENDED,
    Cause,
    JobStatus,
    Observed,
    Progress,
    is_usable,
    job_state,
    kind_in,
)
from tfcluster.launch import exits, lines
from tfcluster.launch import record as launch_record
from tfcluster.launch.history import is_moment
from tfcluster.launch.notices import LastLines
from tfcluster.launch.progress import PROBLEM, PROBLEM_OVER, ProgressLog, problem_in
from tfcluster.plan import Plan
from tfcluster.results import Results
from tfcluster.runrecord import EndedBy

WRITE_EVERY = 0.2  # seconds between two writes of progress


def read_records(run: Run, plan: Plan) -> dict[str, launch_record.TaskRecord]:
    """What is known of each task; of one that was not started yet, nothing."""
    return {task: run.files.read_task(task) or {} for task in plan.task_names}


def observed(task: str, address: str, record: Mapping[str, Any]) -> Observed:
    """One task from its record."""
    role, _, index = task.rpartition("-")
    state = record.get("state", "pending")
    return Observed(
        task=task,
        role=role,
        index=int(index),
        state=state,
        reason=record.get("reason", ""),
        exit_code=record.get("exitCode"),
        restarts=record.get("restarts", 0),
        address=address,
        progress=Progress.from_dict(record["progress"]) if record.get("progress") else None,
        pid=(record.get("program") or {}).get("pid"),
        started=record.get("started"),
        ended=record.get("ended"),
        kind=kind_in({**record, "state": state}),
        progressed=record.get("progressed"),
        waits_for=waits_for(record),
        stopped_since=stopped_since(record),
    )


def waits_for(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The peers that a task waits for, as its launcher says it."""
    named = (record.get("doing") or {}).get("waitsFor")
    if not isinstance(named, list):
        return ()
    return tuple(name for name in named if isinstance(name, str))


def stopped_since(record: Mapping[str, Any]) -> float | None:
    """Since when the task's program is stopped, as its launcher says it."""
    since: Any = (record.get("doing") or {}).get("stopped")
    return since if is_usable(since) else None


def silent_tasks(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The tasks that do not answer, since when, as the launchers that still watch say it."""
    found: dict[str, float] = {}
    for record in records:
        if record.get("state") not in ENDED:
            for task, since in (record.get("silent") or {}).items():
                if is_usable(since):
                    found[task] = min(since, found.get(task, since))
    return found


def job_status(
    run: Run,
    tasks: tuple[Observed, ...],
    records: Iterable[Mapping[str, Any]],
    results: tuple[Results, ...],
) -> JobStatus:
    """The job from its tasks: its result, the first cause if it failed, when it ended."""
    records = list(records)
    causes = [r["cause"] for r in records if r.get("state") == "failed" and r.get("cause")]
    silent = silent_tasks(records)
    tasks = tuple(
        task if task.over else replace(task, silent_since=silent.get(task.task)) for task in tasks
    )
    noted = run.record
    if noted.ended_by is not None:
        tasks = tuple(told_by_us(task, noted.ended_by) for task in tasks)
    ended = [task.ended for task in tasks if task.ended is not None]
    return JobStatus(
        job=run.job,
        run=run.id,
        backend=run.backend,
        state=job_state(tasks),
        tasks=tasks,
        result=next((lines.sound(r["result"]) for r in records if r.get("result")), None),
        cause=Cause.from_dict(min(causes, key=lambda cause: cause["time"])) if causes else None,
        started=noted.created,
        ended=max(ended) if len(ended) == len(tasks) else None,
        ended_by=noted.ended_by,
        results=results,
    )


def told_by_us(task: Observed, by: EndedBy) -> Observed:
    """A task whose launcher was told to stop: here it is known who told it."""
    if task.kind != exits.SIGNALLED:
        return task
    return replace(task, reason=f"ended by `tfcluster {by.command}`", kind=exits.STOPPED)


def run_status(
    run: Run,
    plan: Plan | None,
    records: Mapping[str, Mapping[str, Any]] | None = None,
    lost: Mapping[str, str] | None = None,
) -> JobStatus:
    """The job from its tasks' records; `lost` maps tasks that do not come back to why."""
    if plan is None:
        return JobStatus(run.job, run.id, run.backend, "stopped")
    if records is None:
        records = read_records(run, plan)
    tasks = []
    for task, record in records.items():
        seen = observed(task, plan.address(task), record)
        if lost and task in lost and not seen.over:
            kind = exits.LAUNCHER_KILLED
            seen = replace(seen, state="stopped", reason=lost[task], kind=kind)
        tasks.append(seen)
    results = load_backend(plan.backend).results(plan, run)
    return job_status(run, tuple(tasks), records.values(), results)


def refuse_ended(status: JobStatus, tasks: Iterable[str]) -> None:
    """Raise unless all of these tasks still run, or could."""
    states = {task.task: task for task in status.tasks}
    for task in tasks:
        if states[task].over:
            raise UsageError(
                f"{task} has {states[task].state}; it cannot be restarted",
                hint="run the job again: tfcluster up",
            )


def settle_stopped(run: Run, status: JobStatus) -> None:
    """The last word on a run that was ended from outside: what was not over yet was stopped."""
    tasks = tuple(task if task.over else stopped(task) for task in status.tasks)
    state = job_state(tasks) if tasks else "stopped"
    run.settle(replace(status, tasks=tasks, state=state, ended=status.ended or time.time()))
    if status.ended_by is None:
        run.note("down", "the run was ended")


def stopped(task: Observed) -> Observed:
    """A task that was ended from outside."""
    reason = task.reason or "stopped"
    return replace(
        task, state="stopped", reason=reason, kind=task.kind or exits.STOPPED, silent_since=None
    )


class TaskRecord:
    """What is known of a task. Written by the thread that reads its log and by the keeper's own."""

    def __init__(self, run: Run, task: str):
        self.run, self.task = run, task
        self.record: launch_record.TaskRecord = run.files.read_task(task) or {"task": task}
        self.final: dict[str, Any] | None = None  # the launcher's last word, not yet published
        # What would be a notice only without a GPU is kept: who has one is not known here.
        known = self.record.get("lines", ())
        self.lines = LastLines(launch_record.KEPT_LINES, has_gpu=True, before=known)
        self.log = ProgressLog(
            self.record.get("progress"),
            self.record.get("progressed"),
            filter(is_moment, self.record.get("history") or ()),
        )
        self.lines_of = max(run.files.log_attempts(task), default=-1)  # the attempt they are of
        self.files: dict[int, int] = {}
        self.guard = threading.RLock()
        self.written = 0.0
        self.dirty = False
        self.warned: set[str] = set()
        self.key = run.files.require_key()

    @property
    def over(self) -> bool:
        return self.record.get("state") in ENDED

    def update(self, **changes: Any) -> None:
        with self.guard:
            self.change(changes)
            self.write()

    def later(self, **changes: Any) -> None:
        """Like update(), but writes to disk at most every WRITE_EVERY seconds."""
        with self.guard:
            self.change(changes)
            self.dirty = True
            if time.monotonic() - self.written > WRITE_EVERY:
                self.write()

    def change(self, changes: Mapping[str, Any]) -> None:
        if "state" in changes:
            self.record.pop("kind", None)  # that of the state before
        cast(dict[str, Any], self.record).update(changes)
        if "state" in changes:
            since = (changes.get("doing") or {}).get("since")
            when = since if is_usable(since) else None
            self.log.history.become(self.record, time.time(), when)

    def flush(self) -> None:
        with self.guard:
            if self.dirty:
                self.write()

    def write(self) -> None:
        self.record["lines"] = list(self.lines)
        self.record["history"] = self.log.history.copy()
        self.run.files.write_task(self.task, self.record)
        self.written, self.dirty = time.monotonic(), False

    def understand(
        self, line: bytes, attempt: int, when: float | None = None, *, whole: bool = True
    ) -> None:
        """Take up what a line of an attempt's program says; `when` it did, if not just now.

        If it is not whole, this is the beginning of a line that is too long to be kept in one.
        """
        claimed = claim_in(line)
        if claimed:
            self.take_claim(claimed, line if whole else None, attempt, when or time.time())
        elif line and not line.startswith(b"tfcluster:"):
            self.lines.add("", line)

    def begin_lines(self, attempt: int) -> None:
        """What follows is of this attempt; the last lines of the one before explain nothing now."""
        with self.guard:
            if attempt > self.lines_of:
                self.lines_of = attempt
                self.lines.clear()

    def take_claim(self, claimed: str, line: bytes | None, attempt: int, when: float) -> None:
        """A program's progress or result, if it is sound and of a size that can be kept."""
        said = b"" if line is None else line.partition(b" ")[2]
        if line is None or len(said) > lines.MOST_OBJECT:
            if claimed not in self.warned:
                self.warned.add(claimed)
                words = f"a {claimed} of more than {lines.MOST_OBJECT >> 10} KiB is ignored"
                self.run.note("warning", words, self.task)
            return
        found = lines.parse_said(said)
        if found is None:
            return
        if claimed == "progress":
            before = problem_in(self.log.progress)
            self.log.take(found, attempt, when)
            if (words := problem_in(self.log.progress)) != before:
                self.run.note(PROBLEM if words else PROBLEM_OVER, words, self.task)
            self.later(progress=self.log.progress, progressed=self.log.progressed)
        else:
            self.update(result=found)

    def file(self, attempt: int) -> int:
        """The log file of an attempt, open for appending."""
        if attempt not in self.files:
            self.files[attempt] = self.run.files.open_log(self.task, attempt)
        return self.files[attempt]

    def close(self) -> None:
        self.flush()
        for descriptor in self.files.values():
            os.close(descriptor)
        self.files = {}
