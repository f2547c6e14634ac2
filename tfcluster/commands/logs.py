"""`tfcluster logs`: what tasks print, live, after the end, and after `down`."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import typer

from tfcluster import console, tail
from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.commands.outcome import SHOWN_TASKS, check_outcome, wait_settled
from tfcluster.errors import EXIT_INTERRUPTED, EXIT_OK, MissingError, UsageError
from tfcluster.events import LogLine, LogQuery
from tfcluster.folding import Folding
from tfcluster.interrupts import raised_interrupts
from tfcluster.plan import require_plan
from tfcluster.tables import counted

EXAMPLES = (
    ("tfcluster logs -f", "every task, as it prints"),
    ("tfcluster logs worker-1 -n 20", "the last lines of one task"),
    ("tfcluster logs -t --since 10m --include ERROR", "what went wrong, and when"),
    ("tfcluster logs -f --file other/cluster.yaml", "of another folder's job"),
)


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
    all_: Annotated[bool, typer.Option("--all", help="TensorFlow's notices too.")] = False,
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
    job fails; Ctrl-C leaves the job running. TensorFlow's own notices are counted and left out
    unless --all, --include, -o raw or -o json asks for every line.
    """
    options.refuse_files(tasks, "logs")
    if previous and attempt is not None:
        raise UsageError("either --previous or --attempt", hint="name one of them")
    found = options.find_job_run(file, job, run)
    plan = require_plan(found)
    names = options.select_tasks(plan, tasks)
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
    # Whoever asks for exact output, or looks for something, gets every line.
    folding = None if all_ or include or output != "default" else Folding(plan)
    try:
        with raised_interrupts():
            write(chosen(found, query, wanted, tail_, folding), output, style, flush=follow)
    except KeyboardInterrupt:
        return detach(found)
    finally:
        if folding and (words := folding.summary()):
            console.say(words)
    check_attempt(found, names, attempt, previous)
    if follow:
        check_outcome(found, wait_settled(found))
    return EXIT_OK


def check_attempt(run: Run, names: Sequence[str], attempt: int | None, previous: bool) -> None:
    """Raise if the attempt that was asked for is not there, and so nothing was printed."""
    known = {task: run.files.log_attempts(task) for task in names}
    if attempt is not None and not any(attempt in found for found in known.values()):
        problem = f"there is no attempt {attempt}"
    elif previous and all(len(found) < 2 for found in known.values()):
        problem = "there is no attempt before the last"
    else:
        return
    shown = [
        f"  {task}: {'attempts' if len(found) > 1 else 'attempt'} {', '.join(map(str, found))}"
        for task, found in known.items()
        if found
    ]
    more = len(shown) - SHOWN_TASKS
    evidence = shown[:SHOWN_TASKS] + ([f"  … and {counted(more, 'more task')}"] if more > 0 else [])
    raise MissingError(problem, evidence=evidence, hint="the first is 0; without it, all are shown")


def chosen(
    run: Run,
    query: LogQuery,
    wanted: tail.Filter,
    last: int | None,
    folding: Folding | None,
) -> Iterator[LogLine]:
    """The lines asked for. `--tail` counts the lines that are shown, so it is applied here."""
    from dataclasses import replace

    backend = load_backend(run.backend)
    if last is None:
        yield from tail.select(backend.logs(run, query), wanted, folding)
        return
    split = time.time() - WRITING
    before = query if not query.follow else replace(query, follow=False, until=split)
    yield from tail.last_lines(tail.select(backend.logs(run, before), wanted, folding), last)
    if query.follow:
        after = replace(query, since=max(split, query.since or 0.0))
        fresh = (line for line in backend.logs(run, after) if line.time > split)
        yield from tail.select(fresh, wanted, folding)


def write(lines: Iterable[LogLine], output: str, style: tail.Style, *, flush: bool) -> None:
    """Write every line as it comes, or many at a time where nobody waits for one."""
    format_line = tail.FORMATTERS[output]
    formatted = (format_line(line, style) for line in lines)
    while block := list(itertools.islice(formatted, 1 if flush else AT_ONCE)):
        console.write_bytes(b"".join(block))


def detach(run: Run) -> int:
    status = options.status_of(run)
    if not status.over:
        console.say(f'\nDetached; job "{run.job}" keeps running. Stop it: tfcluster down')
    return EXIT_INTERRUPTED
