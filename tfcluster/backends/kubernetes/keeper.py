"""Watches over a run in a cluster: keeps its logs and states, with reasons, in its folder.

The cluster runs the job without it. What it adds is memory (logs of pods that are gone), words (why
a pod does not start) and a message to the others when a launcher was killed for good. It owns
nothing that is not on disk or in the cluster: a later keeper goes on where this one ended.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import time
from pathlib import Path
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.keeping import announce_keeper, sole_reader
from tfcluster.backends.kubernetes import endings, state
from tfcluster.backends.kubernetes.admission import Admission
from tfcluster.backends.kubernetes.api import Cluster
from tfcluster.backends.kubernetes.apply import suspend_job
from tfcluster.backends.kubernetes.connect import connect
from tfcluster.backends.kubernetes.logs import PodReader, Streams
from tfcluster.backends.kubernetes.output import Handovers
from tfcluster.backends.kubernetes.run import selector_of
from tfcluster.backends.kubernetes.speaker import Speaker
from tfcluster.backends.kubernetes.view import View
from tfcluster.backends.kubernetes.watch import Seen, Watcher
from tfcluster.backends.records import run_status
from tfcluster.errors import TfclusterError
from tfcluster.fetching import note_results
from tfcluster.launch import exits
from tfcluster.plan import Plan, stored_plan

LOOK_EVERY = 0.3
VERDICT = 2.0  # the Job says within this whether it replaces a pod
SILENCE = 30.0  # a trouble that lasts is noted once in so many seconds
Object = dict[str, Any]


class Keeper:
    """One run. The main thread decides; watchers only put what they see into `seen`."""

    def __init__(self, run: Run, plan: Plan, cluster: Cluster):
        self.run, self.plan, self.cluster = run, plan, cluster
        self.view = View(run)
        self.readers = {task: PodReader(run, task) for task in plan.task_names}
        self.seen: queue.SimpleQueue[tuple[str, Seen]] = queue.SimpleQueue()
        self.streams = Streams(cluster, self.view, self.readers)
        self.troubled = 0.0
        self.ended_since: dict[str, float] = {}
        self.doubts = dict.fromkeys(plan.task_names, "")  # about the nodes of running tasks
        self.admission = Admission(run, plan, cluster, self.view)
        self.handovers = Handovers(run, plan, cluster)
        self.speaker = Speaker(run, plan, cluster, self.view, self.readers)

    @property
    def open(self) -> list[str]:
        return [task for task, reader in self.readers.items() if not reader.over]

    def keep(self) -> None:
        """Until every task is over."""
        self.watch()
        announced = False
        while self.open:
            self.take_in(LOOK_EVERY)
            if self.view.complete:
                self.admission.look()
                for task in self.open:
                    self.look_at(task)
                self.end_what_waits()
                self.speaker.look()
                if not announced:
                    announce_keeper(self.run)
                    announced = True

    def watch(self) -> None:
        selector = selector_of(self.run)
        paths = {
            "pods": (self.cluster.path("Pod"), f"{selector},tfcluster.io/part=task"),
            "jobs": (self.cluster.path("Job", api="batch/v1"), selector),
            "events": (self.cluster.path("Event"), ""),
        }
        for name, (path, labels) in paths.items():
            Watcher(name, self.cluster, path, labels, lambda *seen: self.seen.put(seen)).start()

    def take_in(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while True:
            try:
                kind, seen = self.seen.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            if seen.error is None:
                self.view.take(kind, seen)
            elif time.monotonic() - self.troubled > SILENCE:
                self.troubled = time.monotonic()
                evidence = " ".join(line.strip() for line in seen.error.evidence)
                self.run.note("warning", f"{seen.error.message} {evidence}".strip())

    # -- Deciding

    def look_at(self, task: str) -> None:
        """What is true of a task now."""
        reader = self.readers[task]
        role, _, index = task.rpartition("-")
        job, pod = self.view.jobs.get(role), self.view.current_pod(task)
        if pod is None:
            self.without_pod(reader, job)
            return
        uid = pod["metadata"]["uid"]
        is_read = self.streams.read(task)
        if self.view.has_ended(pod):
            if is_read:
                self.after_end(task, pod, job, int(index))
        elif not state.has_started(pod):
            self.waits(reader, self.admission.problem(pod, job, self.view.events_of(pod)), pod)
        elif reader.final is not None:
            self.handovers.begin(task, pod)
        elif uid not in self.streams:
            reader.update(state="running", reason="", problem=None, pod=state.facts(pod))
        elif reader.record.get("problem") or (reader.record.get("pod") or {}).get("uid") != uid:
            reader.update(problem=None, pod=state.facts(pod))
        elif (doubt := state.node_doubt(pod, self.view.events_of(pod))) != self.doubts[task]:
            self.doubts[task] = doubt
            reader.update(reason=doubt)
            if doubt:
                self.run.note("warning", doubt, task)
        elif reader.is_replaced and reader.record.get("state") in ("running", "serving"):
            self.speaker.brief(pod)

    def without_pod(self, reader: PodReader, job: Object | None) -> None:
        if job is None:
            if "events" in self.view.synced:
                self.publish(reader, {"state": "stopped", "reason": "deleted from the cluster"})
            return
        if paused := state.suspension(job):
            self.waits(reader, paused, None)
            return
        failed = state.job_condition(job, "Failed")
        if failed:
            self.publish(reader, {"state": "failed", "reason": failed.get("message", "")})
            return
        problem = state.create_problem(self.view.events_of(job))
        self.waits(reader, problem or state.Problem("slow", ""), None)

    def after_end(self, task: str, pod: Object, job: Object | None, index: int) -> None:
        """The pod has ended and its log is read: the task is over, or another pod will come."""
        reader = self.readers[task]
        end = endings.how_it_ended(pod, task)
        end = endings.corrected(end, job, index, self.plan.deadline)
        if endings.is_final(end) or endings.given_up(job, index):
            if job is None and end["state"] == "failed" and not end["spoken"]:
                end = {"state": "stopped", "reason": "deleted from the cluster"}
            self.publish(reader, self.speaker.by_rule(task, pod, end))
            return
        uid = pod["metadata"]["uid"]
        if (paused := state.suspension(job)) and uid in self.view.gone:
            self.waits(reader, paused, None)
            return
        since = self.ended_since.setdefault(uid, time.monotonic())
        patient = time.monotonic() - since < VERDICT
        if reader.record.get("replacing") != uid and not patient:
            reason = end["reason"]
            self.run.note("restarting", f"{reason}; its pod is replaced", task)
            reader.update(
                state="starting",
                kind=exits.RESTARTING,
                reason=f"its pod is being replaced ({reason})",
                replacing=uid,
                problem=None,
            )
        reader.final = None

    def end_what_waits(self) -> None:
        """End the tasks that never got in, once the job has failed and nothing of it runs."""
        left = [self.readers[task] for task in self.open]
        kinds = [(reader.record.get("problem") or {}).get("kind") for reader in left]
        failed = [r.record for r in self.readers.values() if r.record.get("state") == "failed"]
        if not left or not failed or any(kind not in state.OUTSIDE for kind in kinds):
            return
        first = min(failed, key=lambda record: record.get("ended") or 0.0)["task"]
        for role in sorted({reader.task.rpartition("-")[0] for reader in left}):
            with contextlib.suppress(TfclusterError):
                suspend_job(self.cluster, f"{self.plan.job}-{role}", True)
        for reader, kind in zip(left, kinds, strict=True):
            was = "never admitted" if kind == "queued" else "suspended"
            words = f"{was}; stopped because {first} failed"
            self.publish(reader, {"state": "stopped", "reason": words})

    def waits(self, reader: PodReader, problem: state.Problem, pod: Object | None) -> None:
        """A task that has not started, and why."""
        known = reader.record.get("problem") or {}
        if known.get("message") == problem.message and reader.record.get("state") == "pending":
            return
        since = known.get("since") if known.get("kind") == problem.kind else None
        if known.get("kind") in state.OUTSIDE and problem.kind not in state.OUTSIDE:
            reader.update(admitted=time.time())  # from now on it has start_timeout
        if problem.kind not in ("slow", known.get("kind")):
            self.run.note("waiting", problem.message, reader.task)
        reader.update(
            state="pending",
            reason=problem.message,
            problem={**problem.to_dict(), "since": since or time.time()},
            pod=state.facts(pod) if pod else None,
        )

    def publish(self, reader: PodReader, end: dict[str, Any]) -> None:
        """The last word about a task."""
        said = reader.final or {}
        spoken = end.pop("spoken", False)
        reader.final = None
        ended = end.pop("ended", None) or said.get("ended") or time.time()
        final = {**end, "ended": ended, "problem": None}
        if end["state"] == "failed":
            final["cause"] = (
                end.get("cause")
                or said.get("cause")
                or endings.cause_of(reader.task, end, ended, reader.lines)
            )
        final.setdefault("exitCode", None)
        reader.update(**final)
        self.run.note(end["state"], end.get("reason", ""), reader.task)
        if end["state"] == "failed" and not spoken:
            self.speaker.announce(reader.task, self.open)

    def finish(self) -> None:
        self.admission.end()
        if (arrived := self.handovers.total()) is not None:
            note_results(self.run, arrived)
        records = {task: reader.record for task, reader in self.readers.items()}
        status = run_status(self.run, self.plan, records)
        self.run.note(status.state, "", data=status.result)
        for reader in self.readers.values():
            reader.close()
        self.run.settle(status)


def main(path: str) -> int:
    folder = Path(path)
    run = Run.at(folder)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    plan = stored_plan(run)
    if plan is None:
        return 2
    with sole_reader(run, wait=True):
        if run.final_status() is not None:
            return 0  # somebody ended the run before it was watched
        record = run.record
        cluster = connect(record.context, record.namespace)
        keeper = Keeper(run, plan, cluster)
        keeper.keep()
        if not run.files.is_ending:
            keeper.finish()
    return 0
