"""What `rm`, `prune` and `down --volumes` show and ask before anything is deleted."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from tfcluster import console, tables
from tfcluster.belongings import Belonging
from tfcluster.cleaning import Candidate, Removal
from tfcluster.errors import EXIT_MISSING, EXIT_OK, TfclusterError, UsageError
from tfcluster.quantities import format_bytes
from tfcluster.removing import carry_out
from tfcluster.times import moment

HEADER = ("JOB", "RUN", "STATE", "ENDED", "SIZE", "WHAT")


def size_text(size: int | None) -> str:
    """`35.2MiB`; nothing where the size is not known."""
    return "" if size is None else f"{format_bytes(size)}B"


def listing(removal: Removal) -> list[str]:
    """A line for every run, and for everything that it has left elsewhere."""
    rows: list[Sequence[str]] = []
    left = list(removal.belongings)
    for one in removal.runs:
        own = [pair[1] for pair in left if pair[1].known_as == one.known_as]
        left = [pair for pair in left if pair[1] not in own]
        rows += [run_row(one), *map(belonging_row, own)]
    rows += [belonging_row(one) for _, one in left]
    style, on = console.state_style, console.colored(sys.stdout)
    return console.table(HEADER, rows, style=style, on=on)


def run_row(one: Candidate) -> list[str]:
    what = "record, logs and output" if one.run.files.output.is_dir() else "record and logs"
    ended = moment(one.ended)
    return [one.run.job, one.run.id, one.state, ended, size_text(one.size), what]


def belonging_row(one: Belonging) -> list[str]:
    return [one.job, one.run, "", "", size_text(one.size), one.words]


def totals(removal: Removal) -> str:
    """`3 runs and 2 things elsewhere, 36.1MiB`."""
    parts = []
    if removal.runs:
        parts.append(tables.counted(len(removal.runs), "run"))
    for kind in dict.fromkeys(one.kind for _, one in removal.belongings):
        count = sum(one.kind == kind for _, one in removal.belongings)
        parts.append(tables.counted(count, kind))
    *first, last = parts
    words = f"{', '.join(first)} and {last}" if first else last
    return f"{words} ({size_text(removal.size)})"


def confirm(question: str, doing: str) -> None:
    """Ask on a terminal; elsewhere `--yes` has to say it."""
    if not console.is_terminal(sys.stdin):
        raise UsageError(f"{doing} deletes data and asks first", hint="say so with --yes")
    typer.confirm(question, abort=True, err=True)


def settle(removal: Removal, *, doing: str, yes: bool, dry_run: bool, force: bool = False) -> int:
    """Show what would go, ask, and remove it; the exit code."""
    empty = not removal.runs and not removal.belongings
    if empty:
        console.say("Nothing to remove.")
    elif dry_run:
        console.data("\n".join(listing(removal)))
        console.say(f"{doing} would remove {totals(removal)}.")
    else:
        if not yes:
            console.say("\n".join(listing(removal)))
            confirm(f"Remove {totals(removal)}?", doing)
        for words in carry_out(removal, force=force):
            console.success(f"Removed {words}")
        console.say(f"In all: {totals(removal)}.")
    for one, why in removal.blocked:
        say_blocked(one, why)
    return EXIT_MISSING if removal.blocked else EXIT_OK


def say_blocked(one: Candidate, why: TfclusterError) -> None:
    console.warn(f'run {one.run.id} of "{one.run.job}" stays: {why.message}')
    force = f"once it answers, try again; only the record: tfcluster rm --force {one.run.id}"
    console.say("\n".join(console.hint(force)))
