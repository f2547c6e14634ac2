"""What lines of a task's output mean: reports of its launcher, progress and results of its program.

A program can print whatever it likes, so every object is checked, field by field, before it is
used. What does not pass is an ordinary line of output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfcluster.events import STATES
from tfcluster.launch import exits
from tfcluster.launch.lines import PROGRESS, RESULT, read_state

LARGEST_REPORT = 1 << 18  # bytes of a launcher's line; its last lines are in there
CLAIMS = {PROGRESS: "progress", RESULT: "result"}

Check = Callable[[Any], bool]


def verify(line: bytes, key: bytes, task: str) -> dict[str, Any] | None:
    """The report in a line, if the task's launcher wrote it, and only its known fields.

    A report either begins or ends an attempt's output on its stream, or tells the task's state.
    """
    found = read_state(key, task, line)
    if found is None:
        return None
    for marker, check in MARKERS.items():
        if marker in found:
            return {marker: found[marker]} if check(found[marker]) else None
    known = {key: found[key] for key in REPORT if key in found}
    return known if "state" in known and has_shape(known, REPORT) else None


def was_stopped(report: Mapping[str, Any] | None) -> bool:
    """Whether a launcher's last report says that a signal from outside ended it.

    That may be an engine that shuts down and comes back; whoever knows better settles it.
    """
    return report is not None and report.get("kind") == exits.SIGNALLED


def claim_in(line: bytes) -> str:
    """What a line, or the beginning of a long one, claims to be: "progress", "result" or ""."""
    return next((name for prefix, name in CLAIMS.items() if line.startswith(prefix)), "")


# -- Shapes ------------------------------------------------------------------------------------


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e12


def or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def has_shape(value: Any, shape: Mapping[str, Check]) -> bool:
    """Whether it is an object in which every field of the shape that is there passes."""
    return isinstance(value, dict) and all(
        check(value[key]) for key, check in shape.items() if key in value
    )


def is_cause(value: Any) -> bool:
    return has_shape(value, CAUSE) and {"task", "time"} <= value.keys()


MARKERS: Mapping[str, Check] = {
    "begin": lambda value: is_count(value) and value < 1 << 31,
    "end": lambda value: value is True,
}
CAUSE: Mapping[str, Check] = {
    "task": is_text,
    "kind": is_text,
    "peer": or_none(is_text),
    "module": or_none(is_text),
    "python": or_none(is_text),
    "reason": is_text,
    "exitCode": or_none(is_count),
    "time": is_time,
    "lines": lambda value: isinstance(value, list) and all(map(is_text, value)),
}
PROGRAM: Mapping[str, Check] = {"pid": or_none(is_count), "start": or_none(is_text)}
REPORT: Mapping[str, Check] = {
    "event": is_text,
    "kind": is_text,
    "state": lambda value: is_text(value) and value in STATES,
    "reason": is_text,
    "exitCode": or_none(is_count),
    "attempt": is_count,
    "restarts": is_count,
    "failures": is_count,
    "program": or_none(lambda value: has_shape(value, PROGRAM)),
    "started": or_none(is_time),
    "ended": or_none(is_time),
    "cause": or_none(is_cause),
    "doing": lambda value: isinstance(value, dict),
    "silent": lambda value: isinstance(value, dict) and all(map(is_time, value.values())),
}
