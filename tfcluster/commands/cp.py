"""`tfcluster cp`: copy files between this machine and a running task."""

from __future__ import annotations

from typing import Annotated

import typer

from tfcluster import console
from tfcluster.commands import options
from tfcluster.copying import copy_from, copy_to, parse_ends, python_in
from tfcluster.errors import EXIT_OK, MissingError
from tfcluster.plan import known_tasks, require_plan
from tfcluster.quantities import format_bytes
from tfcluster.tables import counted

EXAMPLES = (
    ("tfcluster cp worker-0:model.keras .", "from its folder"),
    ("tfcluster cp data worker-1:/tmp/", "a folder, into one of its own"),
)


def command(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="A path here, or TASK:PATH, as worker-1:out.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="The same; one of both is a task's.")],
    file: options.File = None,
    job: options.Job = None,
) -> int:
    """Copy a file, or a folder with all that is in it, from or to a task that runs.

    In a task, paths are relative to its program's folder. What exists as a folder gets the copy
    inside it. Links are left out. To get what tasks have written after their end: tfcluster fetch.
    """
    begin, end = parse_ends(source, target)
    run = options.find_job_run(file, job)
    plan = require_plan(run)
    task = begin.task or end.task
    if task not in plan.task_names:
        raise MissingError(f'job "{run.job}" has no task "{task}"', hint=known_tasks(plan))
    options.running(run)
    named = [*(["--file", file] if file else []), *(["--job", job] if job else [])]
    argv = python_in(task, local=run.backend == "local", options=named)
    copied = copy_from(argv, begin, target) if begin.task else copy_to(argv, source, end)
    size = f"{format_bytes(copied.size)}B"
    console.success(f"Copied {counted(copied.files, 'file')}, {size}, to {copied.folder}")
    return EXIT_OK
