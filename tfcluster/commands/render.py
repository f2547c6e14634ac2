"""`tfcluster render`: what would be applied, as text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.commands import options
from tfcluster.commands.plan import planned
from tfcluster.errors import EXIT_OK, TfclusterError
from tfcluster.render import render_plan


def command(
    spec: options.Spec = None,
    file: options.File = None,
    var: options.Var = None,
    set_: options.Set = None,
    backend: options.Backend = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="What to render for.  [default: the backend]"),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a file.")
    ] = None,
) -> int:
    """Print what would be applied: for local, a script that runs the job by itself."""
    loaded = options.load(spec, file, var, set_, backend)
    text = render_plan(planned(loaded), target or loaded.spec.backend)
    if output is None or output == "-":
        sys.stdout.write(text)
        return EXIT_OK
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TfclusterError(f"cannot write {output}: {error.strerror}") from None
    console.success(f"Wrote {output}")
    return EXIT_OK
