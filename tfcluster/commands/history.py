"""`tfcluster history`: the runs of the job, newest first."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer

from tfcluster import console, tables
from tfcluster.archive import NEXT, Run, runs_of
from tfcluster.cells import clipped
from tfcluster.changes import FieldChange, differences
from tfcluster.commands import options
from tfcluster.commands.outcome import reason_of
from tfcluster.errors import EXIT_OK, DamagedFile
from tfcluster.events import SCHEMA_VERSION, JobStatus, is_measure
from tfcluster.results import place_text, places
from tfcluster.spec.kept import parse_kept
from tfcluster.times import moment

ALWAYS = ("RUN", "STATE", "STARTED", "DURATION")
LONGEST_CHANGE, LONGEST_REASON = 44, 60  # columns of a terminal; JSON has all of it
MOST_PLACES = 3


@dataclass(frozen=True)
class Past:
    """One run, how it ended, and the settings that it did not share with the run before."""

    run: Run
    status: JobStatus
    changed: tuple[FieldChange, ...]


EXAMPLES = (
    ("tfcluster history", "the runs of this folder's job"),
    ("tfcluster history --job mnist -o json", "of a job by name, for a program"),
)


def command(
    output: Annotated[
        Literal["table", "wide", "json"],
        typer.Option("--output", "-o", help="The form of the output."),
    ] = "table",
    file: options.File = None,
    job: options.Job = None,
) -> int:
    """List the runs of the job, newest first. Their logs: tfcluster logs --run ID.

    CHANGED names the settings that differ from the run before.
    """
    place = options.find_job(file, job)
    found = past_runs(runs_of(place))
    if output == "json":
        named = {"job": place.job, "folder": place.folder}
        rows = [summary(past) for past in found]
        options.print_json({"schemaVersion": SCHEMA_VERSION, **named, "runs": rows})
    elif not found:
        console.say(f'Job "{place.job}" has never been brought up.')
    else:
        wide = output == "wide"
        console.data("\n".join(table(found, wide=wide)))
        for line in () if wide else place_lines(found):
            console.say(line)
    return EXIT_OK


def past_runs(runs: Sequence[Run]) -> list[Past]:
    """The runs, newest first, each compared with the one before it."""
    settings = [settings_of(run) for run in runs]
    found = []
    for number, run in enumerate(runs):
        status = options.readable_status(run)
        if status is not None:
            before = settings[number + 1] if number + 1 < len(runs) else None
            found.append(Past(run, status, changed_settings(before, settings[number])))
    return found


def settings_of(run: Run) -> Mapping[str, Any] | None:
    """The spec of a run as it was understood; None where that is not known."""
    try:
        return parse_kept(run.files.read_spec())
    except DamagedFile:
        return None


def changed_settings(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> tuple[FieldChange, ...]:
    if before is None or after is None:
        return ()
    return tuple(differences(before, after))


# -- One run -----------------------------------------------------------------------------------


def summary(past: Past) -> dict[str, Any]:
    """One run, as `-o json` gives it."""
    run, status = past.run, past.status
    record = run.record
    return {
        "run": run.id,
        "state": status.state,
        "started": status.started or record.created,
        "ended": status.ended,
        "seconds": length_of(status),
        "accuracy": (status.result or {}).get("accuracy"),
        "loss": last_loss(status),
        "reason": reason_of(run, status),
        "changed": [asdict(change) for change in past.changed],
        "variables": dict(record.variables),
        "overrides": list(record.overrides),
        "results": [one.to_dict() for one in status.results],
        "backend": run.backend,
    }


def length_of(status: JobStatus) -> float | None:
    return status.ended - status.started if status.started and status.ended else None


def last_loss(status: JobStatus) -> float | str | None:
    """The loss that was reported last, by whichever task."""
    said = [task for task in status.tasks if task.progress and task.progress.loss is not None]
    newest = max(said, key=lambda task: task.progressed or 0.0, default=None)
    return newest.progress.loss if newest and newest.progress else None


def table(found: Sequence[Past], *, wide: bool) -> list[str]:
    """The runs as people read them; columns that no run fills are left out."""
    header = [*ALWAYS, "ACCURACY", "LOSS", "BACKEND", "CHANGED", "REASON"]
    header += ["RESULTS"] if wide else []
    rows = [cells(past, wide=wide) for past in found]
    used = [n for n, name in enumerate(header) if name in ALWAYS or any(row[n] for row in rows)]
    on = console.colored(sys.stdout)
    return console.table(
        [header[n] for n in used],
        [[row[n] for n in used] for row in rows],
        style=console.state_style,
        on=on,
    )


def cells(past: Past, *, wide: bool) -> list[str]:
    row = summary(past)
    accuracy, length = row["accuracy"], row["seconds"]
    changed, reason = ", ".join(map(change_text, past.changed)), row["reason"]
    if not wide:
        changed = clipped(changed, LONGEST_CHANGE)
        reason = clipped(reason, LONGEST_REASON)
    found = [
        row["run"],
        row["state"],
        moment(row["started"]),
        "" if length is None else tables.clock(length),
        tables.number(accuracy) if is_measure(accuracy) else "",
        "" if row["loss"] is None else tables.number(row["loss"]),
        row["backend"],
        changed,
        reason,
    ]
    where = "; ".join(place_text(one) for one in places(past.status.results))
    return [*found, where] if wide else found


def change_text(change: FieldChange) -> str:
    """`train.epochs=10`, as `--set` takes it."""
    if change.after is None:
        return f"{change.path} unset"
    value = change.after
    return f"{change.path}={value if isinstance(value, str) else console.json_text(value)}"


def place_lines(found: Iterable[Past]) -> list[str]:
    """Where results are: a line for all runs that differ only in their id."""
    patterns: dict[str, None] = {}
    for past in found:
        for one in places(past.status.results):
            patterns[place_text(one).replace(past.run.id, NEXT)] = None
    lines = [f"Results of a run: {text}" for text in list(patterns)[:MOST_PLACES]]
    more = len(patterns) - len(lines)
    return lines + ([f"{more} more places: tfcluster history -o wide"] if more else [])
