"""`tfcluster diff`: what `up` would change, task by task and object by object."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from tfcluster import console
from tfcluster.changes import Change, ObjectChange
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
OBJECT_MARKS = {
    "create": ("+", "green", "create"),
    "update": ("~", "yellow", "change"),
    "replace": ("~", "yellow", "replace"),
    "remove": ("-", "red", "delete"),
}
LONGEST = 80


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
    """Show what up would change, task by task. Exit code 0 if nothing, 1 if something.

    On Kubernetes also object by object and field by field, as the API server says in a dry run."""
    found = preview(options.load(spec, file, var, set_, backend))
    changes, objects, job = found.changes, found.objects, found.plan.job
    different = any(change.action != "keep" for change in changes) or bool(objects)
    if output == "json":
        listed = {
            "changes": [asdict(change) for change in changes],
            "objects": [asdict(change) for change in objects],
        }
        options.print_json({"schemaVersion": SCHEMA_VERSION, "job": job, **listed})
    else:
        shown = [change for change in changes if all_ or change.action != "keep"]
        for line in (*lines(shown), *object_lines(objects)):
            console.data(line)
        console.say(
            totals(changes, objects) if different else f'No change: "{job}" is as it should be.'
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


def object_lines(objects: Sequence[ObjectChange]) -> list[str]:
    """`~ Job mnist-worker  replace`, and under it a line for every field."""
    on = console.colored(sys.stdout)
    found = []
    for change in objects:
        mark, style, word = OBJECT_MARKS[change.action]
        found.append(console.paint(f"{mark} {change.kind} {change.name}  {word}", style, on))
        found += [
            f"    {field.path}: {short(field.before)} → {short(field.after)}"
            for field in change.fields
        ]
    return found


def short(value: Any) -> str:
    """A field's value on one line; a long text only begins."""
    if value is None:
        return "(none)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def totals(changes: Sequence[Change], objects: Sequence[ObjectChange]) -> str:
    """`up would start 1 task, restart 3`, without the zeros."""
    parts = []
    for action, (_, _, word) in MARKS.items():
        count = sum(change.action == action for change in changes)
        if count and action != "keep":
            parts.append(f"{word} {counted(count, 'task')}")
    if not parts:
        parts.append(f"change {counted(len(objects), 'object')} and no task")
    return f"up would {', '.join(parts)}."
