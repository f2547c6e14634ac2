"""From an engine's log stream to the run's folder: log files as the launcher writes them elsewhere,
and the task's state, progress and result, which travel in the same stream.

The log files say how far the stream was read, because every record keeps the engine's time: a
reader that was killed, or lost its engine, goes on behind the last record of each stream.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.docker.engines import Engine
from tfcluster.backends.docker.frames import Frame, read_frames
from tfcluster.backends.records import TaskRecord
from tfcluster.backends.reports import LARGEST_REPORT, verify, was_stopped
from tfcluster.events import ENDED, state_of_code
from tfcluster.launch.exits import describe_exit
from tfcluster.launch.lines import STATE, UNENDED
from tfcluster.launch.system import write_all

PIECE = 1 << 14  # engines cut longer lines into pieces of this size
LONGEST_LINE = 1 << 16  # longer ones are kept in parts
STDOUT_AND_STDERR = frozenset({"stdout", "stderr"})
READS = 5  # of an ended container's log, until it is at its end
READ_AGAIN = 0.2


@dataclass
class Position:
    """How far one stream was read: the last record's time, and how many records had it."""

    stamp: str = ""
    count: int = 0
    attempt: int = 0


def last_positions(run: Run, task: str) -> dict[str, Position]:
    """Read off the log files of a task; a record that a killed reader left cut is removed."""
    found = {stream: Position() for stream in STDOUT_AND_STDERR}
    for attempt in run.files.log_attempts(task):
        path, whole = run.files.log_file(task, attempt), 0
        with open(path, "rb") as file:
            for record in file:
                if not record.endswith(b"\n"):
                    os.truncate(path, whole)
                    break
                whole += len(record)
                stamp, stream, _ = (*record.split(b" ", 2), b"", b"")[:3]
                place = found.get(stream.decode("ascii", "replace"))
                if place is not None:
                    same = place.stamp == stamp.decode("ascii", "replace")
                    place.count = place.count + 1 if same else 1
                    place.stamp, place.attempt = stamp.decode("ascii", "replace"), attempt
    return found


