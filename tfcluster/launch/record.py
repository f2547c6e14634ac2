"""What is known of a task, as launchers write it and as everyone reads it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict

RECORD_VERSION = 2
KEPT_LINES = 20  # the last lines of a program that a record keeps
ENDED = frozenset({"succeeded", "failed", "stopped"})


class Process(TypedDict):
    """A process: `start` tells it from a later one with the same pid."""

    pid: Optional[int]
    start: Optional[str]


class Cause(TypedDict, total=False):
    """The first task that failed for the last time, and what it said before."""

    task: str
    kind: str  # see exits
    exitCode: Optional[int]
    reason: str
    lines: List[str]
    time: float
    peer: Optional[str]  # the other end, where two tasks could not reach each other
    module: Optional[str]  # what the program's interpreter lacks
    python: Optional[str]  # that interpreter


class Doing(TypedDict, total=False):
    """What a task is at, beyond its state, as the hub knows it too."""

    state: str
    since: float
    waitsFor: List[str]  # the peers that it waits for
    stalled: Optional[float]  # since when its program has reported no progress
    stopped: Optional[float]  # since when its program is stopped (SIGSTOP) and not continued
    ended: bool


class Moment(TypedDict, total=False):
    """From when on a task was at something; it ends where the next one begins."""

    time: float
    attempt: int
    state: str  # pending, waiting, restarting, starting, running, serving, stalled, ended
    phase: str  # what the program calls it: importing, training, saving, …
    peer: str  # whom it waits for


class TaskRecord(TypedDict, total=False):
    """One task: tasks/<task>.json of a run folder, and what a launcher answers."""

    version: int
    run: str
    job: str
    task: str
    state: str  # pending, starting, running, serving, succeeded, failed, stopped
    kind: str  # why it is in that state; see exits
    reason: str  # the same in words
    exitCode: Optional[int]
    attempt: int
    restarts: int
    failures: int
    progress: Optional[Dict[str, Any]]
    progressed: Optional[float]  # when the last progress came
    result: Optional[Dict[str, Any]]
    lines: List[str]
    launcher: Process
    program: Process
    started: float
    ended: Optional[float]
    cause: Optional[Cause]
    doing: Doing
    history: List[Moment]  # the last and longest; see history
    silent: Dict[str, float]  # at the hub: tasks that do not answer, since when
    # Written by the keepers of container backends, which read the rest from log streams:
    container: Optional[str]  # whose output was read last: a container's id or a pod's uid
    containerExit: Optional[int]  # how that container ended, as the engine says
    stateStamp: str  # the engine's time of the last state taken in
    base: int  # how many attempts earlier pods of the task have logged
    offset: Optional[int]  # what to add to a pod's own count of attempts
    pod: Optional[Dict[str, Any]]
    problem: Optional[Dict[str, Any]]  # why a pod does not start
    read: List[str]  # uids of the pods whose logs are complete
    admitted: Optional[float]  # when a queue let it in
    replacing: Optional[str]  # uid of the pod that is being replaced


def given_up(result: Optional[Dict[str, Any]]) -> List[str]:
    """The tasks that a program says, in its result, to have completed the job without."""
    named = (result or {}).get("without")
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
