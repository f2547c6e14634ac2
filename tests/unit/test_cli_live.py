"""What `up` shows while a job runs."""

from __future__ import annotations

import io
import os
from dataclasses import replace

import pytest

from tests.unit.records import tasks
from tfcluster import tables
from tfcluster.events import JobStatus, Progress
from tfcluster.launch import exits
from tfcluster.live import PlainDisplay, Region, fitting, table_lines
from tfcluster.tail import SGR

RUNNING = tasks(ps_0="serving", worker_0="running", worker_1="running")


def status(*observed) -> JobStatus:
    return JobStatus("mnist", "7f3a", "local", "running", observed)


def test_the_table_has_the_columns_that_something_fills():
    lines = table_lines(status(*RUNNING), 80, 24, color=False)
    assert lines == [
        " TASK      STATE    PHASE     STEP                   RATE   LOSS   LEFT",
        " ps-0      serving",
        " worker-0  running  training  640/1200 ━━━━━━╸       412/s  0.291  1 s",
        " worker-1  running  training  640/1200 ━━━━━━╸       412/s  0.291  1 s",
    ]


def test_a_table_of_a_running_job_fits_80_columns_and_says_for_how_long_it_runs(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1000.0)
    busy = Progress(step=54321, total=99999, rate=50.0, loss=0.2914)
    running = replace(RUNNING[1], progress=busy)
    ended = replace(RUNNING[2], state="succeeded", progress=busy)
    lines = table_lines(replace(status(running, ended), started=925.5), 80, 24, color=False)
    assert lines[0] == " mnist (run 7f3a, local): running for 1 min 14 s"
    assert (
        lines[2] == " worker-0  running    training  54321/99999 ━━━━━━╸       50/s  0.291  15 min"
    )
    assert max(map(len, lines)) < 80


def test_the_time_of_a_job_that_is_over_is_said_elsewhere():
    over = JobStatus("mnist", "7f3a", "local", "failed", tasks(worker_0="failed"), started=1.0)
    assert table_lines(over, 80, 24, color=False)[0].split()[:2] == ["TASK", "STATE"]


def test_whom_a_task_waits_for_is_said_once_beside_the_bars():
    waiting = replace(
        RUNNING[1],
        state="starting",
        kind=exits.WAITING,
        progress=None,
        waits_for=("ps-0",),
        reason="waiting for ps-0 at 127.0.0.1:20000: Connection refused",
    )
    assert table_lines(status(waiting), 80, 24, color=False) == [
        " TASK      STATE     PHASE",
        " worker-0  starting  waiting for ps-0",
    ]
    assert "Connection refused" in tables.task_rows([waiting])[1][0][-1]


def test_restarts_and_reasons_appear_once_there_are_any():
    troubled = replace(RUNNING[1], restarts=2, reason="restarting after exit code 3")
    header, _, row = table_lines(status(RUNNING[0], troubled), 120, 24, color=False)
    assert header.split()[-2:] == ["RESTARTS", "REASON"]
    assert row.endswith("2         restarting after exit code 3")


def test_no_line_is_wider_than_the_terminal():
    troubled = replace(RUNNING[1], reason="x" * 500)
    lines = table_lines(status(RUNNING[0], troubled), 60, 24, color=True)
    assert max(len(SGR.sub("", line)) for line in lines) < 60


def test_a_job_too_big_for_the_terminal_shows_trouble_first_and_counts_the_rest():
    many = [replace(RUNNING[1], task=f"worker-{n}", index=n) for n in range(100)]
    many[70] = replace(many[70], state="failed")
    shown, rest = fitting(many, 10)
    assert [task.task for task in shown] == [*(f"worker-{n}" for n in range(8)), "worker-70"]
    assert rest == "… and 91 running"
    assert len(table_lines(status(*many), 80, 24, color=False)) <= 22


