"""Making a run's objects true in the cluster, and taking them away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.kubernetes.api import ApiError, Cluster
from tfcluster.backends.kubernetes.gang import GANGS, gang_of
from tfcluster.backends.kubernetes.kueue import leave
from tfcluster.backends.kubernetes.state import EVICTED
from tfcluster.errors import MissingError, TfclusterError, WaitTimeout

# What a run may consist of, in the order in which it is taken away.
KINDS = (
    ("Job", "batch/v1"),
    ("Deployment", "apps/v1"),
    ("Service", "v1"),
    ("NetworkPolicy", "networking.k8s.io/v1"),
    ("ConfigMap", "v1"),
)
GONE_PATIENCE = 60.0


def apply_all(cluster: Cluster, docs: Iterable[dict[str, Any]]) -> None:
    for doc in docs:
        cluster.apply(doc)


def ensure_gang(cluster: Cluster, name: str) -> None:
    """Raise unless the cluster knows the groups that `kubernetes.gang` asks for."""
    gang = GANGS[name]
    if cluster.get(f"/apis/{gang.api}") is None:
        raise MissingError(
            f"kubernetes.gang: {name} needs {gang.needs}",
            evidence=[f"  {cluster.context} does not serve {gang.api}"],
            hint="leave gang out: tasks are then placed one by one, and wait for each other",
        )


def owned(
    cluster: Cluster, selector: str, gang: str | None = None
) -> list[tuple[str, dict[str, Any]]]:
    """Everything that carries these labels: path and object."""
    found = []
    group = gang_of(gang)
    for kind, api in (*KINDS, *([("PodGroup", group.api)] if group else [])):
        try:
            items, _ = cluster.listed(cluster.path(kind, api=api), selector)
        except ApiError as error:
            if error.status == 403 and kind == "Deployment":
                continue  # needed for TensorBoard only
            raise
        for item in items:
            path = cluster.path(kind, item["metadata"]["name"], api=api)
            found.append((path, {"kind": kind, **item}))
    return found


def remove(
    cluster: Cluster, selector: str, gang: str | None = None, keep: Iterable[str] = ()
) -> None:
    """Delete everything with these labels except the objects at these paths."""
    kept = set(keep)
    found = [path for path, _ in owned(cluster, selector, gang)]
    for path in (*found, *secrets_of(cluster, selector)):
        if path not in kept:
            cluster.delete(path)


def secrets_of(cluster: Cluster, selector: str) -> list[str]:
    """The path of the job's Secret, if it carries these labels.

    Secrets are not listed: whoever may list them may read all of the namespace's.
    """
    wanted = [part.partition("=") for part in selector.split(",")]
    name = f"{wanted[0][2]}-control"
    labels = cluster.labels_of("Secret", name)
    if labels is None:
        return []
    for key, _, value in wanted:
        equal = labels.get(key.removesuffix("!")) == value
        if equal == key.endswith("!"):
            return []
    return [cluster.path("Secret", name)]


def pods_of(cluster: Cluster, selector: str) -> list[dict[str, Any]]:
    return cluster.listed(cluster.path("Pod"), selector)[0]


def remove_jobs(
    cluster: Cluster,
    selector: str,
    names: Sequence[str],
    *,
    grace: float,
    keep_going: Callable[[], bool] = lambda: True,
    group: str | None = None,
) -> None:
    """Delete Jobs and wait until their pods are gone: politely, then surely.

    `group` is their group in a queue, if they are all of it: it is given up with them.
    """
    for name in names:
        cluster.delete(cluster.path("Job", name, api="batch/v1"))
    leave(cluster, group)
    chosen = f"{selector},batch.kubernetes.io/job-name in ({','.join(names)})"
    deadline = time.monotonic() + grace + GONE_PATIENCE
    polite = time.monotonic() + grace
    killed = False
    while names and (left := pods_of(cluster, chosen)):
        if not killed and (time.monotonic() > polite or not keep_going()):
            killed = True
            for pod in left:
                cluster.delete(cluster.path("Pod", pod["metadata"]["name"]), grace=0)
        if time.monotonic() > deadline:
            listed = ", ".join(pod["metadata"]["name"] for pod in left[:5])
            raise WaitTimeout(
                f"pods are still there after {grace + GONE_PATIENCE:g} s: {listed}",
                hint="is their node up? kubectl get nodes; then try again",
            )
        time.sleep(0.3)


def suspend_job(cluster: Cluster, name: str, wanted: bool, evicted: str | None = None) -> None:
    """Have a Job's pods stopped, or started again; `evicted`: Kueue's words, if it is the cause."""
    cluster.json(
        "PATCH",
        cluster.path("Job", name, api="batch/v1"),
        body={"metadata": {"annotations": {EVICTED: evicted}}, "spec": {"suspend": wanted}},
        content="application/merge-patch+json",
    )


def make_room(cluster: Cluster, run: Run, gang: str | None) -> None:
    """Remove what an ended run of the same job left; whoever calls this holds the job's claim."""
    others = f"tfcluster.io/job={run.job},tfcluster.io/run!={run.id}"
    jobs, _ = cluster.listed(cluster.path("Job", api="batch/v1"), others)
    names = [job["metadata"]["name"] for job in jobs]
    if names:
        remove_jobs(cluster, others, names, grace=5.0)
        remove(cluster, others, gang)


def ensure_free(cluster: Cluster, docs: Iterable[dict[str, Any]], run: Run) -> None:
    """Refuse to take over an object that is not ours, such as a Service of the same name."""
    for doc in docs:
        if doc["kind"] == "Secret":
            labels = cluster.labels_of("Secret", doc["metadata"]["name"])
        elif doc["kind"] in ("Service", "Job", "NetworkPolicy"):
            found = cluster.get(cluster.path_of(doc))
            labels = found and (found["metadata"].get("labels") or {})
        else:
            continue
        if labels is not None and labels.get("tfcluster.io/job") != run.job:
            raise TfclusterError(
                f'{doc["kind"]} "{doc["metadata"]["name"]}" is there already, and not ours',
                hint=f'choose another name for the job than "{run.job}", or another namespace',
            )
