"""Calls that other tasks keep waiting are ended, and the task that does not answer is named."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable

import pytest

from tests.trainer.harness import Cluster, free_ports
from trainer.cluster import ClusterInfo
from trainer.errors import EXIT_PEER
from trainer.peers import ABSENT, SILENT, SPEAKS, name_silent, reach
from trainer.watchdog import Watchdog, WatchedSession

MakeCluster = Callable[..., Cluster]


@pytest.fixture
def addresses():
    """One task that speaks, one that only accepts connections, one that is not there."""
    speaking, silent = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))

    def greet() -> None:
        while True:
            try:
                connection, _ = speaking.accept()
            except OSError:
                return
            connection.sendall(b"\0\0\0\x04\0\0\0\0\0")

    threading.Thread(target=greet, daemon=True).start()
    names = [f"127.0.0.1:{one.getsockname()[1]}" for one in (speaking, silent)]
    yield (*names, f"127.0.0.1:{free_ports(1)[0]}")
    speaking.close()
    silent.close()


def test_a_stopped_task_is_told_from_one_that_answers_and_one_that_is_gone(addresses) -> None:
    assert [reach(one, 1.0) for one in addresses] == [SPEAKS, SILENT, ABSENT]


def test_the_silent_task_is_named_and_not_those_that_have_finished(addresses) -> None:
    speaks, silent, absent = addresses
    jobs = {"ps": (speaks,), "worker": ("127.0.0.1:1", silent, absent)}
    assert name_silent(ClusterInfo(jobs, "worker", 0)) == "worker-1"
    jobs = {"ps": (absent,), "worker": ("127.0.0.1:1", speaks)}
    assert name_silent(ClusterInfo(jobs, "worker", 0)) == "ps-0"
    jobs = {"ps": (speaks,), "worker": ("127.0.0.1:1", absent)}
    assert name_silent(ClusterInfo(jobs, "worker", 0)) == ""


class Session:
    """Answers at once, or only after a while."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def run(self, value: int) -> int:
        time.sleep(self.seconds)
        return value

    def make_callable(self, value: int):
        return lambda more: self.run(value + more)


@pytest.mark.parametrize(("seconds", "barks"), [(0.0, False), (2.0, True)])
def test_only_a_call_that_takes_too_long_is_ended(seconds: float, barks: bool) -> None:
    ended = threading.Event()
    dog = Watchdog(0.5, lambda waited: ended.set())
    session = WatchedSession(Session(seconds), dog)
    assert session.run(3) == 3
    assert session.make_callable(3)(4) == 7
    assert ended.is_set() == barks


def test_time_between_calls_does_not_count() -> None:
    ended = threading.Event()
    dog = Watchdog(0.5, lambda waited: ended.set())
    session = WatchedSession(Session(0.0), dog)
    session.run(1)
    assert not ended.wait(1.5)


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["sync", "easgd", "hogwild"])
def test_workers_give_up_a_stopped_ps_by_name(algorithm: str, cluster: MakeCluster) -> None:
    settings = {"algorithm": algorithm, "steps": 10**6, "recovery_seconds": 10, "eval_every": 0}
    run = cluster(settings, ps=1, worker=2)
    run.start()
    for task in ("worker-0", "worker-1"):
        run.wait_for_step(task, 1)
    run.signal("ps-0", signal.SIGSTOP)
    for task in ("worker-0", "worker-1"):
        assert run.wait(task, 120) == EXIT_PEER
        assert "ps-0 did not answer within" in run.log(task)
