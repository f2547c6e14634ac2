"""Following a run: nothing printed is lost, whatever comes last."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from tests.unit.records import SUCCESS, tasks, write_run
from tfcluster.commands.attach import Attachment
from tfcluster.errors import TfclusterError, WaitTimeout
from tfcluster.events import JobStatus, LogLine, LogQuery, job_state
from tfcluster.interrupts import Presses
from tfcluster.tail import Style


@dataclass
class Shown:
    """A display that keeps what it is given."""

    text: bytes = b""
    states: list[str] = field(default_factory=list)

    def update(self, status: JobStatus) -> None:
        self.states.append(status.state)

    def write(self, lines: bytes) -> None:
        self.text += lines

    def notice(self, text: str) -> None:
        self.text += text.encode() + b"\n"

    def close(self) -> None:
        pass


class SlowLogs:
    """A run that is over, whose lines arrive one by one."""

    detaches = False
    obstacle: TfclusterError | None = None

    def stuck(self, run) -> TfclusterError | None:
        return self.obstacle

    def __init__(self, observed=SUCCESS, *, lines: int = 5, error: Exception | None = None):
        self.observed, self.lines, self.error = observed, lines, error

    def observe(self, run) -> JobStatus:
        state = job_state(self.observed)
        return JobStatus(run.job, run.id, "local", state, self.observed)

    def logs(self, run, query):
        for number in range(self.lines):
            time.sleep(0.15)
            yield LogLine("worker-0", 0, float(number), "stdout", f"line {number}".encode())
        if self.error:
            raise self.error


@pytest.fixture
def follow(monkeypatch, tmp_path):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path))

    def attach(backend, **settings) -> tuple[Shown, Attachment]:
        monkeypatch.setattr("tfcluster.commands.attach.load_backend", lambda name: backend)
        shown = Shown()
        attachment = Attachment(
            run=write_run(),
            display=shown,
            **{"presses": Presses(), **settings},
            style=Style(prefix=False),
            grace=1,
            query=LogQuery(follow=True),
        )
        attachment.follow()
        return shown, attachment

    return attach


def test_lines_that_come_after_the_end_are_still_shown(follow):
    shown, _ = follow(SlowLogs())
    assert shown.text.decode().splitlines() == [f"line {number}" for number in range(5)]
    assert shown.states[-1] == "succeeded"


def test_an_error_of_the_reader_is_not_swallowed(follow):
    with pytest.raises(ConnectionError):
        follow(SlowLogs(error=ConnectionError("gone")))


def test_a_deadline_ends_the_wait_and_says_so(follow):
    running = tasks(worker_0="running")
    _, attachment = follow(SlowLogs(running), deadline=time.monotonic() + 0.3)
    assert attachment.timed_out


def test_enough_is_enough(follow):
    running = tasks(worker_0="running")
    _, attachment = follow(SlowLogs(running), enough=lambda status: status.state == "running")
    assert not attachment.timed_out and not attachment.interrupted


def test_a_job_that_cannot_start_ends_the_wait_with_the_reason(follow):
    pending = SlowLogs(tasks(worker_0="pending"), lines=0)
    pending.obstacle = WaitTimeout("worker-0 cannot be scheduled: Insufficient nvidia.com/gpu")
    with pytest.raises(WaitTimeout, match="Insufficient"):
        follow(pending)


def test_where_ctrl_c_detaches_the_job_is_left_running(follow, monkeypatch):
    backend = SlowLogs(tasks(worker_0="running"), lines=0)
    backend.detaches = True
    monkeypatch.setattr("tfcluster.commands.attach.bring_down", lambda *_, **__: pytest.fail())
    _, attachment = follow(backend, presses=Presses(count=1))
    assert attachment.detached and not attachment.interrupted
