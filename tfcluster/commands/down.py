"""`tfcluster down`: stop the job. Quiet when there is nothing to stop."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run, all_places, runs_of
from tfcluster.backends import load_backend
from tfcluster.backends.keeping import watched
from tfcluster.commands import options
from tfcluster.commands.removal import confirm, size_text
from tfcluster.converge import bring_down
from tfcluster.errors import (
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_OK,
    DamagedFile,
    MissingError,
    StateWarning,
)
from tfcluster.events import JobStatus
from tfcluster.interrupts import watched_signals
from tfcluster.lost import end_lost, has_record, lost_runs
from tfcluster.outputs import Output, delete_output, find_output
from tfcluster.place import Place
from tfcluster.repair import DEFAULT_BACKEND, backend_of, readable_plan, repair
from tfcluster.tables import counted

EXAMPLES = (
    ("tfcluster down", "the job of this folder"),
    ("tfcluster down --job mnist", "a job by name, from any folder"),
    ("tfcluster down --all --grace 2s", "every job, in a hurry"),
)
DEFAULT_GRACE = 10.0


def command(
    file: options.File = None,
    job: options.Job = None,
    run: options.RunId = None,
    all_: Annotated[bool, typer.Option("--all", help="Stop every job.")] = False,
    grace: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Kill after this.  [default: stop_grace]"),
    ] = None,
    volumes: Annotated[
        bool, typer.Option("--volumes", help="Delete the results of all its runs too; asks.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Stop the job: politely, then surely. Its logs and its record are kept.

    Safe to call twice, during up, and when nothing is there.
    """
    limit = None if grace is None else options.seconds(grace, "--grace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StateWarning)  # what is damaged is said as it is moved
            runs, lost = chosen_runs(file, job, run, all_)
    except MissingError as error:
        console.say(f"Nothing to stop: {error.message}.")
        return EXIT_OK
    if volumes and not yes:
        confirm_deletion(find_output(owners(runs, run is not None)))
    with watched_signals() as presses:
        presses.begin()
        presses.deferred = "Killing what is left; press Ctrl-C again to give up."
        presses.goes_on = "Some tasks may still run. End them: tfcluster down"
        presses.given_up = "Gave up; some tasks may still run. End them: tfcluster down"
        patient = lambda: presses.count < 1  # noqa: E731
        for one in runs:
            stop(one, limit, patient)
        for one, base in lost:
            stop_lost(one, base, limit, patient)
    if not runs and not lost:
        console.say("Nothing to stop.")
    code = EXIT_OK
    if volumes:
        code = delete_all(find_output(owners(runs, run is not None)))
    return EXIT_INTERRUPTED if presses.count else code


LostRun = tuple[Run, str]  # with the folder of its spec, if that is known


def chosen_runs(
    file: str | None, job: str | None, run: str | None, every: bool
) -> tuple[list[Run], list[LostRun]]:
    """The runs to end: one that is named, or those of a job, or all; and those without a record."""
    if every:
        places = all_places()
        lost = [(one, "") for one in lost_runs()]
        return [found for place in places for found in open_runs(place)], lost
    if run is not None:
        return [options.find_job_run(file, job, run)], []
    try:
        place = options.find_job(file, job)
    except MissingError:
        named = [one for one in lost_runs() if job in (None, one.job)]
        if not named:
            raise
        return [], [(one, "") for one in named]
    return open_runs(place), [(one, place.folder) for one in lost_runs(place)]


def open_runs(place: Place) -> list[Run]:
    """The latest run, and earlier ones that somebody still watches."""
    runs = runs_of(place)
    return runs[:1] + [run for run in runs[1:] if watched(run)]


def stop_lost(run: Run, base: str, grace: float | None, keep_going: Callable[[], bool]) -> None:
    """Stop a run without a record; if that can be done, it has one afterwards."""
    if run.path.is_dir() and backend_of(run) != DEFAULT_BACKEND:
        repair(run, base)
        if has_record(run):
            stop(run, grace, keep_going)
        return
    count = end_lost(run, base, DEFAULT_GRACE if grace is None else grace, keep_going)
    words = f"of run {run.id}, whose folder is gone"
    if has_record(run):
        bring_down(run, grace=0, keep_going=keep_going)
        words = f"of run {run.id}; its logs are kept, and its record was made again"
    elif run.path.is_dir():
        words = f"of run {run.id}, whose record cannot be read"
    console.success(f"Stopped {counted(count, 'task')} {words}")


NOTHING, REMOVED, STOPPED = "nothing", "removed", "stopped"


def stop(run: Run, grace: float | None, keep_going: Callable[[], bool]) -> None:
    done = end_job(run, grace, keep_going)
    if done == NOTHING:
        console.say(f'Nothing to stop: job "{run.job}" is not running.')
    elif done == REMOVED:
        console.success(f'Removed what the ended job "{run.job}" had left; logs are kept')
    else:
        plan, final = readable_plan(run), final_status(run)
        count = counted(plan.size if plan else len(final.tasks) if final else 0, "task")
        console.success(f"Stopped {count}; logs are kept: tfcluster logs --run {run.id}")


def end_job(
    run: Run, grace: float | None = None, keep_going: Callable[[], bool] = lambda: True
) -> str:
    """End a run, or remove what an ended one has left; which of the two it was, or nothing."""
    repair(run)
    ended = final_status(run) is not None
    if ended and not load_backend(run.backend).leftovers(run):
        return NOTHING
    if grace is None:
        plan = readable_plan(run)
        grace = plan.stop_grace if plan else DEFAULT_GRACE
    bring_down(run, grace=grace, keep_going=keep_going)
    return REMOVED if ended else STOPPED


def final_status(run: Run) -> JobStatus | None:
    """How a run ended; None if that is not known, or in a damaged file that cannot be moved."""
    with contextlib.suppress(DamagedFile):
        return run.final_status()
    return None


def owners(runs: Sequence[Run], only: bool) -> list[Run]:
    """The runs whose results `--volumes` deletes: those named, or all of their jobs."""
    if only:
        return list(runs)
    places = dict.fromkeys(run.place for run in runs)
    return [run for place in places for run in runs_of(place)]


def confirm_deletion(output: Output) -> None:
    lines = [f"  {folder} ({size_text(size)})" for folder, size in output.folders]
    for _, one in output.belongings:
        size = "" if one.size is None else f" ({size_text(one.size)})"
        lines.append(f"  {one.words}{size}")
    if lines:
        console.say("\n".join(["This deletes:", *lines]))
        confirm("Go on?", "--volumes")


def delete_all(output: Output) -> int:
    """Delete results; the exit code says whether every place could be asked."""
    for words in delete_output(output):
        console.success(f"Deleted {words}")
    for folder in output.named:
        # It may hold more than this job's files.
        console.say(f"Left alone: {folder} (named in the spec)")
    for error in output.silent:
        console.warn(f"results were left there: {error.message}")
    return EXIT_MISSING if output.silent else EXIT_OK
