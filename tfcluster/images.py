"""The trainer's image: what goes into it, what it is called, how it is built.

Its tag is made from its content, so that an image is never taken for another one: a changed trainer
has another tag, and an engine or a kind node that has the tag has the right image.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tfcluster import __version__
from tfcluster.errors import MissingError, TfclusterError
from tfcluster.launch.bundle import source
from tfcluster.render import resources

REPOSITORY = "tfcluster/trainer"
TENSORFLOW = {False: "tensorflow-cpu", True: "tensorflow[and-cuda]"}
SHOWN_LINES = 15
SIZES = "packages: "  # what images/trainer/slim.py prints in the end

Say = Callable[[str], None]


# -- Content -----------------------------------------------------------------------------------


def context_files() -> dict[str, bytes]:
    """The build context: where each file is in it, and what is in the file."""
    files = {path.name: path.read_bytes() for path in below(resources("images") / "trainer")}
    trainer = resources("trainer")
    for path in below(trainer):
        inside = path.relative_to(trainer).as_posix()
        # MNIST has a layer of its own, so that a change in the code leaves it alone.
        name = inside if inside.startswith("data/") else f"code/trainer/{inside}"
        files[name] = path.read_bytes()
    files["code/launcher.py"] = source().encode()
    return dict(sorted(files.items()))


def below(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise MissingError(
            f"there is no {folder}", hint="tfcluster is not installed completely; install it again"
        )
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


@lru_cache(maxsize=1)
def content_hash() -> str:
    digest = hashlib.sha256()
    for name, data in context_files().items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:12]


def trainer_image(*, gpu: bool = False) -> str:
    """The name of the image that belongs to this very trainer."""
    return f"{REPOSITORY}:{content_hash()}{'-gpu' if gpu else ''}"


def image_tags(*, gpu: bool, more: Sequence[str] = ()) -> list[str]:
    """The names an image gets: by content, by version, and those that were asked for."""
    version = f"{REPOSITORY}:{__version__}{'-gpu' if gpu else ''}"
    return [trainer_image(gpu=gpu), version, *more]


def build_arguments(*, gpu: bool) -> dict[str, str]:
    return {"TENSORFLOW": TENSORFLOW[gpu]}


def build_labels() -> dict[str, str]:
    return {
        "org.opencontainers.image.version": __version__,
        "org.opencontainers.image.revision": content_hash(),
    }


@dataclass(frozen=True)
class Recipe:
    """What a builder needs: the context, a tar with its Dockerfile, and what is said beside it."""

    context: bytes
    arguments: Mapping[str, str]
    labels: Mapping[str, str]
    shown: tuple[str, ...] = ("Step ", SIZES)  # which lines of its output are passed on


def trainer_recipe(*, gpu: bool) -> Recipe:
    return Recipe(context_archive(), build_arguments(gpu=gpu), build_labels())


def context_archive() -> bytes:
    """The build context of the trainer."""
    return pack_context(context_files())


def pack_context(files: Mapping[str, bytes]) -> bytes:
    """A build context as a tar that depends on nothing but its content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


# -- Building ----------------------------------------------------------------------------------


def engine_environment(reference: str) -> dict[str, str]:
    """What makes `docker` use this engine."""
    env = {key: value for key, value in os.environ.items() if key != "DOCKER_CONTEXT"}
    if "://" in reference:
        return {**env, "DOCKER_HOST": reference}
    env.pop("DOCKER_HOST", None)
    return {**env, "DOCKER_CONTEXT": reference}


def has_buildx(reference: str) -> bool:
    if shutil.which("docker") is None:
        return False
    asked = subprocess.run(
        ["docker", "buildx", "version"],
        env=engine_environment(reference),
        capture_output=True,
        timeout=30,
        check=False,
    )
    return asked.returncode == 0


def build_command(recipe: Recipe, tags: Sequence[str]) -> list[str]:
    """The call of buildx; the context comes in on its standard input."""
    argv = ["docker", "buildx", "build", "--load", "--progress", "plain"]
    for tag in tags:
        argv += ["--tag", tag]
    for key, value in recipe.arguments.items():
        argv += ["--build-arg", f"{key}={value}"]
    for key, value in recipe.labels.items():
        argv += ["--label", f"{key}={value}"]
    return [*argv, "-"]


def build(api: Any, reference: str, recipe: Recipe, tags: Sequence[str], say: Say) -> None:
    """Build the image under these names: with buildx where there is one, else the plain builder."""
    if has_buildx(reference):
        build_with_buildx(reference, recipe, tags, say)
    else:
        build_plainly(api, recipe, tags, say)


def build_with_buildx(reference: str, recipe: Recipe, tags: Sequence[str], say: Say) -> None:
    process = subprocess.Popen(
        build_command(recipe, tags),
        env=engine_environment(reference),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin:
        process.stdin.write(recipe.context)
    said: list[str] = []
    for raw in process.stdout:
        line = raw.decode("utf-8", "replace").rstrip()
        # buildx names a step again whenever its output comes after that of another.
        if line.startswith("#") and (" [" in line or SIZES in line) and line not in said:
            say(line)
        said.append(line)
    if process.wait() != 0:
        raise BuildFailed(said)


def build_plainly(api: Any, recipe: Recipe, tags: Sequence[str], say: Say) -> None:
    answers = api.build(
        fileobj=io.BytesIO(recipe.context),
        custom_context=True,
        encoding=None,
        tag=tags[0],
        buildargs=dict(recipe.arguments),
        labels=dict(recipe.labels),
        rm=True,
        forcerm=True,
        decode=True,
        timeout=None,
    )
    said: list[str] = []
    for answer in answers:
        new = [line for line in str(answer.get("stream", "")).splitlines() if line.strip()]
        for line in new:
            if line.lstrip().startswith(recipe.shown):
                say(line)
        said += new
        if "errorDetail" in answer:
            raise BuildFailed([*said, str(answer["errorDetail"].get("message", ""))])
    add_tags(api, tags[0], tags[1:])


def add_tags(api: Any, image: str, tags: Sequence[str]) -> None:
    for tag in tags:
        repository, _, name = tag.rpartition(":") if ":" in tag.split("/")[-1] else (tag, "", "")
        api.tag(image, repository, name or "latest", force=True)


class BuildFailed(TfclusterError):
    """A build that ended badly, with all that it said."""

    def __init__(self, said: Sequence[str]):
        self.said = list(said)
        super().__init__(
            "the image could not be built",
            evidence=[f"  {line}" for line in self.said[-SHOWN_LINES:]],
            hint="building needs access to a package index and to the base image",
        )
