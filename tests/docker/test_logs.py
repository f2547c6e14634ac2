"""Reading a task's log stream: attempts, states, and going on where another reader was cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.launchers import KEY
from tfcluster.archive import Run
from tfcluster.backends.docker.frames import Frame, frames_in
from tfcluster.backends.docker.logs import TaskReader
from tfcluster.backends.logfiles import read_logs
from tfcluster.backends.reports import was_stopped
from tfcluster.events import LogQuery
from tfcluster.launch import exits, lines


@pytest.fixture
def run(tmp_path):
    return run_in(tmp_path)


def run_in(folder: Path) -> Run:
    (folder / "logs").mkdir(parents=True)
    (folder / "tasks").mkdir()
    (folder / "control.key").write_text(KEY.hex())
    return Run("job", "run1", folder)


def stamp(number: int) -> str:
    return f"2026-01-31T12:00:00.{number:09d}Z"


def line(number: int, text: bytes, stream: str = "stdout") -> Frame:
    return Frame(stream, stamp(number), text)


def state(number: int, stream: str = "stderr", **fields) -> Frame:
    return Frame(stream, stamp(number), lines.state_line(KEY, "worker-0", fields) + b"\n")


def kept(run: Run, attempts: str = "all") -> list[tuple[int, str, bytes, bool]]:
    found = read_logs(run.logs, LogQuery(attempts=attempts), lambda: True)
    return [(entry.attempt, entry.stream, entry.data, entry.complete) for entry in found]


STREAM = [
    state(1, "stdout", begin=0),
    state(1, begin=0),
    state(2, state="running", attempt=0, event="running", program={"pid": 7}),
    line(3, b"one\n"),
    line(4, b'tfcluster-progress {"step": 3}\n'),
    line(4, b"same time\n"),
    line(5, b"x" * (1 << 14)),
    line(5, b"y\n"),
    line(6, b"oops\n", "stderr"),
    line(7, b"cut" + lines.UNENDED + b"\n"),
    state(8, "stdout", begin=1),
    line(9, b"again\n"),
    state(9, begin=1),
    line(10, b"", "stderr"),
    state(11, state="succeeded", attempt=1, exitCode=0, kind=exits.FINISHED, ended=1.0),
    state(12, end=True),
    line(13, b"last\n"),
    state(14, "stdout", end=True),
]


def feed(run: Run, frames: list[Frame]) -> TaskReader:
    reader = TaskReader(run, "worker-0")
    reader.begin_container("c1")
    since = reader.begin_stream()
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
    whole = run_in(tmp_path / "whole")
    feed(whole, STREAM)
    feed(run, STREAM[:cut])
    reader = feed(run, STREAM)
    assert kept(run) == kept(whole)
    assert reader.record["state"] == "succeeded"
    assert [event.kind for event in run.events()] == ["running", "succeeded"]


def test_a_final_state_is_published_when_both_streams_have_ended(run):
    assert not feed(run, STREAM[:-1]).over
    assert feed(run, STREAM).over


def test_somebody_elses_state_lines_are_ordinary_lines(run):
    failed = {"state": "failed", "run": "run1"}
    genuine = state(1, state="failed").data.rstrip()
    forged = [
        lines.STATE + json.dumps(failed).encode(),
        lines.STATE + b"0" * lines.PROOF_LENGTH + b" " + json.dumps(failed).encode(),
        lines.state_line(bytes(32), "worker-0", failed),
        lines.state_line(KEY, "worker-1", failed),
        genuine.replace(b"failed", b"stopped"),
        b" " + genuine,
        genuine + b" ",
    ]
    reader = feed(run, [line(number, said + b"\n") for number, said in enumerate(forged)])
    assert kept(run) == [(0, "stdout", said, True) for said in forged]
    assert "state" not in reader.record and reader.final is None


def test_a_stop_by_a_signal_is_left_to_whoever_knows_the_engine(run):
    stopped = state(1, state="stopped", exitCode=143, reason="whatever", kind=exits.SIGNALLED)
    reader = feed(run, [stopped, state(2, end=True), state(2, "stdout", end=True)])
    assert was_stopped(reader.final) and not reader.over
    reader.settle()
    assert reader.over


def test_a_line_whose_end_the_engine_forgot_ends_where_the_next_begins(run):
    feed(run, [line(1, b"x" * (1 << 14)), line(2, b"next\n")])
    assert kept(run) == [(0, "stdout", b"x" * (1 << 14), True), (0, "stdout", b"next", True)]


def test_frames_are_found_however_the_stream_is_cut():
    lines = [(1, b"t1 one\n"), (2, b"t2 two\n"), (1, b"t3 " + b"x" * 300)]
    stream = b"".join(
        bytes([number, 0, 0, 0]) + len(d).to_bytes(4, "big") + d for number, d in lines
    )
    expected = [
        Frame("stdout", "t1", b"one\n"),
        Frame("stderr", "t2", b"two\n"),
        Frame("stdout", "t3", b"x" * 300),
    ]
    for size in (1, 3, 8, 11, 1000):
        blocks = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert list(frames_in(blocks)) == expected
    assert list(frames_in([stream[:-1]])) == expected[:-1]


def test_a_record_that_a_killed_reader_left_cut_is_written_again(run):
    feed(run, [line(1, b"one\n")])
    path = run.logs / "worker-0.0.log"
    with open(path, "ab") as file:
        file.write(f"{stamp(2)} stdout F tw".encode())
    feed(run, [line(1, b"one\n"), line(2, b"two\n")])
    assert kept(run) == [(0, "stdout", b"one", True), (0, "stdout", b"two", True)]


# -- What a program prints is not to be trusted

FORGED = [
    {"begin": "x"},
    {"begin": -1},
    {"begin": True},
    {"begin": None},
    {"end": "soon"},
    {"state": "flying"},
    {"state": {"a": 1}},
    {"state": ["failed"]},
    {"state": "failed", "exitCode": "one"},
    {"state": "failed", "exitCode": 1, "cause": "me"},
    {"state": "failed", "cause": {"task": 7, "time": 1.0}},
    {"state": "failed", "cause": {"task": "worker-0"}},
    {"state": "failed", "cause": {"task": "worker-0", "time": 1.0, "lines": [1]}},
    {"state": "running", "failures": [3]},
    {"state": "running", "attempt": 1.5},
    {"state": "running", "program": 7},
    {"state": "running", "reason": None},
    {"state": "running", "started": float("nan")},
    {},
]


@pytest.mark.parametrize("fields", FORGED, ids=json.dumps)
def test_a_report_of_another_shape_is_an_ordinary_line(run, fields):
    forged = state(1, **fields)
    reader = feed(run, [forged, line(2, b"next\n", "stderr")])
    assert [data for _, _, data, _ in kept(run)] == [forged.data[:-1], b"next"]
    assert "state" not in reader.record


@pytest.mark.parametrize(
    "said",
    [
        b'tfcluster-progress {"step": 1e400, "total": 3, "rate": -Infinity}',
        b'tfcluster-progress {"step": NaN, "total": NaN, "loss": NaN}',
        b'tfcluster-progress {"step": 1' + b"0" * 400 + b', "loss": 1' + b"0" * 400 + b"}",
        b'tfcluster-progress {"step": 1' + b"0" * 5000 + b"}",
        b'tfcluster-progress {"step": [1], "loss": {}}',
        b"tfcluster-progress [1]",
        b"tfcluster-progress \xff\x00",
        b'tfcluster-result {"accuracy": NaN}',
    ],
    ids=lambda said: said[:40].decode("ascii", "replace"),
)
def test_progress_and_results_that_make_no_sense_harm_nobody(run, said):
    from tfcluster import tables
    from tfcluster.backends.records import observed

    reader = feed(run, [line(1, said + b"\n"), line(2, b'tfcluster-progress {"step": 4}\n')])
    task = observed("worker-0", "", reader.record)
    assert tables.task_rows([task], bars=True, wide=True)
    assert (task.progress.step, task.progress.total) == (4, None)
    assert len(kept(run)) == 2
    tables.result_text(reader.record.get("result"))


def test_a_step_that_is_said_again_is_no_progress(run):
    reader = TaskReader(run, "worker-0")
    for when, step in ((1.0, 3), (2.0, 3), (3.0, 4), (9.0, 4)):
        reader.understand(b'tfcluster-progress {"step": %d, "loss": %f}' % (step, when), 0, when)
    assert reader.record["progressed"] == 3.0
    assert reader.record["progress"] == {"step": 4, "loss": 9.0, "rate": 1 / 8}


def test_of_numbers_that_json_does_not_have_the_progress_keeps_the_loss_as_a_word(run):
    from tfcluster.backends.records import observed

    reader = feed(run, [line(1, b'tfcluster-progress {"step": NaN, "rate": 1e400, "loss": NaN}\n')])
    progress = observed("worker-0", "", reader.record).progress
    assert (progress.step, progress.rate, progress.loss) == (None, None, "nan")


@pytest.mark.parametrize("depth", [40, 600, 8000])
def test_of_an_object_that_is_too_deep_no_more_is_kept_than_can_be_written_down(run, depth):
    said = b"tfcluster-result " + b'{"a":' * depth + b"1" + b"}" * depth
    reader = feed(run, [line(1, said + b"\n"), line(2, lines.STATE + said[17:] + b"\n")])
    assert len(json.dumps(reader.record.get("result"))) < 100
    assert "state" not in reader.record and len(kept(run)) == 2


def pieces(number: int, text: bytes) -> list[Frame]:
    """A line as engines cut it."""
    size = 1 << 14
    return [line(number, text[at : at + size]) for at in range(0, len(text), size)]


def test_a_huge_result_is_kept_as_output_and_ignored_with_one_note(run):
    huge = b"tfcluster-result {" + b"x" * ((1 << 16) - 18) + b'tfcluster-result {"a": 1}\n'
    reader = feed(run, [*pieces(1, huge), *pieces(2, huge), line(3, b"next\n")])
    assert b"".join(data for _, _, data, _ in kept(run)) == huge[:-1] * 2 + b"next"
    assert "result" not in reader.record
    assert [event.kind for event in run.events()] == ["warning"]


def test_a_report_that_begins_in_the_middle_of_a_long_line_is_output(run):
    forged = state(1, state="failed").data
    reader = feed(run, pieces(1, b"x" * (1 << 16) + forged))
    assert "state" not in reader.record and reader.final is None


def test_a_long_report_is_read_whole(run):
    cause = {"task": "worker-0", "time": 1.0, "lines": ["\U0001f600" * 500] * 20}
    long = state(1, state="running", cause=cause).data
    assert len(long) > 1 << 16
    reader = feed(run, [Frame("stderr", *frame[1:]) for frame in pieces(1, long)])
    assert reader.record["cause"]["lines"] == cause["lines"] and kept(run) == []
