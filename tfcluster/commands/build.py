"""`tfcluster build`: the trainer's image, under a name made from its content."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Annotated

import typer

from tfcluster import console, images
from tfcluster.errors import EXIT_OK, MissingError, TfclusterError
from tfcluster.quantities import format_bytes

if TYPE_CHECKING:
    from tfcluster.backends.docker.engines import Engine

ARRIVED = ("Pushed", "Layer already exists", "Mounted from")


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
    provide(engine, names, gpu=gpu, force=force)
    for name in tag or [] if push else []:
        push_image(engine, name)
    if load is not None:
        load_into_kind(names[0], load)
    console.data(names[0])
    return EXIT_OK


def show_plan(
    engine: Engine, names: list[str], *, gpu: bool, push: list[str], load: str | None
) -> None:
    if images.has_buildx(engine.reference):
        console.data(shlex.join(images.build_command(gpu=gpu, tags=names)))
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
        images.build(engine.api, engine.reference, gpu=gpu, tags=names, say=console.say)
        size = engine.api.inspect_image(names[0])["Size"]
    console.success(f"Built {names[0]}: {format_bytes(size)}, {time.monotonic() - begun:.0f} s")


def push_image(engine: Engine, name: str) -> None:
    from tfcluster.backends.docker.engines import translated

    console.say(f"Pushing {name}")
    layers: dict[str, bool] = {}
    with translated(engine, "pushing"):
        for answer in engine.api.push(name, stream=True, decode=True):
            if "error" in answer:
                raise push_failed(name, answer["error"])
            if layer := answer.get("id"):
                before = sum(layers.values())
                layers[layer] = str(answer.get("status")).startswith(ARRIVED)
                if sum(layers.values()) > before:
                    console.say(f"  {before + 1} of {len(layers)} layers are there")
    console.success(f"Pushed {name}")


def push_failed(name: str, said: str) -> TfclusterError:
    refused = re.search(r"denied|unauthorized|authentication|credentials", said)
    where = name.split("/")[0]
    registry = where if set(where) & set(".:") or where == "localhost" else ""  # else Docker's own
    log_in = f"log in first: docker login {registry}".rstrip()
    hint = log_in if refused else f"can the engine reach {registry or 'the registry'}?"
    return TfclusterError(
        f"{name} cannot be pushed", evidence=[f"  Docker says: {said}"], hint=hint
    )


def kind_command(image: str, cluster: str) -> list[str]:
    return ["kind", "load", "docker-image", image, "--name", cluster]


def load_into_kind(image: str, cluster: str) -> None:
    if shutil.which("kind") is None:
        raise MissingError("kind is not installed here", hint="see https://kind.sigs.k8s.io")
    console.say(f"Loading {image} onto the nodes of kind cluster {cluster}")
    done = subprocess.run(
        kind_command(image, cluster), capture_output=True, text=True, env=os.environ, check=False
    )
    if done.returncode != 0:
        said = [f"  {line}" for line in (done.stderr or done.stdout).splitlines()[-5:]]
        raise TfclusterError(
            f"the image could not be loaded into kind cluster {cluster}",
            evidence=said,
            hint="kind get clusters lists the clusters",
        )
    console.success(f"Loaded {image} into {cluster}")
