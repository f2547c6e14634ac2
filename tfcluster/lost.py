"""Runs that still have processes although their record cannot be read or their folder is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from tfcluster.archive import Run, all_entries, jobs_folder, record_folders
from tfcluster.backends.processes import KEEPER, LAUNCHER, Found, end_processes, find_processes
from tfcluster.errors import DamagedFile, TfclusterError
from tfcluster.place import Place
from tfcluster.repair import repair
from tfcluster.tables import counted


def has_record(run: Run) -> bool:
    try:
        return run.files.read_record() is not None
    except DamagedFile:
        return False


def is_damaged(run: Run) -> bool:
    try:
        run.files.read_record()
    except DamagedFile:
        return True
    return False


def living_parts(folder: Path) -> dict[Path, list[Found]]:
    """The keepers and launchers of every run below this folder, by the run's folder."""
    found: dict[Path, list[Found]] = {}
    for one in find_processes(folder):
        if one.part in (KEEPER, LAUNCHER):
            found.setdefault(one.folder, []).append(one)
    return found


def lost_runs(place: Place | None = None) -> list[Run]:
    """The runs of a job, or of all, that only their processes or a damaged record tell of."""
    folders = [path.parent for path in record_folders(place)] if place else [jobs_folder()]
    living = {path for folder in folders for path in living_parts(folder)}
    lost = {path for path in living if not has_record(Run.at(path))}
    entries = [path for folder in folders for path in all_entries(folder)]
    lost |= {path for path in entries if is_damaged(Run.at(path))}
    return [Run.at(path) for path in sorted(lost)]


def refuse_lost(place: Place) -> None:
    """Raise if processes of the job run on that no record tells of: they must be ended first."""
    for path, parts in living_parts(jobs_folder() / place.key).items():
        run = Run.at(path)
        if not has_record(run):
            raise lost_error(run, parts)


def tell_lost(place: Place | None, job: str | None = None) -> None:
    """Raise if the job that was not found, or any if it is not known which, still runs."""
    for run in lost_runs(place):
        parts = living_parts(run.path).get(run.path)
        if parts and job in (None, run.job):
            raise lost_error(run, parts)


def lost_error(run: Run, parts: list[Found]) -> TfclusterError:
    count = counted(sum(one.part == LAUNCHER for one in parts), "task")
    why = f"{run.files.record_file} cannot be read" if run.path.is_dir() else "its folder is gone"
    return TfclusterError(
        f'run {run.id} of job "{run.job}" still runs {count}, but {why}',
        evidence=[f"  {run.path}"],
        hint="end them: tfcluster down; then start again: tfcluster up",
    )


def end_lost(run: Run, base: str, grace: float, keep_going: Callable[[], bool]) -> int:
    """End what is left of a run, and make its record again if that can be done; how many tasks."""
    count = end_processes(run.path, grace, keep_going)
    with contextlib.suppress(OSError):
        repair(run, base)
    return count
