"""What tasks in pods have written: read by their launchers, while the pods are there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfcluster.archive import Run
from tfcluster.backends.kubernetes.api import Cluster
from tfcluster.backends.kubernetes.exec import LAUNCHER, STDOUT, Session
from tfcluster.errors import TfclusterError
from tfcluster.fetching import Fetched, Output, Wanted, receive, results_folder, wanted_by

if TYPE_CHECKING:
    from tfcluster.plan import Plan, ResultsPlan


def pod_output(cluster: Cluster, pod: str, task: str, wanted: Wanted) -> Output:
    """The files of the task in this pod."""
    return Output(pieces(cluster, pod, task.rpartition("-")[0], wanted))


def pieces(cluster: Cluster, pod: str, role: str, wanted: Wanted) -> Iterator[bytes]:
    argv = [*LAUNCHER, f"--role={role}", f"--limit={wanted.limit}", "--send", *wanted.files]
    session = Session(cluster, pod, argv)
    said = b""
    for channel, data in session.messages():
        if channel == STDOUT:
            yield data
        else:
            said += data
    if session.exit_code() != 0:
        lines = said.decode("utf-8", "replace").splitlines()[-3:]
        raise TfclusterError(f"{pod} did not send its files", evidence=[f"  {li}" for li in lines])


def let_go(cluster: Cluster, pod: str, task: str) -> None:
    """Tell the launcher of a pod that its files have arrived, so that it need not wait."""
    argv = [*LAUNCHER, f"--role={task.rpartition('-')[0]}", "--fetched"]
    Session(cluster, pod, argv).collect()


class Handovers:
    """Fetches what ended tasks have written before their pods go, each in a thread of its own."""

    def __init__(self, run: Run, plan: Plan, cluster: Cluster):
        self.run, self.cluster, self.wanted = run, cluster, plan.results
        self.threads: dict[str, threading.Thread] = {}  # by the pod's uid
        self.arrived: list[Fetched] = []

    def begin(self, task: str, pod: dict[str, Any]) -> None:
        """The task has ended and its pod is still there; may be called again."""
        uid = pod["metadata"]["uid"]
        if self.wanted is None or uid in self.threads:
            return
        arguments = (task, pod["metadata"]["name"], self.wanted)
        self.threads[uid] = threading.Thread(target=self.fetch, args=arguments, daemon=True)
        self.threads[uid].start()

    def fetch(self, task: str, pod: str, results: ResultsPlan) -> None:
        wanted = wanted_by(results)
        folder = results_folder(self.run, results.to) / task
        try:
            output = pod_output(self.cluster, pod, task, wanted)
            self.arrived.append(receive(output, folder, wanted))
            let_go(self.cluster, pod, task)
        except TfclusterError as error:
            # A pod that has nothing to hand over does not wait, and may be gone already.
            self.run.note("results", f"nothing was fetched: {error.message}", task)

    def total(self) -> Fetched | None:
        """All that has arrived, once the last has; None if nothing was asked for."""
        if self.wanted is None:
            return None
        for thread in self.threads.values():
            thread.join()
        total = Fetched(str(results_folder(self.run, self.wanted.to)))
        for one in self.arrived:
            total = total.plus(one)
        return total
