"""`tfcluster restart`: start programs again, in place, with the same addresses."""

from __future__ import annotations

from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import job_lock
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK, UsageError
from tfcluster.plan import known_tasks, require_plan


def command(
    tasks: options.Tasks = None,
    all_: Annotated[bool, typer.Option("--all", help="Every task that has not ended.")] = False,
    file: options.File = None,
    job: options.Job = None,
) -> int:
    """Start the programs of tasks again, in place. This does not count as a failure."""
    run = options.find_job_run(file, job)
    status = options.running(run)
    plan = require_plan(run)
    if bool(tasks) == all_:
        problem = "restart what?" if not tasks else "either tasks or --all"
        raise UsageError(problem, hint=f"name tasks or roles, or give --all. {known_tasks(plan)}")
    names = options.select_tasks(plan, tasks)
    if all_:
        names = tuple(task.task for task in status.tasks if not task.over)
    with job_lock(run.job, "restart"):
        load_backend(run.backend).restart(run, names)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    console.success(f"Restarting {shown}")
    return EXIT_OK
