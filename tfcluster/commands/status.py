"""`tfcluster status`: the job and its tasks, as they are now or as they ended."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any, Literal

import typer

from tfcluster import console, tables
from tfcluster.archive import Run
from tfcluster.commands import options
from tfcluster.commands.outcome import explain, reason_of
from tfcluster.errors import EXIT_OK
from tfcluster.events import JobStatus

EXAMPLES = (
    ("tfcluster status", "the job of this folder"),
    ("tfcluster status --watch", "again and again until it has ended"),
    ("tfcluster status -o json --run 7f3a", "an earlier run, for a program"),
)
WATCH_EVERY = 1.0

Output = Annotated[
    Literal["table", "wide", "json", "yaml", "name"],
    typer.Option("--output", "-o", help="The form of the output."),
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Show it again and again until the job has ended.")
]


def command(
    file: options.File = None,
    job: options.Job = None,
    run: options.RunId = None,
    output: Output = "table",
    watch: Watch = False,
) -> int:
    """Show the job and its tasks, those that have ended included.

    Exit code 0 if there is such a job, whatever its state; 3 if there is none.
    """
    found = options.find_job_run(file, job, run)
    if watch:
        return keep_showing(found, output)
    show(found, options.status_of(found), output)
    return EXIT_OK


def show(run: Run, status: JobStatus, output: str, *, header: bool = True) -> None:
    """Print one status."""
    if output == "json":
        options.print_json(document(run, status))
    elif output == "yaml":
        console.data(console.yaml_text(document(run, status)))
    elif output == "name":
        for task in status.tasks:
            console.data(task.task)
    else:
        console.text(status_lines(run, status, wide=output == "wide", header=header))


def document(run: Run, status: JobStatus) -> dict[str, Any]:
    """The status as programs read it: with what the run was brought up from."""
    record = run.record
    begun = status.started or record.created
    return {
        **status.to_dict(),
        "reason": reason_of(run, status),
        "why": verdict.to_dict() if (verdict := explain(run, status)) else None,
        "elapsed": round((status.ended or time.time()) - begun, 3),
        "folder": run.place.folder,
        "spec": record.spec,
        "variables": dict(record.variables),
        "overrides": list(record.overrides),
    }


def status_lines(
    run: Run, status: JobStatus, *, wide: bool = False, header: bool = True
) -> list[str]:
    """The status as people read it."""
    on = console.colored(sys.stdout)
    columns, rows = tables.task_rows(status.tasks, wide=wide, keep=("RESTARTS",))
    lines = [tables.headline(status)] if header else []
    if status.tasks:
        lines += console.table(
            columns, rows, style=console.state_style, on=on, fold=console.columns(sys.stdout)
        )
    if not header:
        return lines
    result = tables.result_text(status.result)
    if result:
        lines.append(f"Result: {result}")
    if status.cause is not None:
        lines.append(f"First failure: {status.cause.task}: {status.cause.reason}")
    if verdict := explain(run, status):
        lines.append(f"Cause: {verdict.summary}; more: tfcluster why")
    if status.cause is None and (reason := reason_of(run, status)):
        lines.append(f"Reason: {reason}")
    return [*lines, *tables.results_lines(status.results, wide=wide)]


def keep_showing(run: Run, output: str) -> int:
    """The status whenever it has changed, until the job has ended."""
    if output in ("table", "wide") and console.is_terminal(sys.stdout):
        return redraw(run, wide=output == "wide")
    before: object = None
    while True:
        status = options.status_of(run)
        if status != before:
            if output == "json":
                options.print_json(document(run, status), indent=None)
            else:
                console.data("---") if output == "yaml" else None
                show(run, status, output)
            console.flush()
        before = status
        if status.over:
            return EXIT_OK
        time.sleep(WATCH_EVERY)


def redraw(run: Run, *, wide: bool) -> int:
    from tfcluster.live import Region

    region = Region(sys.stdout)
    while True:
        status = options.status_of(run)
        region.draw(status_lines(run, status, wide=wide))
        if status.over:
            return EXIT_OK
        time.sleep(WATCH_EVERY)
