"""Images with requirements for a cluster: built by the Docker engine here, then brought there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.errors import UsageError
from tfcluster.kind import cluster_of, load_image
from tfcluster.layers import Layer
from tfcluster.requirements import read_requirements

if TYPE_CHECKING:
    from tfcluster.backends.docker.engines import Engine
    from tfcluster.spec.model import JobSpec

Say = Callable[[str], None]


def provide_requirements(spec: JobSpec, base: Path, context: str, say: Say) -> None:
    """Have every image with requirements where the nodes of this context get it."""
    wanted = read_requirements(spec, base)
    if wanted is None:
        return
    registry, kind = spec.kubernetes.registry, cluster_of(context)
    if registry is None and kind is None:
        raise UsageError(
            f"requirements: the nodes of {context} cannot get an image that is only here",
            hint="name a registry that they pull from (kubernetes.registry: "
            "registry.example.com/me), or use an image that has the packages and leave "
            "requirements out",
        )
    from tfcluster.backends.docker.engines import Engine, current_engine

    engine = Engine(current_engine())
    engine.ping()
    for below, own in base_images(spec).items():
        layer = Layer(below, wanted, registry)
        provide_here(engine, layer, own, spec.image_pull.policy, say)
        if registry is not None:
            push_once(engine, layer.image, say)
        elif kind is not None:
            say(f"Loading {layer.image} onto the nodes of kind cluster {kind}")
            load_image(layer.image, kind)


def base_images(spec: JobSpec) -> dict[str, bool]:
    """The images of the roles, and whether each is the person's own."""
    from tfcluster.backends.kubernetes.plan import bundled_image

    named = [role.image or spec.image for role in spec.roles.values()]
    return {image or bundled_image(spec): image is not None for image in named}


def provide_here(engine: Engine, layer: Layer, own: bool, policy: str, say: Say) -> None:
    from tfcluster.backends.docker.images import provide_layer

    provide_layer(engine, layer, [], None if not own else policy, say)


def push_once(engine: Engine, image: str, say: Say) -> None:
    """Push the image unless the registry has it: its name says what is in it."""
    from tfcluster.backends.docker.images import is_pushed, push

    if not is_pushed(engine, image):
        push(engine, image, say)
