"""Having images where containers need them: there already, pulled, built, or copied over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tfcluster.backends.docker.engines import Engine, current_engine, translated
from tfcluster.backends.docker.planned import docker_role
from tfcluster.backends.docker.site import engines, tasks_on
from tfcluster.errors import MissingError, TfclusterError
from tfcluster.images import build, image_tags
from tfcluster.plan import Plan

Say = Callable[[str], None]


def provide_images(plan: Plan, say: Say) -> None:
    """Have every image of a plan on every engine that needs it; says what takes time."""
    for host, engine in engines(plan).items():
        names = {task.rpartition("-")[0] for task in tasks_on(plan, host)}
        roles = [docker_role(plan.role(name)) for name in names]
        for image, made in sorted({role.image: role for role in roles}.items()):
            if made.bundled:
                provide_trainer(engine, image, list(engines(plan).values()), say)
            else:
                provide(engine, image, made.pull, say)


def has_image(engine: Engine, image: str) -> bool:
    from docker.errors import ImageNotFound

    with translated(engine):
        try:
            engine.api.inspect_image(image)
        except ImageNotFound:
            return False
    return True


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
    if has_image(engine, image):
        return
    here = Engine(current_engine())
    nowhere = not any(reachable_with(source, image) for source in [here, *others])
    if nowhere and here.reference != engine.reference and answers(here):
        build_trainer(here, image, say)
    for source in [here, *others]:
        if source.reference != engine.reference and reachable_with(source, image):
            copy_image(source, engine, image, say)
            return
    build_trainer(engine, image, say)


def build_trainer(engine: Engine, image: str, say: Say) -> None:
    say(f"Building the trainer's image {image} (once, a few minutes)")
    begun = time.monotonic()
    gpu = image.endswith("-gpu")
    with translated(engine, "building"):
        build(engine.api, engine.reference, gpu=gpu, tags=image_tags(gpu=gpu), say=say)
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
