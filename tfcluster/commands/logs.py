"""`tfcluster logs`: what tasks print, live, after the end, and after `down`."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import typer

from tfcluster import console, tail
from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.commands.outcome import check_outcome, wait_settled
from tfcluster.errors import EXIT_INTERRUPTED, EXIT_OK
from tfcluster.events import LogLine, LogQuery
from tfcluster.plan import require_plan

# A line is written to disk a moment after it got its time.
WRITING = 0.2
AT_ONCE = 1000  # lines in one write, where nobody waits for the next one

Patterns = list[str] | None


def command(
    tasks: options.Tasks = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")
    ] = False,
    tail_: Annotated[
        int | None, typer.Option("--tail", "-n", metavar="N", min=0, help="The last N per task.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: 10m (ago) or a time.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Up to then.")] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", "-t", help="Put the time before each line.")
    ] = False,
    include: Annotated[
        Patterns, typer.Option(metavar="REGEX", help="Only lines that match (repeatable).")
    ] = None,
    exclude: Annotated[
        Patterns, typer.Option(metavar="REGEX", help="No lines that match (repeatable).")
    ] = None,
    highlight: Annotated[
        Patterns, typer.Option(metavar="REGEX", help="Mark what matches (repeatable).")
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", help="The attempt before the last restart.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="One attempt; the first is 0.")
    ] = None,
    prefix: Annotated[
        bool, typer.Option("--prefix/--no-prefix", help="Put the task before each line.")
    ] = True,
    output: Annotated[
        Literal["default", "raw", "json"],
        typer.Option("--output", "-o", help="raw: the exact bytes; json: an object per line."),
    ] = "default",
    file: options.LongFile = None,
    job: options.Job = None,
    run: options.RunId = None,
) -> int:
    """Print what tasks print: of all tasks, of a role, or of one task.

    Works while the job runs, after it has ended, and after down. With -f the exit code is 5 if the
    job fails; Ctrl-C leaves the job running.
    """
    found = options.find_job_run(file, job, run)
    names = options.select_tasks(require_plan(found), tasks)
    wanted = tail.Filter(
        include=tuple(tail.pattern(text, "--include") for text in include or ()),
        exclude=tuple(tail.pattern(text, "--exclude") for text in exclude or ()),
        attempt=attempt,
        reports=output == "raw",
    )
    style = tail.Style(
        names=names,
        prefix=prefix,
        timestamps=timestamps,
        color=console.colored(sys.stdout),
        highlight=tuple(tail.pattern(text, "--highlight") for text in highlight or ()),
    )
    query = LogQuery(
        tasks=names if tasks else (),  # with those that a smaller plan no longer has
        follow=follow,
        since=tail.parse_when(since) if since else None,
        until=tail.parse_when(until) if until else None,
        attempts="previous" if previous else "all",
    )
    try:
        write(chosen(found, query, wanted, tail_), output, style, flush=follow)
    except KeyboardInterrupt:
        return detach(found)
    if follow:
        check_outcome(wait_settled(found))
    return EXIT_OK


def chosen(run: Run, query: LogQuery, wanted: tail.Filter, last: int | None) -> Iterator[LogLine]:
    """The lines asked for. `--tail` counts the lines that are shown, so it is applied here."""
    from dataclasses import replace

    backend = load_backend(run.backend)
    if last is None:
        yield from tail.select(backend.logs(run, query), wanted)
        return
    split = time.time() - WRITING
    before = query if not query.follow else replace(query, follow=False, until=split)
    yield from tail.last_lines(tail.select(backend.logs(run, before), wanted), last)
    if query.follow:
        after = replace(query, since=max(split, query.since or 0.0))
        fresh = (line for line in backend.logs(run, after) if line.time > split)
        yield from tail.select(fresh, wanted)


def write(lines: Iterable[LogLine], output: str, style: tail.Style, *, flush: bool) -> None:
    """Write every line as it comes, or many at a time where nobody waits for one."""
    format_line = tail.FORMATTERS[output]
    stdout = sys.stdout.buffer
    formatted = (format_line(line, style) for line in lines)
    while block := list(itertools.islice(formatted, 1 if flush else AT_ONCE)):
        stdout.write(b"".join(block))
        stdout.flush()


def detach(run: Run) -> int:
    status = options.status_of(run)
    if not status.over:
        console.say(f'\nDetached; job "{run.job}" keeps running. Stop it: tfcluster down')
    return EXIT_INTERRUPTED
