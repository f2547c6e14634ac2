"""Having images where containers need them: there already, pulled, built, or copied over."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from tfcluster.backends.docker.engines import Engine, current_engine, translated
from tfcluster.backends.docker.layers import build_layer, inspected, is_current
from tfcluster.backends.docker.planned import docker_role
from tfcluster.backends.docker.site import engines, tasks_on
from tfcluster.errors import MissingError, TfclusterError
from tfcluster.images import build, image_tags, trainer_recipe
from tfcluster.layers import Layer
from tfcluster.plan import Plan
from tfcluster.requirements import Requirements

Say = Callable[[str], None]
ARRIVED = ("Pushed", "Layer already exists", "Mounted from")


def provide_images(plan: Plan, wanted: Requirements | None, say: Say) -> None:
    """Have every image of a plan on every engine that needs it; says what takes time.

    `wanted` are the requirements that the images of the plan have on top of another one.
    """
    for host, engine in engines(plan).items():
        names = {task.rpartition("-")[0] for task in tasks_on(plan, host)}
        roles = [docker_role(plan.role(name)) for name in names]
        for image, made in sorted({role.image: role for role in roles}.items()):
            if made.base and wanted:
                layer, others = Layer(made.base, wanted), list(engines(plan).values())
                provide_layer(engine, layer, others, None if made.bundled else made.pull, say)
            elif made.bundled:
                provide_trainer(engine, image, list(engines(plan).values()), say)
            else:
                provide(engine, image, made.pull, say)


def has_image(engine: Engine, image: str) -> bool:
    return inspected(engine, image) is not None


def provide(engine: Engine, image: str, policy: str, say: Say) -> None:
    """An image of the person's own."""
    there = has_image(engine, image)
    if there and policy != "always":
        return
    if policy == "never":
        raise MissingError(
            f'image "{image}" is not on {engine.label}, and image_pull.policy is never',
            hint=f"docker pull {image}, or build it there",
        )
    say(f"Pulling {image}")
    begun = time.monotonic()
    with translated(engine):
        problem = ""
        repository, tag = split_image(image)
        try:
            for answer in engine.api.pull(repository, tag=tag, stream=True, decode=True):
                problem = str(answer.get("error", "")) or problem
        except TfclusterError:
            raise
        except Exception as error:
            problem = str(getattr(error, "explanation", None) or error)
            if not hasattr(error, "explanation"):
                raise
    if problem:
        raise MissingError(
            f'image "{image}" is not on {engine.label} and cannot be pulled',
            evidence=[f"  Docker says: {problem.strip()}"],
            hint="is the name right, and the registry reachable? docker login for private ones; "
            "docker build -t for your own",
        )
    say(f"Pulled {image} in {time.monotonic() - begun:.0f} s")


def split_image(image: str) -> tuple[str, str | None]:
    """repository and tag (or digest), as the API takes them; nothing stands for latest."""
    if "@" in image:
        repository, _, digest = image.partition("@")
        return repository, digest
    head, colon, tag = image.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (image, "latest")


def provide_trainer(engine: Engine, image: str, others: list[Engine], say: Say) -> None:
    """The bundled image: copied from an engine that has it, or built, once, where we are."""
    if not has_image(engine, image):
        copy_or_build(engine, image, others, lambda at: build_trainer(at, image, say), say)


def provide_layer(
    engine: Engine, layer: Layer, others: list[Engine], pull: str | None, say: Say
) -> None:
    """An image with requirements; `pull` is the policy for its base, or None for the trainer's."""

    def build_at(place: Engine) -> None:
        if pull is None:
            provide_trainer(place, layer.base, others, say)
        else:
            provide(place, layer.base, pull, say)
        build_layer(place, layer, say)

    if pull == "always":
        provide(engine, layer.base, pull, say)
    if is_current(engine, layer):
        return
    if has_image(engine, layer.image):  # over another base, and so it would be elsewhere
        build_at(engine)
    else:
        copy_or_build(engine, layer.image, others, build_at, say)


def copy_or_build(
    engine: Engine, image: str, others: list[Engine], build_at: Callable[[Engine], None], say: Say
) -> None:
    """An image of ours: from an engine that has it, else built where we are, if that answers."""
    here = Engine(current_engine())
    nowhere = not any(reachable_with(source, image) for source in [here, *others])
    if nowhere and here.reference != engine.reference and answers(here):
        build_at(here)
    for source in [here, *others]:
        if source.reference != engine.reference and reachable_with(source, image):
            copy_image(source, engine, image, say)
            return
    build_at(engine)


def build_trainer(engine: Engine, image: str, say: Say) -> None:
    say(f"Building the trainer's image {image} (once, a few minutes)")
    begun = time.monotonic()
    gpu = image.endswith("-gpu")
    with translated(engine, "building"):
        recipe, tags = trainer_recipe(gpu=gpu), image_tags(gpu=gpu)
        build(engine.api, engine.reference, recipe, tags, say)
    say(f"Built {image} in {time.monotonic() - begun:.0f} s")


def answers(engine: Engine) -> bool:
    try:
        engine.ping()
    except TfclusterError:
        return False
    return True


def reachable_with(engine: Engine, image: str) -> bool:
    try:
        return has_image(engine, image)
    except TfclusterError:
        return False


def copy_image(source: Engine, target: Engine, image: str, say: Say) -> None:
    say(f"Copying {image} to {target.label}")
    with translated(source, "copying"):
        stream: Any = source.api.get_image(image)
    with translated(target, "copying"):
        for _ in target.api.load_image(stream) or ():
            pass


# -- Registries --------------------------------------------------------------------------------


def is_pushed(engine: Engine, image: str) -> bool:
    """Whether the registry has an image of this name; no if it does not say."""
    from docker.errors import APIError

    with translated(engine):
        try:
            engine.api.inspect_distribution(image)
        except APIError:
            return False
    return True


def push(engine: Engine, name: str, say: Say) -> None:
    """Push an image; says how many layers have arrived."""
    say(f"Pushing {name}")
    layers: dict[str, bool] = {}
    with translated(engine, "pushing"):
        for answer in engine.api.push(name, stream=True, decode=True):
            if "error" in answer:
                raise push_failed(name, answer["error"])
            if layer := answer.get("id"):
                before = sum(layers.values())
                layers[layer] = str(answer.get("status")).startswith(ARRIVED)
                if sum(layers.values()) > before:
                    say(f"  {before + 1} of {len(layers)} layers are there")


def push_failed(name: str, said: str) -> TfclusterError:
    refused = re.search(r"denied|unauthorized|authentication|credentials", said)
    where = name.split("/")[0]
    registry = where if set(where) & set(".:") or where == "localhost" else ""  # else Docker's own
    log_in = f"log in first: docker login {registry}".rstrip()
    hint = log_in if refused else f"can the engine reach {registry or 'the registry'}?"
    return TfclusterError(
        f"{name} cannot be pushed", evidence=[f"  Docker says: {said}"], hint=hint
    )
