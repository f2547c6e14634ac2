"""The log of a task: a file per attempt. What a disk does not take is counted, and said later."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Optional

from tfcluster.launch.system import append_all

TRY_AGAIN = 0.2  # seconds after a write that failed


class TaskLog:
    """Log files in the form that container engines use, one record per line:

    `2026-01-31T12:00:00.000001Z stdout F text`, with P instead of F where no line end followed.
    A full disk, one that cannot be written, and a deleted file do not concern the program.
    """

    def __init__(self, folder: str, task: str):
        self.folder, self.task = folder, task
        self.path = ""
        self.file: Optional[int] = None
        self.lost = 0  # lines that could not be written
        self.deleted = False
        self.why = ""  # as long as it lasts
        self.failed = -TRY_AGAIN

    @property
    def trouble(self) -> str:
        return f"cannot write {self.path}: {self.why}" if self.why else ""

    @property
    def behind(self) -> bool:
        """Whether the file does not say yet which lines it lacks."""
        return self.lost > 0 or self.deleted

    def begin(self, attempt: int) -> None:
        """From now on the lines of this attempt come."""
        self.close()
        self.path = os.path.join(self.folder, f"{self.task}.{attempt}.log")
        try:
            self.open()
        except OSError as error:
            self.fail(error)

    def open(self) -> None:
        if self.file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
            self.file = os.open(self.path, flags, 0o600)

    def fail(self, error: OSError) -> None:
        self.why = error.strerror or str(error)
        self.failed = time.monotonic()

    def store(self, stream: str, line: bytes, flag: bytes) -> None:
        """Append one line, behind a word about those that are missing before it."""
        if not self.path:
            return
        data = self.loss() + log_record(stream, flag, line)
        if time.monotonic() - self.failed < TRY_AGAIN or not self.put(data):
            self.lost += 1

    def loss(self) -> bytes:
        """A record that says how many lines are missing here, if some are."""
        if not self.behind:
            return b""
        if self.deleted:
            words = "tfcluster: this log was deleted; what was printed before is gone"
            return log_record("stderr", b"F", words.encode())
        lines = f"{self.lost} line{'' if self.lost == 1 else 's'}"
        words = f"tfcluster: {lines} could not be written here: {self.why}"
        return log_record("stderr", b"F", words.encode())

    def put(self, data: bytes) -> bool:
        """Write it all, or nothing; whether it is there."""
        try:
            self.open()
            assert self.file is not None
            append_all(self.file, data)
        except OSError as error:
            self.fail(error)
            return False
        self.lost, self.deleted, self.why = 0, False, ""
        return True

    def look(self) -> None:
        """Notice that the file was deleted; say what is missing, once that can be done."""
        if self.file is not None and os.fstat(self.file).st_nlink == 0:
            self.close()
            self.deleted = True
        if self.behind and time.monotonic() - self.failed >= TRY_AGAIN:
            self.put(self.loss())

    def close(self) -> None:
        if self.file is not None:
            with contextlib.suppress(OSError):
                os.close(self.file)
        self.file = None


def log_record(stream: str, flag: bytes, line: bytes) -> bytes:
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return f"{stamp}.{int(now % 1 * 1e6):06d}Z {stream} ".encode() + flag + b" " + line + b"\n"
