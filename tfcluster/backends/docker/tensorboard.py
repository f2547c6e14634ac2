"""TensorBoard in a container beside the job: what it shows lives in a volume of the engine."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.docker.containers import (
    HELPER_LIMITS,
    LABEL,
    LAUNCH,
    api_mount,
    container_of,
)
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.backends.docker.images import provide_trainer, reachable_with
from tfcluster.backends.docker.lifecycle import remove_container
from tfcluster.backends.docker.planned import docker_role
from tfcluster.backends.docker.site import engines
from tfcluster.backends.docker.ssh import forward_argv
from tfcluster.errors import MissingError
from tfcluster.images import trainer_image
from tfcluster.plan import Plan

INSIDE = 6006
MARK = f"{LABEL}.tensorboard"
LOOPBACK = "127.0.0.1"


def board_image(engine: Engine, plan: Plan, say: Callable[[str], None]) -> str:
    """The job's own trainer image, else the bundled one, which has TensorBoard."""
    role = docker_role(plan.role(plan.writer.rpartition("-")[0]))
    if role.bundled and reachable_with(engine, role.image):
        return role.image
    image = trainer_image()
    provide_trainer(engine, image, list(engines(plan).values()), say)
    return image


def start_board(
    engine: Engine,
    run: Run,
    plan: Plan,
    port: int,
    own: Mapping[str, str],
    say: Callable[[str], None],
) -> tuple[str, int]:
    """Start it on the engine that has the results; its container and the port there."""
    found = container_of(plan, run.id, plan.writer).mounts
    mounts = [api_mount(mount) for mount in found if mount.target != LAUNCH]
    image = board_image(engine, plan, say)
    with translated(engine, "TensorBoard"):
        made = engine.api.create_container(
            image,
            entrypoint=["python3", "-m", "tensorboard.main"],
            command=["--logdir", str(plan.logdir), "--host", "0.0.0.0", "--port", str(INSIDE)],
            labels=dict(own),
            ports=[INSIDE],
            host_config=engine.api.create_host_config(
                mounts=[{**mount, "ReadOnly": True} for mount in mounts],
                port_bindings={INSIDE: (LOOPBACK, port or None)},
                read_only=True,
                tmpfs={"/tmp": "rw,mode=1777"},
                init=True,
                **HELPER_LIMITS,
            ),
        )
        try:
            engine.api.start(made["Id"])
            chosen = engine.api.port(made["Id"], INSIDE)[0]["HostPort"]
        except BaseException:
            remove_container(engine, made["Id"])
            raise
    return str(made["Id"]), int(chosen)


def serve(
    run: Run, plan: Plan, port: int, ready: Callable[[], None], say: Callable[[str], None]
) -> int:
    """Until Ctrl-C; the container goes with it."""
    host = container_of(plan, run.id, plan.writer).host
    engine = engines(plan)[host]
    if not engine.is_local and not engine.reference.startswith("ssh://"):
        raise MissingError(
            f"TensorBoard at {engine.label} cannot be reached from here",
            hint="use an ssh:// engine, or set logdir to a folder that this machine has too",
        )
    # Not marked as the run's: it stays when the job ends.
    own = {MARK: run.job}
    there = port if engine.is_local else 0
    identifier, remote = start_board(engine, run, plan, there, own, say)
    try:
        with forwarded(engine, port, remote):
            ready()
            with contextlib.suppress(KeyboardInterrupt):
                watch(engine, identifier)
    finally:
        with translated(engine, "TensorBoard"):
            remove_container(engine, identifier)
    return 0


@contextlib.contextmanager
def forwarded(engine: Engine, port: int, remote: int) -> Iterator[None]:
    """Lead a port of this machine to one of the engine's, if that is another machine."""
    if engine.is_local:
        yield
        return
    tunnel = subprocess.Popen(forward_argv(engine.reference, port, remote))
    try:
        yield
    finally:
        tunnel.terminate()
        tunnel.wait()


def watch(engine: Engine, identifier: str) -> None:
    state: dict[str, Any] = {"Running": True}
    while state["Running"]:
        time.sleep(0.5)
        with translated(engine):
            state = engine.api.inspect_container(identifier)["State"]
    with translated(engine):
        said = bytes(engine.api.logs(identifier, tail=5)).decode("utf-8", "replace")
    raise MissingError(
        "TensorBoard has ended", evidence=[f"  {line}" for line in said.splitlines()]
    )
