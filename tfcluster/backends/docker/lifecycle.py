"""One container's life: created, started, stopped, removed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tfcluster.backends.docker.containers import LABEL, Container, create_arguments
from tfcluster.backends.docker.engines import Engine, translated

CLEAN_PATIENCE = 15.0
CONFLICT = 409  # the name is taken


def log_driver(info: dict[str, Any]) -> str:
    drivers = (info.get("Plugins") or {}).get("Log") or []
    return "local" if "local" in drivers else "json-file"


def create(engine: Engine, container: Container, ours: Collection[str] = ()) -> str:
    """Create the container, not started; its id.

    One that was never started makes room for it, if it is of the same run or one of `ours`.
    """
    from docker.errors import APIError

    deadline = time.monotonic() + CLEAN_PATIENCE
    with translated(engine, container.task):
        info = engine.api.info()
        arguments = create_arguments(
            engine.api, container, log_driver(info), bool(info.get("InitBinary"))
        )
        while True:
            try:
                return str(engine.api.create_container(**arguments)["Id"])
            except APIError as error:
                taken = error.status_code == CONFLICT and time.monotonic() < deadline
                if not taken or not makes_room(engine, container, ours):
                    raise
            time.sleep(0.3)


def makes_room(engine: Engine, container: Container, ours: Collection[str]) -> bool:
    """Whether what has this container's name is only the leftover of a command that was killed.

    The engine may still be making it, and then knows the name but not yet the container.
    """
    from docker.errors import NotFound

    try:
        found = engine.api.inspect_container(container.name)
    except NotFound:
        return True
    marks = found["Config"].get("Labels") or {}
    same_job = marks.get(f"{LABEL}.job") == container.labels[f"{LABEL}.job"]
    known = marks.get(f"{LABEL}.run") in (container.labels[f"{LABEL}.run"], *ours)
    if not same_job or not known or found["State"]["Status"] != "created":
        return False
    remove_container(engine, found["Id"])
    return True


def start(engine: Engine, container: Container, identifier: str) -> None:
    with translated(engine, container.task):
        engine.api.start(identifier)


def remove_container(engine: Engine, identifier: str) -> None:
    from docker.errors import APIError, NotFound

    try:
        engine.api.remove_container(identifier, force=True, v=True)
    except NotFound:
        pass
    except APIError as error:
        if "already in progress" not in str(error.explanation):
            raise


def stop_containers(
    engine: Engine,
    containers: Sequence[dict[str, Any]],
    grace: float,
    keep_going: Callable[[], bool],
) -> None:
    """Ask all at once, wait, then kill. Returns when none of them runs."""
    from docker.errors import APIError

    def signal_all(name: str) -> list[str]:
        left = []
        for container in containers:
            with contextlib.suppress(APIError):  # it is not running
                engine.api.kill(container["Id"], name)
                left.append(container["Id"])
        return left

    def wait_for(left: list[str], seconds: float, keep_going: Callable[[], bool]) -> list[str]:
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline and keep_going():
            running = {item["Id"] for item in engine.api.containers(filters={"id": left})}
            left = [identifier for identifier in left if identifier in running]
            time.sleep(0.05)
        return left

    with translated(engine, "stopping"):
        if wait_for(signal_all("SIGTERM"), grace + 1.0, keep_going):
            wait_for(signal_all("SIGKILL"), CLEAN_PATIENCE, lambda: True)
