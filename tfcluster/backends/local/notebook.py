"""What a keeper writes down of a run's tasks. Where nothing can be written it stays in memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

from tfcluster.archive import Run
from tfcluster.backends.local.look import asked
from tfcluster.errors import DamagedFile
from tfcluster.launch.plan import LaunchPlan
from tfcluster.launch.record import TaskRecord
from tfcluster.refusals import in_brief


class Notebook:
    """The records of a run's tasks; a full, read-only or deleted folder does not concern them."""

    def __init__(self, run: Run, plan: LaunchPlan):
        self.run, self.plan = run, plan
        self.unwritten: dict[str, TaskRecord] = {}
        self.complaint = ""

    def read(self, task: str) -> TaskRecord:
        """What is known of a task; of a record that is damaged, what its launcher says."""
        try:
            return self.unwritten.get(task) or self.run.files.read_task(task) or {}
        except DamagedFile as error:
            self.complain(error.message)
            return asked(self.run, self.plan, task) or {}

    def write(self, task: str, record: TaskRecord) -> None:
        self.unwritten[task] = record
        self.catch_up()

    def forget(self, task: str) -> None:
        """A new launcher writes the record of this task from now on."""
        self.unwritten.pop(task, None)

    def note(self, kind: str, message: str, task: str) -> None:
        self.attempt(lambda: self.run.note(kind, message, task))

    def catch_up(self) -> bool:
        """Write what could not be written before; whether nothing is left."""
        for task in list(self.unwritten):
            if self.attempt(lambda: self.run.files.write_task(task, self.unwritten[task])):  # noqa: B023
                del self.unwritten[task]
        return not self.unwritten

    def attempt(self, action: Callable[[], None]) -> bool:
        """Do what the disk may refuse; whether it was done."""
        try:
            action()
        except (OSError, DamagedFile) as error:
            self.complain(in_brief(error) if isinstance(error, OSError) else error.message)
            return False
        return True

    def complain(self, words: str) -> None:
        """Once, in the keeper's own log, which may be elsewhere."""
        if words != self.complaint:
            self.complaint = words
            with contextlib.suppress(OSError):
                sys.stderr.write(f"keeper: {words}\n")
                sys.stderr.flush()
