"""From an engine's log stream to the run's folder: log files as the launcher writes them elsewhere,
and the task's state, progress and result, which travel in the same stream.

The log files say how far the stream was read, because every record keeps the engine's time: a
reader that was killed, or lost its engine, goes on behind the last record of each stream.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.backends.records import TaskRecord
from tfcluster.events import ENDED
from tfcluster.launch.lines import STATE, UNENDED
from tfcluster.launch.system import parse_object, write_all

STREAMS = {1: "stdout", 2: "stderr"}
PIECE = 1 << 14  # engines cut longer lines into pieces of this size
LONGEST_LINE = 1 << 16  # longer ones are kept in pieces
STDOUT_AND_STDERR = frozenset({"stdout", "stderr"})


@dataclass(frozen=True)
class Frame:
    """One message of an engine: a line, or a piece of a long one."""

    stream: str
    stamp: str  # 2026-01-31T12:00:00.000000001Z, always this long
    data: bytes


def read_frames(engine: Engine, container: str, since: str, follow: bool) -> Iterator[Frame]:
    """A container's output from a time on; with follow until it has ended."""
    api = engine.api
    params: dict[str, Any] = {"stdout": 1, "stderr": 1, "timestamps": 1, "follow": int(follow)}
    if since:
        params["since"] = unix_time(since)
    with translated(engine, "logs"):
        # The SDK's own logs() does not tell the two streams apart.
        response = api.get(
            api._url("/containers/{0}/logs", container),
            params=params,
            stream=True,
            timeout=(api.timeout, None if follow else api.timeout),
        )
        api._raise_for_status(response)
        try:
            while len(header := response.raw.read(8)) == 8:
                number, length = struct.unpack(">BxxxL", header)
                stamp, _, data = response.raw.read(length).partition(b" ")
                yield Frame(STREAMS.get(number, "stdout"), stamp.decode("ascii"), data)
        finally:
            response.close()


