"""What backends report: task states, events, log lines. Plain frozen data, JSON both ways."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeGuard

from tfcluster.launch import exits
from tfcluster.launch.lines import LARGEST_COUNT, NOT_FINITE, sound
from tfcluster.launch.progress import LONGEST_PROBLEM
from tfcluster.results import Results
from tfcluster.runrecord import EndedBy

STATES = ("pending", "starting", "running", "serving", "succeeded", "failed", "stopped")
ENDED = frozenset({"succeeded", "failed", "stopped"})
SCHEMA_VERSION = 1
LONGEST_PHASE = 32  # characters
KIND_OF_CODE: Mapping[int | None, str] = {
    exits.EXIT_KILLED: exits.PROGRAM_KILLED,
    exits.EXIT_PEER_FAILED: exits.PEER_FAILED,
    exits.EXIT_NOT_STARTED: exits.PEER_MISSING,
    exits.EXIT_STALLED: exits.STALLED,
    exits.EXIT_DEADLINE: exits.DEADLINE,
}


def is_usable(value: object) -> bool:
    """Whether this is a number that JSON has and that can be shown: no nan, nothing absurd."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST_COUNT


def implied_kind(state: str, code: int | None) -> str:
    """The kind of a task's end that its state and exit code tell, where nothing else was said."""
    if state not in ENDED:
        return ""
    if code in KIND_OF_CODE:
        return KIND_OF_CODE[code]
    if state == "stopped":
        return exits.STOPPED if code is None else exits.SIGNALLED
    return "" if code is None else exits.kind_of_exit(code)


def state_of_code(code: int) -> str:
    """The final state that a launcher's own exit code stands for."""
    return {0: "succeeded", exits.EXIT_PEER_FAILED: "stopped"}.get(code, "failed")


def kind_in(data: Mapping[str, Any]) -> str:
    """The kind that a task's record or status names, or else implies."""
    given = data.get("kind")
    return given if isinstance(given, str) else implied_kind(data["state"], data.get("exitCode"))


def is_measure(value: object) -> TypeGuard[float | str]:
    """Whether this is a usable number, or the word for one that is not finite."""
    return is_usable(value) or value in NOT_FINITE


def short_text(value: object, longest: int = LONGEST_PHASE) -> str | None:
    """What a program calls something, as it may be shown on one line; None if it is no text."""
    if not isinstance(value, str):
        return None
    shown = "".join(char for char in value if char.isprintable()).strip()
    return shown[:longest].rstrip() or None


@dataclass(frozen=True)
class Progress:
    """How far a task says it is; every field is optional because programs differ.

    A loss or an accuracy that is not finite is one of the words in `lines.NOT_FINITE`.
    """

    step: int | None = None
    total: int | None = None
    rate: float | None = None
    loss: float | str | None = None
    accuracy: float | str | None = None
    global_step: int | None = None
    phase: str | None = None  # what it is at: importing, training, saving, …
    problem: str | None = None  # what is wrong although it goes on

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Progress:
        """Keep the known fields of what a program printed, as far as they can be shown."""
        known = {entry.name: data.get(entry.name) for entry in fields(cls)}
        phase = short_text(known.pop("phase"))
        problem = short_text(known.pop("problem"), LONGEST_PROBLEM)
        measures = {name: known.pop(name) for name in ("loss", "accuracy")}
        kept = {name: value for name, value in known.items() if is_usable(value)}
        kept |= {name: value for name, value in measures.items() if is_measure(value)}
        return cls(**kept, phase=phase, problem=problem)

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
    kind: str = ""  # why it is in that state; see launch.exits
    progressed: float | None = None  # when the last progress came
    silent_since: float | None = None  # since when its launcher does not answer
    waits_for: tuple[str, ...] = ()  # the peers without which its program does not start
    stopped_since: float | None = None  # since when its program is stopped (SIGSTOP)

    @property
    def over(self) -> bool:
        return self.state in ENDED

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "role": self.role,
            "index": self.index,
            "state": self.state,
            "kind": self.kind,
            "reason": self.reason,
            "exitCode": self.exit_code,
            "restarts": self.restarts,
            "address": self.address,
            "progress": self.progress.to_dict() if self.progress else None,
            "progressed": self.progressed,
            "silentSince": self.silent_since,
            "waitsFor": list(self.waits_for),
            "stoppedSince": self.stopped_since,
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
            kind=kind_in(data),
            progressed=data.get("progressed"),
            silent_since=data.get("silentSince"),
            waits_for=tuple(data.get("waitsFor") or ()),
            stopped_since=data.get("stoppedSince"),
        )


