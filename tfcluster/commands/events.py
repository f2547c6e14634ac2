"""`tfcluster events`: what happened to the job and its tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Annotated, Literal

import typer

from tfcluster import console, tables
from tfcluster.archive import Run
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK
from tfcluster.events import Event
from tfcluster.plan import require_plan

LOOK_EVERY = 0.3


def command(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")
    ] = False,
    output: Annotated[
        Literal["table", "json"],
        typer.Option("--output", "-o", help="json: an object per line."),
    ] = "table",
    file: options.LongFile = None,
    job: options.Job = None,
    run: options.RunId = None,
) -> int:
    """List what happened to the job and its tasks, oldest first."""
    found = options.find_job_run(file, job, run)
    if output == "json":
        for event in seen(found, follow):
            console.data(json.dumps(event.to_dict(), ensure_ascii=False))
    elif follow:
        width = max(map(len, require_plan(found).task_names))
        for event in seen(found, follow):
            when, kind, task, message = row(event)
            console.data(f"{when}  {kind:10}  {task:{width}}  {message}".rstrip())
    else:
        rows = [row(event) for event in seen(found, follow)]
        console.data("\n".join(console.table(["TIME", "EVENT", "TASK", "MESSAGE"], rows)))
    return EXIT_OK


def row(event: Event) -> list[str]:
    return [tables.moment(event.time), event.kind, event.task or "", message(event)]


def message(event: Event) -> str:
    """What happened, in words; of a result only what people look for."""
    return event.message or tables.result_text(event.data)


def seen(run: Run, follow: bool) -> Iterator[Event]:
    """The run's events; with follow, also those to come."""
    import sys

    count = 0
    while True:
        over = not follow or run.final_status() is not None or options.status_of(run).over
        events = list(run.events())
        yield from events[count:]
        count = len(events)
        sys.stdout.flush()
        if over:
            return
        time.sleep(LOOK_EVERY)
