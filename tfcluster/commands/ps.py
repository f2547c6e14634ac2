"""`tfcluster ps`: the tasks of the job, or every job there is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run
from tfcluster.commands import options
from tfcluster.commands.status import Output, show
from tfcluster.errors import EXIT_OK
from tfcluster.events import SCHEMA_VERSION, JobStatus
from tfcluster.jobs import latest_runs
from tfcluster.times import moment

EXAMPLES = (
    ("tfcluster ps", "the tasks of this folder's job"),
    ("tfcluster ps --all", "every job on record"),
)


def command(
    file: options.File = None,
    job: options.Job = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Every job, a line each.")] = False,
    output: Output = "table",
) -> int:
    """List the tasks of the job, those that have ended included; with --all, every job."""
    if not all_:
        one = options.find_job_run(file, job)
        show(one, options.status_of(one), output, header=False)
        return EXIT_OK
    statuses = [
        (found, run) for run in latest_runs() if (found := options.readable_status(run)) is not None
    ]
    if output in ("json", "yaml"):
        document = {"schemaVersion": SCHEMA_VERSION, "jobs": [job_row(*pair) for pair in statuses]}
        if output == "json":
            options.print_json(document)
        else:
            console.data(console.yaml_text(document))
    elif output == "name":
        for status, _ in statuses:
            console.data(status.job)
    else:
        show_jobs(statuses)
    return EXIT_OK


def job_row(status: JobStatus, run: Run) -> dict[str, object]:
    """What identifies a job, and how it is."""
    keys = ("job", "run", "backend", "state", "started", "ended")
    whole = status.to_dict()
    row = {key: whole[key] for key in keys}
    return {**row, "folder": run.place.folder, "tasks": len(status.tasks)}


def show_jobs(statuses: list[tuple[JobStatus, Run]]) -> None:
    if not statuses:
        console.say("No jobs. Start one: tfcluster init, then tfcluster up")
        return
    header = ["JOB", "RUN", "BACKEND", "STATE", "TASKS", "STARTED", "FOLDER"]
    rows = []
    for status, run in statuses:
        row = [status.job, status.run, status.backend, status.state, str(len(status.tasks))]
        rows.append([*row, moment(status.started), run.place.folder])
    lines = console.table(header, rows, style=console.state_style, on=console.colored(sys.stdout))
    console.data("\n".join(lines))
