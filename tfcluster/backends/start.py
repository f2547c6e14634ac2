"""Starting the process that watches over a run, and hearing from it whether it could.

What it has to say comes through a pipe: where the disk is full, its log has no room for it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import tfcluster
from tfcluster.archive import Run, home
from tfcluster.backends.processes import MARK
from tfcluster.errors import TfclusterError, WaitTimeout
from tfcluster.files import open_append
from tfcluster.refusals import explain

START_DEADLINE = 30.0
READY = "ready"
HERE = "tfcluster.backends.start"


def start_keeper(run: Run, module: str, folder: str = "/") -> None:
    """Start `module`.main(run folder) in the background; returns when it says that it watches."""
    run.files.forget_keeper()
    hears, tells = os.pipe()
    try:
        with os.fdopen(open_append(run.files.keeper_log), "ab") as log:
            subprocess.Popen(
                [*python_running(HERE), module, str(run.path), str(tells)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**os.environ, MARK: str(run.path)},
                start_new_session=True,
                pass_fds=(tells,),
            )
        os.close(tells)
        tells = -1
        said = hear(hears, START_DEADLINE)
    finally:
        for descriptor in (hears, tells):
            if descriptor >= 0:
                os.close(descriptor)
    if said is None:
        raise WaitTimeout(f"the run's keeper did not start within {START_DEADLINE:g} s")
    if said != READY:
        raise not_started(said, last_lines(run.files.keeper_log))


def hear(descriptor: int, seconds: float) -> str | None:
    """What is written to a pipe until its other end is closed; None if that takes too long."""
    deadline, said = time.monotonic() + seconds, b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        data = os.read(descriptor, 1 << 16)
        if not data:
            return said.decode("utf-8", "replace")
        said += data


def not_started(said: str, lines: list[str]) -> TfclusterError:
    """Why a keeper ended instead of watching: its own words, or the last that it printed."""
    message, _, hint = said.partition("\n")
    if message:
        return TfclusterError(f"the run could not be started: {message}", hint=hint or None)
    return TfclusterError("the process that watches over the run ended at once", evidence=lines)


def last_lines(path: Path, count: int = 10) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()[-count:]
    except OSError:
        return []


def python_running(module: str) -> list[str]:
    """A command that calls a module's main with the arguments that follow.

    Not `-m`: a folder of the user's that happens to be called tfcluster must not be run.
    """
    package = str(Path(tfcluster.__file__).parent.parent)
    code = (
        f"import importlib, os, sys; sys.path.append({package!r}); "
        "os._exit(importlib.import_module(sys.argv[1]).main(*sys.argv[2:]))"
    )
    return [sys.executable, "-I", "-c", code, module]


# -- In the keeper itself ----------------------------------------------------------------------

_pipe: int | None = None


def main(module: str, path: str, tells: str) -> int:
    """Run a keeper; what keeps it from watching is said to whoever waits for it."""
    global _pipe
    _pipe = int(tells)
    try:
        return int(importlib.import_module(module).main(path))
    except Exception as error:
        tell(in_words(error))
        raise


def tell(words: str) -> None:
    """Say it to the command that started this keeper, if it still listens."""
    global _pipe
    if _pipe is not None:
        with contextlib.suppress(OSError):
            os.write(_pipe, words.encode())
        os.close(_pipe)
        _pipe = None


def tell_ready() -> None:
    tell(READY)


def in_words(error: Exception) -> str:
    """A message, and in a second line what to do."""
    refused = explain(error, home()) if isinstance(error, OSError) else None
    found = refused or error
    if isinstance(found, TfclusterError):
        return f"{found.message}\n{found.hint or ''}"
    return f"{type(error).__name__}: {error}\n"
