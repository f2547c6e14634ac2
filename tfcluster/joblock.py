"""One command changes a job at a time, and others can see that one does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tfcluster.archive import Run, jobs_folder
from tfcluster.errors import DamagedFile, TfclusterError
from tfcluster.files import make_folder, open_plain
from tfcluster.place import Place

_held: set[str] = set()  # keys of the jobs that this process changes
_starting: set[Path] = set()  # folders of the runs that this process starts


def lock_file(key: str) -> Path:
    return jobs_folder() / key / "lock"


@contextlib.contextmanager
def job_lock(
    place: Place, doing: str, *, patience: float = 0.0, needed: bool = True
) -> Iterator[None]:
    """A second command says who changes the job, and touches nothing.

    Where a lock is not `needed`, one that cannot be made, on a read-only disk, stops nobody.
    """
    descriptor = open_lock(lock_file(place.key), needed)
    if descriptor is None:
        yield
        return
    try:
        deadline = time.monotonic() + patience
        while not try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise TfclusterError(
                    f'job "{place.job}" is being changed by {holder(descriptor)}',
                    hint="wait for it to end, then try again",
                )
            time.sleep(0.05)
        with contextlib.suppress(OSError):  # the lock is held, even if a full disk has no room
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"`tfcluster {doing}` (pid {os.getpid()})".encode())
        _held.add(place.key)
        try:
            yield
        finally:
            _held.discard(place.key)
    finally:
        os.close(descriptor)


def open_lock(path: Path, needed: bool) -> int | None:
    try:
        make_folder(path.parent)
        return open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    except OSError:
        if needed:
            raise
    with contextlib.suppress(OSError):
        return open_plain(path, os.O_RDONLY)
    return None


def try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(descriptor: int) -> str:
    """Who holds the lock, as written in its file."""
    text = os.pread(descriptor, 1000, 0).decode("utf-8", "replace").strip()
    return text or "another tfcluster"


# -- Looking from outside ----------------------------------------------------------------------


@contextlib.contextmanager
def starting(run: Run) -> Iterator[None]:
    """While the tasks of a run are being started by this process."""
    _starting.add(run.path)
    try:
        yield
    finally:
        _starting.discard(run.path)


def may_be_starting(run: Run) -> bool:
    """Whether this process starts tasks of the run, or another one may: it changes the job."""
    if run.path in _starting:
        return True
    key = run.place.key
    return key not in _held and is_held(lock_file(key))


def is_held(path: Path) -> bool:
    """Whether a process holds this lock."""
    try:
        descriptor = open_plain(path, os.O_RDONLY)
    except (OSError, DamagedFile):
        return False
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
