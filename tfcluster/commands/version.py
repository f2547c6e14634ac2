"""`tfcluster version`."""

from __future__ import annotations

import platform
from typing import Annotated, Literal

import typer

from tfcluster import __version__, console
from tfcluster.checks import tensorflow_version
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK
from tfcluster.events import SCHEMA_VERSION

EXAMPLES = (
    ("tfcluster version", "to put into a bug report"),
    ("tfcluster version -o json", "for a program"),
)


def command(
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="The form of the output.")
    ] = "text",
) -> int:
    """Print the versions of tfcluster, Python and TensorFlow."""
    python, tensorflow = platform.python_version(), tensorflow_version()
    if output == "json":
        versions = {"tfcluster": __version__, "python": python, "tensorflow": tensorflow}
        options.print_json({"schemaVersion": SCHEMA_VERSION, **versions})
    else:
        known = f"TensorFlow {tensorflow}" if tensorflow else "no TensorFlow"
        console.data(f"tfcluster {__version__} (Python {python}, {known})")
    return EXIT_OK
