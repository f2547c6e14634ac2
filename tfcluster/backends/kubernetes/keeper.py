"""Watches over a run in a cluster: keeps its logs and states, with reasons, in its folder.

The cluster runs the job without it. What it adds is memory (logs of pods that are gone), words (why
a pod does not start) and a message to the others when a launcher was killed for good. It owns
nothing that is not on disk or in the cluster: a later keeper goes on where this one ended.
"""

from __future__ import annotations

import queue
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.keeping import announce_keeper, sole_reader
from tfcluster.backends.kubernetes import state
from tfcluster.backends.kubernetes.api import Cluster
from tfcluster.backends.kubernetes.connect import connect
from tfcluster.backends.kubernetes.exec import tell
from tfcluster.backends.kubernetes.logs import Follower, PodReader
from tfcluster.backends.kubernetes.run import selector_of
from tfcluster.backends.kubernetes.view import View
from tfcluster.backends.kubernetes.watch import Seen, Watcher
from tfcluster.backends.records import run_status
from tfcluster.errors import TfclusterError
from tfcluster.launch.exits import EXIT_DEADLINE
from tfcluster.plan import Plan, stored_plan

MOST_STREAMS = 100  # tasks beyond that are read when they have ended
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
        self.followers: dict[str, Follower] = {}  # by uid of the pod
        self.troubled = 0.0
        self.told: set[str] = set()  # tasks of whose end the others were told
        self.ended_since: dict[str, float] = {}
        self.doubts = dict.fromkeys(plan.task_names, "")  # about the nodes of running tasks
        self.briefed: set[str] = set()  # pods that know which tasks have succeeded

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
                for task in self.open:
                    self.look_at(task)
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
        is_read = self.read_logs(task, pod)
        if self.view.has_ended(pod):
            if is_read:
                self.after_end(task, pod, job, int(index))
        elif not state.has_started(pod):
            self.waits(reader, state.pod_problem(pod, self.view.events_of(pod)), pod)
        elif uid not in self.followers:
            reader.update(state="running", reason="", problem=None, pod=state.facts(pod))
        elif reader.record.get("problem") or (reader.record.get("pod") or {}).get("uid") != uid:
            reader.update(problem=None, pod=state.facts(pod))
        elif (doubt := state.node_doubt(pod, self.view.events_of(pod))) != self.doubts[task]:
            self.doubts[task] = doubt
            reader.update(reason=doubt)
            if doubt:
                self.run.note("warning", doubt, task)
        elif uid not in self.briefed and reader.record.get("state") in ("running", "serving"):
            self.brief(pod)

    def read_logs(self, task: str, current: Object) -> bool:
        """Read the logs of the task's pods, one after the other; whether all are read."""
        reader = self.readers[task]
        read = reader.record.get("read", [])
        for pod in self.view.pods_of(task):
            uid = pod["metadata"]["uid"]
            if uid in read or not state.has_started(pod):
                continue
            if uid not in self.followers:
                if self.is_busy() and not self.view.has_ended(pod):
                    return False
                self.followers[uid] = self.follow(task, pod)
            if not self.followers[uid].drained:
                return False
            reader.update(read=[*read, uid])
            read = reader.record["read"]
        return True

    def is_busy(self) -> bool:
        return sum(not follower.drained for follower in self.followers.values()) >= MOST_STREAMS

    def follow(self, task: str, pod: Object) -> Follower:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        follower = Follower(
            self.cluster,
            self.readers[task],
            name,
            uid,
            ended=lambda: self.view.ended_now(task, uid),
        )
        follower.start()
        return follower

    def without_pod(self, reader: PodReader, job: Object | None) -> None:
        if job is None:
            if "events" in self.view.synced:
                self.publish(reader, {"state": "stopped", "reason": "deleted from the cluster"})
            return
        if state.job_condition(job, "Suspended"):
            self.waits(reader, state.Problem("suspended", "suspended"), None)
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
        end = self.corrected(state.how_it_ended(pod, task), job, index)
        if state.is_final(end) or state.given_up(job, index):
            if job is None and end["state"] == "failed" and not end["spoken"]:
                end = {"state": "stopped", "reason": "deleted from the cluster"}
            self.publish(reader, end)
            return
        suspended = state.job_condition(job or {}, "Suspended")
        if suspended and pod["metadata"]["uid"] in self.view.gone:
            self.waits(reader, state.Problem("suspended", "suspended"), None)
            return
        uid = pod["metadata"]["uid"]
        since = self.ended_since.setdefault(uid, time.monotonic())
        patient = time.monotonic() - since < VERDICT
        if reader.record.get("replacing") != uid and not patient:
            reason = end["reason"]
            self.run.note("restarting", f"{reason}; its pod is replaced", task)
            reader.update(
                state="starting",
                reason=f"its pod is being replaced ({reason})",
                replacing=uid,
                problem=None,
            )
        reader.final = None

    def corrected(self, end: Object, job: Object | None, index: int) -> Object:
        """A launcher that was told to go cannot know that nobody takes its place."""
        if job is None or end["state"] != "stopped" or end.get("exitCode", 0) <= 128:
            return end
        failed = state.job_condition(job, "Failed") or {}
        if failed.get("reason") == "DeadlineExceeded":
            words = f"the job's deadline of {self.plan.deadline:g} s passed"
            return {
                **end,
                "state": "failed",
                "exitCode": EXIT_DEADLINE,
                "reason": words,
                "spoken": False,
            }
        if not state.given_up(job, index):
            return end
        words = f"its pod was deleted, and is not replaced ({end['reason']})"
        return {**end, "state": "failed", "reason": words, "spoken": False}

    def waits(self, reader: PodReader, problem: state.Problem, pod: Object | None) -> None:
        """A task that has not started, and why."""
        known = reader.record.get("problem") or {}
        if known.get("message") == problem.message and reader.record.get("state") == "pending":
            return
        since = known.get("since") if known.get("kind") == problem.kind else None
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
            final["cause"] = end.get("cause") or said.get("cause") or self.cause(reader, end, ended)
        final.setdefault("exitCode", None)
        reader.update(**final)
        self.run.note(end["state"], end.get("reason", ""), reader.task)
        if end["state"] == "failed" and not spoken and reader.task not in self.told:
            self.tell_peers(reader.task, final["cause"])

    def cause(self, reader: PodReader, end: dict[str, Any], ended: float) -> dict[str, Any]:
        return {
            "task": reader.task,
            "exitCode": end.get("exitCode"),
            "reason": end.get("reason", ""),
            "lines": list(reader.lines),
            "time": ended,
        }

    def brief(self, pod: Object) -> None:
        """Tell a new pod who has finished: after a suspension, nobody else might know."""
        self.briefed.add(pod["metadata"]["uid"])
        finals = {
            task: {"exitCode": 0, "time": reader.record.get("ended")}
            for task, reader in self.readers.items()
            if reader.record.get("state") == "succeeded"
        }
        if finals:
            self.tell(pod, {"tell": "finished", "finals": finals})

    def tell_peers(self, task: str, cause: dict[str, Any]) -> None:
        """Say for a launcher that was killed what it can no longer say itself."""
        self.told.add(task)
        pods = [self.view.current_pod(peer) for peer in self.open if peer != task]
        running = [pod for pod in pods if pod and not self.view.has_ended(pod)]
        if not running:
            return
        with ThreadPoolExecutor(8) as pool:
            message = {"tell": "failed", "cause": cause}
            list(pool.map(lambda pod: self.tell(pod, message), running))

    def tell(self, pod: Object, message: dict[str, Any]) -> None:
        try:
            role = pod["metadata"]["labels"][state.ROLE]
            tell(self.cluster, pod["metadata"]["name"], role, message)
        except TfclusterError as error:
            self.run.note("warning", f"could not be told: {error.message}")

    def finish(self) -> None:
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
