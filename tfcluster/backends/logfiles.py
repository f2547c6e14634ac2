"""Reading the log files of a run: `<task>.<attempt>.log`, in the form the launcher writes.

A record is `2026-01-31T12:00:00.000001Z stdout F text`; P instead of F says that the program had
not ended the line.
"""

from __future__ import annotations

import calendar
import functools
import heapq
import operator
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from tfcluster.events import LogLine, LogQuery
from tfcluster.files import open_read
from tfcluster.runfolder import log_files

POLL = 0.1
STREAMS = {b"stdout": "stdout", b"stderr": "stderr"}


def parse_record(record: bytes, task: str, attempt: int) -> LogLine | None:
    """One record as a line, or None if it is not one (a full disk can cut a record)."""
    parts = record.rstrip(b"\n").split(b" ", 3)
    if len(parts) != 4 or parts[2] not in (b"F", b"P"):
        return None
    stamp, stream, flag, text = parts
    try:
        when = whole_seconds(stamp[:19]) + float(b"0." + stamp[20:-1])
    except ValueError:
        return None
    return LogLine(task, attempt, when, STREAMS.get(stream, "stdout"), text, flag == b"F")


@functools.lru_cache(maxsize=256)  # thousands of lines share a second, and strptime is slow
def whole_seconds(stamp: bytes) -> int:
    return calendar.timegm(time.strptime(stamp.decode("ascii"), "%Y-%m-%dT%H:%M:%S"))


class LogFile:
    """One attempt's file, read on from where the last read ended."""

    def __init__(self, path: Path, task: str, attempt: int):
        self.path, self.task, self.attempt = path, task, attempt
        self.offset = 0

    def skip_to_last(self, size: int) -> None:
        """Begin with the last `size` bytes; a record that is cut there is left out."""
        self.offset = max(0, os.stat(self.path).st_size - size)

    def new_lines(self) -> Iterator[LogLine]:
        with os.fdopen(open_read(self.path), "rb") as file:
            file.seek(self.offset)
            for record in file:
                if not record.endswith(b"\n"):
                    return  # still being written
                self.offset += len(record)
                line = parse_record(record, self.task, self.attempt)
                if line is not None:
                    yield line


def find_files(folder: Path, query: LogQuery) -> list[LogFile]:
    """The files that the query is about, by task and attempt."""
    found: dict[str, list[LogFile]] = {}
    for task, attempt, path in sorted(log_files(folder)):
        if not query.tasks or task in query.tasks:
            found.setdefault(task, []).append(LogFile(path, task, attempt))
    if query.attempts == "previous":
        return [file for files in found.values() for file in files[-2:-1]]
    return [file for files in found.values() for file in files]


def read_logs(folder: Path, query: LogQuery, is_over: Callable[[], bool]) -> Iterator[LogLine]:
    """The lines wanted, merged by time; with follow, on and on until is_over() and all is read."""
    known = {file.path: file for file in find_files(folder, query)}
    yield from merged(list(known.values()), query)
    while query.follow:
        last_round = is_over()
        for file in find_files(folder, query):
            known.setdefault(file.path, file)
        fresh = LogQuery(since=query.since, until=query.until)
        yield from merged(list(known.values()), fresh)
        if last_round:
            return
        time.sleep(POLL)


def merged(files: list[LogFile], query: LogQuery) -> Iterator[LogLine]:
    by_task: dict[str, list[LogFile]] = {}
    for file in files:
        by_task.setdefault(file.task, []).append(file)
    streams = [in_time(task_files, query) for task_files in by_task.values()]
    return heapq.merge(*streams, key=operator.attrgetter("time"))


def in_time(files: list[LogFile], query: LogQuery) -> Iterator[LogLine]:
    lines = (
        line
        for file in files
        for line in file.new_lines()
        if (query.since is None or line.time >= query.since)
        and (query.until is None or line.time <= query.until)
    )
    return lines if query.tail is None else iter(deque(lines, maxlen=query.tail))
