"""`tfcluster build`: the trainer's image, under a name made from its content."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer

from tfcluster import console, images
from tfcluster.errors import EXIT_OK, TfclusterError
from tfcluster.interrupts import raised_interrupts
from tfcluster.kind import kind_command, load_image
from tfcluster.quantities import format_bytes

if TYPE_CHECKING:
    from tfcluster.backends.docker.engines import Engine

EXAMPLES = (
    ("tfcluster build", "for the Docker engine of this machine"),
    ("tfcluster build --load kind", "and for the kind cluster called kind"),
)


def command(
    gpu: Annotated[bool, typer.Option("--gpu", help="With CUDA (large), for NVIDIA GPUs.")] = False,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", metavar="NAME", help="Another name for it (repeatable)."),
    ] = None,
    push: Annotated[bool, typer.Option("--push", help="Push the names given with --tag.")] = False,
    load: Annotated[
        str | None,
        typer.Option("--load", metavar="CLUSTER", help="Put it onto the nodes of a kind cluster."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build even if it is there.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
) -> int:
    """Build the trainer's image with Docker, and print its name.

    The name is made from what is in the image: the same trainer has the same name everywhere, and
    nothing stale is ever taken for it. An image of your own that adds a script is two lines:
    FROM that name, and COPY.
    """
    from tfcluster.backends.docker.engines import Engine, current_engine
    from tfcluster.backends.docker.images import push as push_image

    if push and not tag:
        raise TfclusterError(
            "push where?", hint="name it: tfcluster build --push --tag registry.example.com/me/it"
        )
    names = images.image_tags(gpu=gpu, more=tag or ())
    engine = Engine(current_engine())
    if dry_run:
        show_plan(engine, names, gpu=gpu, push=tag or [] if push else [], load=load)
        return EXIT_OK
    engine.ping()
    with raised_interrupts():  # a build has a child to end
        provide(engine, names, gpu=gpu, force=force)
    for name in tag or [] if push else []:
        push_image(engine, name, console.say)
        console.success(f"Pushed {name}")
    if load is not None:
        load_into_kind(names[0], load)
    console.data(names[0])
    return EXIT_OK


def show_plan(
    engine: Engine, names: list[str], *, gpu: bool, push: list[str], load: str | None
) -> None:
    if images.has_buildx(engine.reference):
        console.data(shlex.join(images.build_command(images.trainer_recipe(gpu=gpu), names)))
    else:
        console.data(f"build with the plain builder of {engine.reference}:")
        for key, value in images.build_arguments(gpu=gpu).items():
            console.data(f"  --build-arg {key}={value}")
        for name in names:
            console.data(f"  --tag {name}")
    for name in push:
        console.data(f"docker push {name}")
    if load is not None:
        console.data(shlex.join(kind_command(names[0], load)))


def provide(engine: Engine, names: list[str], *, gpu: bool, force: bool) -> None:
    """Build the image unless it is there; it gets all names either way."""
    from tfcluster.backends.docker.engines import translated
    from tfcluster.backends.docker.images import has_image

    begun = time.monotonic()
    if has_image(engine, names[0]) and not force:
        with translated(engine):
            images.add_tags(engine.api, names[0], names[1:])
        console.success(f"{names[0]} is there already, unchanged")
        return
    console.say(f"Building {names[0]} on {engine.reference}")
    with translated(engine, "building"):
        recipe = images.trainer_recipe(gpu=gpu)
        images.build(engine.api, engine.reference, recipe, names, console.say)
        size = engine.api.inspect_image(names[0])["Size"]
    console.success(f"Built {names[0]}: {format_bytes(size)}, {time.monotonic() - begun:.0f} s")


def load_into_kind(image: str, cluster: str) -> None:
    console.say(f"Loading {image} onto the nodes of kind cluster {cluster}")
    load_image(image, cluster)
    console.success(f"Loaded {image} into {cluster}")