@pytest.mark.parametrize(
    ("fraction", "shown"), [(0, "    "), (0.5, "━━  "), (0.62, "━━╸ "), (1, "━━━━"), (7, "━━━━")]
)
def test_a_bar_is_filled_by_half_cells(fraction, shown):
    assert tables.bar(fraction, 4) == shown


def test_progress_without_a_total_is_a_number():
    assert tables.steps(Progress(step=12)) == "12"
    assert tables.steps(Progress(loss=1.0)) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.2914, "0.291"),
        (0.00001, "1.0e-05"),
        (0.0, "0.000"),
        (1234.5, "1234"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_are_short(value, text):
    assert tables.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(9.84, "9.8 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_lengths_of_time_are_in_words(seconds, text):
    assert tables.clock(seconds) == text


def test_off_a_terminal_each_change_is_one_line(capsys):
    display = PlainDisplay()
    display.update(status(replace(RUNNING[1], state="pending")))
    display.update(status(RUNNING[1]))
    display.update(status(replace(RUNNING[1], progress=Progress(step=7))))
    ended = replace(RUNNING[1], state="stopped", reason="stopped by SIGTERM", kind=exits.SIGNALLED)
    display.update(status(ended))
    display.update(status(replace(RUNNING[1], state="failed", reason="exit code 3")))
    assert capsys.readouterr().err.splitlines() == [
        "worker-0: running",
        "worker-0: training",
        "worker-0: stopped by SIGTERM",
        "worker-0: failed (exit code 3)",
    ]


def test_off_a_terminal_a_problem_and_its_end_are_told(capsys):
    display = PlainDisplay()
    for problem in (None, "no room", "no room", None):
        display.update(status(replace(RUNNING[1], progress=Progress(step=7, problem=problem))))
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == ["worker-0: no room", "worker-0: no longer: no room"]
    assert len([line for line in lines if "no room" in line]) == 2


def test_off_a_terminal_a_phase_is_told_once_an_attempt(capsys):
    display = PlainDisplay()
    for restarts in (0, 1):
        for phase in ("importing", None, "saving", None, "saving", None):
            progress = Progress(step=None if phase == "importing" else 7, phase=phase)
            display.update(status(replace(RUNNING[1], progress=progress, restarts=restarts)))
    attempt = ["running", "importing", "training", "saving"]
    assert capsys.readouterr().err.splitlines() == [f"worker-0: {word}" for word in attempt * 2]


def test_a_flood_of_phases_is_no_flood_of_lines(capsys):
    display = PlainDisplay()
    for number in range(1000):
        progress = Progress(phase=f"phase {number}")
        display.update(status(replace(RUNNING[1], progress=progress)))
    assert len(capsys.readouterr().err.splitlines()) < 12


def test_only_the_lines_that_changed_are_drawn_again():
    stream = io.StringIO()
    region = Region(stream)
    region.draw(["one", "two", "three"])
    before = stream.tell()
    region.draw(["one", "two", "three"])
    assert stream.tell() == before
    region.draw(["one", "2", "three"])
    assert stream.getvalue()[before:] == "\x1b[3A\r\n2\x1b[K\n\n"


def test_lines_that_wrap_or_come_or_go_make_all_be_drawn_again(monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((10, 24)))
    stream = io.StringIO()
    region = Region(stream)
    for lines in (["one"], ["one", "two"], ["x" * 10, "two"], ["one", "two"]):
        before = stream.tell()
        region.draw(lines)
        assert stream.getvalue()[before:].endswith("\x1b[J" + "".join(f"{n}\n" for n in lines))


def test_a_region_is_erased_by_as_many_rows_as_it_takes_in_a_narrower_window(monkeypatch):
    stream = io.StringIO()
    region = Region(stream)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))
    region.draw(["x" * 70, "\x1b[31mshort\x1b[0m"])
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((30, 24)))
    assert region.erasing() == "\x1b[4A\r\x1b[J"
    region.erase()
    assert region.erasing() == "\r\x1b[J"
