"""Where a run on Docker keeps its results: in a volume of the engine, or a folder of its host."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from urllib.parse import urlsplit

from tfcluster.backends.docker.containers import Container, Mount, container_of
from tfcluster.backends.docker.engines import DEFAULT_SOCKET, Engine
from tfcluster.backends.docker.site import engines
from tfcluster.plan import Plan
from tfcluster.results import FOLDER, TASK, VOLUME, Results, is_below


def results_of(plan: Plan, run: str) -> tuple[Results, ...]:
    """Where logdir and checkpoints are; with several hosts on each, the writer's first."""
    return tuple(every_result(plan, run))


def every_result(plan: Plan, run: str) -> Iterator[Results]:
    writer = container_of(plan, run, plan.writer)
    for name, engine in sorted(engines(plan).items(), key=lambda item: item[0] != writer.host):
        for holds, path in (("logdir", plan.logdir), ("checkpoints", plan.checkpoints)):
            if path is not None:
                folder = "-".join(filter(None, (plan.job, run, name)))
                yield result_at(engine, writer, holds, path, folder)


def result_at(engine: Engine, writer: Container, holds: str, path: str, folder: str) -> Results:
    """One of the two, on one engine; `folder` is where a copy of it would go."""
    mounts = [mount for mount in writer.mounts if is_below(path, mount.target)]
    mount = max(mounts, key=lambda found: len(found.target), default=None)
    if mount is None:
        return Results(holds, TASK, path, host=engine.reference)
    if mount.kind != "volume":
        there = mount.source + path[len(mount.target.rstrip("/")) :]
        if engine.is_local:
            return Results(holds, FOLDER, there)
        command = scp_command(engine, there, folder)
        return Results(holds, FOLDER, there, host=engine.reference, copy=command)
    command = copy_command(engine, mount, writer.image, path, folder)
    return Results(holds, VOLUME, path, name=mount.source, host=engine.reference, copy=command)


def copy_command(engine: Engine, mount: Mount, image: str, path: str, folder: str) -> str:
    """Copies a folder of a volume, through a container that never runs and then goes."""
    docker = docker_words(engine)
    volume = shlex.quote(f"{mount.source}:{mount.target}:ro")
    made = f"{docker} create -v {volume} {shlex.quote(image)} none"
    return (
        f'c=$({made}) && {docker} cp "$c":{shlex.quote(path)} {shlex.quote(folder)}'
        f" && {docker} rm $c"
    )


def scp_command(engine: Engine, path: str, folder: str) -> str:
    """Copies a folder of the engine's machine, where ssh leads to it."""
    there = urlsplit(engine.reference)
    if there.scheme != "ssh":
        return ""
    user = f"{there.username}@" if there.username else ""
    port = ["-P", str(there.port)] if there.port else []
    return shlex.join(["scp", "-r", *port, f"{user}{there.hostname}:{path}", folder])


def docker_words(engine: Engine) -> str:
    """The `docker` that speaks to this engine."""
    if engine.reference == DEFAULT_SOCKET:
        return "docker"
    option = "--host" if "://" in engine.reference else "--context"
    return f"docker {option} {shlex.quote(engine.reference)}"
