"""The process that watches over a run after the command that started it has ended."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Iterator

from tfcluster.archive import Run
from tfcluster.backends.processes import (
    KEEPER,
    PROGRAM,
    alive,
    end_keepers,
    find_processes,
    kill_all,
)
from tfcluster.backends.start import tell_ready
from tfcluster.errors import DamagedFile, StateWarning, WaitTimeout
from tfcluster.files import locked
from tfcluster.joblock import may_be_starting
from tfcluster.launch.system import process_start

TAKE_OVER_DEADLINE = 30.0


def sweep(run: Run, task: str | None = None) -> None:
    """Kill what carries the run's mark (and the task's name): also what nobody wrote down."""
    found = find_processes(run.path)
    if task is not None:
        found = [one for one in found if one.part == PROGRAM and one.task == task]
    kill_all(found)


def announce_keeper(run: Run) -> None:
    """Say, from inside the keeper, that it watches now."""
    with contextlib.suppress(OSError):  # without this file it is found among the processes
        run.files.write_keeper({"pid": os.getpid(), "start": process_start(os.getpid())})
    tell_ready()


def stop_keeper(run: Run) -> None:
    """End a run's keeper, if it has one, and wait until it is gone."""
    end_keepers(run.path)


def watched(run: Run) -> bool:
    """Whether the run's keeper lives."""
    try:
        return alive(run.files.read_keeper())
    except DamagedFile as error:
        warnings.warn(error.message, StateWarning, stacklevel=2)
        return any(one.part == KEEPER for one in find_processes(run.path))


def stale(run: Run) -> bool:
    """Whether nobody is starting this run any more."""
    return not may_be_starting(run)


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


def next_attempt(run: Run, task: str) -> int:
    """One more than the attempts that left a log."""
    return max(run.files.log_attempts(task), default=-1) + 1
