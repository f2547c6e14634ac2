"""`tfcluster validate`: every problem of a spec, each with its place."""

from __future__ import annotations

import sys

from tfcluster import console
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK
from tfcluster.glyphs import glyph
from tfcluster.tables import counted

EXAMPLES = (
    ("tfcluster validate", "cluster.yaml in this folder"),
    ("tfcluster validate other.yaml --var workers=4", "a template, with a variable"),
)


def command(
    spec: options.Spec = None,
    file: options.File = None,
    var: options.Var = None,
    set_: options.Set = None,
    backend: options.Backend = None,
) -> int:
    """Check a spec. Every problem is shown, with file, line and column; exit code 2 if any."""
    loaded = options.load(spec, file, var, set_, backend)
    roles = ", ".join(counted(role.replicas, name) for name, role in loaded.spec.roles.items())
    mark = console.paint(glyph("✓"), "green", console.colored(sys.stdout))
    console.data(f"{mark} {options.shown_path(loaded)} is valid ({roles}, {loaded.spec.backend})")
    return EXIT_OK
