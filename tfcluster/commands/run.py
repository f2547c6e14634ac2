"""`tfcluster run`: a program as it is, without a spec."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from tfcluster import console
from tfcluster.commands import options
from tfcluster.commands.consent import Call
from tfcluster.commands.up import carry_out
from tfcluster.errors import EXIT_OK, TfclusterError, UsageError
from tfcluster.programs import Wanted, make_spec

EXAMPLES = (
    ("tfcluster run train.py --lr 0.1", "as it is"),
    ("tfcluster run --workers 4 --backend docker train.py", "in containers"),
    ("tfcluster run --workers 2 -- sh -c 'echo $TF_CONFIG'", "any command"),
    ("tfcluster run --print-spec train.py", "the spec it makes"),
)


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROGRAM", help="The program, and after it its own arguments."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Workers.  [default: 2, or 1 if it is not distributed]"),
    ] = None,
    ps: Annotated[
        int | None,
        typer.Option(metavar="N", help="Parameter servers.  [default: 1 if the strategy has any]"),
    ] = None,
    chief: Annotated[bool, typer.Option("--chief", help="A chief beside the workers.")] = False,
    evaluator: Annotated[bool, typer.Option("--evaluator", help="An evaluator too.")] = False,
    gpus: Annotated[int, typer.Option(metavar="N", help="GPUs for each worker.")] = 0,
    strategy: Annotated[
        Literal["between-graph", "multi-worker", "coordinator", "in-graph"] | None,
        typer.Option(help="How it distributes its work.  [default: by a look at the program]"),
    ] = None,
    backend: options.Backend = None,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="For containers.  [default: the trainer's image]"),
    ] = None,
    code: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="The files to send.  [default: the program's folder]"),
    ] = None,
    no_code: Annotated[bool, typer.Option("--no-code", help="Send no files.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Use the folder itself, not a snapshot (local).")
    ] = False,
    requirements: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Its packages.  [default: requirements.txt beside it]"),
    ] = None,
    no_requirements: Annotated[
        bool, typer.Option("--no-requirements", help="Install no packages.")
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="A variable (repeatable)."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The job's name.  [default: the program's]")
    ] = None,
    set_: options.Set = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start, and leave it running.")
    ] = False,
    logs: Annotated[
        bool, typer.Option("--logs/--no-logs", help="Show what the tasks print.")
    ] = True,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="End or restart running tasks without asking.")
    ] = False,
    print_spec: Annotated[
        bool, typer.Option("--print-spec", help="Print the spec, and do nothing else.")
    ] = False,
    save: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the spec to a file as well.")
    ] = None,
) -> int:
    """Run a program as it is, without a spec: its files reach every task, and it is watched.

    Options of run come before the program, the program's own after it. A look at the program
    chooses the strategy, and so TF_CONFIG, or fills in flags such as --ps_hosts; what was chosen
    and why is printed. Exit codes are those of up.
    """
    wanted = Wanted(
        words=tuple(without_dashes(words or [])),
        workers=workers,
        ps=ps,
        chief=chief,
        evaluator=evaluator,
        gpus=gpus,
        strategy=strategy,
        name=name,
        image=image,
        env=variables(env or []),
        code=code,
        send=not no_code,
        live=live,
        requirements=requirements,
        find_requirements=not no_requirements,
    )
    if requirements and no_requirements:
        raise UsageError("either --requirements or --no-requirements", hint="name one of them")
    begun = time.time()
    target = Path(save).resolve() if save else None
    made = make_spec(wanted, options.chosen_backend(backend), target, tuple(set_ or ()))
    for warning in made.loaded.warnings:
        console.warn(warning)
    if print_spec:
        console.data(made.text.rstrip("\n"))
        return EXIT_OK
    console.say("\n".join(made.words))
    if target is not None:
        write(target, made.text)
    call = Call(made.loaded, backend, yes, command="run")
    return carry_out(call, begun=begun, detach=detach, logs=logs)


def without_dashes(words: list[str]) -> list[str]:
    """`train.py -- --lr 0.1` is `train.py --lr 0.1`: the first -- only separates."""
    if words[:1] == ["--"]:
        return words[1:]
    if words[1:2] == ["--"]:
        return [words[0], *words[2:]]
    return words


def variables(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name:
            raise UsageError(f'--env "{pair}": expected NAME=VALUE', hint="as in --env SEED=1")
        if not equals and name not in os.environ:
            raise UsageError(f'--env "{name}": it is not set here', hint=f"write {name}=VALUE")
        found[name] = value if equals else os.environ[name]
    return found


def write(path: Path, text: str) -> None:
    """The spec in a file of its own; one of other content is left alone."""
    try:
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise UsageError(f"{path} is there already", hint="choose another name with --save")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TfclusterError(f"cannot write {path}: {error.strerror}") from None
    console.success(f"Wrote {path}")


# What follows the program belongs to it.
command.context_settings = {"allow_interspersed_args": False}  # type: ignore[attr-defined]
