"""The process that watches over a run after the command that started it has ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import tfcluster
from tfcluster.archive import Run
from tfcluster.errors import TfclusterError, WaitTimeout
from tfcluster.files import locked, open_append
from tfcluster.launch.record import Process
from tfcluster.launch.system import process_start

START_DEADLINE = 30.0
START_PATIENCE = 60.0  # after this nobody can be starting a run any more
STOP_DEADLINE = 10.0
TAKE_OVER_DEADLINE = 30.0
MARK = "TFCLUSTER_RUN_FOLDER"  # in the environment of everything that a run starts


def start_keeper(run: Run, module: str, folder: str = "/") -> None:
    """Start `module`.main(run folder) in the background; returns when it says that it watches."""
    run.files.forget_keeper()
    with os.fdopen(open_append(run.files.keeper_log), "ab") as log:
        keeper = subprocess.Popen(
            [*python_running(module), str(run.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, MARK: str(run.path)},
            start_new_session=True,
        )
    deadline = time.monotonic() + START_DEADLINE
    while run.files.read_keeper() is None:
        if keeper.poll() is not None:
            evidence = last_lines(run.files.keeper_log)
            raise TfclusterError(
                "the process that watches over the run ended at once", evidence=evidence
            )
        if time.monotonic() > deadline:
            raise WaitTimeout(f"the run's keeper did not start within {START_DEADLINE:g} s")
        time.sleep(0.02)


def python_running(module: str) -> list[str]:
    """A command that calls a module's main with the arguments that follow.

    Not `-m`: a folder of the user's that happens to be called tfcluster must not be run.
    """
    package = str(Path(tfcluster.__file__).parent.parent)
    code = (
        f"import os, sys; sys.path.append({package!r}); "
        f"from {module} import main; os._exit(main(*sys.argv[1:]))"
    )
    return [sys.executable, "-I", "-c", code]


def sweep(run: Run, task: str | None = None) -> None:
    """Kill what carries the run's mark (and the task's name): also what nobody wrote down."""
    import psutil

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            found = process.environ()
            if found.get(MARK) == str(run.path) and task in (None, found.get("TFCLUSTER_TASK")):
                process.kill()


def announce_keeper(run: Run) -> None:
    """Say, from inside the keeper, that it watches now."""
    run.files.write_keeper({"pid": os.getpid(), "start": process_start(os.getpid())})


def stop_keeper(run: Run) -> None:
    """End a run's keeper, if it has one, and wait until it is gone."""
    keeper = run.files.read_keeper()
    deadline = time.monotonic() + STOP_DEADLINE
    number = signal.SIGTERM
    while keeper and keeper["pid"] and alive(keeper):
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper["pid"], number)
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        time.sleep(0.05)


def watched(run: Run) -> bool:
    """Whether the run's keeper lives."""
    return alive(run.files.read_keeper())


def stale(run: Run) -> bool:
    """Whether nobody can be starting this run any more."""
    record = run.record
    return time.time() - (record.applied or record.created) > START_PATIENCE


@contextlib.contextmanager
def sole_reader(run: Run, *, wait: bool) -> Iterator[bool]:
    """Whether this process alone may write the run's logs and records while inside."""
    with locked(run.files.reader_lock, wait=wait) as mine:
        yield mine


@contextlib.contextmanager
def taken_over(run: Run) -> Iterator[None]:
    """Stop the run's keeper, even one still starting, and hold the run's reader lock."""
    deadline = time.monotonic() + TAKE_OVER_DEADLINE
    while True:
        stop_keeper(run)
        with sole_reader(run, wait=False) as mine:
            if mine:
                yield
                return
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"another process still reads run {run.id} after {TAKE_OVER_DEADLINE:g} s",
                hint="is another tfcluster at work on it? try again",
            )
        time.sleep(0.05)


def alive(process: Process | None) -> bool:
    """Whether this very process lives; one with the same pid but a later start does not count."""
    pid, start = (process.get("pid"), process.get("start")) if process else (None, None)
    return bool(pid and start and process_start(pid) == start)


def next_attempt(run: Run, task: str) -> int:
    """One more than the attempts that left a log."""
    return max(run.files.log_attempts(task), default=-1) + 1


def last_lines(path: Path, count: int = 10) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []
