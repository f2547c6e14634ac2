"""A job's status as rows of text, for `up`, `status`, `ps` and `history`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfcluster.events import JobStatus, Observed, Progress, is_measure
from tfcluster.glyphs import glyph
from tfcluster.launch import exits
from tfcluster.launch.record import given_up
from tfcluster.results import Results, is_empty, place_text, places
from tfcluster.times import time_of_day

BAR = 12
ALWAYS = ("TASK", "STATE")
STALL_SHOWN = 20.0  # seconds without progress after which a running task says so
LONGEST_LEFT = 100 * 3600.0  # seconds; what takes longer is no guess worth showing
HUGE = 1e15  # from here on only an exponent is short enough to read
SAYS_STATE = {exits.PEER_FAILED, exits.SIGNALLED, exits.STOPPED}  # "stopped because …", "stopped"


def bar(fraction: float, cells: int = BAR) -> str:
    """`━━━━━━╸         `, filled by the fraction."""
    halves = round(max(0.0, min(1.0, fraction)) * cells * 2)
    return (glyph("━") * (halves // 2) + glyph("╸") * (halves % 2)).ljust(cells)


def number(value: float | str) -> str:
    """A few significant digits, with no exponent where it can be helped; a word stays one."""
    if isinstance(value, str):
        return value
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


def phase(task: Observed) -> str:
    """What a task is at, beyond its state: waiting for ps-0, importing, training, saving."""
    if task.over or task.state == "pending":
        return ""
    if task.kind == exits.WAITING:
        more = f" (+{len(task.waits_for) - 1})" if len(task.waits_for) > 1 else ""
        return f"waiting for {task.waits_for[0]}{more}" if task.waits_for else "waiting for peers"
    if task.progress is None or task.kind == exits.RESTARTING:
        return ""  # nothing is said yet, or by an attempt that is over
    implied = "training" if task.progress.step is not None else ""
    return task.progress.phase or implied


def seconds_left(task: Observed) -> float | None:
    """How long a task will take at its present rate, where its progress tells it."""
    progress = task.progress
    if progress is None or task.state != "running" or not progress.rate or progress.rate < 0:
        return None
    if progress.step is None or not progress.total:
        return None
    return max(0.0, progress.total - progress.step) / progress.rate


def left(task: Observed, now: float) -> str:
    """`8 s`, `3 min`, `2 h 5 min`: what is left, as exactly as a guess deserves."""
    seconds = seconds_left(task)
    if seconds is None or seconds > LONGEST_LEFT or stands_still(task, now):
        return ""
    if 60 <= seconds < 3600:
        return f"{round(seconds / 60)} min"
    return clock(seconds, whole=True)


def clock(seconds: float, *, whole: bool = False) -> str:
    """A length of time as people say it: 9.8 s (or 9 s), 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{int(seconds)} s" if whole else f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def age(task: Observed, now: float) -> str:
    return clock((task.ended or now) - task.started) if task.started else ""


def task_rows(
    tasks: Sequence[Observed], *, bars: bool = False, wide: bool = False, keep: Sequence[str] = ()
) -> tuple[list[str], list[list[str]]]:
    """Header and rows. Columns that no task fills are left out, except those in `keep`."""
    longest = max((len(steps(task.progress)) for task in tasks), default=0)
    now = time.time()
    header = ["TASK", "STATE", "PHASE", "STEP", "RATE", "LOSS", "LEFT", "RESTARTS"]
    header += ["EXIT", "TIME", "PID", "ADDRESS"] if wide else []
    header.append("REASON")
    rows = []
    for task in tasks:
        progress, step = task.progress, steps(task.progress)
        if bars and progress and progress.step is not None and progress.total:
            step = f"{step:{longest}} {bar(progress.step / progress.total)}"
        restarts = str(task.restarts) if task.restarts or "RESTARTS" in keep else ""
        speed = "" if stands_still(task, now) else rate(progress)
        row = [task.task, task.state, phase(task), step, speed, loss(progress), left(task, now)]
        row.append(restarts)
        if wide:
            code = "" if task.exit_code is None else str(task.exit_code)
            row += [code, age(task, now), str(task.pid or ""), task.address]
        # Beside a bar there is no room to say twice whom a task waits for.
        waits = bars and task.kind == exits.WAITING and task.waits_for
        rows.append([*row, "" if waits else reason_text(task, now)])
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


def stands_still(task: Observed, now: float) -> bool:
    """Whether a task that has not ended is stopped, does not answer, or makes no progress."""
    odd = task.silent_since is not None or task.stopped_since is not None
    return not task.over and (odd or task.kind == exits.STALLED or bool(stalled(task, now)))


def reason_text(task: Observed, now: float) -> str:
    """Why the task is in its state, and what is odd about it; nothing if all is well."""
    parts = [] if task.kind == exits.FINISHED or not task.reason else [task.reason]
    if task.silent_since is not None and not task.over:
        parts.append(f"does not answer since {time_of_day(task.silent_since)}")
    elif task.kind == exits.STALLED:
        pass  # the reason says so
    elif task.stopped_since is not None and not task.over:
        parts.append(f"stopped (SIGSTOP) since {time_of_day(task.stopped_since)}")
    elif length := stalled(task, now):
        parts.append(f"no progress for {length:.0f} s")
    if words := problem(task):
        parts.append(words)
    return "; ".join(parts)


def problem(task: Observed) -> str:
    """What a task says to be wrong although it goes on; nothing once it has ended."""
    if task.over or task.progress is None or task.kind == exits.RESTARTING:
        return ""
    return task.progress.problem or ""


def state_text(task: Observed) -> str:
    """`failed (exit code 3)`, without saying anything twice."""
    if not task.reason or task.kind == exits.FINISHED:
        return task.state
    return task.reason if task.kind in SAYS_STATE else f"{task.state} ({task.reason})"


def headline(status: JobStatus, *, whole: bool = False) -> str:
    """`mnist (run 7f3a, local): running for 12.0 s`, or in whole seconds."""
    length = ""
    if status.started:
        word = "after" if status.over else "for"
        elapsed = (status.ended or time.time()) - status.started
        length = f" {word} {clock(elapsed, whole=whole)}"
    return f"{status.job} (run {status.run}, {status.backend}): {status.state}{length}"


def result_text(result: Mapping[str, Any] | None) -> str:
    """`test accuracy 0.971, global step 2400`, as far as the result says so, and without whom."""
    words = {"accuracy": "test accuracy", "global_step": "global step"}
    parts = []
    for key, word in words.items():
        value = (result or {}).get(key)
        if is_measure(value):
            parts.append(f"{word} {value if isinstance(value, int) else number(value)}")
    if names := given_up(dict(result or {})):
        parts.append(f"without {', '.join(names)}")
    return ", ".join(parts)


def results_lines(
    results: Iterable[Results], *, wide: bool = False, look: bool = True
) -> list[str]:
    """`Results: /home/ann/…/output`, a line per place; with `wide` also how to copy them.

    `look` says where nothing was written yet.
    """
    found, lines = places(results), []
    for one in found:
        label = "Results" if len(found) == 1 else f"Results ({one.holds})"
        empty = " (nothing is there)" if look and is_empty(one) else ""
        lines.append(f"{label}: {place_text(one)}{empty}")
        if wide and one.copy:
            lines.append(f"  copy: {one.copy}")
    return lines


def counted(count: int, noun: str) -> str:
    """`1 task`, `3 tasks`; roles keep the names they have."""
    plural = noun if noun in ("ps", "chief") or noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
