"""`tfcluster timeline`: where the time of a run went, task by task."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tfcluster import console, tables
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK, MissingError

if TYPE_CHECKING:
    from tfcluster.timeline.spans import Timeline

NARROW = 80  # columns, where there is no terminal
EXAMPLES = (
    ("tfcluster timeline", "where the time of this folder's job went"),
    ("tfcluster timeline --out time.svg", "the same as a picture"),
    ("tfcluster timeline --run 7f3a", "an earlier run"),
    ("tfcluster timeline -o json", "every span, for a program"),
)


def command(
    file: options.File = None,
    job: options.Job = None,
    run: options.RunId = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it as an SVG picture.")
    ] = None,
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="The form of the output.")
    ] = "text",
) -> int:
    """Show where the time went: waiting, importing, training, saving, stalled.

    A bar per task, while the job runs and after it has ended; then the largest waste and what would
    reduce it.
    """
    from tfcluster.timeline.bars import draw
    from tfcluster.timeline.spans import timeline_of
    from tfcluster.timeline.waste import closing, largest_waste

    found = options.find_job_run(file, job, run)
    status = options.status_of(found)
    if not status.tasks:
        raise MissingError(
            f"run {found.id} of job {found.job!r} has no tasks: it never started",
            hint="see what happened: tfcluster events",
        )
    timeline = timeline_of(found, status)
    waste = largest_waste(timeline)
    last = closing(timeline, waste)
    if out is not None:
        write_picture(out, timeline, tables.headline(status), last)
    if output == "json":
        options.print_json({**timeline.to_dict(), "waste": waste.to_dict() if waste else None})
        return EXIT_OK
    width = console.columns(sys.stdout) or NARROW
    bars = draw(timeline, width, on=console.colored(sys.stdout))
    console.data("\n".join([tables.headline(status), "", *bars, ""]))
    console.text(last)
    if out is not None:
        console.say(f"Wrote {out}")
    return EXIT_OK


def write_picture(path: Path, timeline: Timeline, heading: str, notes: list[str]) -> None:
    from tfcluster.timeline.svg import render_svg

    path.write_text(render_svg(timeline, heading, notes), encoding="utf-8")
