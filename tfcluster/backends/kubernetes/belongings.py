"""What runs have left in a namespace: objects by their labels, claims by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfcluster.archive import Run
from tfcluster.backends.kubernetes.api import Cluster
from tfcluster.backends.kubernetes.apply import owned, remove_jobs
from tfcluster.backends.kubernetes.apply import remove as remove_objects
from tfcluster.backends.kubernetes.connect import connect
from tfcluster.backends.kubernetes.site import site_of
from tfcluster.backends.kubernetes.state import job_is_over
from tfcluster.belongings import CLAIM, OBJECT, Belonging
from tfcluster.errors import DamagedFile
from tfcluster.plan import Plan, stored_plan
from tfcluster.quantities import BadQuantity, parse_quantity

OURS = "app.kubernetes.io/managed-by=tfcluster"
JOB, RUN = "tfcluster.io/job", "tfcluster.io/run"
GRACE = 1.0  # seconds for pods of a run that has ended


def host_name(context: str, namespace: str) -> str:
    return f"{context}/{namespace}"


def cluster_at(host: str) -> Cluster:
    """The cluster and namespace of a host's name; a context's name may have slashes."""
    context, _, namespace = host.rpartition("/")
    return connect(context, namespace)


def survey(host: str, runs: Sequence[Run]) -> list[Belonging]:
    """What these runs, and runs that nobody knows of any more, have left."""
    cluster = cluster_at(host)
    plans = [plan for run in runs if (plan := readable_plan(run)) is not None]
    return [*objects(cluster, host), *claims(cluster, host, plans)]


def readable_plan(run: Run) -> Plan | None:
    try:
        return stored_plan(run)
    except DamagedFile:
        return None


def objects(cluster: Cluster, host: str) -> Iterator[Belonging]:
    for _, item in owned(cluster, OURS):
        labels = item["metadata"].get("labels") or {}
        if JOB in labels:
            name = f"{item['kind']} {item['metadata']['name']}"
            active = item["kind"] == "Job" and not job_is_over(item)
            yield Belonging(OBJECT, name, host, labels[JOB], labels.get(RUN, ""), active=active)


def claims(cluster: Cluster, host: str, plans: Sequence[Plan]) -> Iterator[Belonging]:
    """The claims that jobs have made for themselves; those that specs name are left alone."""
    wanted = {
        (plan.job, storage.claim)
        for plan in plans
        if (storage := site_of(plan).storage) is not None
    }
    for job, name in sorted(wanted):
        found = cluster.get(cluster.path("PersistentVolumeClaim", name))
        if found and (found["metadata"].get("labels") or {}).get(JOB) == job:
            capacity = (found.get("status") or {}).get("capacity") or {}
            size = parsed(capacity.get("storage"))
            yield Belonging(CLAIM, name, host, job, size=size, holds_results=True)


def parsed(text: str | None) -> int | None:
    try:
        return None if text is None else parse_quantity(text)
    except BadQuantity:
        return None


def remove(host: str, belongings: Iterable[Belonging]) -> None:
    """Take these away; what is gone already is no error."""
    cluster, found = cluster_at(host), list(belongings)
    for job, run in sorted({(one.job, one.run) for one in found if one.kind == OBJECT}):
        selector = f"{JOB}={job},{RUN}={run}"
        own = [one.name for one in found if (one.job, one.run) == (job, run)]
        jobs = [name.removeprefix("Job ") for name in own if name.startswith("Job ")]
        remove_jobs(cluster, selector, jobs, grace=GRACE)
        remove_objects(cluster, selector)
    for one in found:
        if one.kind == CLAIM:
            cluster.delete(cluster.path("PersistentVolumeClaim", one.name))
