"""The containers of a run, and how one ended that can no longer say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.docker.containers import LABEL
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.backends.docker.site import listed
from tfcluster.launch.exits import EXIT_OUT_OF_MEMORY, describe_exit

MIB = 1 << 20
ALIVE = frozenset({"running", "paused", "restarting"})


def containers_of(engine: Engine, run: Run) -> dict[str, dict[str, Any]]:
    """The run's containers on an engine, by task."""
    found = listed(engine, run.job, run.id)
    return {
        item["Labels"][f"{LABEL}.task"]: item for item in found if f"{LABEL}.task" in item["Labels"]
    }


@dataclass(frozen=True)
class Ending:
    """How a container ended: its exit code, and words for one whose launcher has none."""

    code: int | None  # None if it was removed before anyone looked
    words: str


REMOVED = Ending(None, "its container was removed")


def ending_of(engine: Engine, container: str) -> Ending | None:
    """How a container ended; None while it runs."""
    from docker.errors import NotFound

    with translated(engine):
        try:
            details = engine.api.inspect_container(container)
        except NotFound:
            return REMOVED
    state = details["State"]
    if state["Status"] in ALIVE:
        return None
    code = int(state["ExitCode"])
    if state["Status"] == "created":
        return Ending(code or 125, str(state.get("Error") or "its container was never started"))
    # The engine says so too if only the program was killed, and the launcher lived to tell.
    if state.get("OOMKilled") and code == EXIT_OUT_OF_MEMORY:
        limit = details["HostConfig"].get("Memory") or 0
        allowed = f", limit {limit // MIB} MiB" if limit else ""
        words = f"out of memory: the container was killed (exit code 137{allowed})"
        return Ending(code, words)
    return Ending(code, str(state.get("Error") or words_for(code)))


def words_for(code: int) -> str:
    if code == 127:
        return "the image has no Python 3.8 or later for the launcher (exit code 127)"
    words = describe_exit(code)
    return f"its container was {words}" if code > 128 else f"its launcher ended: {words}"
