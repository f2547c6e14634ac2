"""A program's output: passed on byte by byte, or kept in log files, and read for what it says."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, Mapping, Optional

from tfcluster.launch.lines import PROGRESS, RESULT, UNENDED, parse_said, state_line
from tfcluster.launch.logfile import TaskLog
from tfcluster.launch.notices import LastLines
from tfcluster.launch.progress import ProgressLog
from tfcluster.launch.record import KEPT_LINES, Moment
from tfcluster.launch.system import write_all

DESCRIPTORS = {"stdout": 1, "stderr": 2}
LONGEST_LINE = 1 << 16  # longer ones are kept in pieces
TELL_EVERY = 0.5  # seconds between two words about progress


class Output:
    """Passes bytes on as they come, to our own streams or to a log file per attempt.

    With `report_key`, states of the task are written into the streams as well.
    """

    def __init__(
        self,
        folder: Optional[str],
        task: str,
        report_key: Optional[bytes] = None,
        progressed: Callable[[], None] = lambda: None,
        has_gpu: bool = False,
        moments: Iterable[Moment] = (),
    ):
        self.task, self.report_key = task, report_key
        self.logfile = TaskLog(folder, task) if folder else None
        self.tell_progress = progressed
        self.lines = LastLines(KEPT_LINES, has_gpu)
        self.log = ProgressLog(moments=moments)
        self.attempt = 0
        self.untold = False  # whether there is progress that nobody was told of
        self.result: Optional[Dict[str, Any]] = None
        self.partial = {"stdout": b"", "stderr": b""}
        self.unended = {"stdout": False, "stderr": False}
        self.lock = threading.Lock()
        self.told = 0.0

    def begin_attempt(self, attempt: int) -> None:
        self.attempt = attempt
        with self.lock:
            self.lines.clear()  # a failure shows the last lines of its own attempt
            if self.logfile:
                self.logfile.begin(attempt)
        self.report({"begin": attempt}, "stdout", "stderr")

    @property
    def trouble(self) -> str:
        """Why lines cannot be kept, as long as that is so."""
        return self.logfile.trouble if self.logfile else ""

    def look(self) -> None:
        if self.logfile:
            with self.lock:
                self.logfile.look()

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
            if self.logfile is None:
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
            if self.logfile is None:
                if self.report_key:
                    self.break_line("stderr")
                write_all(DESCRIPTORS["stderr"], text.encode() + b"\n")
            else:
                self.logfile.store("stderr", text.encode(), b"F")

    def record(self, stream: str, line: bytes, flag: bytes) -> None:
        if line.startswith(PROGRESS):
            self.take_progress(parse_said(line[len(PROGRESS) :]))
        elif line.startswith(RESULT):
            self.result = parse_said(line[len(RESULT) :]) or self.result
        else:
            self.lines.add(stream, line)
        if self.logfile is not None:
            self.logfile.store(stream, line, flag)

    def take_progress(self, said: Optional[Dict[str, Any]]) -> None:
        if said is None:
            return
        now = time.time()
        self.log.take(said, self.attempt, now)
        self.untold = now - self.told <= TELL_EVERY
        if not self.untold:
            self.told = now
            self.tell_progress()

    @property
    def behind(self) -> bool:
        """Whether the log does not say yet which lines it lacks."""
        return self.logfile is not None and self.logfile.behind

    def end(self) -> None:
        """Nothing more comes from the program."""
        self.report({"end": True}, "stdout", "stderr")
        self.look()
