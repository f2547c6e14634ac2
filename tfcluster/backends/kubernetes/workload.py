"""The run's own Workload, where Kueue is there but does not manage pods. Pure functions.

What is asked of Kueue, and which step follows from what is seen; `admission` takes the steps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tfcluster.backends.kubernetes import kueue
from tfcluster.backends.kubernetes.render import labels
from tfcluster.backends.kubernetes.site import site_of
from tfcluster.backends.kubernetes.state import condition
from tfcluster.plan import Plan

DIGEST = "tfcluster.io/digest"  # of what is asked for; Kueue's own Workloads have none
Object = Mapping[str, Any]


# -- What is asked for -------------------------------------------------------------------------


def workload_of(
    plan: Plan, jobs: Mapping[str, Object], priority: int = 0, active: bool = True
) -> dict[str, Any]:
    """The Workload of a run: a pod set per role, with the pods that the role's Job makes."""
    roles = [role for role in plan.roles if role.replicas]
    sets = [
        {"name": role.role, "count": role.replicas, "template": template_of(jobs[role.role])}
        for role in roles
    ]
    spec = {"queueName": site_of(plan).queue, "podSets": sets, "active": active}
    return {
        "apiVersion": kueue.API,
        "kind": "Workload",
        "metadata": {
            "name": kueue.group_of(plan),
            "labels": labels(plan),
            "annotations": {DIGEST: digest_of(plan)},
            # Goes with the last of the Jobs, whoever deletes them.
            "ownerReferences": [owner_of(jobs[role.role]) for role in roles],
        },
        "spec": {**spec, **priority_of(sets, priority)},
    }


def template_of(job: Object) -> dict[str, Any]:
    """The pods of a Job, without what tells Kueue of them: here they are the Workload's."""
    template = job["spec"]["template"]
    spec = {key: value for key, value in template["spec"].items() if key != "schedulingGates"}
    return {"metadata": {"labels": template["metadata"].get("labels") or {}}, "spec": spec}


def owner_of(job: Object) -> dict[str, str]:
    meta = job["metadata"]
    return {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}


def priority_of(sets: Iterable[Object], priority: int) -> dict[str, Any]:
    """The first priority class among the pods, with its value as a pod of it shows it.

    The number is never left out: Kueue's list of what waits in a queue breaks at such a Workload.
    """
    named = (entry["template"]["spec"].get("priorityClassName") for entry in sets)
    name = next(filter(None, named), None)
    if name is None:
        return {"priority": priority}
    source = {"priorityClassSource": "scheduling.k8s.io/priorityclass"}
    return {**source, "priorityClassName": name, "priority": priority}


def digest_of(plan: Plan) -> str:
    """Changes when other pods, or more of them, are asked for."""
    asked = [(role.role, role.replicas, role.digest) for role in plan.roles]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


# -- What is to be done ------------------------------------------------------------------------

# Of a Workload. `unknown`: it could not be read.
PHASES = ("unknown", "none", "new", "waiting", "admitted", "evicted", "stale", "going")


def phase_of(workload: Object | None, digest: str) -> str:
    if workload is None:
        return "none"
    meta = workload["metadata"]
    if "deletionTimestamp" in meta:
        return "going"
    if (meta.get("annotations") or {}).get(DIGEST) != digest:
        return "stale"
    is_true = {
        kind: condition(workload, kind).get("status") == "True"
        for kind in ("Evicted", "QuotaReserved", "Admitted")
    }
    if is_true["Evicted"] and is_true["QuotaReserved"]:
        return "evicted"  # Kueue leaves it to us to give the quota back
    if is_true["QuotaReserved"] and is_true["Admitted"]:
        return "admitted"
    return "waiting" if condition(workload, "QuotaReserved") else "new"


@dataclass(frozen=True)
class Seen:
    """What decides about the next step. `gated` and `free` count pods that have not ended."""

    phase: str
    gated: int = 0
    free: int = 0
    held: bool = False  # Jobs are suspended by us, because of an eviction
    suspended: bool = False  # all Jobs are suspended by a person


def decide(seen: Seen) -> str:
    """create, open, stop, resume, leave; or nothing.

    No pod runs without an admitted Workload, and no Workload is there without pods to come.
    """
    pods = seen.gated + seen.free
    if seen.phase in ("unknown", "going"):
        return ""
    if seen.suspended and not seen.held:
        return "leave" if seen.phase != "none" and not pods else ""
    if seen.phase == "stale" or (seen.phase == "evicted" and not seen.free):
        return "leave"
    if seen.held:
        return "" if seen.free else "resume"
    if seen.phase in ("evicted", "waiting"):
        return "stop" if seen.free else ""
    if seen.phase == "none":
        return "create" if pods else ""
    return "open" if seen.phase == "admitted" and seen.gated else ""
