"""The record of every run: what was asked for, what happened, what was printed.

    <home>/jobs/<job>/lock
    <home>/jobs/<job>/runs/<run>/record.json   who, when, from where
                                 spec.yaml     the spec as understood, secrets masked
                                 plan.json     every task
                                 events.jsonl  a line per event
                                 status.json   how it ended, written once
                                 logs/<task>.<attempt>.log

<home> is $TFCLUSTER_HOME, else the user's state folder. Nothing here imports more than the standard
library and platformdirs, because `tfcluster status` has to be quick.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tfcluster.errors import MissingError, TfclusterError
from tfcluster.events import Event, JobStatus
from tfcluster.launcher import append_line, write_json
from tfcluster.redaction import looks_secret

KEEP_RUNS = 20


def home() -> Path:
    """Where tfcluster keeps its records."""
    given = os.environ.get("TFCLUSTER_HOME")
    if given:
        return Path(given).expanduser().absolute()
    from platformdirs import user_state_path

    return user_state_path("tfcluster")


def read_json(path: Path) -> Any:
    """The file's content, or None if it is not there."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


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

    @property
    def record(self) -> dict[str, Any]:
        return read_json(self.path / "record.json") or {}

    @property
    def backend(self) -> str:
        return str(self.record.get("backend", "local"))

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def events_path(self) -> Path:
        return self.path / "events.jsonl"

    def update(self, **fields: Any) -> None:
        write_json(str(self.path / "record.json"), {**self.record, **fields})

    def note(self, kind: str, message: str, task: str | None = None) -> None:
        """Append one event."""
        event = Event(time=time.time(), kind=kind, message=message, task=task)
        append_line(str(self.events_path), json.dumps(event.to_dict()))

    def events(self) -> Iterator[Event]:
        """Every event so far, in the order in which they were written."""
        with contextlib.suppress(FileNotFoundError), open(self.events_path, "rb") as file:
            for line in file:
                # A line is written at once, but a full disk can cut one.
                with contextlib.suppress(ValueError, KeyError):
                    data = json.loads(line)
                    yield Event(data["time"], data["kind"], data["message"], data.get("task"))

    def final_status(self) -> JobStatus | None:
        """How the run ended, if it has ended."""
        data = read_json(self.path / "status.json")
        return JobStatus.from_dict(data) if data else None

    def settle(self, status: JobStatus) -> None:
        """Write down how the run ended."""
        write_json(str(self.path / "status.json"), status.to_dict())
        self.update(state=status.state, ended=status.ended)


def job_folder(job: str) -> Path:
    return home() / "jobs" / job


def all_jobs() -> list[str]:
    """Every job with a record, sorted."""
    folder = home() / "jobs"
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []


def runs_of(job: str) -> list[Run]:
    """A job's runs, newest first."""
    folder = job_folder(job) / "runs"
    if not folder.is_dir():
        return []
    runs = [Run(job, entry.name, entry) for entry in folder.iterdir()]
    found = [(run.record.get("created", 0.0), run) for run in runs]
    return [run for created, run in sorted(found, key=lambda pair: -pair[0]) if created]


def latest_run(job: str) -> Run | None:
    runs = runs_of(job)
    return runs[0] if runs else None


def find_run(job: str, run_id: str | None = None) -> Run:
    """The run meant: the latest, or the one whose id starts with `run_id`."""
    runs = runs_of(job)
    if not runs:
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

    run_id = secrets.token_hex(3)
    run = Run(job, run_id, job_folder(job) / "runs" / run_id)
    run.path.mkdir(parents=True, mode=0o700)
    run.logs.mkdir()
    (run.path / "tasks").mkdir()
    record = {
        "schemaVersion": 1,
        "job": job,
        "run": run_id,
        "backend": backend,
        "folder": str(folder),
        "base": str(base),
        "spec": str(spec.resolve()) if spec else None,
        "sourceHash": hashlib.sha256(source.encode()).hexdigest(),
        # What `scale` needs to read the spec again; secrets are left out, and asked for then.
        "variables": {k: None if looks_secret(k) else v for k, v in sorted(variables.items())},
        "overrides": [text for text in overrides if not looks_secret(text.partition("=")[0])],
        "created": time.time(),
        "state": "pending",
        "ended": None,
    }
    write_json(str(run.path / "record.json"), record)
    for old in runs_of(job)[KEEP_RUNS:]:
        if old.final_status() is not None:
            shutil.rmtree(old.path, ignore_errors=True)
    return run


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
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(folder / "lock", "a+", encoding="utf-8") as file:
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
