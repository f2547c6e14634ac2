"""What is known of a run's tasks, as it is kept in the run's folder: records and log files."""

from __future__ import annotations

import collections
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tfcluster import launcher
from tfcluster.archive import Run, read_json
from tfcluster.errors import UsageError
from tfcluster.events import ENDED, Cause, JobStatus, Observed, Progress, job_state
from tfcluster.plan import Plan

WRITE_EVERY = 0.2  # seconds between two writes of progress


def read_records(run: Run, plan: Plan) -> dict[str, dict[str, Any]]:
    return {task: read_json(run.path / "tasks" / f"{task}.json") or {} for task in plan.task_names}


def observed(task: str, address: str, record: Mapping[str, Any]) -> Observed:
    """One task from its record."""
    role, _, index = task.rpartition("-")
    return Observed(
        task=task,
        role=role,
        index=int(index),
        state=record.get("state", "pending"),
        reason=record.get("reason", ""),
        exit_code=record.get("exitCode"),
        restarts=record.get("restarts", 0),
        address=address,
        progress=Progress.from_dict(record["progress"]) if record.get("progress") else None,
        pid=(record.get("program") or {}).get("pid"),
        started=record.get("started"),
        ended=record.get("ended"),
    )


def job_status(
    run: Run, tasks: tuple[Observed, ...], records: Iterable[Mapping[str, Any]]
) -> JobStatus:
    """The job from its tasks: its result, the first cause if it failed, when it ended."""
    records = list(records)
    causes = [r["cause"] for r in records if r.get("state") == "failed" and r.get("cause")]
    ended = [task.ended for task in tasks if task.ended is not None]
    return JobStatus(
        job=run.job,
        run=run.id,
        backend=run.backend,
        state=job_state(tasks),
        tasks=tasks,
        result=next((r["result"] for r in records if r.get("result")), None),
        cause=Cause.from_dict(min(causes, key=lambda cause: cause["time"])) if causes else None,
        started=run.record.get("created"),
        ended=max(ended) if len(ended) == len(tasks) else None,
    )


def run_status(
    run: Run,
    plan: Plan | None,
    records: Mapping[str, Mapping[str, Any]] | None = None,
    lost: Mapping[str, str] | None = None,
) -> JobStatus:
    """The job from its tasks' records; `lost` says of tasks why nobody will bring them back."""
    if plan is None:
        return JobStatus(run.job, run.id, run.backend, "stopped")
    if records is None:
        records = read_records(run, plan)
    tasks = []
    for task, record in records.items():
        seen = observed(task, plan.address(task), record)
        if lost and task in lost and not seen.over:
            seen = replace(seen, state="stopped", reason=lost[task])
        tasks.append(seen)
    return job_status(run, tuple(tasks), records.values())


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
    tasks = tuple(
        task if task.over else replace(task, state="stopped", reason=task.reason or "stopped")
        for task in status.tasks
    )
    state = job_state(tasks) if tasks else "stopped"
    run.settle(replace(status, tasks=tasks, state=state, ended=status.ended or time.time()))
    run.note("down", "the run was ended")


class TaskRecord:
    """What is known of a task. Written by the thread that reads its log and by the keeper's own."""

    def __init__(self, run: Run, task: str):
        self.run, self.task = run, task
        self.path = run.path / "tasks" / f"{task}.json"
        self.record: dict[str, Any] = read_json(self.path) or {"task": task}
        self.final: dict[str, Any] | None = None  # the launcher's last word, not yet published
        self.lines: collections.deque[str] = collections.deque(
            self.record.get("lines", ()), maxlen=launcher.KEPT_LINES
        )
        self.files: dict[int, int] = {}
        self.guard = threading.RLock()
        self.written = 0.0
        self.dirty = False

    @property
    def over(self) -> bool:
        return self.record.get("state") in ENDED

    def update(self, **changes: Any) -> None:
        with self.guard:
            self.record.update(changes)
            self.write()

    def later(self, **changes: Any) -> None:
        """As update, but not more often than somebody can look."""
        with self.guard:
            self.record.update(changes)
            self.dirty = True
            if time.monotonic() - self.written > WRITE_EVERY:
                self.write()

    def flush(self) -> None:
        with self.guard:
            if self.dirty:
                self.write()

    def write(self) -> None:
        self.record["lines"] = list(self.lines)
        launcher.write_json(str(self.path), self.record)
        self.written, self.dirty = time.monotonic(), False

    def understand(self, line: bytes) -> None:
        """Take up what a line of the program says."""
        if line.startswith(launcher.PROGRESS):
            progress = launcher.parse_object(line[len(launcher.PROGRESS) :])
            self.later(progress=progress or self.record.get("progress"))
        elif line.startswith(launcher.RESULT):
            result = launcher.parse_object(line[len(launcher.RESULT) :])
            self.update(result=result or self.record.get("result"))
        elif line and not line.startswith(b"tfcluster:"):
            self.lines.append(line[:500].decode("utf-8", "replace").rstrip("\r"))

    def file(self, attempt: int) -> int:
        """The log file of an attempt, open for appending."""
        if attempt not in self.files:
            path = self.run.logs / f"{self.task}.{attempt}.log"
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self.files[attempt] = os.open(path, flags, 0o600)
        return self.files[attempt]

    def close(self) -> None:
        self.flush()
        for descriptor in self.files.values():
            os.close(descriptor)
        self.files = {}