class TaskReader(TaskRecord):
    """Takes in one task's frames, in order."""

    def __init__(self, run: Run, task: str):
        super().__init__(run, task)
        self.positions = last_positions(run, task)
        self.skipped: dict[str, int] = dict.fromkeys(STDOUT_AND_STDERR, 0)
        self.rest: dict[str, Frame | None] = dict.fromkeys(STDOUT_AND_STDERR)
        self.parted: dict[str, str] = dict.fromkeys(STDOUT_AND_STDERR, "")
        self.ends: set[str] = set()
        self.taken = 0  # lines and reports that were new
        self.warned: set[str] = set()

    @property
    def ended(self) -> bool:
        """Whether the launcher has said on both streams that nothing more will come."""
        return self.ends == STDOUT_AND_STDERR

    def begin_container(self, identifier: str) -> None:
        """From now on the frames of another container of the same task come in."""
        if self.record.get("container") != identifier:
            self.ends, self.final = set(), None
            # Its host's clock may be another one.
            for place in self.positions.values():
                place.stamp, place.count = "", 0
            self.update(container=identifier, containerExit=None, stateStamp="")

    def begin_stream(self) -> str:
        """From when on the stream has to be read; pieces that will come again are forgotten."""
        self.rest = dict.fromkeys(STDOUT_AND_STDERR)
        self.parted = dict.fromkeys(STDOUT_AND_STDERR, "")
        self.skipped = dict.fromkeys(STDOUT_AND_STDERR, 0)
        return min(place.stamp for place in self.positions.values())

    def feed(self, frame: Frame) -> None:
        stream, stamp, data = frame
        if stamp < self.positions[stream].stamp:
            return
        rest, self.rest[stream] = self.rest[stream], None
        if rest is not None and rest.stamp != stamp:
            # The pieces of a line share its time; what comes now is another line.
            self.take(rest, whole=True)
        elif rest is not None:
            data = rest.data + data
        # Some log drivers forget the line end of a line that they had cut into pieces.
        whole = frame.data.endswith(b"\n") or len(frame.data) < PIECE
        longest = LARGEST_REPORT if data.startswith(STATE) else LONGEST_LINE
        joined = Frame(stream, stamp, data)
        if whole or len(data) >= longest:
            self.take(joined, whole)
        else:
            self.rest[stream] = joined

    def take(self, frame: Frame, whole: bool) -> None:
        """Take in a line, or the part of a very long one. Only the first part can mean anything."""
        line = frame.data.removesuffix(b"\n")
        continued = self.parted[frame.stream] == frame.stamp
        self.parted[frame.stream] = "" if whole else frame.stamp
        report = verify(line, self.key, self.task) if whole and not continued else None
        if report is not None:
            self.take_report(frame, report)
        elif line.endswith(UNENDED):
            self.take_line(frame, line[: -len(UNENDED)], b"P", begins=not continued)
        else:
            flag = b"F" if whole else b"P"
            self.take_line(frame, line, flag, begins=not continued, whole=whole)

    # -- What lines mean

    def take_line(
        self, frame: Frame, line: bytes, flag: bytes, *, begins: bool, whole: bool = True
    ) -> None:
        place = self.positions[frame.stream]
        if place.stamp == frame.stamp and self.skipped[frame.stream] < place.count:
            self.skipped[frame.stream] += 1  # taken in before the stream was opened again
            return
        if begins:
            self.understand(line, place.attempt, whole=whole)
        head = f"{frame.stamp} {frame.stream} ".encode()
        write_all(self.file(place.attempt), head + flag + b" " + line + b"\n")
        if place.stamp == frame.stamp:
            place.count += 1
        else:
            place.stamp, place.count = frame.stamp, 1
        self.skipped[frame.stream] = place.count
        self.taken += 1

    def take_report(self, frame: Frame, report: dict[str, Any]) -> None:
        if "begin" in report:
            place = self.positions[frame.stream]
            place.attempt = max(place.attempt, report["begin"])
            self.begin_lines(place.attempt)
            self.file(place.attempt)
            self.ends.discard(frame.stream)
        elif "end" in report:
            self.taken += frame.stream not in self.ends
            self.ends.add(frame.stream)
            if self.ended and not was_stopped(self.final):
                self.settle()
        elif frame.stamp > self.record.get("stateStamp", ""):
            known = self.final is not None and self.final["stateStamp"] == frame.stamp
            self.taken += not known
            if report["state"] in ENDED:
                # Published when both streams have ended: whoever sees it has all lines.
                self.final = {**report, "stateStamp": frame.stamp}
            else:
                self.publish({**report, "stateStamp": frame.stamp})

    def settle(self) -> None:
        """Publish the final state that the launcher has announced, if it has."""
        final, self.final = self.final, None
        if final is not None:
            self.publish(final)

    def conclude(self, code: int) -> None:
        """Publish how the task ended as its launcher's exit code says it."""
        self.final = None
        state, reason = state_of_code(code), describe_exit(code)
        self.publish({"state": state, "reason": reason, "exitCode": code, "ended": time.time()})

    def publish(self, report: dict[str, Any]) -> None:
        kind = report.pop("event", "") or report["state"]
        self.update(**report)
        self.run.note(kind, report.get("reason", ""), self.task)


def read_on(engine: Engine, reader: TaskReader, container: str, *, follow: bool = False) -> None:
    """Take in what a container has written since it was read; with follow, what it writes too."""
    reader.begin_container(container)
    try:
        for frame in read_frames(engine, container, reader.begin_stream(), follow):
            reader.feed(frame)
    finally:
        reader.flush()


def read_to_end(
    engine: Engine, reader: TaskReader, container: str, *, expects_end: bool = False
) -> bool:
    """Take in all that an ended container has written; whether that is certain.

    It is, if the launcher said so. A launcher that was killed (`expects_end` is False) could not;
    then a read that adds nothing shows it.
    """
    for attempt in range(READS):
        if attempt:
            time.sleep(READ_AGAIN)
        before = reader.taken
        read_on(engine, reader, container)
        if reader.ended or (reader.taken == before and not expects_end):
            return True
    return False
