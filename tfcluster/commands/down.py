"""`tfcluster down`: stop the job. Quiet when there is nothing to stop."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run, all_jobs, home, runs_of
from tfcluster.backends import load_backend
from tfcluster.backends.keeping import watched
from tfcluster.commands import options
from tfcluster.commands.attach import watched_signals
from tfcluster.converge import bring_down
from tfcluster.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TOOL,
    DamagedFile,
    MissingError,
    UsageError,
)
from tfcluster.plan import stored_plan
from tfcluster.tables import counted

DEFAULT_GRACE = 10.0


def command(
    file: options.File = None,
    job: options.Job = None,
    all_: Annotated[bool, typer.Option("--all", help="Stop every job.")] = False,
    grace: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Kill after this.  [default: stop_grace]"),
    ] = None,
    volumes: Annotated[
        bool, typer.Option("--volumes", help="Delete checkpoints and summaries too; asks.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Stop the job: politely, then surely. Its logs and its record are kept.

    Safe to call twice, during up, and when nothing is there.
    """
    limit = None if grace is None else options.seconds(grace, "--grace")
    try:
        names = all_jobs() if all_ else [options.find_job(file, job)]
    except MissingError as error:
        console.say(f"Nothing to stop: {error.message}.")
        return EXIT_OK
    runs = [run for name in names for run in open_runs(name)]
    if volumes and not yes:
        confirm_deletion(runs)
    with watched_signals() as presses:
        presses.deferred = "Killing what is left; press Ctrl-C again to give up."
        damaged = [run for run in runs if not stopped(run, limit, lambda: presses.count < 1, all_)]
    if not runs:
        console.say("Nothing to stop.")
    if volumes:
        for run in runs:
            if run not in damaged:
                delete_output(run)
    if presses.count:
        return EXIT_INTERRUPTED
    return EXIT_TOOL if damaged else EXIT_OK


def open_runs(job: str) -> list[Run]:
    """The latest run, and earlier ones that somebody still watches."""
    runs = runs_of(job)
    return runs[:1] + [run for run in runs[1:] if still_watched(run)]


def still_watched(run: Run) -> bool:
    try:
        return watched(run)
    except DamagedFile as error:
        console.warn(f"left out: {error.message}")
        return False


def stopped(
    run: Run, grace: float | None, keep_going: Callable[[], bool], others_follow: bool
) -> bool:
    """Stop a run; of several, one with damaged files must not keep the others running."""
    try:
        stop(run, grace, keep_going)
    except DamagedFile as error:
        if not others_follow:
            raise
        console.warn(f'job "{run.job}" was not stopped: {error.message}')
        return False
    return True


def stop(run: Run, grace: float | None, keep_going: Callable[[], bool]) -> None:
    ended = run.final_status() is not None
    if ended and not load_backend(run.backend).leftovers(run):
        console.say(f'Nothing to stop: job "{run.job}" is not running.')
        return
    plan = stored_plan(run)
    if grace is None:
        grace = plan.stop_grace if plan else DEFAULT_GRACE
    bring_down(run, grace=grace, keep_going=keep_going)
    if ended:
        console.success(f'Removed what the ended job "{run.job}" had left; logs are kept')
        return
    count = counted(plan.size if plan else 0, "task")
    console.success(f"Stopped {count}; logs are kept: tfcluster logs --run {run.id}")


def output_folders(run: Run) -> list[Path]:
    """Where the run's tasks wrote checkpoints and summaries."""
    plan = stored_plan(run)
    folders = (plan.logdir, plan.checkpoints) if plan else ()
    return [Path(folder) for folder in folders if folder and Path(folder).exists()]


def confirm_deletion(runs: list[Run]) -> None:
    folders = [str(folder) for run in runs for folder in output_folders(run)]
    folders += [
        f"volume {name}" for run in runs for name in load_backend(run.backend).output_volumes(run)
    ]
    if not folders:
        return
    if not console.is_terminal(sys.stdin):
        raise UsageError("--volumes deletes data and asks first", hint="say so with --yes")
    console.say("This deletes:\n" + "\n".join(f"  {folder}" for folder in folders))
    typer.confirm("Go on?", abort=True, err=True)


def delete_output(run: Run) -> None:
    for name in load_backend(run.backend).remove_output(run):
        console.success(f"Deleted volume {name}")
    for folder in output_folders(run):
        if not folder.exists():
            continue  # it was inside the one before
        # A folder that the person named in the spec may hold more than this job's files.
        if home() not in folder.resolve().parents:
            console.say(f"Left alone: {folder} (named in the spec)")
            continue
        shutil.rmtree(folder, ignore_errors=True)
        console.success(f"Deleted {folder}")
