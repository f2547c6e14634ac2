"""The record of every run: what was asked for, what happened, what was printed.

    <home>/jobs/<key>/lock          held by the command that changes the job
    <home>/jobs/<key>/runs/<run>/   see runfolder

<key> is the job's name and a digest of its spec's folder, see place; older versions used the name
alone, and what they have written is found as well.

<home> is $TFCLUSTER_HOME, else the user's state folder. Nothing here imports more than the standard
library and platformdirs, because `tfcluster status` has to be quick.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tfcluster.errors import DamagedFile, MissingError, StateWarning
from tfcluster.events import Event, JobStatus
from tfcluster.files import locked
from tfcluster.place import Place, job_in, place_in_records, place_of
from tfcluster.redaction import is_harmless, masked_override
from tfcluster.runfolder import RunFolder
from tfcluster.runrecord import RunRecord

KEEP_RUNS = 20
NEXT = "RUN"


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
        return cls(job_in(folder.parent.parent.name), folder.name, folder)

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
    def place(self) -> Place:
        """The job that this is a run of."""
        try:
            record = self.files.read_record()
        except DamagedFile:
            record = None
        if record is None:
            return place_in_records(self.path.parent.parent.name)
        return place_of(record.job, record.base)

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
        warnings.warn(f"left out: {error.message}; {error.hint}", StateWarning, stacklevel=1)
        return None


def jobs_folder() -> Path:
    return home() / "jobs"


def record_folders(place: Place) -> list[Path]:
    """Where the job's runs may be, the place for new ones first."""
    return [jobs_folder() / key / "runs" for key in dict.fromkeys((place.key, place.job))]


def all_places() -> list[Place]:
    """Every job with a run, sorted."""
    found = set()
    for folder in entries(jobs_folder()):
        runs = entries(folder / "runs")
        records = [readable(Run.at(path)) for path in runs]
        places = {place_of(one.job, one.base) for one in records if one is not None}
        found |= places or ({place_in_records(folder.name)} if runs else set())
    return sorted(found)


def all_entries(folder: Path) -> list[Path]:
    """Every run folder below the folder of a job, or of all jobs."""
    return list(folder.glob("runs/*")) + list(folder.glob("*/runs/*"))


def entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def runs_of(place: Place) -> list[Run]:
    """A job's runs, newest first."""
    runs = [Run.at(path) for folder in record_folders(place) for path in entries(folder)]
    records = [(record, run) for run in runs if (record := readable(run)) is not None]
    found = [(one.created, run) for one, run in records if is_of(one, place)]
    return [run for _, run in sorted(found, key=lambda pair: -pair[0])]


def is_of(record: RunRecord, place: Place) -> bool:
    return not place.folder or place_of(record.job, record.base) == place


def latest_run(place: Place) -> Run | None:
    runs = runs_of(place)
    return runs[0] if runs else None


def find_run(place: Place, run_id: str | None = None) -> Run:
    """The run meant: the latest, or the one whose id starts with `run_id`."""
    folders = record_folders(place)
    if run_id and run_id.isalnum():
        for folder in folders:
            RunFolder(folder / run_id).read_record()  # raises if it is the damaged one
    runs = runs_of(place)
    if not runs:
        for folder in entries(folders[0]):
            RunFolder(folder).read_record()
        raise never_up(place)
    if run_id is None:
        return runs[0]
    matching = [run for run in runs if run.id.startswith(run_id)]
    if len(matching) == 1:
        return matching[0]
    known = ", ".join(run.id for run in (matching or runs)[:10])
    problem = "several runs start with" if matching else "no run"
    raise MissingError(f'job "{place.job}": {problem} "{run_id}"', hint=f"runs: {known}")


def never_up(place: Place) -> MissingError:
    """The error for a job without runs; another folder may have one of the same name."""
    others = [other for other in all_places() if other.job == place.job]
    return MissingError(
        f'job "{place.job}" has never been brought up from {place.folder or "there"}',
        evidence=[f"  there is one of that name in {other.folder}" for other in others],
        hint="run: tfcluster up",
    )


def new_run_id() -> str:
    return os.urandom(3).hex()


def create_run(
    job: str,
    run_id: str | None = None,
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
    run_id = run_id or new_run_id()
    place = place_of(job, base)
    run = Run(job, run_id, record_folders(place)[0] / run_id)
    record = RunRecord(
        job=job,
        run=run_id,
        backend=backend,
        folder=str(folder),
        base=str(base),
        created=time.time(),
        **asked_for(spec, source, variables, overrides),
    )
    with whole_or_removed(run):
        run.files.make()
        run.files.make_key()
        run.files.write_record(record)
    remove_old(place)
    return run


@contextlib.contextmanager
def whole_or_removed(run: Run) -> Iterator[None]:
    """A new run that cannot be written leaves nothing behind."""
    try:
        yield
    except OSError:
        shutil.rmtree(run.path, ignore_errors=True)
        raise


def asked_for(
    spec: Path | None, source: str, variables: Mapping[str, str], overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """What is written down of the call: what is needed to read the spec again, without secrets."""
    import hashlib

    # Of several overrides of the same thing the last one holds.
    last = {text.partition("=")[0]: text for text in overrides}
    kept = [text for text in dict.fromkeys(overrides) if text in last.values()]
    return {
        "spec": str(spec.resolve()) if spec else None,
        "source_hash": hashlib.sha256(source.encode()).hexdigest(),
        "variables": {k: v if is_harmless(k, v) else None for k, v in sorted(variables.items())},
        "overrides": tuple(masked_override(text) for text in kept),
    }


def next_run(place: Place) -> Run:
    """The run that `up` would make now. Its id is chosen then, so NEXT stands for it."""
    return Run(place.job, NEXT, record_folders(place)[0] / NEXT)


def remove_old(place: Place) -> None:
    """Keep the last runs of a job, and those that have not ended or cannot be understood."""
    for old in runs_of(place)[KEEP_RUNS:]:
        with contextlib.suppress(DamagedFile):
            if old.final_status() is not None:
                shutil.rmtree(old.path, ignore_errors=True)
