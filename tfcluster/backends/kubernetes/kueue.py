"""Kueue: the pods of a run as one group that is admitted as a whole, and what Kueue says of it.

The group is one of Kueue's own pod groups: labels and annotations on the pods of all Jobs, and none
on the Jobs. So the cluster queues and admits without a client. Kueue makes a Workload for the group
and calls it like the group.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from tfcluster.backends.kubernetes.api import ApiError, Cluster
from tfcluster.backends.kubernetes.site import site_of
from tfcluster.backends.kubernetes.state import Problem, condition
from tfcluster.errors import TfclusterError
from tfcluster.plan import Plan

API = "kueue.x-k8s.io/v1beta1"
VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta1"
QUEUE = "kueue.x-k8s.io/queue-name"
GATE = "kueue.x-k8s.io/admission"
MANAGED = "kueue.x-k8s.io/managed"
LONGEST_LABEL = 63
ASK_EVERY = 2.0
UNMANAGED_PATIENCE = 3.0  # where Kueue manages pods, it marks them as they are made
Object = Mapping[str, Any]


# -- What the pods say -------------------------------------------------------------------------


def group_of(plan: Plan) -> str | None:
    """The name of the run's group; None without a queue. Two runs never share one."""
    site = site_of(plan)
    if not site.queue:
        return None
    run = site.run
    return f"{plan.job[: LONGEST_LABEL - len(run) - 1].rstrip('-')}-{run}"


def queue_labels(plan: Plan) -> dict[str, str]:
    queue, group = site_of(plan).queue, group_of(plan)
    if queue is None or group is None:
        return {}
    return {QUEUE: queue, "kueue.x-k8s.io/pod-group-name": group}


def queue_annotations(plan: Plan) -> dict[str, str]:
    """How many pods there have to be, and that the group is over when none of them runs.

    Otherwise Kueue keeps the quota of a failed job, and its deleted pods, until all have succeeded.
    """
    if group_of(plan) is None:
        return {}
    return {
        "kueue.x-k8s.io/pod-group-total-count": str(plan.size),
        "kueue.x-k8s.io/retriable-in-group": "false",
    }


def queue_settings(plan: Plan) -> dict[str, Any]:
    """The gate that Kueue opens. It would add it itself; so no pod slips by if it cannot."""
    return {"schedulingGates": [{"name": GATE}]} if group_of(plan) else {}


def is_gated(pod: Object) -> bool:
    gates = pod.get("spec", {}).get("schedulingGates") or []
    return any(gate["name"] == GATE for gate in gates)


def is_managed(pod: Object) -> bool:
    """Whether Kueue has taken the pod over."""
    return (pod["metadata"].get("labels") or {}).get(MANAGED) == "true"


# -- What Kueue says ---------------------------------------------------------------------------


def words_of(workload: Object) -> str:
    """Why Kueue has not admitted a workload, as it says itself."""
    for kind in ("QuotaReserved", "Admitted"):
        entry = condition(workload, kind)
        if entry.get("status") == "False":
            return str(entry.get("message") or entry.get("reason") or "")
    return ""


def is_finished(workload: Object) -> bool:
    going = "deletionTimestamp" in workload["metadata"]
    return not going and condition(workload, "Finished").get("status") == "True"


def told_by_events(events: Iterable[Object]) -> str:
    """Kueue's last complaint among the events, for those who may not read workloads."""
    told = [e for e in events if e.get("reason") in ("Pending", "ErrWorkloadCompose")]
    return str(told[-1].get("message", "")) if told else ""


def queued_problem(queue: str, words: str, place: int | None) -> Problem:
    said = f": {words}" if words else ""
    where = f", place {place}" if place is not None else ""
    return Problem("queued", f'waits in queue "{queue}"{where}{said}')


UNMANAGED = Problem(
    "unmanaged", "waits for Kueue, which is not in this cluster", UNMANAGED_PATIENCE
)


class Queue:
    """What Kueue says of one run, asked at most once in ASK_EVERY seconds."""

    def __init__(
        self, cluster: Cluster, name: str, group: str, clock: Callable[[], float] = time.monotonic
    ):
        self.cluster = replace(cluster, patience=0.0)
        self.name, self.group, self.clock = name, group, clock
        self.workload: Object | None = None
        self.place: int | None = None
        self.next_look = 0.0
        self.forbidden: set[str] = set()  # paths that this person may not read

    def problem(self, pod: Object, events: Iterable[Object]) -> Problem:
        """What a pod of Kueue's that is still gated waits for."""
        self.look()
        words = words_of(self.workload) if self.workload else told_by_events(events)
        return queued_problem(self.name, words, self.place)

    def look(self) -> None:
        if self.clock() < self.next_look:
            return
        self.next_look = self.clock() + ASK_EVERY
        self.workload = self.ask(self.cluster.path("Workload", self.group, api=API))
        self.place = None
        if self.workload and condition(self.workload, "QuotaReserved").get("status") != "True":
            self.place = self.ask_place()

    def ask_place(self) -> int | None:
        """The run's place among those that wait, from 1; None where Kueue does not show it."""
        space = quote(self.cluster.namespace)
        path = f"{VISIBILITY}/namespaces/{space}/localqueues/{quote(self.name)}/pendingworkloads"
        for item in (self.ask(path) or {}).get("items") or []:
            if item["metadata"]["name"] == self.group:
                return int(item["positionInLocalQueue"]) + 1
        return None

    def ask(self, path: str) -> Object | None:
        """The answer, or None: what cannot be read is left out."""
        if path in self.forbidden:
            return None
        try:
            return self.cluster.get(path)
        except ApiError as error:
            if error.status in (401, 403):
                self.forbidden.add(path)
        except TfclusterError:
            pass  # the watches tell of a cluster that is away
        return None

    def join_again(self) -> bool:
        """Give up a group that Kueue holds for finished, so that it makes another of the new pods.

        It does so after all pods of a run were gone at once: preempted, or on one lost node.
        """
        self.look()
        if self.workload is None or not is_finished(self.workload):
            return False
        self.workload = None
        return leave(self.cluster, self.group)


def queue_of(plan: Plan, cluster: Cluster) -> Queue | None:
    """The queue that the run waits in, if it has one."""
    name, group = site_of(plan).queue, group_of(plan)
    return Queue(cluster, name, group) if name and group else None


def leave(cluster: Cluster, group: str | None) -> bool:
    """Take a run out of its queue and free its quota; whether there was something to take out.

    Without the right to do so, or without Kueue, nothing happens: Kueue does it itself, only later,
    when the pods have ended.
    """
    if group is None:
        return False
    with contextlib.suppress(ApiError):
        return cluster.delete(cluster.path("Workload", group, api=API))
    return False
