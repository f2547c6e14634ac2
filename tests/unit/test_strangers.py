"""Strangers at the control port: they hear nothing, change nothing, and hold nothing up."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.launchers import KEY, World, many_files, pour, role
from tfcluster.launch.lines import parse_said, read_state, state_line
from tfcluster.launch.mac import is_same, mac
from tfcluster.launch.plan import control_address
from tfcluster.launch.proof import CLIENT, Asker, Door
from tfcluster.launch.wire import ask


@pytest.fixture
def job(tmp_path):
    """Two tasks that wait for each other's launchers, and then for a file."""
    go = tmp_path / "go"
    code = f"while [ ! -e {go} ]; do sleep 0.1; done"
    made = World(tmp_path, {"worker": role(["sh", "-c", code], 2, needs=["worker"])}).start()
    made.state_becomes("worker-0", "running")
    made.state_becomes("worker-1", "running")
    yield made
    go.touch()
    assert set(made.codes().values()) == {0}, "strangers changed how the job ends"
    made.close()


def connect(job: World, task: str = "worker-0") -> socket.socket:
    made = socket.create_connection(control_address(job.plan, task), timeout=10)
    made.settimeout(10)
    return made


def answers(connection: socket.socket) -> bytes:
    """All that comes back until the connection is closed."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(1 << 16):
            found += more
    return found


def memory_mb(job: World, task: str = "worker-0") -> float:
    pid = job.record(task)["launcher"]["pid"]
    with open(f"/proc/{pid}/status") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def threads(job: World, task: str = "worker-0") -> int:
    pid = job.record(task)["launcher"]["pid"]
    with open(f"/proc/{pid}/status") as file:
        return int(next(line for line in file if line.startswith("Threads")).split()[1])


def hello(key: bytes = KEY, task: str = "worker-0") -> bytes:
    return Asker(key, CLIENT, task).hello


@pytest.mark.parametrize(
    "said",
    [
        b"{}\n",
        b'{"run": "run1", "tell": "failed", "cause": "x"}\n',
        b"GET / HTTP/1.1\r\n\r\n",
        b"\n" * 100,
        b"\x00" * 600,
        b"[" * 100_000 + b"\n",
        b"tfc1 - worker-0 " + b"0" * 32 + b" " + b"0" * 32 + b"\n",
        b"tfc1 - worker-0 x y z\n",
        pytest.param(hello(b"z" * 32), id="another-key"),
        pytest.param(hello(task="worker-1"), id="meant-for-another-task"),
    ],
)
def test_a_stranger_gets_a_closed_connection_and_no_byte(job, said):
    with connect(job) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(said)
        assert answers(connection) == b""


def test_what_was_overheard_cannot_be_said_again(job):
    said = hello()
    with connect(job) as first:
        first.sendall(said)
        assert len(first.recv(256)) > 60  # it knows the key, so it is answered
    with connect(job) as second:
        second.sendall(said)
        assert answers(second) == b""


def test_a_proven_connection_takes_no_message_without_proof_and_none_twice(job):
    with connect(job) as connection, connection.makefile("rb") as stream:
        asker = Asker(KEY, CLIENT, "worker-0")
        connection.sendall(asker.hello)
        session = asker.welcomed(stream.readline())
        sealed = session.seal({"ask": "state"})
        connection.sendall(sealed)
        assert session.open(stream.readline())["task"] == "worker-0"
        connection.sendall(sealed)
        assert stream.readline() == b""


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"tell": "failed", "cause": "x"},
        {"tell": "failed", "cause": {"task": "worker-1"}},
        {"tell": "finished", "tasks": ["worker-9"]},
        {"tell": "finished", "tasks": 3},
        {"ask": "nothing"},
    ],
)
def test_a_message_that_makes_no_sense_changes_nothing_even_with_the_key(job, message):
    with contextlib.suppress(ValueError, OSError):
        job.ask("worker-0", **(message or {"x": 1}))
    assert job.ask("worker-0")["state"] == "running"
    assert job.table("worker-1")["verdict"] is None


def test_a_gigabyte_of_garbage_is_not_kept(job):
    pour(lambda: connect(job), 1 << 30)
    assert memory_mb(job) < 60
    assert job.ask("worker-0")["state"] == "running"


def test_two_thousand_idle_connections_hold_nothing_up(job):
    before = threads(job)
    with many_files(4096), contextlib.ExitStack() as open_ones:
        for _ in range(2000):
            open_ones.enter_context(connect(job))
        assert job.ask("worker-0")["state"] == "running"
        assert job.table("worker-1")["hub"] == "worker-0"
        assert threads(job) == before
    assert job.ask("worker-0")["state"] == "running"
    assert memory_mb(job) < 60


def test_slow_strangers_are_given_up_and_peers_are_answered_meanwhile(job):
    said = hello()
    done = threading.Event()
    slow = [connect(job) for _ in range(50)]

    def drip() -> None:
        for byte in said:
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sendall(bytes([byte]))
            if done.wait(0.2):
                return

    thread = threading.Thread(target=drip)
    thread.start()
    for _ in range(5):
        assert job.ask("worker-0")["state"] == "running"
        time.sleep(0.2)
    for connection in slow:
        assert answers(connection) == b""
        connection.close()
    done.set()
    thread.join()


# -- The proofs themselves


@given(st.binary(max_size=200), st.binary(max_size=400))
def test_the_mac_is_that_of_the_standard_library(key, text):
    assert is_same(mac(key, text), hmac.new(key, text, hashlib.sha256).digest())


def test_a_nonce_opens_the_door_once():
    door = Door(KEY, "worker-0")
    said = hello()
    assert door.admit(said) is not None
    assert door.admit(said) is None


@given(st.binary(max_size=300))
def test_no_bytes_without_the_key_open_the_door(said):
    assert Door(KEY, "worker-0").admit(said) is None


def test_a_state_line_of_a_program_is_not_believed():
    line = state_line(KEY, "worker-0", {"state": "succeeded"})
    assert read_state(KEY, "worker-0", line) == {"state": "succeeded"}
    assert read_state(KEY, "worker-1", line) is None
    assert read_state(b"z" * 32, "worker-0", line) is None
    forged = b'tfcluster-state {"run": "run1", "state": "succeeded"}'
    assert read_state(KEY, "worker-0", forged) is None


@given(st.recursive(st.floats() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_what_a_program_reports_can_always_be_written_as_json(value):
    found = parse_said(json.dumps({"step": value}).encode())
    assert found is not None
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()


def test_numbers_that_json_lacks_are_told_and_deep_and_large_objects_are_left_out():
    assert parse_said(b'{"step": 1' + b"0" * 400 + b', "loss": NaN, "rate": -1e400}') == {
        "step": "inf",
        "loss": "nan",
        "rate": "-inf",
    }
    assert parse_said(b'{"count": %d}' % 10**30) == {"count": 1e30}
    assert parse_said(b'{"count": %d}' % (1 << 62)) == {"count": 1 << 62}
    assert parse_said(b'{"a": ' + b"[" * 100_000) is None
    assert parse_said(b'{"a": "' + b"x" * (1 << 20) + b'"}') is None


def test_bytes_and_halves_of_characters_do_not_lose_the_rest_of_what_was_said():
    said = b'{"note": "caf\xe9", "half \\ud83d": "\\ude00", "loss": 0.5}'
    assert parse_said(said) == {"note": "caf\ufffd", "half \ufffd": "\ufffd", "loss": 0.5}


def test_a_launcher_is_asked_only_by_those_who_have_its_key(job):
    with pytest.raises(ValueError, match="not a launcher of this run"):
        ask(control_address(job.plan, "worker-0"), b"y" * 32, "worker-0", {"ask": "state"})
