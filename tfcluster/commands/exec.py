"""`tfcluster exec`: a command in a task's surroundings, with its exit code."""

from __future__ import annotations

from typing import Annotated

import typer

from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.errors import MissingError, UsageError
from tfcluster.plan import known_tasks, require_plan


def command(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="As in worker-1.", autocompletion=options.complete_task
        ),
    ],
    argv: Annotated[list[str], typer.Argument(metavar="COMMAND", help="What to run.")],
    file: options.File = None,
    job: options.Job = None,
) -> int:
    """Run a command in a task's surroundings: its folder, environment and TF_CONFIG.

    As in: tfcluster exec worker-1 -- env. Options of exec itself come before the task. The exit
    code is the command's own.
    """
    run = options.find_job_run(file, job)
    plan = require_plan(run)
    if task not in plan.task_names:
        raise MissingError(f'job "{run.job}" has no task "{task}"', hint=known_tasks(plan))
    options.running(run)
    words = argv[1:] if argv[:1] == ["--"] else argv
    if not words:
        raise UsageError("exec what?", hint=f"as in: tfcluster exec {task} -- env")
    return load_backend(run.backend).exec(run, task, words)


command.context_settings = {  # type: ignore[attr-defined]
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}
