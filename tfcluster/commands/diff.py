"""`tfcluster diff`: what `up` would change, task by task and object by object."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from tfcluster import console
from tfcluster.changes import Change, ObjectChange
from tfcluster.commands import options
from tfcluster.converge import Preview, preview
from tfcluster.decision import NOTHING, REPLACE, START, Decision, training_words
from tfcluster.errors import EXIT_OK
from tfcluster.events import SCHEMA_VERSION
from tfcluster.glyphs import glyph
from tfcluster.tables import counted

EXAMPLES = (
    ("tfcluster diff", "what up would do now"),
    ("tfcluster diff --set train.epochs=10", "what up would do with this change"),
)
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

    It also says whether the run would be ended, and what the training would go on from. On
    Kubernetes also object by object and field by field, as the API server says in a dry run."""
    found = preview(options.load(spec, file, var, set_, backend))
    decision, objects = found.decision, found.objects
    if output == "json":
        options.print_json(document(found))
    else:
        shown = [change for change in decision.changes if all_ or change.action != "keep"]
        ended = decision.kind == REPLACE
        for line in (*lines(shown, ended=ended), *object_lines(objects)):
            console.data(line)
        console.say(announced(decision, objects, found.plan.job))
    return EXIT_OK if decision.kind == NOTHING and not objects else EXIT_DIFFERS


def document(found: Preview) -> dict[str, Any]:
    """The announcement for programs."""
    decision = found.decision
    training, checkpoint = decision.training, decision.training.checkpoint
    return {
        "schemaVersion": SCHEMA_VERSION,
        "job": found.plan.job,
        "action": decision.kind,
        "ends": decision.ends,
        "disturbs": list(decision.disturbs),
        "training": {
            "kind": training.kind,
            "checkpoint": checkpoint.number if checkpoint else None,
            "step": checkpoint.step if checkpoint else None,
            "folder": training.folder or None,
        },
        "changes": [asdict(change) for change in decision.changes],
        "objects": [asdict(change) for change in found.objects],
    }


def lines(changes: Sequence[Change], *, ended: bool = False) -> list[str]:
    """`~ worker-0  restart (image)`; if the run is ended, tasks do not restart in it."""
    width = max((len(change.task) for change in changes), default=0)
    on = console.colored(sys.stdout)
    found = []
    for change in changes:
        mark, style, word = MARKS[change.action]
        word = "start in a new run" if ended and change.action == "replace" else word
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
            f"    {field.path}: {short(field.before)} {glyph('→')} {short(field.after)}"
            for field in change.fields
        ]
    return found


def short(value: Any) -> str:
    """A field's value on one line; a long text only begins."""
    if value is None:
        return "(none)"
    text = console.json_text(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + glyph("…")


def announced(decision: Decision, objects: Sequence[ObjectChange], job: str) -> str:
    """`up would start 1 task, restart 3; training goes on from checkpoint 7 (global step 640).`"""
    counts = {
        action: sum(change.action == action for change in decision.changes) for action in MARKS
    }
    if decision.kind == NOTHING:
        if not objects:
            return f'No change: "{job}" is as it should be.'
        return f"up would change {counted(len(objects), 'object')} and no task."
    words = training_words(decision.training)
    if decision.kind == START:
        first = training_words(decision.training, "training starts at the beginning")
        return f"up would start {counted(counts['create'], 'task')} in a new run; {first}."
    if decision.kind == REPLACE:
        size = counted(counts["create"] + counts["replace"], "task")
        return f"up would end run {decision.ends} and start {size} in a new run; {words}."
    parts = [
        f"{word} {counted(counts[action], 'task')}"
        for action, (_, _, word) in MARKS.items()
        if counts[action] and action != "keep"
    ]
    return f"up would {', '.join(parts)}; {words}."
