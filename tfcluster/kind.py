"""Images for the nodes of a kind cluster, which do not share those of the engine."""

from __future__ import annotations

import os
import shutil
import subprocess

from tfcluster.errors import MissingError, TfclusterError

PREFIX = "kind-"  # of the contexts that kind makes


def cluster_of(context: str) -> str | None:
    """The kind cluster behind a context; None if it is another kind of cluster."""
    return context.removeprefix(PREFIX) if context.startswith(PREFIX) else None


def kind_command(image: str, cluster: str) -> list[str]:
    return ["kind", "load", "docker-image", image, "--name", cluster]


def load_image(image: str, cluster: str) -> None:
    """Put an image of the current engine onto every node; what is there already is quick."""
    if shutil.which("kind") is None:
        raise MissingError("kind is not installed here", hint="see https://kind.sigs.k8s.io")
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
