"""Which job is meant when nobody says it outright."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfcluster.archive import Run, all_places, latest_run
from tfcluster.errors import MissingError, UsageError
from tfcluster.place import Place, place_of

DEFAULT_SPEC = "cluster.yaml"


def select_job(
    spec: Path | None = None, job: str | None = None, folder: Path | None = None
) -> Place:
    """The job: said outright, the spec's, last up from this folder, or the only one."""
    folder = (folder or Path.cwd()).absolute()
    if job is not None:
        return job_named(job, spec, folder)
    if spec is None and (folder / DEFAULT_SPEC).is_file():
        spec = folder / DEFAULT_SPEC
    if spec is not None:
        return job_in_spec(folder / spec)
    runs = latest_runs()
    here = brought_up_from(folder, runs)
    if here is not None:
        return here.place
    if len(runs) == 1:
        return runs[0].place
    if not runs:
        raise MissingError(
            "no job has been brought up yet", hint="run: tfcluster init, then tfcluster up"
        )
    raise UsageError(
        "which job? there is no cluster.yaml here, and none was brought up from this folder",
        evidence=listing(run.place for run in runs),
        hint="name one of these with --job NAME",
    )


def latest_runs() -> list[Run]:
    """The latest run of every job."""
    return [run for place in all_places() if (run := latest_run(place)) is not None]


def brought_up_from(folder: Path, runs: Sequence[Run]) -> Run | None:
    """The newest of these runs that `up` was called for in this folder."""
    here = [run for run in runs if run.record.folder == str(folder)]
    return max(here, key=lambda run: run.record.created, default=None)


def job_named(job: str, spec: Path | None, folder: Path) -> Place:
    """The job of this name: that of the spec's folder, the only one, or the one of this folder."""
    places = all_places()
    named = [place for place in places if place.job == job]
    base = (folder / spec).resolve().parent if spec is not None else folder
    own = place_of(job, base)
    if own in named or (spec is not None and named):
        return own
    if len(named) == 1:
        return named[0]
    if not named:
        known = ", ".join(dict.fromkeys(place.job for place in places))
        hint = f"jobs: {known}" if known else "run: tfcluster up"
        raise MissingError(f'there is no job "{job}"', hint=hint)
    here = brought_up_from(folder, [run for run in latest_runs() if run.job == job])
    if here is not None:
        return here.place
    raise UsageError(
        f'which job "{job}"? there is one in each of these folders',
        evidence=listing(named),
        hint="call the command in its folder, or add --file FOLDER; "
        "one run of any job: --run ID (see tfcluster ps -a)",
    )


def listing(places: Iterable[Place]) -> list[str]:
    """`  mnist  /home/ann/mnist`, a line each."""
    found = list(places)
    width = max(len(place.job) for place in found)
    return [f"  {place.job:{width}}  {place.folder}".rstrip() for place in found]


def job_in_spec(spec: Path) -> Place:
    """The job in a spec file, without loading it if it is as it was at the last `up`."""
    path = spec.resolve()
    if path.is_file():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        same = [
            run
            for run in latest_runs()
            if (run.record.spec, run.record.source_hash) == (str(path), digest)
        ]
        if same:
            return max(same, key=lambda run: run.record.created).place
    from tfcluster.spec.loader import load_spec

    return place_of(load_spec(spec).spec.name, path.parent)
