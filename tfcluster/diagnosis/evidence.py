"""What is known of a run, gathered once: everything that a diagnosis looks at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfcluster.archive import Run
from tfcluster.backends.logfiles import LogFile
from tfcluster.escapes import stripped
from tfcluster.events import Event, JobStatus, Observed
from tfcluster.launch.lines import PROGRESS, RESULT
from tfcluster.launch.record import Doing
from tfcluster.runfolder import log_files

MOST_BYTES = 1 << 20  # of one task: a traceback may be far above the noise that follows it
LONGEST = 1000  # characters of a line


@dataclass(frozen=True)
class Line:
    """A line that a program printed, without escape sequences."""

    time: float
    text: str


@dataclass(frozen=True)
class Limits:
    """What a role's tasks may use."""

    memory: int | None = None


@dataclass(frozen=True)
class StartProblem:
    """Why a task does not start, as its backend knows it."""

    kind: str
    message: str


@dataclass(frozen=True)
class Evidence:
    """A run as a diagnosis sees it."""

    status: JobStatus
    logs: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)  # of the last attempts
    events: tuple[Event, ...] = ()
    doing: Mapping[str, Doing] = field(default_factory=dict)
    limits: Mapping[str, Limits] = field(default_factory=dict)  # by role
    problems: Mapping[str, StartProblem] = field(default_factory=dict)
    code: str = ""  # the folder that the person's files were brought to, in every task

    def task(self, name: str) -> Observed | None:
        return next((task for task in self.status.tasks if task.task == name), None)

    def texts(self, task: str) -> list[str]:
        return [line.text for line in self.logs.get(task, ())]

    def limit(self, task: str) -> int | None:
        return self.limits.get(task.rpartition("-")[0], Limits()).memory


def gather(run: Run, status: JobStatus) -> Evidence:
    """Everything that is known of the run now."""
    from tfcluster.plan import stored_plan

    plan = stored_plan(run)
    names = [task.task for task in status.tasks]
    records = {task: run.files.read_task(task) or {} for task in names}
    return Evidence(
        status=status,
        logs=last_lines(run),
        events=tuple(run.events()),
        doing={task: record["doing"] for task, record in records.items() if record.get("doing")},
        limits={role.role: Limits(role.resources.memory) for role in plan.roles} if plan else {},
        problems={
            task: StartProblem(str(found.get("kind", "")), str(found.get("message", "")))
            for task, record in records.items()
            if (found := record.get("problem"))
        },
        code=plan.code.target if plan and plan.code else "",
    )


def last_lines(run: Run) -> dict[str, tuple[Line, ...]]:
    """The end of each task's last attempt, without progress and the launcher's own lines."""
    newest = {task: (attempt, path) for task, attempt, path in sorted(log_files(run.logs))}
    return {task: tuple(read_end(path, task, number)) for task, (number, path) in newest.items()}


def read_end(path: Path, task: str, attempt: int) -> Iterator[Line]:
    file = LogFile(path, task, attempt)
    file.skip_to_last(MOST_BYTES)
    for line in file.new_lines():
        if not line.data.startswith((PROGRESS, RESULT, b"tfcluster:")):
            text = stripped(line.text)
            yield Line(line.time, text[:LONGEST])
