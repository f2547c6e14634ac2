"""`tfcluster doctor`: what this machine has and lacks, and how to mend it."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from tfcluster import checks, console
from tfcluster.commands import options
from tfcluster.errors import EXIT_MISSING, EXIT_OK
from tfcluster.events import SCHEMA_VERSION

MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


def command(
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="The form of the output.")
    ] = "table",
) -> int:
    """Check what this machine has and lacks; each gap with its fix.

    Exit code 3 if something is missing that every job needs; the rest are warnings.
    """
    found = [check() for check in checks.CHECKS]
    if found[-1] == checks.kubeconfig() and found[-1].verdict == "ok":
        from tfcluster.backends.kubernetes.doctor import cluster_checks

        found[-1:] = cluster_checks()
    if output == "json":
        listed = [check.to_dict() for check in found]
        options.print_json({"schemaVersion": SCHEMA_VERSION, "checks": listed})
    else:
        show(found)
    return EXIT_MISSING if any(check.verdict == "fail" for check in found) else EXIT_OK


def show(found: list[checks.Check]) -> None:
    width = max(len(check.name) for check in found)
    on = console.colored(sys.stdout)
    for check in found:
        mark, style = MARKS[check.verdict]
        console.data(f"{console.paint(mark, style, on)} {check.name:{width}}  {check.message}")
        if check.fix:
            console.data(f"  {'':{width}}  {console.paint('fix:', 'cyan', on)} {check.fix}")
