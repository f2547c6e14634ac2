"""`tfcluster diff`: what `up` would change, task by task."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from tfcluster import console
from tfcluster.changes import Change
from tfcluster.commands import options
from tfcluster.converge import preview
from tfcluster.errors import EXIT_OK
from tfcluster.events import SCHEMA_VERSION
from tfcluster.tables import counted

EXIT_DIFFERS = 1
MARKS = {
    "create": ("+", "green", "start"),
    "replace": ("~", "yellow", "restart"),
    "remove": ("-", "red", "stop"),
    "keep": ("=", None, "unchanged"),
}


def command(
    spec: options.Spec = None,
    file: options.File = None,
    var: options.Var = None,
    set_: options.Set = None,
    backend: options.Backend = None,
    all_: Annotated[bool, typer.Option("--all", help="Unchanged tasks as well.")] = False,
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="The form of the output.")
    ] = "text",
) -> int:
    """Show what up would change, task by task. Exit code 0 if nothing, 1 if something."""
    plan, changes = preview(options.load(spec, file, var, set_, backend))
    different = any(change.action != "keep" for change in changes)
    if output == "json":
        listed = [asdict(change) for change in changes]
        options.print_json({"schemaVersion": SCHEMA_VERSION, "job": plan.job, "changes": listed})
    else:
        shown = [change for change in changes if all_ or change.action != "keep"]
        for line in lines(shown):
            console.data(line)
        console.say(
            totals(changes) if different else f'No change: "{plan.job}" is as it should be.'
        )
    return EXIT_DIFFERS if different else EXIT_OK


def lines(changes: Sequence[Change]) -> list[str]:
    """`~ worker-0  restart (image)`."""
    width = max((len(change.task) for change in changes), default=0)
    on = console.colored(sys.stdout)
    found = []
    for change in changes:
        mark, style, word = MARKS[change.action]
        why = f" ({change.why})" if change.why else ""
        found.append(console.paint(f"{mark} {change.task:{width}}  {word}{why}", style, on))
    return found


def totals(changes: Sequence[Change]) -> str:
    """`up would start 1 task, restart 3, stop 0`, without the zeros."""
    parts = []
    for action, (_, _, word) in MARKS.items():
        count = sum(change.action == action for change in changes)
        if count and action != "keep":
            parts.append(f"{word} {counted(count, 'task')}")
    return f"up would {', '.join(parts)}."
