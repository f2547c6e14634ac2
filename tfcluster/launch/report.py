"""Where a launcher puts what becomes of its task: a file, its own output, a termination message."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any, Callable, Dict, Optional

from tfcluster.launch.output import Output
from tfcluster.launch.record import TaskRecord
from tfcluster.launch.system import append_line, write_json

FINAL_RECORD = 4000  # bytes; Kubernetes keeps 4096 of a termination message
REPORTED = (
    *("state", "kind", "reason", "exitCode", "attempt", "restarts", "failures"),
    *("program", "started", "ended", "cause", "doing", "silent"),
)


class Reporter:
    """Writes a task's record to whatever places were asked for. A full disk is said, not fatal."""

    def __init__(
        self,
        output: Output,
        record: Optional[str],
        events: Optional[str],
        final: Optional[str],
    ):
        self.output = output
        self.record_path, self.events_path, self.final_path = record, events, final
        self.complained = False

    def attempt(self, action: Callable[[], None]) -> None:
        """Do what may meet a full or read-only disk; complain once where that is still possible."""
        try:
            action()
            self.complained = False
        except OSError as error:
            if not self.complained:
                self.complained = True
                with contextlib.suppress(OSError):
                    self.output.announce(f"tfcluster: cannot write the task's record: {error}")

    def changed(self, record: TaskRecord, event: str) -> None:
        """The task is in another state. It is on disk before anyone is told."""
        self.refresh(record)
        known = {key: value for key, value in record.items() if key in REPORTED}
        self.output.report({"event": event, **known}, "stderr")
        self.note(event, record["task"], record["reason"])

    def refresh(self, record: TaskRecord) -> None:
        """The same state, with newer progress."""
        path = self.record_path
        if path:
            self.attempt(lambda: write_json(path, record))

    def note(self, event: str, task: str, message: str) -> None:
        path = self.events_path
        if path:
            line = {"time": time.time(), "kind": event, "task": task, "message": message}
            self.attempt(lambda: append_line(path, json.dumps({"schemaVersion": 1, **line})))

    def final(self, record: TaskRecord) -> None:
        """The end of a task in a few kilobytes, for a reader that sees nothing else of us."""
        if self.final_path:
            with contextlib.suppress(OSError), open(self.final_path, "wb") as file:
                file.write(final_record(record))


def final_record(record: TaskRecord) -> bytes:
    """As much of a record as a termination message holds; the last lines are left out first."""
    keys = ("task", "state", "kind", "reason", "exitCode", "attempt", "restarts", "result")
    final: Dict[str, Any] = {key: record.get(key) for key in (*keys, "progress")}
    cause: Dict[str, Any] = dict(record.get("cause") or {})
    while True:
        text = json.dumps({**final, "cause": cause or None}).encode()
        if len(text) <= FINAL_RECORD:
            return text
        if cause.get("lines"):
            cause["lines"] = cause["lines"][1:]
        elif final.get("result") is not None:
            final["result"] = None  # it is in the output as well
        else:
            short = {key: final[key] for key in ("task", "state", "kind", "exitCode")}
            return json.dumps(short).encode()
