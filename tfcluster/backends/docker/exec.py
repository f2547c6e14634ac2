"""Commands inside a task's container: the person's own, and messages to its launcher."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfcluster.backends.docker.containers import FIND_PYTHON, LAUNCH
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.errors import TfclusterError
from tfcluster.launch.system import write_all
from tfcluster.plan import Plan


def launcher_argv(task: str, *words: str) -> list[str]:
    """The launcher inside a task's container, called for something other than the task itself."""
    argv = ["/bin/sh", "-c", FIND_PYTHON, "sh", f"{LAUNCH}/launcher.py"]
    return [*argv, "--plan", f"{LAUNCH}/launch.json", "--task", task, *words]


def tell(engine: Engine, plan: Plan, task: str, message: Mapping[str, Any]) -> None:
    """Send a task's launcher a message from inside its container, where its port can be reached."""
    argv = launcher_argv(task, "--tell", json.dumps(message))
    with translated(engine, task):
        made = engine.api.exec_create(f"{plan.job}-{task}", argv)
        said = engine.api.exec_start(made["Id"])
        code = engine.api.exec_inspect(made["Id"])["ExitCode"]
    if code != 0:
        lines = bytes(said).decode("utf-8", "replace").splitlines()[-3:]
        raise TfclusterError(f"{task} could not be told", evidence=[f"  {line}" for line in lines])


def run_inside(
    engine: Engine, plan: Plan, task: str, argv: Sequence[str], *, terminal: bool
) -> int:
    """Run a command as the task would be run, with our input and output; its exit code.

    The launcher reads the variables inside the container, so that the engine never sees a value.
    """
    command = launcher_argv(task, "--exec", *argv)
    with translated(engine, argv[0]):
        made = engine.api.exec_create(f"{plan.job}-{task}", command, stdin=True, tty=terminal)
        stream = engine.api.exec_start(made["Id"], tty=terminal, socket=True)
        connection: socket.socket = getattr(stream, "_sock", stream)
        connection.settimeout(None)
        if terminal:
            columns, lines = os.get_terminal_size(0)
            engine.api.exec_resize(made["Id"], height=lines, width=columns)
        with raw_terminal(terminal):
            threading.Thread(target=send_input, args=(connection,), daemon=True).start()
            receive_output(connection, terminal)
        stream.close()
        return int(engine.api.exec_inspect(made["Id"])["ExitCode"] or 0)


@contextlib.contextmanager
def raw_terminal(wanted: bool) -> Iterator[None]:
    """Keys go to the command as they are pressed, Ctrl-C included."""
    if not wanted:
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def send_input(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(0, 1 << 16):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)


def receive_output(connection: socket.socket, terminal: bool) -> None:
    """Until the command has ended. Without a terminal its two streams stay apart.

    Not by the SDK's frames_iter: it polls the socket before every read, and waits for ever on a TLS
    connection whose data has arrived already.
    """
    if terminal:
        while data := connection.recv(1 << 16):
            write_all(1, data)
        return
    while len(header := receive_exactly(connection, 8)) == 8:
        number, length = struct.unpack(">BxxxL", header)
        write_all(number, receive_exactly(connection, length))


def receive_exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length and (more := connection.recv(length - len(data))):
        data += more
    return data
