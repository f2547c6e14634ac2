"""`tfcluster ps`: the tasks of the job, or every job there is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tfcluster import console, tables
from tfcluster.archive import all_jobs, latest_run
from tfcluster.commands import options
from tfcluster.commands.status import Output, show
from tfcluster.errors import EXIT_OK
from tfcluster.events import SCHEMA_VERSION, JobStatus


def command(
    file: options.File = None,
    job: options.Job = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Every job, a line each.")] = False,
    output: Output = "table",
) -> int:
    """List the tasks of the job, those that have ended included; with --all, every job."""
    if not all_:
        show(options.status_of(options.find_job_run(file, job)), output, header=False)
        return EXIT_OK
    runs = [run for name in all_jobs() if (run := latest_run(name)) is not None]
    statuses = [found for run in runs if (found := options.readable_status(run)) is not None]
    if output in ("json", "yaml"):
        document = {"schemaVersion": SCHEMA_VERSION, "jobs": [job_row(s) for s in statuses]}
        if output == "json":
            options.print_json(document)
        else:
            console.data("\n".join(console.yaml_lines(document)))
    elif output == "name":
        for status in statuses:
            console.data(status.job)
    else:
        show_jobs(statuses)
    return EXIT_OK


def job_row(status: JobStatus) -> dict[str, object]:
    """What identifies a job, and how it is."""
    keys = ("job", "run", "backend", "state", "started", "ended")
    whole = status.to_dict()
    return {**{key: whole[key] for key in keys}, "tasks": len(status.tasks)}


def show_jobs(statuses: list[JobStatus]) -> None:
    if not statuses:
        console.say("No jobs. Start one: tfcluster init, then tfcluster up")
        return
    header = ["JOB", "RUN", "BACKEND", "STATE", "TASKS", "STARTED"]
    rows = [
        [s.job, s.run, s.backend, s.state, str(len(s.tasks)), tables.moment(s.started)]
        for s in statuses
    ]
    lines = console.table(header, rows, style=console.state_style, on=console.colored(sys.stdout))
    console.data("\n".join(lines))
