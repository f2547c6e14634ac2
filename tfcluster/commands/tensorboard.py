"""`tfcluster tensorboard`: the run's summaries in a browser."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.errors import MissingError, TfclusterError
from tfcluster.interrupts import raised_interrupts
from tfcluster.plan import require_plan

EXAMPLES = (
    ("tfcluster tensorboard", "the latest run here"),
    ("tfcluster tensorboard --run 7f3a --port 7000", "an earlier run"),
)
FIRST_PORT = 6006
TRIED_PORTS = 20


def command(
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=1, max=65535, help="[default: 6006, or the next free]"),
    ] = None,
    file: options.File = None,
    job: options.Job = None,
    run: options.RunId = None,
) -> int:
    """Show the run in TensorBoard, on this machine only. Ctrl-C ends it; the job goes on."""
    import importlib.util

    found = options.find_job_run(file, job, run)
    logdir = require_plan(found).logdir
    if not logdir:
        raise MissingError("the job has no logdir", hint="set logdir in the spec")
    elsewhere = getattr(load_backend(found.backend), "tensorboard", None)
    if elsewhere is not None and not Path(logdir).is_dir():
        chosen = free_port() if port is None else checked(port)
        with raised_interrupts():
            return int(elsewhere(found, chosen, lambda: announce(chosen), console.say))
    if importlib.util.find_spec("tensorboard") is None:
        raise MissingError("TensorBoard is not installed here", hint="run: pip install tensorboard")
    if not Path(logdir).is_dir() or not any(Path(logdir).iterdir()):
        console.say(f"Nothing is in {logdir} yet; TensorBoard looks again by itself.")
    chosen = free_port() if port is None else checked(port)
    announce(chosen)
    argv = [sys.executable, "-m", "tensorboard.main", "--logdir", logdir]
    argv += ["--host", "127.0.0.1", "--port", str(chosen)]
    with raised_interrupts():
        return subprocess.call(argv)


def announce(port: int) -> None:
    console.data(f"http://127.0.0.1:{port}/")
    console.say("Ctrl-C ends TensorBoard.")
    console.flush()


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    for port in range(FIRST_PORT, FIRST_PORT + TRIED_PORTS):
        if is_free(port):
            return port
    last = FIRST_PORT + TRIED_PORTS - 1
    raise TfclusterError(f"no port is free from {FIRST_PORT} to {last}", hint="choose with --port")


def checked(port: int) -> int:
    if not is_free(port):
        raise TfclusterError(f"port {port} is in use", hint="leave --port out to take a free one")
    return port
