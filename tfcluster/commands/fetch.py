"""`tfcluster fetch`: bring what tasks have written to a folder here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK, MissingError, TfclusterError
from tfcluster.fetching import EVERYTHING, Fetched, Wanted, fetch, known_results, results_folder
from tfcluster.plan import Plan, require_plan

EXAMPLES = (
    ("tfcluster fetch", "all that the tasks have written"),
    ("tfcluster fetch worker-0 '*.keras'", "some files of one task"),
    ("tfcluster fetch --to out --run 7f3a12", "of an earlier run"),
)


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASK|ROLE|PATTERN",
            help="Tasks, and patterns of files; all if there are none.",
            autocompletion=options.complete_task,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Where to.  [default: results/JOB-RUN]"),
    ] = None,
    run_id: options.RunId = None,
    file: options.File = None,
    job: options.Job = None,
) -> int:
    """Bring what tasks have written under $TFCLUSTER_OUTPUT to a folder here.

    Works while they run, and on local processes and Docker afterwards too. On Kubernetes pods take
    their files with them: there `results` in the spec brings them back before that.
    """
    run = options.find_job_run(file, job, run_id)
    found = fetch_written(run, words or (), Path(to) if to else None)
    console.success(f"Fetched {found.text}")
    return EXIT_OK


def fetch_written(run: Run, words: Sequence[str], to: Path | None) -> Fetched:
    """What the tasks named have written, as far as the patterns among the words match it."""
    plan = require_plan(run)
    tasks, patterns = told_apart(plan, words)
    folder = to or results_folder(run, plan.results.to if plan.results else "results")
    try:
        backend = load_backend(run.backend)
        found = fetch(backend.send_output, run, tasks, folder, Wanted(patterns))
    except MissingError as error:
        raise with_known(error, known_results(run)) from None
    if not found.files:
        raise MissingError(
            f"nothing that matches was written by {', '.join(tasks[:6])}",
            hint="programs write to the folder in $TFCLUSTER_OUTPUT",
        )
    return found


def told_apart(plan: Plan, words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks and the patterns among these words."""
    known = {*plan.task_names, *(role.role for role in plan.roles)}
    named = [word for word in words if word in known]
    patterns = tuple(word for word in words if word not in known)
    return options.select_tasks(plan, named), patterns or EVERYTHING


def with_known(error: MissingError, known: Fetched | None) -> TfclusterError:
    """What cannot be fetched any more may have come back already."""
    if known is None:
        return error
    hint = f"what came back when the job ended: {known.text}"
    return MissingError(error.message, evidence=error.evidence, hint=hint)