def unix_time(stamp: str) -> str:
    """Seconds and nanoseconds, as the engine wants `since`."""
    import calendar

    whole, _, fraction = stamp.rstrip("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return f"{seconds}.{fraction.ljust(9, '0')}"


@dataclass
class Position:
    """How far one stream was read: the last record's time, and how many records had it."""

    stamp: str = ""
    count: int = 0
    attempt: int = 0


def last_positions(run: Run, task: str) -> dict[str, Position]:
    """Read off the log files of a task."""
    found = {stream: Position() for stream in STDOUT_AND_STDERR}
    for attempt in run.files.log_attempts(task):
        with open(run.files.log_file(task, attempt), "rb") as file:
            for record in file:
                stamp, stream, *_ = record.split(b" ", 2)
                place = found.get(stream.decode("ascii", "replace"))
                if place is None or not record.endswith(b"\n"):
                    continue
                same = place.stamp == stamp.decode()
                place.count = place.count + 1 if same else 1
                place.stamp, place.attempt = stamp.decode(), attempt
    return found


class TaskReader(TaskRecord):
    """Takes in one task's frames, in order."""

    def __init__(self, run: Run, task: str):
        super().__init__(run, task)
        self.positions = last_positions(run, task)
        self.skipped: dict[str, int] = dict.fromkeys(STDOUT_AND_STDERR, 0)
        self.rest: dict[str, Frame | None] = dict.fromkeys(STDOUT_AND_STDERR)
        self.ends: set[str] = set()

    @property
    def was_stopped(self) -> bool:
        """Whether the launcher says that a signal from outside ended it.

        That may be an engine that shuts down and comes back; whoever knows better settles it.
        """
        final = self.final or {}
        return str(final.get("reason", "")).startswith("stopped by SIG")

    @property
    def since(self) -> str:
        """From when on the stream has to be read again; forget the pieces that will come again."""
        self.rest = dict.fromkeys(STDOUT_AND_STDERR)
        self.skipped = dict.fromkeys(STDOUT_AND_STDERR, 0)
        return min(place.stamp for place in self.positions.values())

    def begin_container(self, identifier: str) -> None:
        """From now on the frames of another container of the same task come in."""
        if self.record.get("container") != identifier:
            self.ends, self.final = set(), None
            # Its host's clock may be another one.
            for place in self.positions.values():
                place.stamp, place.count = "", 0
            self.update(container=identifier, stateStamp="")

    def feed(self, frame: Frame) -> None:
        if frame.stamp < self.positions[frame.stream].stamp:
            return
        rest, self.rest[frame.stream] = self.rest[frame.stream], None
        if rest is not None and rest.stamp != frame.stamp:
            # The pieces of a line share its time; what comes now is another line.
            self.take(rest, whole=True)
            rest = None
        data = (rest.data if rest else b"") + frame.data
        # Some log drivers forget the line end of a line that they had cut into pieces.
        whole = frame.data.endswith(b"\n") or len(frame.data) < PIECE
        joined = Frame(frame.stream, frame.stamp, data)
        if whole or (len(data) >= LONGEST_LINE and not data.startswith(STATE)):
            self.take(joined, whole)
        else:
            self.rest[frame.stream] = joined

    def take(self, frame: Frame, whole: bool) -> None:
        """Take in a line, or the part of a very long one."""
        line = frame.data.removesuffix(b"\n")
        state = None
        if line.startswith(STATE):
            state = parse_object(line[len(STATE) :])
        if state is not None and state.get("run") == self.run.id:
            self.take_state(frame, state)
        elif line.endswith(UNENDED):
            self.take_line(frame, line[: -len(UNENDED)], b"P")
        else:
            self.take_line(frame, line, b"F" if whole else b"P")

    # -- What lines mean

    def take_line(self, frame: Frame, line: bytes, flag: bytes) -> None:
        place = self.positions[frame.stream]
        if place.stamp == frame.stamp and self.skipped[frame.stream] < place.count:
            self.skipped[frame.stream] += 1  # taken in before the stream was opened anew
            return
        head = f"{frame.stamp} {frame.stream} ".encode()
        write_all(self.file(place.attempt), head + flag + b" " + line + b"\n")
        if place.stamp == frame.stamp:
            place.count += 1
        else:
            place.stamp, place.count = frame.stamp, 1
        self.skipped[frame.stream] = place.count
        self.understand(line)

    def take_state(self, frame: Frame, state: dict[str, Any]) -> None:
        if "begin" in state:
            place = self.positions[frame.stream]
            place.attempt = max(place.attempt, int(state["begin"]))
            self.file(place.attempt)
            self.ends.discard(frame.stream)
        elif "end" in state:
            self.ends.add(frame.stream)
            if self.ends == STDOUT_AND_STDERR and not self.was_stopped:
                self.settle()
        elif frame.stamp > self.record.get("stateStamp", ""):
            kind = state.pop("kind", "")
            state.pop("run", None)
            if state.get("state") in ENDED:
                # Published when both streams have ended: whoever sees it has all lines.
                self.final = {**state, "stateStamp": frame.stamp, "kind": kind}
            else:
                self.update(**state, stateStamp=frame.stamp)
                self.run.note(
                    kind or str(state.get("state")), str(state.get("reason", "")), self.task
                )

    def settle(self) -> None:
        """Publish the final state that the launcher has announced, if it has."""
        if self.final is not None:
            kind = self.final.pop("kind", "")
            final, self.final = self.final, None
            self.update(**final)
            self.run.note(kind or str(final["state"]), str(final.get("reason", "")), self.task)


def read_once(engine: Engine, reader: TaskReader, container: str) -> None:
    """Take in all that a container has written so far."""
    reader.begin_container(container)
    for frame in read_frames(engine, container, reader.since, follow=False):
        reader.feed(frame)
    reader.flush()


def readers(run: Run, tasks: list[str]) -> dict[str, TaskReader]:
    return {task: TaskReader(run, task) for task in tasks}
