"""Which job is meant when nobody says it outright."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tfcluster.archive import all_jobs, latest_run
from tfcluster.errors import MissingError, UsageError

DEFAULT_SPEC = "cluster.yaml"


def select_job(spec: Path | None = None, job: str | None = None, folder: Path | None = None) -> str:
    """The job's name: said outright, the spec's, last up from this folder, or the only one."""
    folder = (folder or Path.cwd()).absolute()
    if job is not None:
        return existing(job)
    if spec is None and (folder / DEFAULT_SPEC).is_file():
        spec = folder / DEFAULT_SPEC
    if spec is not None:
        return name_in(folder / spec)
    records = {name: run.record for name in all_jobs() if (run := latest_run(name))}
    here = [name for name, record in records.items() if record.folder == str(folder)]
    if here:
        return max(here, key=lambda name: records[name].created)
    if len(records) == 1:
        return next(iter(records))
    if not records:
        raise MissingError(
            "no job has been brought up yet", hint="run: tfcluster init, then tfcluster up"
        )
    raise UsageError(
        "which job? there is no cluster.yaml here, and none was brought up from this folder",
        evidence=[f"  {name}" for name in sorted(records)],
        hint="name one of these with --job NAME",
    )


def existing(job: str) -> str:
    jobs = all_jobs()
    if job in jobs:
        return job
    known = f"jobs: {', '.join(jobs)}" if jobs else "run: tfcluster up"
    raise MissingError(f'there is no job "{job}"', hint=known)


def name_in(spec: Path) -> str:
    """The job's name in a spec file, without loading it if it is as it was at the last `up`."""
    path = spec.resolve()
    if path.is_file():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        for name in all_jobs():
            run = latest_run(name)
            if run and (run.record.spec, run.record.source_hash) == (str(path), digest):
                return name
    from tfcluster.spec.loader import load_spec

    return load_spec(spec).spec.name
