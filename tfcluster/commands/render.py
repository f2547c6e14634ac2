"""`tfcluster render`: what would be applied, as text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.commands import options
from tfcluster.commands.plan import planned, running
from tfcluster.errors import EXIT_OK, UsageError
from tfcluster.render import BACKEND_OF, TARGETS, render_files, render_plan

EXAMPLES = (
    ("tfcluster render --target local > run.sh", "a script"),
    ("tfcluster render --target kubernetes | kubectl apply -f -", "what up applies"),
    ("tfcluster render --target docker -o scripts/", "a script per host"),
)


def complete_target(incomplete: str) -> list[str]:
    return [name for name in TARGETS if name.startswith(incomplete)]


def command(
    spec: options.Spec = None,
    file: options.File = None,
    var: options.Var = None,
    set_: options.Set = None,
    backend: options.Backend = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="What to render for.  [default: the backend]",
            autocompletion=complete_target,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE|DIR", help="Write it to a file or folder."),
    ] = None,
    legacy: Annotated[
        bool,
        typer.Option("--legacy-nvidia-docker", help="Docker scripts that call nvidia-docker."),
    ] = False,
) -> int:
    """Print what would be applied: for local and docker, scripts that run the job by themselves."""
    backend = backend or (BACKEND_OF.get(target, target) if target in TARGETS else None)
    loaded = options.load(spec, file, var, set_, backend)
    target = target or loaded.spec.backend
    # A local script is a job of its own, whatever runs here now.
    plan = planned(loaded, None if target == "local" else running(loaded))
    if legacy and target != "docker":
        raise UsageError("--legacy-nvidia-docker goes with --target docker")
    if output is not None and (output.endswith("/") or Path(output).is_dir()):
        for name, text in render_files(plan, target, legacy=legacy).items():
            write(Path(output) / name, text)
        return EXIT_OK
    text = render_plan(plan, target, legacy=legacy)
    if output is None or output == "-":
        console.artifact(text)
    else:
        write(Path(output), text)
    return EXIT_OK


def write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="name another file or folder with -o"
        ) from None
    console.success(f"Wrote {path}")
