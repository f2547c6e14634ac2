"""A job's status as rows of text, for `up`, `status`, `ps` and `history`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfcluster.events import JobStatus, Observed, Progress, is_usable
from tfcluster.launch import exits

BAR = 16
ALWAYS = ("TASK", "STATE")
STALL_SHOWN = 20.0  # seconds without progress after which a running task says so
HUGE = 1e15  # from here on only an exponent is short enough to read
SAYS_STATE = {exits.PEER_FAILED, exits.SIGNALLED, exits.STOPPED}  # "stopped because …", "stopped"


def bar(fraction: float, cells: int = BAR) -> str:
    """`━━━━━━╸         `, filled by the fraction."""
    halves = round(max(0.0, min(1.0, fraction)) * cells * 2)
    return ("━" * (halves // 2) + "╸" * (halves % 2)).ljust(cells)


def number(value: float) -> str:
    """A few significant digits, with no exponent where it can be helped."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if value and abs(value) < 0.001:
        return f"{value:.1e}"
    if abs(value) >= HUGE:
        return f"{value:.1e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def steps(progress: Progress | None) -> str:
    if progress is None or progress.step is None:
        return ""
    return f"{progress.step:g}/{progress.total:g}" if progress.total else f"{progress.step:g}"


def rate(progress: Progress | None) -> str:
    if progress is None or progress.rate is None:
        return ""
    if abs(progress.rate) >= HUGE:
        return f"{progress.rate:.1e}/s"
    return f"{progress.rate:.0f}/s" if progress.rate >= 10 else f"{progress.rate:.1f}/s"


def loss(progress: Progress | None) -> str:
    return "" if progress is None or progress.loss is None else number(progress.loss)


def clock(seconds: float) -> str:
    """A length of time as people say it: 9.8 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def moment(seconds: float | None) -> str:
    """A time as local people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else ""


def age(task: Observed, now: float) -> str:
    return clock((task.ended or now) - task.started) if task.started else ""


def task_rows(
    tasks: Sequence[Observed], *, bars: bool = False, wide: bool = False, keep: Sequence[str] = ()
) -> tuple[list[str], list[list[str]]]:
    """Header and rows. Columns that no task fills are left out, except those in `keep`."""
    longest = max((len(steps(task.progress)) for task in tasks), default=0)
    now = time.time()
    header = ["TASK", "STATE", "STEP", "RATE", "LOSS", "RESTARTS"]
    header += ["EXIT", "TIME", "PID", "ADDRESS"] if wide else []
    header.append("REASON")
    rows = []
    for task in tasks:
        progress, step = task.progress, steps(task.progress)
        if bars and progress and progress.step is not None and progress.total:
            step = f"{step:{longest}} {bar(progress.step / progress.total)}"
        restarts = str(task.restarts) if task.restarts or "RESTARTS" in keep else ""
        speed = "" if stalled(task, now) else rate(progress)
        row = [task.task, task.state, step, speed, loss(progress), restarts]
        if wide:
            code = "" if task.exit_code is None else str(task.exit_code)
            row += [code, age(task, now), str(task.pid or ""), task.address]
        rows.append([*row, reason_text(task, now)])
    used = [
        column
        for column, name in enumerate(header)
        if name in (*ALWAYS, *keep) or any(row[column] for row in rows)
    ]
    return [header[column] for column in used], [[row[column] for column in used] for row in rows]


def stalled(task: Observed, now: float) -> float:
    """For how many seconds a running task has made no progress; 0 while that is no news."""
    if task.state != "running" or task.progressed is None:
        return 0.0
    length = now - task.progressed
    return length if length > STALL_SHOWN else 0.0


def reason_text(task: Observed, now: float) -> str:
    """Why the task is in its state, and what is odd about it; nothing if all is well."""
    parts = [] if task.kind == exits.FINISHED or not task.reason else [task.reason]
    if task.silent_since is not None and not task.over:
        since = time.strftime("%H:%M:%S", time.localtime(task.silent_since))
        parts.append(f"does not answer since {since}")
    elif length := stalled(task, now):
        parts.append(f"no progress for {length:.0f} s")
    return "; ".join(parts)


def state_text(task: Observed) -> str:
    """`failed (exit code 3)`, without saying anything twice."""
    if not task.reason or task.kind == exits.FINISHED:
        return task.state
    return task.reason if task.kind in SAYS_STATE else f"{task.state} ({task.reason})"


def headline(status: JobStatus) -> str:
    """`mnist (run 7f3a, local): running for 12.0 s`."""
    length = ""
    if status.started:
        word = "after" if status.over else "for"
        length = f" {word} {clock((status.ended or time.time()) - status.started)}"
    return f"{status.job} (run {status.run}, {status.backend}): {status.state}{length}"


def result_text(result: Mapping[str, Any] | None) -> str:
    """`test accuracy 0.971, global step 2400`, as far as the result says so."""
    words = {"accuracy": "test accuracy", "global_step": "global step"}
    parts = []
    for key, word in words.items():
        value = (result or {}).get(key)
        if isinstance(value, int | float) and is_usable(value):
            parts.append(f"{word} {value if isinstance(value, int) else number(value)}")
    return ", ".join(parts)


def counted(count: int, noun: str) -> str:
    """`1 task`, `3 tasks`; roles keep the names they have."""
    plural = noun if noun in ("ps", "chief") or noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
