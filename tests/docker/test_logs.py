"""Reading a task's log stream: attempts, states, and going on where another reader was cut off."""

from __future__ import annotations

import json

import pytest

from tfcluster import launcher
from tfcluster.archive import Run
from tfcluster.backends.docker.logs import Frame, TaskReader
from tfcluster.backends.logfiles import read_logs
from tfcluster.events import LogQuery


@pytest.fixture
def run(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "tasks").mkdir()
    return Run("job", "run1", tmp_path)


def stamp(number: int) -> str:
    return f"2026-01-31T12:00:00.{number:09d}Z"


def line(number: int, text: bytes, stream: str = "stdout") -> Frame:
    return Frame(stream, stamp(number), text)


def state(number: int, stream: str = "stderr", **fields) -> Frame:
    data = launcher.STATE + json.dumps({"run": "run1", **fields}).encode() + b"\n"
    return Frame(stream, stamp(number), data)


def kept(run: Run, attempts: str = "all") -> list[tuple[int, str, bytes, bool]]:
    found = read_logs(run.logs, LogQuery(attempts=attempts), lambda: True)
    return [(entry.attempt, entry.stream, entry.data, entry.complete) for entry in found]


STREAM = [
    state(1, "stdout", begin=0),
    state(1, begin=0),
    state(2, state="running", attempt=0, kind="running", program={"pid": 7}),
    line(3, b"one\n"),
    line(4, b'tfcluster-progress {"step": 3}\n'),
    line(4, b"same time\n"),
    line(5, b"x" * (1 << 14)),
    line(5, b"y\n"),
    line(6, b"oops\n", "stderr"),
    line(7, b"cut" + launcher.UNENDED + b"\n"),
    state(8, "stdout", begin=1),
    line(9, b"again\n"),
    state(9, begin=1),
    line(10, b"", "stderr"),
    state(11, state="succeeded", attempt=1, exitCode=0, kind="succeeded", ended=1.0),
    state(12, end=True),
    line(13, b"last\n"),
    state(14, "stdout", end=True),
]


def feed(run: Run, frames: list[Frame]) -> TaskReader:
    reader = TaskReader(run, "worker-0")
    reader.begin_container("c1")
    since = reader.since
    for frame in frames:
        if frame.stamp >= since:
            reader.feed(frame)
    reader.close()
    return reader


def test_lines_attempts_and_state_are_told_apart(run):
    reader = feed(run, STREAM)
    assert kept(run) == [
        (0, "stdout", b"one", True),
        (0, "stdout", b'tfcluster-progress {"step": 3}', True),
        (0, "stdout", b"same time", True),
        (0, "stdout", b"x" * (1 << 14) + b"y", True),
        (0, "stderr", b"oops", True),
        (0, "stdout", b"cut", False),
        (1, "stdout", b"again", True),
        (1, "stderr", b"", True),
        (1, "stdout", b"last", True),
    ]
    assert reader.record["state"] == "succeeded"
    assert reader.record["progress"] == {"step": 3}
    assert [event.kind for event in run.events()] == ["running", "succeeded"]


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_reader_cut_off_anywhere_loses_and_repeats_nothing(run, cut, tmp_path):
    whole = tmp_path / "whole"
    (whole / "logs").mkdir(parents=True)
    (whole / "tasks").mkdir()
    feed(Run("job", "run1", whole), STREAM)
    feed(run, STREAM[:cut])
    reader = feed(run, STREAM)
    assert kept(run) == kept(Run("job", "run1", whole))
    assert reader.record["state"] == "succeeded"
    assert [event.kind for event in run.events()] == ["running", "succeeded"]


def test_a_final_state_is_published_when_both_streams_have_ended(run):
    assert not feed(run, STREAM[:-1]).over
    assert feed(run, STREAM).over


def test_somebody_elses_state_lines_are_ordinary_lines(run):
    other = launcher.STATE + b'{"run": "other", "state": "failed"}\n'
    reader = feed(run, [line(1, other)])
    assert kept(run) == [(0, "stdout", other[:-1], True)]
    assert "state" not in reader.record


def test_a_stop_by_a_signal_is_left_to_whoever_knows_the_engine(run):
    stopped = state(1, state="stopped", reason="stopped by SIGTERM", kind="stopped")
    reader = feed(run, [stopped, state(2, end=True), state(2, "stdout", end=True)])
    assert reader.was_stopped and not reader.over
    reader.settle()
    assert reader.over


def test_a_line_whose_end_the_engine_forgot_ends_where_the_next_begins(run):
    feed(run, [line(1, b"x" * (1 << 14)), line(2, b"next\n")])
    assert kept(run) == [(0, "stdout", b"x" * (1 << 14), True), (0, "stdout", b"next", True)]
