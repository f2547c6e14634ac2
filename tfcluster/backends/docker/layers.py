"""Images with requirements on engines: there already, built, or copied from another engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tfcluster.backends.docker.containers import HOME_LABEL, LABEL
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.belongings import home_mark
from tfcluster.errors import TfclusterError
from tfcluster.images import BuildFailed, build_plainly
from tfcluster.layers import Layer, layer_recipe
from tfcluster.pip import pip_failed
from tfcluster.tables import counted

Say = Callable[[str], None]
BASE_LABEL = f"{LABEL}.base"  # the id of the image below


def inspected(engine: Engine, image: str) -> dict[str, Any] | None:
    """What the engine says of an image; None if it has none of this name."""
    from docker.errors import ImageNotFound

    with translated(engine):
        try:
            return dict(engine.api.inspect_image(image))
        except ImageNotFound:
            return None


def is_current(engine: Engine, layer: Layer) -> bool:
    """Whether the image is there, and lies over the image that its base's name means now."""
    made = inspected(engine, layer.image)
    below = inspected(engine, layer.base) if made else None
    if made is None or below is None:
        return made is not None
    labels = made["Config"].get("Labels") or {}
    return bool(labels.get(BASE_LABEL) == below["Id"])


def build_layer(engine: Engine, layer: Layer, say: Say) -> None:
    """Install the requirements on top of the base, which has to be there."""
    below = inspected(engine, layer.base)
    if below is None:
        raise TfclusterError(f'image "{layer.base}" is not on {engine.label} any more')
    wanted = layer.wanted
    count = counted(len(wanted.names), "requirement")
    say(f"Installing {count} of {wanted.source} on top of {layer.base} (once)")
    begun = time.monotonic()
    labels = {BASE_LABEL: below["Id"], HOME_LABEL: home_mark()}
    recipe = layer_recipe(layer, below["Config"].get("User") or "", labels)
    with translated(engine, "installing requirements"):
        try:
            # Not buildx: some of its builders do not see the images of the engine.
            build_plainly(engine.api, recipe, [layer.image], say)
        except BuildFailed as error:
            raise pip_failed(wanted, error.said) from None
    say(f"Built {layer.image} in {time.monotonic() - begun:.0f} s")
