"""`tfcluster init`: a cluster.yaml that works at once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcluster import __version__, console
from tfcluster.errors import EXIT_OK, MissingError, TfclusterError, UsageError

EXAMPLES = (
    ("tfcluster init mnist && cd mnist && tfcluster up", "from nothing to trained"),
    ("tfcluster init --program train.py", "a spec for your script"),
    ("tfcluster init mine --template keras", "a TensorFlow 2 program"),
    ("tfcluster init zoo --example zoo/easgd", "a copy of an example"),
)
TEMPLATES = Path(__file__).parent.parent / "templates"
PROGRAMS = {"v1": "program", "keras": "keras"}  # --template -> its folder
SPEC = "cluster.yaml"
SCHEMA = ".cluster.schema.json"  # what the first line of cluster.yaml tells editors to read
EDITOR_LINE = f"# yaml-language-server: $schema={SCHEMA}\n"
LONGEST_NAME = 40


def command(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|SCRIPT", help="Where to write; made if need be. With --program: yours."
        ),
    ] = ".",
    program: Annotated[
        bool, typer.Option("--program", help="For SCRIPT; without one, with one to begin from.")
    ] = False,
    template: Annotated[
        Literal["v1", "keras"] | None,
        typer.Option(help="A program to begin from: a session's, or TensorFlow 2's."),
    ] = None,
    example: Annotated[
        str | None, typer.Option(metavar="NAME", help="Copy an example that comes with tfcluster.")
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", min=1, help="Workers.")] = None,
    ps: Annotated[int | None, typer.Option(metavar="N", min=0, help="Parameter servers.")] = None,
    backend: Annotated[
        Literal["local", "docker", "kubernetes"] | None, typer.Option(help="Where tasks run.")
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The job's name.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a spec that is there.")] = False,
) -> int:
    """Write a cluster.yaml that works at once, with comments, and a schema for editors.

    Asks nothing, overwrites no spec without --force, and no program ever.
    """
    if program and folder.endswith(".py"):
        return write_for_script(Path(folder), workers, ps, backend, name, force)
    target = Path(folder)
    title = name or job_name(target.absolute().name)
    if example is not None:
        files = {SPEC: example_text(example)}
    else:
        kind = template or ("v1" if program else None)
        source = TEMPLATES / PROGRAMS[kind] if kind else TEMPLATES
        paths = sorted(path for path in source.iterdir() if path.is_file())
        files = {path.name.removesuffix(".template"): filled(path, title) for path in paths}
    renamed = title if name or example is None else None
    files[SPEC] = changed(files[SPEC], renamed, {"worker": workers, "ps": ps}, backend)
    save(target, files, force)
    what = "cluster.yaml, train.py and a Dockerfile for them" if "train.py" in files else SPEC
    console.data(f"Created {what} ({summary(target / SPEC)}). Next: tfcluster up")
    return EXIT_OK


def write_for_script(
    script: Path,
    workers: int | None,
    ps: int | None,
    backend: str | None,
    name: str | None,
    force: bool,
) -> int:
    """A spec for a program that is there already; the program is read and left alone."""
    from tfcluster import programs

    found = programs.find_program((script.name,), script.absolute().parent, None)
    sends = backend in ("docker", "kubernetes")
    wanted = programs.Wanted((script.name,), workers, ps, name=name, send=sends)
    choice = programs.choose(wanted, programs.inspected(found))
    base = found.folder
    spec = programs.program_spec(wanted, found, choice, base=base, backend=backend)
    text = f"{EDITOR_LINE}# {script.name}: {choice.why}\n{programs.spec_text(spec)}"
    save(base, {SPEC: text}, force)
    what = f"{SPEC} for {script.name} ({summary(base / SPEC)}; {choice.why})"
    console.data(f"Created {what}. Next: tfcluster up")
    return EXIT_OK


def examples() -> dict[str, Path]:
    """Every example that comes with tfcluster, by its name: mnist, zoo/easgd, …"""
    from tfcluster.render import resources

    folder = resources("examples")
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted(folder.rglob("*.yaml"))
    }


def example_text(name: str) -> str:
    from tfcluster.similar import did_you_mean

    known = examples()
    if name not in known:
        raise MissingError(
            f'there is no example "{name}"',
            evidence=[f"  examples: {', '.join(known)}"],
            hint=did_you_mean(name, known),
        )
    return known[name].read_text(encoding="utf-8")


def changed(text: str, name: str | None, counts: dict[str, int | None], backend: str | None) -> str:
    """The spec with another name, other counts or another backend, its comments kept."""
    if name:
        text = re.sub(r"^name:.*$", f"name: {name}", text, count=1, flags=re.MULTILINE)
    if backend and re.search(r"^backend:", text, re.MULTILINE):
        text = re.sub(r"^backend: *\S+", f"backend: {backend}", text, count=1, flags=re.MULTILINE)
    elif backend:
        text = re.sub(r"^(name:.*)$", rf"\1\nbackend: {backend}", text, count=1, flags=re.MULTILINE)
    for role, count in counts.items():
        if count is None:
            continue
        pattern = rf"^(  {role}:\s*(?:\n    )?\{{? *replicas: )(?:\d+|\{{\{{.*?\}}\}})"
        text, times = re.subn(pattern, rf"\g<1>{count}", text, count=1, flags=re.MULTILINE)
        if not times:
            raise UsageError(
                f"--{'workers' if role == 'worker' else role}: this spec has no count of {role}",
                hint="edit the spec, or choose another template or example",
            )
    return text


def filled(template: Path, name: str) -> str:
    text = template.read_text(encoding="utf-8")
    return text.replace("@NAME@", name).replace("@VERSION@", __version__)


def save(target: Path, files: dict[str, str], force: bool) -> None:
    """Write the files, unless that would take something away."""
    there = [str(target / file) for file in files if (target / file).exists()]
    programs = [path for path in there if path.endswith(".py")]
    if there and (programs or not force):
        blocking = programs if force else there
        verb = "exists" if len(blocking) == 1 else "exist"
        over = "" if force or programs else ", or overwrite with --force"
        raise UsageError(
            f"{', '.join(blocking)} {verb} already",
            hint=f"write into another folder (tfcluster init FOLDER){over}",
        )
    write(target, {**files, SCHEMA: schema_text()})


def summary(spec: Path) -> str:
    """`1 ps, 2 workers, local processes`."""
    from tfcluster.programs import role_count
    from tfcluster.spec.loader import load_spec

    found = load_spec(spec).spec
    counts = [role_count(role, entry.replicas) for role, entry in sorted(found.roles.items())]
    where = {"local": "local processes", "docker": "Docker", "kubernetes": "Kubernetes"}
    return ", ".join([*counts, where[found.backend]])


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
