"""What the watches have shown so far of one run: its pods, its Jobs, the events about them."""

from __future__ import annotations

import time
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.kubernetes import state
from tfcluster.backends.kubernetes.watch import Seen

Object = dict[str, Any]
PULLS = ("Pulling", "Pulled")  # what the kubelet calls the beginning and the end of a pull


def is_kept(event: Object) -> bool:
    """Whether an event is worth a line in the run's own: trouble, and what takes long."""
    return event.get("type") == "Warning" or event.get("reason") in PULLS


class View:
    """Takes in what watches report; pods that are gone are remembered as they were last."""

    def __init__(self, run: Run):
        self.run = run
        self.begun = time.time()
        self.pods: dict[str, dict[str, Object]] = {}  # by task, then uid
        self.gone: set[str] = set()
        self.jobs: dict[str, Object] = {}  # by role
        self.events: dict[str, list[Object]] = {}  # by name of the object they are about
        self.synced: set[str] = set()

    @property
    def complete(self) -> bool:
        return {"pods", "jobs"} <= self.synced

    def take(self, kind: str, seen: Seen) -> None:
        self.synced.add(kind)
        {"pods": self.take_pods, "jobs": self.take_jobs, "events": self.take_events}[kind](seen)

    def take_pods(self, seen: Seen) -> None:
        found = {pod["metadata"]["uid"] for pod in seen.objects}
        if seen.kind == "all":
            known = {uid for pods in self.pods.values() for uid in pods}
            self.gone |= known - found
        if seen.kind == "deleted":
            self.gone |= found
        for pod in seen.objects:
            task = state.task_of(pod)
            if task is not None:
                self.pods.setdefault(task, {})[pod["metadata"]["uid"]] = pod

    def take_jobs(self, seen: Seen) -> None:
        found = {job["metadata"]["labels"][state.ROLE]: job for job in seen.objects}
        if seen.kind == "all":
            self.jobs = found
        elif seen.kind == "deleted":
            for role in found:
                self.jobs.pop(role, None)
        else:
            self.jobs.update(found)

    def take_events(self, seen: Seen) -> None:
        for event in seen.objects if seen.kind != "deleted" else ():
            name = event["involvedObject"].get("name", "")
            if name.startswith(f"{self.run.job}-") and self.is_recent(event):
                known = self.events.setdefault(name, [])
                uids = {old["metadata"]["uid"] for old in known}
                if is_kept(event) and event["metadata"]["uid"] not in uids:
                    task = self.task_named(name)
                    self.run.note(event.get("reason", ""), state.event_text(event), task)
                known.append(event)
                del known[:-20]

    def is_recent(self, event: Object) -> bool:
        """Whether it is of this run and not of one before with the same name."""
        stamp = event.get("lastTimestamp") or event.get("eventTime") or ""
        when = state.seconds(stamp) or self.begun
        return bool(when >= self.run.record.created - 1.0)

    def task_named(self, pod: str) -> str | None:
        """The task of a pod, from its name: <job>-worker-1-x2f4k."""
        task, _, _ = pod.removeprefix(f"{self.run.job}-").rpartition("-")
        return task if task.rpartition("-")[2].isdigit() else None

    def pods_of(self, task: str) -> list[Object]:
        """The task's pods, oldest first."""
        found = self.pods.get(task, {}).values()
        return sorted(
            found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])
        )

    def current_pod(self, task: str) -> Object | None:
        """The task's newest pod; a gone one counts only while there is no other."""
        pods = self.pods_of(task)
        there = [pod for pod in pods if pod["metadata"]["uid"] not in self.gone]
        chosen = there or pods
        return chosen[-1] if chosen else None

    def events_of(self, thing: Object) -> list[Object]:
        return self.events.get(thing["metadata"]["name"], [])

    def has_ended(self, pod: Object) -> bool:
        if pod["metadata"]["uid"] in self.gone or state.terminated(pod) is not None:
            return True
        return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")

    def ended_now(self, task: str, uid: str) -> bool:
        return self.has_ended(self.pods[task][uid])
