"""Images with requirements: one layer on top of another image, named by what is in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tfcluster.images import Recipe, pack_context
from tfcluster.pip import pip_wheel
from tfcluster.requirements import CREDENTIALS, Requirements

REPOSITORY = "tfcluster-requirements"
LABEL = "io.tfcluster.requirements"
FOLDER = "/opt/tfcluster-requirements"
SHOWN = ("Collecting ", "Downloading ", "Building ", "Installing collected")
# How pip finds its index where the person has set it so; never a password.
INDEX = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_NO_INDEX")
INSTALL = f"""\
set -eu
for name in python python3 ""; do
  if [ -z "$name" ]; then echo "ERROR: this image has no Python 3.8 or later" >&2; exit 1; fi
  "$name" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null && break
done
# An image need not have pip; the one that was brought along is a file that any Python can run.
if "$name" -m pip --version >/dev/null 2>&1; then pip="-m pip"
else pip=$(echo {FOLDER}/pip-*.whl)/pip; fi
export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore
cd {FOLDER}
exec "$name" $pip install --no-cache-dir --no-input --disable-pip-version-check \\
  --progress-bar off -r requirements.txt
"""


@dataclass(frozen=True)
class Layer:
    """An image with requirements, which need not be there yet."""

    base: str  # the image below
    wanted: Requirements
    registry: str | None = None

    @property
    def key(self) -> str:
        return self.wanted.key(self.base)

    @property
    def image(self) -> str:
        name = f"{REPOSITORY}:{self.key}"
        return f"{self.registry.rstrip('/')}/{name}" if self.registry else name


def layered(base: str, wanted: Requirements | None, registry: str | None = None) -> str:
    """The image that tasks run in: this one, or one with requirements on top of it."""
    return Layer(base, wanted, registry).image if wanted else base


def layer_recipe(layer: Layer, user: str, labels: Mapping[str, str]) -> Recipe:
    """How the image is built, on top of one that runs as this user."""
    given = index_settings(os.environ)
    dockerfile = [
        "ARG BASE",
        "FROM ${BASE}",
        *(["USER 0"] if user else []),
        f"COPY . {FOLDER}/",
        *(f"ARG {name}" for name in given),
        f'RUN ["/bin/sh", "{FOLDER}/install.sh"]',
        *(["ARG RUN_AS", "USER ${RUN_AS}"] if user else []),
    ]
    files = {
        "Dockerfile": "\n".join(dockerfile).encode(),
        "install.sh": INSTALL.encode(),
        "requirements.txt": layer.wanted.text.encode(),
    }
    if (wheel := pip_wheel()) is not None:
        files[wheel.name] = wheel.read_bytes()
    return Recipe(
        context=pack_context(files),
        arguments={"BASE": layer.base, **({"RUN_AS": user} if user else {}), **given},
        labels={LABEL: layer.key, **labels},
        shown=SHOWN,
    )


def index_settings(env: Mapping[str, str]) -> dict[str, str]:
    """What pip in the build is told of our package index; a build argument is no secret."""
    return {n: env[n] for n in INDEX if env.get(n) and not CREDENTIALS.search(env[n])}
