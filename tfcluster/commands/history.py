"""`tfcluster history`: the runs of the job, newest first."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

from tfcluster import console, tables
from tfcluster.archive import Run, runs_of
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK
from tfcluster.events import SCHEMA_VERSION, JobStatus, is_usable


def command(
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="The form of the output.")
    ] = "table",
    file: options.File = None,
    job: options.Job = None,
) -> int:
    """List the runs of the job, newest first. Their logs: tfcluster logs --run ID."""
    name = options.find_job(file, job)
    statuses = [(run, options.readable_status(run)) for run in runs_of(name)]
    rows = [summary(run, status) for run, status in statuses if status is not None]
    if output == "json":
        options.print_json({"schemaVersion": SCHEMA_VERSION, "job": name, "runs": rows})
    elif not rows:
        console.say(f'Job "{name}" has never been brought up.')
    else:
        header = ["RUN", "STATE", "STARTED", "DURATION", "ACCURACY", "BACKEND"]
        on = console.colored(sys.stdout)
        cells = [line(row) for row in rows]
        console.data("\n".join(console.table(header, cells, style=console.state_style, on=on)))
    return EXIT_OK


def summary(run: Run, status: JobStatus) -> dict[str, Any]:
    """One run, as `-o json` gives it."""
    length = status.ended - status.started if status.started and status.ended else None
    return {
        "run": run.id,
        "state": status.state,
        "started": status.started or run.record.created,
        "ended": status.ended,
        "seconds": length,
        "accuracy": (status.result or {}).get("accuracy"),
        "backend": run.backend,
    }


def line(row: dict[str, Any]) -> list[str]:
    accuracy, length = row["accuracy"], row["seconds"]
    return [
        row["run"],
        row["state"],
        tables.moment(row["started"]),
        "" if length is None else tables.clock(length),
        tables.number(accuracy) if is_usable(accuracy) else "",
        row["backend"],
    ]
