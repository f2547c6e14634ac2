"""Strangers at a container's control port: they hear nothing, and the job does not notice them."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from tests.docker.conftest import DockerJob
from tests.launchers import many_files, pour, until
from tfcluster.launch.proof import CLIENT, Asker
from tfcluster.launch.wire import ask

# Ends when it is told to, from inside its container.
WAIT = (
    "import os, time\nprint('up', flush=True)\n"
    "while not os.path.exists('/tmp/go'): time.sleep(0.1)\nprint('done', flush=True)"
)
TASKS = ("ps-0", "worker-0")
PATIENCE = 60.0  # a launcher gives a stranger 3 seconds
LEAST_MEMORY, MOST_MEMORY = 5 << 10, 60 << 10  # kB; Python alone needs more than the least
# The launcher is the largest process with this name: the others are init and this shell.
MEMORY = "for p in /proc/[0-9]*; do grep -qa launcher.py $p/cmdline && grep VmHWM $p/status; done"


class Besieged:
    """A job that works, and the ways to the control ports of its launchers from outside."""

    def __init__(self, job: DockerJob):
        self.job = job
        job.up(job.spec(WAIT, restarts=0))
        for task in ("worker-0", "worker-1"):
            job.says(task, b"up")
        job.task_is("ps-0", "serving")
        self.key = job.run.files.require_key()
        self.addresses = {task: job.control_address(task) for task in TASKS}

    def connect(self, task: str) -> socket.socket:
        return socket.create_connection(self.addresses[task], timeout=PATIENCE)

    def state(self, task: str) -> str:
        """As the launcher answers one who knows the key."""
        return ask(self.addresses[task], self.key, task, {"ask": "state"})["state"]

    def memory(self, task: str) -> int:
        """The most that the launcher has used so far, in kB."""
        found = self.job.inside(task, MEMORY).split()
        return max(int(word) for word in found if word.isdecimal())


@pytest.fixture
def besieged(job, engine) -> Iterator[Besieged]:
    """Afterwards the launchers are small, answer their own, and the job succeeds."""
    if not engine.is_local:
        pytest.skip("needs an engine whose containers can be reached from here")
    made = Besieged(job)
    yield made
    assert [made.state(task) for task in TASKS] == ["serving", "running"]
    assert LEAST_MEMORY < max(made.memory(task) for task in TASKS) < MOST_MEMORY
    for worker in ("worker-0", "worker-1"):
        job.inside(worker, "touch /tmp/go")
    status = job.over()
    assert status.state == "succeeded", status
    assert [(task.exit_code, task.restarts) for task in status.tasks] == [(0, 0)] * 3
    assert not {event.kind for event in job.run.events()} & {"restarting", "silent", "warning"}


def answer(connection: socket.socket) -> bytes:
    """All that comes back until the connection is closed, as it has to be."""
    data = b""
    with connection, contextlib.suppress(ConnectionError):
        while piece := connection.recv(1 << 16):
            data += piece
    return data


def said_to(besieged: Besieged, task: str, said: bytes) -> bytes:
    connection = besieged.connect(task)
    with contextlib.suppress(ConnectionError):
        connection.sendall(said)
    return answer(connection)


WORDS: dict[str, Callable[[Besieged, str], bytes]] = {
    "an empty object": lambda besieged, task: b"{}\n",
    "half a line": lambda besieged, task: b"{}",
    "an old question": lambda besieged, task: b'{"ask": "state"}\n',
    "a web browser": lambda besieged, task: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "garbage": lambda besieged, task: os.urandom(4096) + b"\n",
    "another key": lambda besieged, task: Asker(bytes(32), CLIENT, task).hello,
    "another task": lambda besieged, task: Asker(besieged.key, CLIENT, "worker-1").hello,
    "a task that is none": lambda besieged, task: Asker(besieged.key, "thief-0", task).hello,
    "50 MB without a line end": lambda besieged, task: b"x" * (50 << 20),
}


def test_who_does_not_know_the_key_hears_nothing_and_is_turned_away(besieged):
    for task in TASKS:
        for name, words in WORDS.items():
            assert said_to(besieged, task, words(besieged, task)) == b"", f"{name} to {task}"
            assert besieged.state(task) in ("serving", "running")


def test_what_was_overheard_cannot_be_said_again(besieged):
    for task in TASKS:
        asker = Asker(besieged.key, CLIENT, task)
        with besieged.connect(task) as connection, connection.makefile("rb") as stream:
            connection.sendall(asker.hello)
            session = asker.welcomed(stream.readline())
            question = session.seal({"ask": "state"})
            connection.sendall(question)
            assert session.open(stream.readline())["task"] == task
        assert said_to(besieged, task, asker.hello) == b""
        assert said_to(besieged, task, asker.hello + question) == b""


def test_the_same_message_twice_in_one_connection_ends_it(besieged):
    asker = Asker(besieged.key, CLIENT, "worker-0")
    with besieged.connect("worker-0") as connection, connection.makefile("rb") as stream:
        connection.sendall(asker.hello)
        question = asker.welcomed(stream.readline()).seal({"ask": "state"})
        connection.sendall(question)
        assert stream.readline()
        connection.sendall(question)
        assert stream.readline() == b""


def test_two_thousand_that_say_nothing_keep_no_one_out(besieged):
    for task in TASKS:
        with many_files(4096):
            crowd = [besieged.connect(task) for _ in range(2000)]
            assert besieged.state(task) in ("serving", "running")
            assert {answer(connection) for connection in crowd} == {b""}


def test_a_gigabyte_of_garbage_is_not_kept(besieged):
    pour(lambda: besieged.connect("ps-0"), 1 << 30)
    assert besieged.state("ps-0") == "serving"


def test_floods_from_many_sides_at_once_stay_out_of_memory(besieged):
    crowd = [besieged.connect("ps-0") for _ in range(40)]
    for connection in crowd:
        connection.setblocking(False)
    block, left = b"x" * (1 << 16), list(crowd)

    def turned_away() -> bool:
        for connection in list(left):
            try:
                connection.send(block)
            except BlockingIOError:
                continue
            except ConnectionError:
                left.remove(connection)
        return not left

    until(turned_away, "every flood to be turned away", PATIENCE)
    for connection in crowd:
        connection.close()
