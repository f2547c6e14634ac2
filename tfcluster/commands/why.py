"""`tfcluster why`: the first cause of a failure or a stall, on one screen."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from tfcluster import console, tables
from tfcluster.commands import options
from tfcluster.diagnosis.verdict import NOTHING, Verdict
from tfcluster.errors import EXIT_OK
from tfcluster.events import SCHEMA_VERSION, JobStatus
from tfcluster.times import moment

EXAMPLES = (
    ("tfcluster why", "why the job of this folder failed or stands still"),
    ("tfcluster why --run 7f3a", "an earlier run"),
    ("tfcluster why -o json", "for a program"),
)


def command(
    file: options.File = None,
    job: options.Job = None,
    run: options.RunId = None,
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="The form of the output.")
    ] = "text",
) -> int:
    """Say why the job failed or stands still: the cause, its evidence, what followed, what to do.

    Where the cause is not certain, it says so and shows the earliest evidence.
    """
    from tfcluster.diagnosis.diagnose import diagnose_run

    found = options.find_job_run(file, job, run)
    status = options.status_of(found)
    verdict = diagnose_run(found, status)
    if output == "json":
        named = {"job": status.job, "run": status.run, "state": status.state}
        options.print_json({"schemaVersion": SCHEMA_VERSION, **named, **verdict.to_dict()})
    else:
        console.text(verdict_lines(status, verdict))
    return EXIT_OK


def verdict_lines(status: JobStatus, verdict: Verdict) -> list[str]:
    """The verdict as people read it."""
    on = console.colored(sys.stdout)
    lines = [tables.headline(status)]
    doubt = "" if verdict.certain or verdict.kind == NOTHING else " (not certain)"
    style = None if verdict.kind == NOTHING else "bold"
    lines.append(console.paint(f"Cause: {verdict.sentence}{doubt}", style, on))
    if verdict.time is not None:
        lines.append(f"When:  {moment(verdict.time)}")
    if verdict.where:
        lines.append(f"Where: {verdict.where}")
    prefix = f"  {verdict.task} | " if verdict.task else "  "
    sections = (("Evidence:", prefix, verdict.evidence), ("What followed:", "  ", verdict.followed))
    for title, indent, rows in (*sections, ("Next:", "  ", verdict.advice)):
        if rows:
            lines += [title, *(f"{indent}{row}" for row in rows)]
    return lines
