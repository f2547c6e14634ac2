"""From what is kept of a run to spans: what each task was at, from when to when."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfcluster.archive import Run
from tfcluster.events import SCHEMA_VERSION, Event, JobStatus, short_text
from tfcluster.launch import exits
from tfcluster.launch.history import OVER, is_moment
from tfcluster.launch.record import Moment

PENDING, PULLING, WAITING, RESTARTING = "pending", "pulling", "waiting", "restarting"
IMPORTING, TRAINING, EVALUATING, SAVING = "importing", "training", "evaluating", "saving"
SERVING, RUNNING, OTHER, STALLED = "serving", "running", "other", "stalled"
# In this order they are listed.
KINDS = (
    *(PENDING, PULLING, WAITING, IMPORTING, TRAINING, EVALUATING, SAVING),
    *(STALLED, RESTARTING, SERVING, RUNNING, OTHER),
)
STATES = {
    "pending": PENDING,
    "waiting": WAITING,
    "restarting": RESTARTING,
    "starting": IMPORTING,  # the program runs, and does not listen yet
    "serving": SERVING,
    exits.STALLED: STALLED,
}
# The first word of a phase -> its kind.
PHASES = {
    "importing": IMPORTING,
    "building": IMPORTING,
    "training": TRAINING,
    "evaluating": EVALUATING,
    "saving": SAVING,
    "waiting": WAITING,
}
SHORTEST = 0.05  # seconds that are worth a word
WAITING_FOR = "waiting for "  # a phase that names a peer


@dataclass(frozen=True)
class Span:
    """What a task was at for a while. `about` is the peer waited for, or a phase of its own."""

    start: float
    end: float
    kind: str
    about: str = ""
    attempt: int = 0

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Timeline:
    """One run: when it began and ended, and each task's spans in order."""

    job: str
    run: str
    state: str
    begin: float
    end: float
    tasks: Mapping[str, tuple[Span, ...]]

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    def to_dict(self) -> dict[str, Any]:
        return {
            "schemaVersion": SCHEMA_VERSION,
            "job": self.job,
            "run": self.run,
            "state": self.state,
            "begin": self.begin,
            "end": self.end,
            "tasks": [
                {"task": task, "totals": totals(spans), "spans": [span_dict(one) for one in spans]}
                for task, spans in self.tasks.items()
            ],
        }


def span_dict(span: Span) -> dict[str, Any]:
    return {
        "kind": span.kind,
        "about": span.about or None,
        "start": span.start,
        "end": span.end,
        "seconds": round(span.seconds, 3),
        "attempt": span.attempt,
    }


def totals(spans: Iterable[Span]) -> dict[str, float]:
    """Seconds by kind, in the order of KINDS, without what is too short to be seen."""
    found = dict.fromkeys(KINDS, 0.0)
    for span in spans:
        found[span.kind] += span.seconds
    return {kind: round(seconds, 3) for kind, seconds in found.items() if seconds >= SHORTEST}


def timeline_of(run: Run, status: JobStatus) -> Timeline:
    """Where the time of this run went, or has gone so far."""
    begin = status.started or run.record.created
    end = status.ended or time.time()
    events = tuple(run.events())
    tasks = {}
    for task in status.tasks:
        record = run.files.read_task(task.task) or {}
        moments = [one for one in record.get("history") or () if is_moment(one)]
        over = (task.ended or end) if task.over else end
        made = make_spans(moments, begin, over)
        tasks[task.task] = with_pulls(made, pulls_of(task.task, events, over))
    return Timeline(status.job, status.run, status.state, begin, end, tasks)


def make_spans(moments: Sequence[Moment], begin: float, end: float) -> tuple[Span, ...]:
    """The spans of one task; until its first moment it was pending."""
    first: Moment = {"time": begin, "attempt": 0, "state": PENDING}
    points: list[Moment] = [first, *moments]
    spans: list[Span] = []
    for number, moment in enumerate(points):
        if moment["state"] == OVER:
            continue
        after = points[number + 1] if number + 1 < len(points) else None
        start = min(max(moment["time"], begin), end)
        stop = min(max(after["time"], start), end) if after else max(end, start)
        kind, about = meaning(moment, after)
        before = spans[-1] if spans else None
        if before and (before.kind, before.about, before.attempt, before.end) == (
            *(kind, about, moment["attempt"], start),
        ):
            spans[-1] = Span(before.start, stop, kind, about, before.attempt)
        elif stop > start:
            spans.append(Span(start, stop, kind, about, moment["attempt"]))
    return tuple(spans)


def meaning(moment: Moment, after: Moment | None) -> tuple[str, str]:
    """The kind of span that a moment begins, and what it is about."""
    phase = short_text(moment.get("phase")) or ""
    if phase:
        kind = PHASES.get(phase.split()[0], OTHER)
        if kind == WAITING:
            return kind, phase.removeprefix(WAITING_FOR) if phase.startswith(WAITING_FOR) else ""
        return kind, phase if kind == OTHER else ""
    if moment["state"] in STATES:
        return STATES[moment["state"]], moment.get("peer") or ""
    return (IMPORTING if is_loading(after) else RUNNING), ""


def is_loading(after: Moment | None) -> bool:
    """Whether a program that has said nothing yet was being loaded: it said something next."""
    return after is not None and (
        after["state"] == "serving" or bool(after["state"] == "running" and after.get("phase"))
    )


def pulls_of(task: str, events: Iterable[Event], end: float) -> list[tuple[float, float]]:
    """When the task's image was being pulled, as its node said it."""
    found, begun = [], None
    for event in events:
        if event.task != task:
            continue
        if event.kind == "Pulling":
            begun = event.time
        elif event.kind == "Pulled" and begun is not None:
            found.append((begun, event.time))
            begun = None
    return found if begun is None else [*found, (begun, end)]


def with_pulls(spans: Iterable[Span], pulls: Sequence[tuple[float, float]]) -> tuple[Span, ...]:
    """The same, with that part of pending called pulling in which an image was pulled."""
    found: list[Span] = []
    for span in spans:
        found += cut(span, pulls) if span.kind == PENDING else [span]
    return tuple(found)


def cut(span: Span, pulls: Sequence[tuple[float, float]]) -> list[Span]:
    pieces, start = [], span.start
    for begun, done in pulls:
        begun, done = max(begun, start), min(done, span.end)
        if begun < done:
            pieces.append(Span(start, begun, PENDING, span.about, span.attempt))
            pieces.append(Span(begun, done, PULLING, "", span.attempt))
            start = done
    pieces.append(Span(start, span.end, PENDING, span.about, span.attempt))
    return [piece for piece in pieces if piece.end > piece.start]
