"""What backends report: task states, events, log lines. Plain frozen data, JSON both ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

STATES = ("pending", "starting", "running", "serving", "succeeded", "failed", "stopped")
ENDED = frozenset({"succeeded", "failed", "stopped"})
SCHEMA_VERSION = 1


LARGEST_NUMBER = 1e18  # integers have no limit in JSON; no step or rate is as large as this
MAY_DIVERGE = frozenset({"loss", "accuracy"})  # NaN is what a training that fails has to say


def is_number(value: Any, *, finite: bool) -> bool:
    if isinstance(value, float) and not finite:
        return True
    return type(value) in (int, float) and -LARGEST_NUMBER < value < LARGEST_NUMBER


@dataclass(frozen=True)
class Progress:
    """How far a task says it is; every field is optional because programs differ."""

    step: int | None = None
    total: int | None = None
    rate: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    global_step: int | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Progress:
        """Keep the known, numeric fields of what a program printed and drop the rest."""
        known = {
            entry.name: data[entry.name]
            for entry in fields(cls)
            if is_number(data.get(entry.name), finite=entry.name not in MAY_DIVERGE)
        }
        return cls(**known)

    def to_dict(self) -> dict[str, Any]:
        return {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if getattr(self, entry.name) is not None
        }


@dataclass(frozen=True)
class Observed:
    """One task as it is now."""

    task: str
    role: str
    index: int
    state: str
    reason: str = ""
    exit_code: int | None = None
    restarts: int = 0
    address: str = ""
    progress: Progress | None = None
    pid: int | None = None
    started: float | None = None
    ended: float | None = None

    @property
    def over(self) -> bool:
        return self.state in ENDED

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "role": self.role,
            "index": self.index,
            "state": self.state,
            "reason": self.reason,
            "exitCode": self.exit_code,
            "restarts": self.restarts,
            "address": self.address,
            "progress": self.progress.to_dict() if self.progress else None,
            "pid": self.pid,
            "started": self.started,
            "ended": self.ended,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Observed:
        progress = data.get("progress")
        return cls(
            task=data["task"],
            role=data["role"],
            index=data["index"],
            state=data["state"],
            reason=data.get("reason", ""),
            exit_code=data.get("exitCode"),
            restarts=data.get("restarts", 0),
            address=data.get("address", ""),
            progress=Progress.from_dict(progress) if progress else None,
            pid=data.get("pid"),
            started=data.get("started"),
            ended=data.get("ended"),
        )


@dataclass(frozen=True)
class Cause:
    """The first task that failed for the last time, and what it said before."""

    task: str
    exit_code: int | None
    reason: str
    lines: tuple[str, ...] = ()
    time: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "exitCode": self.exit_code,
            "reason": self.reason,
            "lines": list(self.lines),
            "time": self.time,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cause:
        return cls(
            task=data["task"],
            exit_code=data.get("exitCode"),
            reason=data.get("reason", ""),
            lines=tuple(data.get("lines", ())),
            time=data.get("time", 0.0),
        )


def job_state(tasks: Iterable[Observed]) -> str:
    """The one word for a job. No tasks means "not found", never "succeeded"."""
    states = {task.state for task in tasks}
    if not states:
        return "not found"
    if "failed" in states:
        return "failed"
    if states == {"succeeded"}:
        return "succeeded"
    if states <= ENDED:
        return "stopped"
    for state in ("running", "serving"):
        if state in states:
            return "running"
    return "starting" if "starting" in states else "pending"


@dataclass(frozen=True)
class JobStatus:
    """One look at a job: every task, the result if there is one, the first cause if it failed."""

    job: str
    run: str
    backend: str
    state: str
    tasks: tuple[Observed, ...] = ()
    result: Mapping[str, Any] | None = None
    cause: Cause | None = None
    started: float | None = None
    ended: float | None = None

    @property
    def over(self) -> bool:
        return self.state in ENDED and all(task.over for task in self.tasks)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schemaVersion": SCHEMA_VERSION,
            "job": self.job,
            "run": self.run,
            "backend": self.backend,
            "state": self.state,
            "tasks": [task.to_dict() for task in self.tasks],
            "result": dict(self.result) if self.result is not None else None,
            "cause": self.cause.to_dict() if self.cause else None,
            "started": self.started,
            "ended": self.ended,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JobStatus:
        return cls(
            job=data["job"],
            run=data["run"],
            backend=data["backend"],
            state=data["state"],
            tasks=tuple(Observed.from_dict(task) for task in data["tasks"]),
            result=data.get("result"),
            cause=Cause.from_dict(data["cause"]) if data.get("cause") else None,
            started=data.get("started"),
            ended=data.get("ended"),
        )


@dataclass(frozen=True)
class Event:
    """Something that happened to a job or a task, in one sentence."""

    time: float
    kind: str
    message: str
    task: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "schemaVersion": SCHEMA_VERSION,
            "time": self.time,
            "kind": self.kind,
            "task": self.task,
            "message": self.message,
        }


class LogLine(NamedTuple):
    """One line of a task's output, without its line end. `complete` is False if it had none."""

    task: str
    attempt: int
    time: float
    stream: str
    data: bytes
    complete: bool = True


@dataclass(frozen=True)
class LogQuery:
    """Which lines are wanted. Times are seconds since the epoch; `tail` counts lines per task."""

    tasks: tuple[str, ...] = ()
    follow: bool = False
    tail: int | None = None
    since: float | None = None
    until: float | None = None
    attempts: str = "all"  # all | previous
