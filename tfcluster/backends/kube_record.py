"""The record of one task, as it is kept in the run's folder, with its log files."""

from __future__ import annotations

import collections
import os
import threading
import time
from typing import Any

from tfcluster import launcher
from tfcluster.archive import Run, read_json
from tfcluster.events import ENDED

WRITE_EVERY = 0.2  # seconds between two writes of progress


class TaskRecord:
    """What is known of a task. Written by the thread that reads its log and by the keeper's own."""

    def __init__(self, run: Run, task: str):
        self.run, self.task = run, task
        self.path = run.path / "tasks" / f"{task}.json"
        self.record: dict[str, Any] = read_json(self.path) or {"task": task}
        self.final: dict[str, Any] | None = None  # the launcher's last word, not yet published
        self.lines: collections.deque[str] = collections.deque(
            self.record.get("lines", ()), maxlen=launcher.KEPT_LINES
        )
        self.files: dict[int, int] = {}
        self.guard = threading.RLock()
        self.written = 0.0
        self.dirty = False

    @property
    def over(self) -> bool:
        return self.record.get("state") in ENDED

    def update(self, **changes: Any) -> None:
        with self.guard:
            self.record.update(changes)
            self.write()

    def later(self, **changes: Any) -> None:
        """As update, but not more often than somebody can look."""
        with self.guard:
            self.record.update(changes)
            self.dirty = True
            if time.monotonic() - self.written > WRITE_EVERY:
                self.write()

    def flush(self) -> None:
        with self.guard:
            if self.dirty:
                self.write()

    def write(self) -> None:
        self.record["lines"] = list(self.lines)
        launcher.write_json(str(self.path), self.record)
        self.written, self.dirty = time.monotonic(), False

    def understand(self, line: bytes) -> None:
        """Take up what a line of the program says."""
        if line.startswith(launcher.PROGRESS):
            progress = launcher.parse_object(line[len(launcher.PROGRESS) :])
            self.later(progress=progress or self.record.get("progress"))
        elif line.startswith(launcher.RESULT):
            result = launcher.parse_object(line[len(launcher.RESULT) :])
            self.update(result=result or self.record.get("result"))
        elif not line.startswith(b"tfcluster:"):
            self.lines.append(line[:500].decode("utf-8", "replace").rstrip("\r"))

    def file(self, attempt: int) -> int:
        """The log file of an attempt, open for appending."""
        if attempt not in self.files:
            path = self.run.logs / f"{self.task}.{attempt}.log"
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self.files[attempt] = os.open(path, flags, 0o600)
        return self.files[attempt]

    def close(self) -> None:
        self.flush()
        for descriptor in self.files.values():
            os.close(descriptor)
        self.files = {}
