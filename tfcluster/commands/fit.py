"""`tfcluster fit`: whether the job can be scheduled now, and if not, what would fit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from tfcluster import console
from tfcluster.commands import options
from tfcluster.errors import EXIT_MISSING, EXIT_OK
from tfcluster.events import SCHEMA_VERSION
from tfcluster.glyphs import glyph
from tfcluster.tables import counted

EXAMPLES = (
    ("tfcluster fit", "is there room for cluster.yaml?"),
    ("tfcluster fit --set roles.worker.replicas=8", "and for eight workers?"),
)
SHOWN_NODES = 8


def command(
    spec: options.Spec = None,
    file: options.File = None,
    var: options.Var = None,
    set_: options.Set = None,
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="The form of the output.")
    ] = "text",
) -> int:
    """Say whether the job can be scheduled on the cluster as it is now; if not, what would fit.

    Exit code 0 if it fits, 3 if it does not.
    """
    from tfcluster.backends.kubernetes.survey import survey

    loaded = options.load(spec, file, var, set_, "kubernetes")
    found = survey(loaded.spec, loaded.base)
    if output == "json":
        options.print_json({"schemaVersion": SCHEMA_VERSION, **found})
    else:
        show(found)
    return EXIT_OK if found["fits"] else EXIT_MISSING


def show(found: dict[str, Any]) -> None:
    console.say(f"Target: {found['target']}")
    tasks = counted(found["tasks"], "task")
    if found["fits"]:
        console.data(f"{found['job']} fits: {tasks} on {counted(found['nodes'], 'node')}")
        return
    console.data(f"{found['job']} does not fit:")
    for problem in found["quota"]:
        console.data(f"  {problem}")
    if found["role"]:
        console.data(
            f"  {found['placed']} of {counted(found['wanted'], found['role'])} can be placed"
        )
        for reason in found["reasons"][:SHOWN_NODES]:
            console.data(f"    {reason}")
        more = len(found["reasons"]) - SHOWN_NODES
        if more > 0:
            console.data(f"    {glyph('…')} and {counted(more, 'more node')}")
    if found["suggestions"]:
        console.data("Each of these would fit:")
        for change in found["suggestions"]:
            console.data(f"  tfcluster up {change}")
