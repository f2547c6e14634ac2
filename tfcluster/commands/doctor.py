"""`tfcluster doctor`: what this machine has and lacks, and how to mend it."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from tfcluster import checks, console
from tfcluster.commands import options
from tfcluster.errors import EXIT_MISSING, EXIT_OK
from tfcluster.events import SCHEMA_VERSION
from tfcluster.glyphs import with_glyphs

EXAMPLES = (
    ("tfcluster doctor", "what is there, what is missing, how to mend it"),
    ("tfcluster doctor -o json", "for a program"),
)
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
    """`✓ Docker  …` for each, and what to do about it below."""
    width = max(len(check.name) for check in found)
    marks = {verdict: with_glyphs(mark) for verdict, (mark, _) in MARKS.items()}
    wide = max(map(len, marks.values()))
    hang = wide + 1 + width + 2
    on = console.colored(sys.stdout)
    for check in found:
        mark = console.paint(f"{marks[check.verdict]:{wide}}", MARKS[check.verdict][1], on)
        lines = [f"{mark} {check.name:{width}}  {check.message}"]
        if check.fix:
            lines.append(f"{'':{hang}}{console.paint('fix:', 'cyan', on)} {check.fix}")
        console.text(lines, hang)
