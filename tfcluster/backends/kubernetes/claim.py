"""Who may have a job's name in a namespace.

A ConfigMap `<job>-claim` is created, never applied: of two that do it at once one is refused. It
says where the job was brought up from, so that what is rendered need not. It goes with the run.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from tfcluster.archive import Run, runs_of
from tfcluster.backends.kubernetes import state
from tfcluster.backends.kubernetes.api import ApiError, Cluster
from tfcluster.backends.owner import Owner, Taken, owner_of
from tfcluster.errors import TfclusterError, WaitTimeout
from tfcluster.place import Place

PREFIX = "tfcluster.io/"
PART = "claim"
CONFLICT = 409  # it is there already, or was made anew since it was looked at
FRESH = 120.0  # seconds within which a claim's Jobs may still be on their way
PATIENCE = 30.0


def claim_path(cluster: Cluster, job: str) -> str:
    return cluster.path("ConfigMap", f"{job}-{PART}")


def is_claim(thing: Mapping[str, Any]) -> bool:
    return (thing["metadata"].get("labels") or {}).get(f"{PREFIX}part") == PART


def claim_of(run: Run) -> dict[str, Any]:
    """The claim of a run, as it is created."""
    labels = {
        "app.kubernetes.io/name": run.job,
        "app.kubernetes.io/instance": run.id,
        "app.kubernetes.io/managed-by": "tfcluster",
        f"{PREFIX}job": run.job,
        f"{PREFIX}run": run.id,
        f"{PREFIX}part": PART,
    }
    marks = owner_of(run).marks(PREFIX)
    meta = {"name": f"{run.job}-{PART}", "labels": labels, "annotations": marks}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def claim(cluster: Cluster, run: Run) -> None:
    """Have the job's name for this run; raises Taken, with nothing touched, if another has it."""
    deadline = time.monotonic() + PATIENCE
    while not created(cluster, claim_of(run)):
        found = cluster.get(claim_path(cluster, run.job))
        if found is not None:
            if run_in(found) == run.id:
                return
            refuse_taken(cluster, run.place, found)
            removed(cluster, claim_path(cluster, run.job), found["metadata"]["uid"])
        if time.monotonic() > deadline:
            raise WaitTimeout(f'the claim of job "{run.job}" could not be had: others take it')


def ensure_free(cluster: Cluster, place: Place) -> None:
    """Raise if a job of this name, brought up from another place, runs in the namespace."""
    found = cluster.get(claim_path(cluster, place.job))
    if found is not None:
        refuse_taken(cluster, place, found)
    refuse_running(cluster, place)


def refuse_taken(cluster: Cluster, place: Place, found: Mapping[str, Any]) -> None:
    """Raise if this claim is held: by a run of another place that runs, or is about to."""
    if (found["metadata"].get("labels") or {}).get(f"{PREFIX}job") != place.job:
        raise TfclusterError(
            f'ConfigMap "{found["metadata"]["name"]}" is there already, and not ours',
            hint=f'choose another name for the job than "{place.job}", or another namespace',
        )
    run = run_in(found)
    if run in own_runs(place):
        return
    jobs = jobs_of(cluster, place.job, f"{PREFIX}run={run}")
    starting = not jobs and age(cluster, found) < FRESH
    if starting or not all(state.job_is_over(job) for job in jobs):
        marks = found["metadata"].get("annotations") or {}
        raise Taken(place, where(cluster), Owner.from_marks(marks, PREFIX, run), starting=starting)


def refuse_running(cluster: Cluster, place: Place) -> None:
    """Raise if Jobs run that no claim speaks for: applied by hand, or by an older version."""
    known = own_runs(place)
    for job in jobs_of(cluster, place.job):
        run = run_in(job)
        if run not in known and not state.job_is_over(job):
            kinds = "jobs,services,configmaps,secrets,networkpolicies"
            end = f"kubectl delete {kinds} -n {cluster.namespace} -l {PREFIX}job={place.job}"
            raise Taken(place, where(cluster), Owner(run=run), end=end)


def where(cluster: Cluster) -> str:
    return f"in namespace {cluster.namespace} of context {cluster.context}"


def jobs_of(cluster: Cluster, job: str, more: str = "") -> list[dict[str, Any]]:
    selector = f"{PREFIX}job={job}" + (f",{more}" if more else "")
    return cluster.listed(cluster.path("Job", api="batch/v1"), selector)[0]


def age(cluster: Cluster, thing: Mapping[str, Any]) -> float:
    """How many seconds ago an object was made, by the API server's own clock."""
    from email.utils import parsedate_to_datetime

    response = cluster.request("GET", "/version")
    response.read()
    said = response.headers.get("Date")
    response.release_conn()
    now = parsedate_to_datetime(said).timestamp() if said else time.time()
    return now - (state.seconds(thing["metadata"].get("creationTimestamp")) or 0.0)


def run_in(thing: Mapping[str, Any]) -> str:
    return str((thing["metadata"].get("labels") or {}).get(f"{PREFIX}run", ""))


def own_runs(place: Place) -> Collection[str]:
    """The runs of this job that this state folder knows."""
    return {run.id for run in runs_of(place)}


def created(cluster: Cluster, doc: Mapping[str, Any]) -> bool:
    """Create an object; False if there is one of that name."""
    try:
        cluster.json("POST", cluster.path(doc["kind"]), body=doc)
    except ApiError as error:
        if error.status == CONFLICT:
            return False
        raise
    return True


def removed(cluster: Cluster, path: str, uid: str) -> None:
    """Delete this very object, and not one that has taken its place."""
    try:
        cluster.json("DELETE", path, body={"preconditions": {"uid": uid}})
    except ApiError as error:
        if error.status not in (404, CONFLICT):
            raise
