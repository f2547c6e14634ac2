"""The record of every run: what was asked for, what happened, what was printed.

    <home>/jobs/<job>/lock          held by the command that changes the job
    <home>/jobs/<job>/runs/<run>/   see runfolder

<home> is $TFCLUSTER_HOME, else the user's state folder. Nothing here imports more than the standard
library and platformdirs, because `tfcluster status` has to be quick.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from tfcluster.errors import DamagedFile, DamagedRecord, MissingError, TfclusterError
from tfcluster.events import Event, JobStatus
from tfcluster.files import locked, make_folder, open_plain
from tfcluster.redaction import looks_secret
from tfcluster.runfolder import RunFolder
from tfcluster.runrecord import RunRecord

KEEP_RUNS = 20


def home() -> Path:
    """Where tfcluster keeps its records."""
    given = os.environ.get("TFCLUSTER_HOME")
    if given:
        return Path(given).expanduser().absolute()
    from platformdirs import user_state_path

    return user_state_path("tfcluster")


@dataclass(frozen=True)
class Run:
    """One execution of a job."""

    job: str
    id: str
    path: Path

    @classmethod
    def at(cls, folder: Path) -> Run:
        """The run whose folder this is, as its keeper is told."""
        return cls(folder.parent.parent.name, folder.name, folder)

    @cached_property
    def files(self) -> RunFolder:
        return RunFolder(self.path)

    @property
    def record(self) -> RunRecord:
        """What is written down of the run now."""
        found = self.files.read_record()
        if found is None:
            raise MissingError(
                f'job "{self.job}" has no run {self.id}', hint="list its runs: tfcluster history"
            )
        return found

    @property
    def backend(self) -> str:
        return self.record.backend

    @property
    def logs(self) -> Path:
        return self.files.logs

    def update(self, **fields: Any) -> None:
        """Change these fields of the record, and no other that changes at the same time."""
        with locked(self.files.record_lock):
            self.files.write_record(replace(self.record, **fields))

    def note(
        self,
        kind: str,
        message: str,
        task: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Append one event."""
        self.files.append_event(Event(time.time(), kind, message, task, data))

    def events(self) -> Iterator[Event]:
        """Every event so far, in the order in which they were written."""
        return self.files.read_events()

    def final_status(self) -> JobStatus | None:
        """How the run ended, if it has ended."""
        return self.files.read_status()

    def settle(self, status: JobStatus) -> None:
        """Write down how the run ended."""
        self.files.write_status(status)
        self.update(state=status.state, ended=status.ended)


# -- Finding runs ------------------------------------------------------------------------------


def readable(run: Run) -> RunRecord | None:
    """The run's record; None, with a warning, if it is damaged: it must not hide the others."""
    try:
        return run.files.read_record()
    except DamagedFile as error:
        warnings.warn(f"left out: {error.message}", DamagedRecord, stacklevel=2)
        return None


def job_folder(job: str) -> Path:
    return home() / "jobs" / job


def runs_folder(job: str) -> Path:
    return job_folder(job) / "runs"


def all_jobs() -> list[str]:
    """Every job with a record, sorted."""
    folder = home() / "jobs"
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def runs_of(job: str) -> list[Run]:
    """A job's runs, newest first."""
    folder = runs_folder(job)
    if not folder.is_dir():
        return []
    runs = [Run(job, entry.name, entry) for entry in folder.iterdir()]
    found = [(record.created, run) for run in runs if (record := readable(run)) is not None]
    return [run for _, run in sorted(found, key=lambda pair: -pair[0])]


def latest_run(job: str) -> Run | None:
    runs = runs_of(job)
    return runs[0] if runs else None


def find_run(job: str, run_id: str | None = None) -> Run:
    """The run meant: the latest, or the one whose id starts with `run_id`."""
    if run_id and run_id.isalnum():
        RunFolder(runs_folder(job) / run_id).read_record()  # raises if it is the damaged one
    runs = runs_of(job)
    if not runs:
        for folder in runs_folder(job).glob("*"):
            RunFolder(folder).read_record()
        raise MissingError(f'job "{job}" has never been brought up', hint="run: tfcluster up")
    if run_id is None:
        return runs[0]
    matching = [run for run in runs if run.id.startswith(run_id)]
    if len(matching) == 1:
        return matching[0]
    known = ", ".join(run.id for run in (matching or runs)[:10])
    problem = "several runs start with" if matching else "no run"
    raise MissingError(f'job "{job}": {problem} "{run_id}"', hint=f"runs: {known}")


def create_run(
    job: str,
    *,
    backend: str,
    folder: Path,
    base: Path,
    spec: Path | None,
    source: str,
    variables: Mapping[str, str],
    overrides: Sequence[str] = (),
) -> Run:
    """A new, empty run; the oldest ones beyond the last twenty are removed."""
    import hashlib

    run_id = os.urandom(3).hex()
    run = Run(job, run_id, runs_folder(job) / run_id)
    run.files.make()
    run.files.make_key()
    record = RunRecord(
        job=job,
        run=run_id,
        backend=backend,
        folder=str(folder),
        base=str(base),
        created=time.time(),
        spec=str(spec.resolve()) if spec else None,
        source_hash=hashlib.sha256(source.encode()).hexdigest(),
        variables={k: None if looks_secret(k) else v for k, v in sorted(variables.items())},
        overrides=tuple(text for text in overrides if not looks_secret(text.partition("=")[0])),
    )
    run.files.write_record(record)
    remove_old(job)
    return run


def remove_old(job: str) -> None:
    """Keep the last runs of a job, and those that have not ended or cannot be understood."""
    for old in runs_of(job)[KEEP_RUNS:]:
        with contextlib.suppress(DamagedFile):
            if old.final_status() is not None:
                shutil.rmtree(old.path, ignore_errors=True)


# -- One command at a time ---------------------------------------------------------------------


def try_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def job_lock(job: str, doing: str, *, patience: float = 0.0) -> Iterator[None]:
    """One command changes a job at a time; a second says who is at it and touches nothing."""
    deadline = time.monotonic() + patience
    folder = job_folder(job)
    make_folder(folder)
    descriptor = open_plain(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    with os.fdopen(descriptor, "a+", encoding="utf-8") as file:
        while not try_lock(file):
            if time.monotonic() > deadline:
                file.seek(0)
                holder = file.read().strip() or "another tfcluster"
                raise TfclusterError(
                    f'job "{job}" is being changed by {holder}',
                    hint="wait for it to end, then try again",
                )
            time.sleep(0.05)
        file.seek(0)
        file.truncate()
        file.write(f"`tfcluster {doing}` (pid {os.getpid()})")
        file.flush()
        yield
