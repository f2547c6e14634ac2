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
        " TASK      STATE    STEP                       RATE   LOSS",
        " ps-0      serving",
        " worker-0  running  640/1200 ━━━━━━━━╸         412/s  0.291",
        " worker-1  running  640/1200 ━━━━━━━━╸         412/s  0.291",
    ]


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
        "worker-0: stopped by SIGTERM",
        "worker-0: failed (exit code 3)",
    ]


def test_a_region_is_erased_by_as_many_rows_as_it_takes_in_a_narrower_window(monkeypatch):
    stream = io.StringIO()
    region = Region(stream)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))
    region.draw(["x" * 70, "\x1b[31mshort\x1b[0m"])
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((30, 24)))
    assert region.erasing() == "\x1b[4A\r\x1b[J"
    region.erase()
    assert region.erasing() == "\r\x1b[J"
