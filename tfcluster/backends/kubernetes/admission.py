"""How a run gets in where it has a queue: by Kueue alone, or by a Workload of its own.

Where Kueue is there but does not manage pods, the keeper does what Kueue's pod integration does
elsewhere: it asks Kueue for room for the whole run, takes the gate off the pods when the Workload
is admitted, and stops them all when Kueue evicts it. What it has to remember is in the cluster: a
later keeper goes on from there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.kubernetes import kueue, state
from tfcluster.backends.kubernetes.api import ApiError, Cluster
from tfcluster.backends.kubernetes.apply import suspend_job
from tfcluster.backends.kubernetes.kueue import Queue
from tfcluster.backends.kubernetes.state import Problem, condition
from tfcluster.backends.kubernetes.view import View
from tfcluster.backends.kubernetes.workload import (
    DIGEST,
    Seen,
    decide,
    digest_of,
    phase_of,
    workload_of,
)
from tfcluster.errors import TfclusterError
from tfcluster.plan import Plan

ASK_EVERY, ASK_SELDOM = 1.0, 5.0  # while pods are gated; while all of them run
RESOURCE = "workloads.kueue.x-k8s.io"
NO_GATE = {"spec": {"schedulingGates": [{"$patch": "delete", "name": kueue.GATE}]}}
Object = Mapping[str, Any]


class Admission:
    """Of one run. The keeper calls `look` again and again, and `end` when the run is over."""

    def __init__(
        self,
        run: Run,
        plan: Plan,
        cluster: Cluster,
        view: View,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.run, self.plan, self.view, self.clock = run, plan, view, clock
        self.cluster = replace(cluster, patience=0.0)
        self.queue = kueue.queue_of(plan, cluster)
        self.digest = digest_of(plan)
        self.ours: bool | None = None  # None: not known yet
        self.served: bool | None = None  # whether the cluster knows Kueue
        self.unmanaged_since: float | None = None
        self.workload: Object | None = None
        self.phase = "unknown"
        self.active = True
        self.next_look = 0.0
        self.opened: set[str] = set()  # pods
        self.doing = ""  # the right that is being used
        self.trouble: Problem | None = None

    # -- What a gated pod waits for

    def problem(self, pod: Object, job: Object | None, events: Iterable[Object]) -> Problem:
        queue = self.queue
        if queue is None or not kueue.is_gated(pod):
            return state.pod_problem(pod, events)
        if paused := state.suspension(job):
            return paused
        if kueue.is_managed(pod):
            return self.problem_by_kueue(queue, pod, events)
        if self.trouble is not None:
            return self.trouble
        if self.served is False:
            return kueue.UNMANAGED
        words = kueue.words_of(self.workload) if self.workload else ""
        return kueue.queued_problem(queue.name, words, queue.place)

    def problem_by_kueue(self, queue: Queue, pod: Object, events: Iterable[Object]) -> Problem:
        problem = queue.problem(pod, [*events, *self.view.events.get(queue.group, ())])
        ending = "deletionTimestamp" in pod["metadata"] or self.run.files.is_ending
        if not ending and queue.join_again():
            self.run.note("requeued", "Kueue held it for finished; it waits in the queue again")
        return problem

    # -- The keeper's part

    def look(self) -> None:
        """Take the next step, if it is ours to take one."""
        if self.queue is None or self.run.files.is_ending:
            return
        pods = self.live_pods()
        self.doing = ""
        try:
            if self.is_ours(self.queue, pods):
                self.follow(self.queue, pods)
        except ApiError as error:
            self.trouble = self.refusal(error)
        except TfclusterError:
            pass  # the watches tell of a cluster that is away

    def live_pods(self) -> list[Object]:
        found = (self.view.current_pod(task) for task in self.plan.task_names)
        return [pod for pod in found if pod is not None and not self.view.has_ended(pod)]

    def is_ours(self, queue: Queue, pods: Iterable[Object]) -> bool:
        """Whether Kueue has left these pods alone for so long that it will not take them."""
        if self.ours is None:
            self.ours = False
            found = queue.ask(self.path(queue))
            self.ours = DIGEST in ((found or {}).get("metadata", {}).get("annotations") or {})
        if self.ours or any(map(state.is_held, self.view.jobs.values())):
            self.ours = self.served = True
            return True
        if all(map(kueue.is_managed, pods)):
            self.unmanaged_since = None
            return False
        now = self.clock()
        if self.unmanaged_since is None:
            self.unmanaged_since = now
        if not self.served and now >= self.next_look:
            self.next_look = now + ASK_EVERY
            self.served = self.cluster.get(f"/apis/{kueue.API}") is not None
        self.ours = bool(self.served) and now - self.unmanaged_since >= kueue.UNMANAGED_PATIENCE
        return self.ours

    def path(self, queue: Queue) -> str:
        return self.cluster.path("Workload", queue.group, api=kueue.API)

    def follow(self, queue: Queue, pods: list[Object]) -> None:
        gated = [pod for pod in pods if kueue.is_gated(pod) and not is_going(pod)]
        jobs = [job for job in self.view.jobs.values() if not state.job_is_over(job)]
        if self.clock() >= self.next_look or self.phase == "unknown":
            self.ask(queue, ASK_EVERY if gated else ASK_SELDOM)
        seen = Seen(
            phase=self.phase,
            gated=len(gated),
            free=len([pod for pod in pods if not kueue.is_gated(pod)]),
            held=any(map(state.is_held, jobs)),
            suspended=bool(jobs) and all(state.suspension(job) for job in jobs),
        )
        self.take(decide(seen), gated)
        self.trouble = None

    def take(self, step: str, gated: Iterable[Object]) -> None:
        if step == "create":
            self.create()
        elif step == "open":
            self.open(gated)
        elif step == "stop":
            self.stop()
        elif step == "resume":
            self.hold(None)
        elif step == "leave":
            self.leave()

    def ask(self, queue: Queue, pause: float) -> None:
        self.next_look = self.clock() + pause
        self.phase, self.doing = "unknown", f"get {RESOURCE}"
        self.workload = self.cluster.get(self.path(queue))
        self.phase = phase_of(self.workload, self.digest)
        queue.place = queue.ask_place() if self.phase in ("new", "waiting") else None

    def create(self) -> None:
        if not {role.role for role in self.plan.roles if role.replicas} <= set(self.view.jobs):
            return
        values = (pod["spec"].get("priority") for pod in self.live_pods())
        priority = max((value for value in values if value is not None), default=0)
        doc = workload_of(self.plan, self.view.jobs, priority, self.active)
        self.doing, self.phase = f"create {RESOURCE}", "unknown"
        path = self.cluster.path("Workload", api=kueue.API)
        self.cluster.json("POST", path, body=doc)
        words = "Kueue does not manage pods here; a Workload of its own waits for the job"
        self.run.note("queued", words)

    def open(self, gated: Iterable[Object]) -> None:
        """Take our gate, and no other, off the pods."""
        self.doing = "patch pods"
        for pod in gated:
            uid, path = pod["metadata"]["uid"], self.cluster.path("Pod", pod["metadata"]["name"])
            if uid not in self.opened:
                content = "application/strategic-merge-patch+json"
                self.cluster.json("PATCH", path, body=NO_GATE, content=content)
                self.opened.add(uid)

    def stop(self) -> None:
        """End all pods of the run: by way of their Jobs, so that no pod counts as failed."""
        words = str(condition(self.workload or {}, "Evicted").get("message") or "no quota")
        self.run.note("evicted", f"evicted by Kueue: {words}")
        self.hold(words)

    def hold(self, words: str | None) -> None:
        """Suspend the Jobs with these words, or start those again that were suspended so."""
        self.doing = "patch jobs"
        for job in self.view.jobs.values():
            chosen = not state.suspension(job) if words else state.is_held(job)
            if chosen and not state.job_is_over(job):
                suspend_job(self.cluster, job["metadata"]["name"], bool(words), words)

    def leave(self) -> None:
        """Give the quota back."""
        self.doing = f"delete {RESOURCE}"
        if self.queue is not None:
            self.active = (self.workload or {"spec": {}})["spec"].get("active", True)
            self.phase = "unknown"
            self.cluster.delete(self.path(self.queue))

    def end(self) -> None:
        """The run is over."""
        with contextlib.suppress(ApiError):
            if self.queue is not None and self.is_ours(self.queue, ()):
                self.leave()

    def refusal(self, error: ApiError) -> Problem | None:
        """What the API server does not let us do, by the right that is missing."""
        if error.status == 403 and self.doing:
            where = f"in namespace {self.cluster.namespace}"
            words = f"waits for Kueue, which needs the right to {self.doing} {where}"
            return Problem("forbidden", words, 0.0)
        if error.status in (400, 422):
            return Problem("refused", f"Kueue refuses the job: {error.message}", 0.0)
        return self.trouble  # what passes, and what another keeper was quicker with


def is_going(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]
