"""Where a launcher puts what becomes of its task: a file, its own output, a termination message."""

from __future__ import annotations

import collections
import contextlib
import errno
import json
import os
import sys
import time
from typing import Any, Deque, Dict, Optional

from tfcluster.launch.output import Output
from tfcluster.launch.record import TaskRecord
from tfcluster.launch.system import append_line, write_json

FINAL_RECORD = 4000  # bytes; Kubernetes keeps 4096 of a termination message
KEPT_EVENTS = 200  # while they cannot be written
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
        self.behind = False  # whether the record says less than we know
        self.trouble = ""  # why, as long as it lasts
        self.complained: Optional[int] = None  # of which error
        self.unwritten: Deque[str] = collections.deque(maxlen=KEPT_EVENTS)

    def changed(self, record: TaskRecord, event: str) -> None:
        """The task is in another state. It is on disk before anyone is told."""
        self.refresh(record)
        known = {key: value for key, value in record.items() if key in REPORTED}
        self.output.report({"event": event, **known}, "stderr")
        self.note(event, record["task"], record["reason"])

    def refresh(self, record: TaskRecord) -> None:
        """The same state, with newer progress."""
        if not self.record_path:
            return
        try:
            write_with_little_room(self.record_path, record)
            self.behind = False
        except OSError as error:
            self.behind = True
            self.complain(error)

    def complain(self, error: OSError) -> None:
        """Say once that nothing can be written down, where that is still possible."""
        self.trouble = f"cannot write {error.filename}: {error.strerror}"
        if error.errno != self.complained:
            self.complained = error.errno
            self.output.announce(f"tfcluster: {self.trouble}")
            with contextlib.suppress(OSError):
                print(f"launcher: {self.trouble}", file=sys.stderr, flush=True)

    def catch_up(self, record: TaskRecord) -> None:
        """Write what could not be written before, if that can be done now."""
        if self.behind:
            self.refresh(record)
        self.write_events()
        if not self.behind and not self.unwritten:
            self.trouble, self.complained = "", None

    def note(self, event: str, task: str, message: str) -> None:
        if self.events_path:
            line = {"time": time.time(), "kind": event, "task": task, "message": message}
            self.unwritten.append(json.dumps({"schemaVersion": 1, **line}))
            self.write_events()

    def write_events(self) -> None:
        try:
            while self.events_path and self.unwritten:
                append_line(self.events_path, self.unwritten[0])
                self.unwritten.popleft()
        except OSError as error:
            self.complain(error)

    def final(self, record: TaskRecord) -> None:
        """The end of a task in a few kilobytes, for a reader that sees nothing else of us."""
        if self.final_path:
            with contextlib.suppress(OSError), open(self.final_path, "wb") as file:
                file.write(final_record(record))


def write_with_little_room(path: str, record: TaskRecord) -> None:
    """Write a record; where there is no room for two, the one before makes room for this one.

    Whoever finds none asks us instead.
    """
    try:
        write_json(path, record)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        with contextlib.suppress(OSError):
            os.unlink(path)
        write_json(path, record)


def final_record(record: TaskRecord) -> bytes:
    """As much of a record as a termination message holds; the last lines are left out first."""
    keys = ("task", "state", "kind", "reason", "exitCode", "attempt", "restarts", "ended")
    final: Dict[str, Any] = {key: record.get(key) for key in (*keys, "result", "progress")}
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
            short = {key: final[key] for key in ("task", "state", "kind", "exitCode", "ended")}
            return json.dumps(short).encode()
