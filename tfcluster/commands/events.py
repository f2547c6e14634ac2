"""`tfcluster events`: what happened to the job and its tasks."""

from __future__ import annotations

import sys
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
from tfcluster.times import moment

EXAMPLES = (
    ("tfcluster events", "what happened, oldest first"),
    ("tfcluster events -f worker-1", "what happens to one task"),
)
LOOK_EVERY = 0.3


def command(
    tasks: options.Tasks = None,
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
    """List what happened to the job, or to some of its tasks, oldest first."""
    options.refuse_files(tasks, "events")
    found = options.find_job_run(file, job, run)
    names = options.select_tasks(require_plan(found), tasks) if tasks else None
    events = (event for event in seen(found, follow) if names is None or event.task in names)
    if output == "json":
        for event in events:
            options.print_json(event.to_dict(), indent=None)
    elif follow:
        width = max(map(len, require_plan(found).task_names))
        for event in events:
            when, kind, task, message = row(event)
            console.data(f"{when}  {kind:10}  {task:{width}}  {message}".rstrip())
    else:
        rows = [row(event) for event in events]
        fold = console.columns(sys.stdout)
        console.text(console.table(["TIME", "EVENT", "TASK", "MESSAGE"], rows, fold=fold))
    return EXIT_OK


def row(event: Event) -> list[str]:
    return [moment(event.time), event.kind, event.task or "", message(event)]


def message(event: Event) -> str:
    """What happened, in words; of a result only what people look for."""
    return event.message or tables.result_text(event.data)


def seen(run: Run, follow: bool) -> Iterator[Event]:
    """The run's events; with follow, also those to come."""
    count = 0
    while True:
        over = not follow or run.final_status() is not None or options.status_of(run).over
        events = list(run.events())
        yield from events[count:]
        count = len(events)
        console.flush()
        if over:
            return
        time.sleep(LOOK_EVERY)
