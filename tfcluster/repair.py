"""Damaged files of a run: moved aside, so that the run can be ended and the job started again.

Nothing is deleted: `status.json` becomes `status.json.aside`. Without its record a run is neither
found nor ended by its backend, so a record is made again from what the other files say.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tfcluster.archive import Run
from tfcluster.errors import DamagedFile, StateWarning
from tfcluster.place import place_of
from tfcluster.plan import Plan, stored_plan
from tfcluster.runrecord import RunRecord

ASIDE = ".aside"
DEFAULT_BACKEND = "local"


def repair(run: Run, base: str = "") -> None:
    """Leave no file that cannot be read; `base` is the folder of the job's spec, if known."""
    if not run.path.is_dir():
        return
    for read in readers(run):
        try:
            read()
        except DamagedFile as error:
            move_aside(error)
    try:
        if run.files.read_record() is None and (record := record_again(run, base)) is not None:
            run.files.write_record(record)
    except DamagedFile:
        return  # it could not be moved, which was said


def readers(run: Run) -> Iterator[Callable[[], object]]:
    files = run.files
    yield from (files.read_record, files.read_status, files.read_launch, files.read_keeper)
    yield from (files.read_key, files.read_engines, lambda: stored_plan(run))
    for path in sorted(files.tasks.glob("*.json")):
        yield lambda task=path.stem: files.read_task(task)  # type: ignore[misc]


def move_aside(error: DamagedFile) -> None:
    try:
        os.replace(error.path, error.path + ASIDE)
    except OSError as refused:
        warnings.warn(f"{error.message}; {refused.strerror}", StateWarning, stacklevel=2)
        return
    name = Path(error.path).name + ASIDE
    warnings.warn(f"{error.message}; it is now {name}", StateWarning, stacklevel=2)


def readable_plan(run: Run) -> Plan | None:
    try:
        return stored_plan(run)
    except DamagedFile:
        return None


def backend_of(run: Run) -> str:
    """Where a run is, as its record says or else its plan."""
    try:
        record = run.files.read_record()
    except DamagedFile:
        record = None
    plan = None if record else readable_plan(run)
    return record.backend if record else plan.backend if plan else DEFAULT_BACKEND


def record_again(run: Run, base: str) -> RunRecord | None:
    """A record from what is left of the run; None if not even its folder can be known."""
    plan, launch = readable_plan(run), run.files.read_launch()
    key = run.path.parent.parent.name
    bases = [base, str((launch or {}).get("base") or "")]
    found = next((one for one in bases if one and place_of(run.job, one).key == key), None)
    if found is None:
        return None
    site = plan.site if plan and plan.backend == "kubernetes" else {}
    return RunRecord(
        job=run.job,
        run=run.id,
        backend=plan.backend if plan else DEFAULT_BACKEND,
        folder=found,
        base=found,
        created=run.path.stat().st_mtime,
        context=site.get("context"),
        namespace=site.get("namespace"),
    )
