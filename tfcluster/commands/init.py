"""`tfcluster init`: a cluster.yaml that works at once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from tfcluster import __version__, console
from tfcluster.errors import EXIT_OK, TfclusterError, UsageError

TEMPLATES = Path(__file__).parent.parent / "templates"
SCHEMA = ".cluster.schema.json"  # what the first line of cluster.yaml tells editors to read
LONGEST_NAME = 40


def command(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Where to write; made if need be.")
    ] = ".",
    program: Annotated[
        bool, typer.Option("--program", help="With a train.py of your own to begin from.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> int:
    """Write a cluster.yaml that works at once, with comments, and a schema for editors.

    Asks nothing, and overwrites nothing without --force.
    """
    target = Path(folder)
    source = TEMPLATES / "program" if program else TEMPLATES
    name = job_name(target.absolute().name)
    files = {
        path.name.removesuffix(".template"): filled(path, name)
        for path in sorted(source.iterdir())
        if path.is_file()
    }
    there = [str(target / file) for file in files if (target / file).exists()]
    if there and not force:
        verb = "exists" if len(there) == 1 else "exist"
        raise UsageError(
            f"{', '.join(there)} {verb} already",
            hint="write into another folder (tfcluster init FOLDER), or overwrite with --force",
        )
    write(target, {**files, SCHEMA: schema_text()})
    what = "cluster.yaml, train.py and a Dockerfile for them" if program else "cluster.yaml"
    console.data(f"Created {what} (1 ps, 2 workers, local processes). Next: tfcluster up")
    return EXIT_OK


def filled(template: Path, name: str) -> str:
    text = template.read_text(encoding="utf-8")
    return text.replace("@NAME@", name).replace("@VERSION@", __version__)


def write(target: Path, files: dict[str, str]) -> None:
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (target / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TfclusterError(f"cannot write {error.filename}: {error.strerror}") from None


def schema_text() -> str:
    from tfcluster.spec.model import json_schema

    return json.dumps(json_schema(), indent=1) + "\n"


def job_name(folder: str) -> str:
    """A job name (a DNS label) from a folder's name."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-")
    name = name if name[:1].isalpha() else f"job-{name}".strip("-")
    return name[:LONGEST_NAME].rstrip("-")
