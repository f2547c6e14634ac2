"""A program's output: passed on byte by byte, or kept in log files, and read for what it says."""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import time
from typing import Any, Callable, Deque, Dict, Mapping, Optional

from tfcluster.launch.lines import PROGRESS, RESULT, UNENDED, parse_said, state_line
from tfcluster.launch.record import KEPT_LINES
from tfcluster.launch.system import write_all

DESCRIPTORS = {"stdout": 1, "stderr": 2}
LONGEST_LINE = 1 << 16  # longer ones are kept in pieces
TELL_EVERY = 0.5  # seconds between two words about progress


class Output:
    """Passes bytes on as they come, to our own streams or to a log file per attempt.

    The log file has the form that container engines use, one record per line:
    `2026-01-31T12:00:00.000001Z stdout F text`, with P instead of F where no line end followed.
    With `report_key`, states of the task are written into the streams as well.
    """

    def __init__(
        self,
        folder: Optional[str],
        task: str,
        report_key: Optional[bytes] = None,
        progressed: Callable[[], None] = lambda: None,
    ):
        self.folder, self.task, self.report_key = folder, task, report_key
        self.tell_progress = progressed
        self.lines: Deque[str] = collections.deque(maxlen=KEPT_LINES)
        self.progress: Optional[Dict[str, Any]] = None
        self.progressed: Optional[float] = None
        self.result: Optional[Dict[str, Any]] = None
        self.partial = {"stdout": b"", "stderr": b""}
        self.unended = {"stdout": False, "stderr": False}
        self.lock = threading.Lock()
        self.file: Optional[int] = None
        self.told = 0.0
        self.lost = 0  # bytes that no disk would take

    def begin_attempt(self, attempt: int) -> None:
        if self.folder:
            with self.lock:
                self.open(attempt)
        self.report({"begin": attempt}, "stdout", "stderr")

    def open(self, attempt: int) -> None:
        if self.file is not None:
            os.close(self.file)
        path = os.path.join(self.folder or "", f"{self.task}.{attempt}.log")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        self.file = os.open(path, flags, 0o600)

    def end_attempt(self) -> None:
        """Keep what was written without a line end."""
        for stream in self.partial:
            with self.lock:
                self.break_line(stream)

    def break_line(self, stream: str) -> None:
        """Let what comes next begin a line, without pretending that the program ended its own."""
        rest, self.partial[stream] = self.partial[stream], b""
        if rest:
            self.record(stream, rest, b"P")
        if self.report_key and self.unended[stream]:
            write_all(DESCRIPTORS[stream], UNENDED + b"\n")
            self.unended[stream] = False

    def report(self, state: Mapping[str, Any], *streams: str) -> None:
        """Say something about the task in its own output, where that was asked for."""
        if self.report_key is None:
            return
        line = state_line(self.report_key, self.task, state) + b"\n"
        with self.lock:
            for stream in streams:
                self.break_line(stream)
                write_all(DESCRIPTORS[stream], line)

    def pump(self, stream: str, pipe: Any) -> None:
        with pipe:
            for chunk in iter(lambda: os.read(pipe.fileno(), 1 << 16), b""):
                self.write(stream, chunk)

    def write(self, stream: str, chunk: bytes) -> None:
        with self.lock:
            if self.folder is None:
                write_all(DESCRIPTORS[stream], chunk)
                self.unended[stream] = not chunk.endswith(b"\n")
            *whole, rest = (self.partial[stream] + chunk).split(b"\n")
            for line in whole:
                self.record(stream, line, b"F")
            # A program that never ends its lines must not fill our memory.
            if len(rest) > LONGEST_LINE:
                self.record(stream, rest, b"P")
                rest = b""
            self.partial[stream] = rest

    def announce(self, text: str) -> None:
        """A line of our own, kept apart from the program's lines."""
        with self.lock:
            if self.folder is None:
                if self.report_key:
                    self.break_line("stderr")
                write_all(DESCRIPTORS["stderr"], text.encode() + b"\n")
            else:
                self.store("stderr", text.encode(), b"F")

    def record(self, stream: str, line: bytes, flag: bytes) -> None:
        if line.startswith(PROGRESS):
            self.take_progress(parse_said(line[len(PROGRESS) :]))
        elif line.startswith(RESULT):
            self.result = parse_said(line[len(RESULT) :]) or self.result
        else:
            self.lines.append(line[:500].decode("utf-8", "replace").rstrip("\r"))
        if self.folder is not None:
            self.store(stream, line, flag)

    def take_progress(self, progress: Optional[Dict[str, Any]]) -> None:
        if progress is None:
            return
        now = time.time()
        if self.progress is None or progress.get("step") != self.progress.get("step"):
            self.progressed = now
        self.progress = progress
        if now - self.told > TELL_EVERY:
            self.told = now
            self.tell_progress()

    def store(self, stream: str, line: bytes, flag: bytes) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        head = f"{stamp}.{int(now % 1 * 1e6):06d}Z {stream} ".encode()
        if self.file is None:
            return
        try:
            write_all(self.file, head + flag + b" " + line + b"\n")
        except OSError:  # a full disk must not end the program
            self.lost += len(line)

    def close(self) -> None:
        self.report({"end": True}, "stdout", "stderr")
        with self.lock:
            if self.file is not None:
                with contextlib.suppress(OSError):
                    os.close(self.file)
            self.file = None
