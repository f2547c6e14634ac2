"""The containers of a run, and how one ended that can no longer say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.docker.containers import LABEL
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.backends.docker.site import listed
from tfcluster.launch.exits import describe_exit

MIB = 1 << 20


def containers_of(engine: Engine, run: Run) -> dict[str, dict[str, Any]]:
    """The run's containers on an engine, by task."""
    found = listed(engine, run.job, run.id)
    return {
        item["Labels"][f"{LABEL}.task"]: item for item in found if f"{LABEL}.task" in item["Labels"]
    }


def death_of(engine: Engine, container: Mapping[str, Any] | None) -> tuple[int, str]:
    """How a container ended whose launcher could not say it: exit code and words."""
    if container is None:
        return 137, "its container was removed"
    with translated(engine):
        details = engine.api.inspect_container(container["Id"])
    state = details["State"]
    code = int(state["ExitCode"])
    limit = details["HostConfig"].get("Memory") or 0
    if state.get("OOMKilled"):
        allowed = f", limit {limit // MIB} MiB" if limit else ""
        return 137, f"out of memory: the container was killed (exit code 137{allowed})"
    if state.get("Error"):
        return code, str(state["Error"])
    if code == 127:
        return code, "the image has no Python 3.8 or later for the launcher (exit code 127)"
    words = describe_exit(code)
    return code, f"its container was {words}" if code > 128 else f"its launcher ended: {words}"