@dataclass(frozen=True)
class Cause:
    """The first task that failed for the last time, and what it said before."""

    task: str
    exit_code: int | None
    reason: str
    lines: tuple[str, ...] = ()
    time: float = 0.0
    kind: str = ""
    peer: str | None = None  # the other end, where two tasks could not reach each other
    module: str | None = None  # what the program's interpreter lacks
    python: str | None = None  # that interpreter

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "kind": self.kind,
            "exitCode": self.exit_code,
            "reason": self.reason,
            "lines": list(self.lines),
            "time": self.time,
            "peer": self.peer,
            "module": self.module,
            "python": self.python,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cause:
        return cls(
            task=data["task"],
            exit_code=data.get("exitCode"),
            reason=data.get("reason", ""),
            lines=tuple(data.get("lines", ())),
            time=data.get("time", 0.0),
            kind=kind_in({"state": "failed", **data}),
            peer=data.get("peer"),
            module=data.get("module"),
            python=data.get("python"),
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
    """One look at a job: every task, the result if there is one, the first cause if it failed.

    `results` says where the files are that tasks have written.
    """

    job: str
    run: str
    backend: str
    state: str
    tasks: tuple[Observed, ...] = ()
    result: Mapping[str, Any] | None = None
    cause: Cause | None = None
    started: float | None = None
    ended: float | None = None
    ended_by: EndedBy | None = None  # the command that ended it, if one did
    results: tuple[Results, ...] = ()

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
            "results": [one.to_dict() for one in self.results],
            "started": self.started,
            "ended": self.ended,
            "endedBy": self.ended_by.to_dict() if self.ended_by else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JobStatus:
        return cls(
            job=data["job"],
            run=data["run"],
            backend=data["backend"],
            state=data["state"],
            tasks=tuple(Observed.from_dict(task) for task in data["tasks"]),
            result=sound(data["result"]) if data.get("result") else None,
            cause=Cause.from_dict(data["cause"]) if data.get("cause") else None,
            results=tuple(Results.from_dict(one) for one in data.get("results", ())),
            started=data.get("started"),
            ended=data.get("ended"),
            ended_by=EndedBy.from_dict(data["endedBy"]) if data.get("endedBy") else None,
        )


@dataclass(frozen=True)
class Event:
    """Something that happened to a job or a task, in one sentence; a job's result is in `data`."""

    time: float
    kind: str
    message: str
    task: str | None = None
    data: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "schemaVersion": SCHEMA_VERSION,
            "time": self.time,
            "kind": self.kind,
            "task": self.task,
            "message": self.message,
            "data": dict(self.data) if self.data is not None else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Event:
        more = data.get("data")
        return cls(
            time=float(data["time"]),
            kind=str(data["kind"]),
            message=str(data["message"]),
            task=data.get("task"),
            data=sound(more) if isinstance(more, dict) else None,
        )


class LogLine(NamedTuple):
    """One line of a task's output, without its line end. `complete` is False if it had none."""

    task: str
    attempt: int
    time: float
    stream: str
    data: bytes
    complete: bool = True

    @property
    def text(self) -> str:
        """The line as text; bytes that are not UTF-8 are replaced."""
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True)
class LogQuery:
    """Which lines are wanted. Times are seconds since the epoch; `tail` counts lines per task."""

    tasks: tuple[str, ...] = ()
    follow: bool = False
    tail: int | None = None
    since: float | None = None
    until: float | None = None
    attempts: str = "all"  # all | previous
