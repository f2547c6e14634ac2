"""Speaks for launchers that cannot: tells pods how tasks ended, and deletes those that do not hear.

`jobend` decides what has to be said and who has to go; this carries it out in a cluster.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.jobend import Ends, JobWatch, ends_of
from tfcluster.backends.kubernetes import state
from tfcluster.backends.kubernetes.api import Cluster
from tfcluster.backends.kubernetes.exec import tell
from tfcluster.backends.kubernetes.logs import PodReader
from tfcluster.backends.kubernetes.view import View
from tfcluster.errors import TfclusterError
from tfcluster.plan import Plan

Object = dict[str, Any]


class Speaker:
    """One run's. Remembers who was told what."""

    def __init__(
        self,
        run: Run,
        plan: Plan,
        cluster: Cluster,
        view: View,
        readers: Mapping[str, PodReader],
    ):
        self.run, self.cluster, self.view, self.readers = run, cluster, view, readers
        required = [task for task in plan.task_names if task.rpartition("-")[0] in plan.success]
        self.job_watch = JobWatch(required, plan.stop_grace)
        self.told: set[str] = set()  # tasks of whose end the others were told
        self.briefed: set[str] = set()  # pods that know how other tasks ended
        self.deleted: set[str] = set()  # pods that did not hear that the job is over

    @property
    def ends(self) -> Ends:
        records = {task: reader.record for task, reader in self.readers.items()}
        return ends_of(records, self.job_watch.required)

    def look(self) -> None:
        """Speak for the dead; delete the pod of a launcher that does not hear of the end."""
        records = {task: reader.record for task, reader in self.readers.items()}
        duty = self.job_watch.look(records, time.monotonic())
        if duty.tell:
            self.speak(duty.ends, duty.tell)
        for task in duty.end:
            pod = self.running_pod(task)
            if pod is not None and pod["metadata"]["uid"] not in self.deleted:
                self.delete(task, pod)

    def delete(self, task: str, pod: Object) -> None:
        self.deleted.add(pod["metadata"]["uid"])
        self.run.note("warning", "its launcher does not hear that the job is over", task)
        with contextlib.suppress(TfclusterError):
            self.cluster.delete(self.cluster.path("Pod", pod["metadata"]["name"]))

    def by_rule(self, task: str, pod: Object, end: Object) -> Object:
        """How a task ended; if its pod was deleted here, by the job's rule and not by its death."""
        if pod["metadata"]["uid"] not in self.deleted or end["state"] == "succeeded":
            return end
        return {**self.ends.rule_for(task), "spoken": True}

    def announce(self, task: str, peers: Iterable[str]) -> None:
        """Say once that a task has failed whose launcher could not say it."""
        if task not in self.told:
            self.told.add(task)
            self.speak(self.ends, tuple(peers))

    def brief(self, pod: Object) -> None:
        """Tell a pod in the place of another how tasks ended: after a suspension, none may know.

        Only those: every command in a pod costs as much memory as its launcher, out of its limit.
        """
        if pod["metadata"]["uid"] not in self.briefed:
            self.briefed.add(pod["metadata"]["uid"])
            for message in self.ends.messages():
                self.tell(pod, message)

    def speak(self, ends: Ends, peers: Sequence[str]) -> None:
        """Tell one launcher that answers, and with it all, how tasks ended."""
        for peer in peers:
            pod = self.running_pod(peer)
            if pod is not None and all(self.tell(pod, message) for message in ends.messages()):
                return

    def running_pod(self, task: str) -> Object | None:
        pod = self.view.current_pod(task)
        if pod is None or not state.has_started(pod) or self.view.has_ended(pod):
            return None
        return pod

    def tell(self, pod: Object, message: Object) -> bool:
        try:
            role = pod["metadata"]["labels"][state.ROLE]
            tell(self.cluster, pod["metadata"]["name"], role, message)
            return True
        except TfclusterError as error:
            self.run.note("warning", f"could not be told: {error.message}")
            return False
