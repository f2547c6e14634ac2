"""Who may have a job's name on an engine.

Containers, the network and volumes are found by the job's name, so one place at a time may bring it
up. The engine gives a container's name away once only: the claim is a container that never runs,
made first, and removed when the job's own containers are there to be seen.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tfcluster.archive import Run, runs_of
from tfcluster.backends.docker.containers import LABEL, container_of, labels
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.backends.docker.lifecycle import CLEAN_PATIENCE, CONFLICT, remove_container
from tfcluster.backends.docker.site import listed, tasks_on
from tfcluster.backends.docker.status import ALIVE
from tfcluster.backends.owner import Owner, Taken
from tfcluster.place import Place
from tfcluster.plan import Plan

MARK = f"{LABEL}.claim"
STALE = 600.0  # seconds; a claim that is older was left by a command that was killed


def claim_name(job: str) -> str:
    return f"tfcluster-{job}"


def ensure_free(engine: Engine, place: Place) -> None:
    """Raise if a job of this name, brought up from another place, runs on the engine."""
    ours = own_runs(place)
    for found in listed(engine, place.job):
        if found["State"] in ALIVE and run_in(found["Labels"]) not in ours:
            raise Taken(place, f"on {engine.label}", owner_in(found["Labels"]))


@contextlib.contextmanager
def claimed(engines: Iterable[Engine], run: Run, plan: Plan) -> Iterator[None]:
    """Hold the job's name on these engines; raises Taken, with nothing touched, if another does."""
    with contextlib.ExitStack() as held:
        for engine in sorted(engines, key=lambda one: one.reference):
            if tasks_on(plan, engine.name):
                identifier = make_claim(engine, run, plan)
                held.callback(release, engine, identifier)
                ensure_free(engine, run.place)
        yield


def make_claim(engine: Engine, run: Run, plan: Plan) -> str:
    from docker.errors import APIError

    image = container_of(plan, run.id, tasks_on(plan, engine.name)[0]).image
    deadline = time.monotonic() + CLEAN_PATIENCE
    with translated(engine, f"preparing {image}"):
        while True:
            try:
                made = engine.api.create_container(
                    image,
                    name=claim_name(run.job),
                    entrypoint=["/tfcluster-claim"],
                    labels={**labels(plan, run.id), MARK: run.id},
                    host_config=engine.api.create_host_config(network_mode="none"),
                )
                return str(made["Id"])
            except APIError as error:
                if error.status_code != CONFLICT or time.monotonic() > deadline:
                    raise
            give_way(engine, run)


def give_way(engine: Engine, run: Run) -> None:
    """Remove a claim that a killed command has left; raise if it is somebody's."""
    from docker.errors import NotFound

    try:
        found = engine.api.inspect_container(claim_name(run.job))
    except NotFound:
        time.sleep(0.1)  # given up just now, or not quite made
        return
    marks = found["Config"].get("Labels") or {}
    stale = age(engine, found["Created"]) > STALE
    if run_in(marks) not in own_runs(run.place) and not stale:
        raise Taken(run.place, f"on {engine.label}", owner_in(marks), starting=True)
    remove_container(engine, found["Id"])


def release(engine: Engine, identifier: str) -> None:
    with translated(engine):
        remove_container(engine, identifier)


def own_runs(place: Place) -> set[str]:
    """The runs of this job that this state folder knows."""
    return {known.id for known in runs_of(place)}


def run_in(marks: Mapping[str, str]) -> str:
    return marks.get(f"{LABEL}.run", "")


def owner_in(marks: Mapping[str, str]) -> Owner:
    return Owner.from_marks(marks, f"{LABEL}.", run_in(marks))


def age(engine: Engine, created: str) -> float:
    """Seconds since then, by the engine's own clock."""

    def moment(text: Any) -> datetime:
        # Nanoseconds are more than Python reads.
        return datetime.fromisoformat(f"{str(text)[:19]}+00:00")

    return (moment(engine.api.info()["SystemTime"]) - moment(created)).total_seconds()
