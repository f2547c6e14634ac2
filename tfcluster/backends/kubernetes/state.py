"""What pods, jobs and events say about a task, in words. Pure functions over the API's objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

INDEX = "batch.kubernetes.io/job-completion-index"
ROLE = "tfcluster.io/role"
EVICTED = "tfcluster.io/evicted"  # on a Job that is suspended because Kueue wants its quota back
OUTSIDE = ("queued", "suspended")  # kinds of waiting that may take any time
Object = Mapping[str, Any]


@dataclass(frozen=True)
class Problem:
    """Why a task does not start. `fatal` after so many seconds without change; None: it may yet."""

    # unschedulable, image, config, mount, quota, security, refused, unmanaged, forbidden, slow;
    # OUTSIDE
    kind: str
    message: str
    fatal_after: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def task_of(pod: Object) -> str | None:
    meta = pod["metadata"]
    index = (meta.get("annotations") or {}).get(INDEX)
    role = (meta.get("labels") or {}).get(ROLE)
    return f"{role}-{index}" if role and index is not None else None


def seconds(stamp: str | None) -> float | None:
    """A time of the API as seconds since the epoch."""
    if not stamp:
        return None
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    moment = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return moment.timestamp() + float(f"0.{fraction or 0}")


def container(pod: Object, name: str = "task") -> Object:
    """The status of the task's own container, as far as there is one."""
    for status in pod.get("status", {}).get("containerStatuses") or []:
        if status["name"] == name:
            return status  # type: ignore[no-any-return]
    return {}


def condition(pod: Object, kind: str) -> Object:
    for entry in pod.get("status", {}).get("conditions") or []:
        if entry["type"] == kind:
            return entry  # type: ignore[no-any-return]
    return {}


def has_started(pod: Object) -> bool:
    """Whether there is, or was, a container with a log."""
    return bool({"running", "terminated"} & set(container(pod).get("state", {})))


def terminated(pod: Object) -> Object | None:
    """How the container ended; None while it has not."""
    end: Object | None = container(pod).get("state", {}).get("terminated")
    return end


def facts(pod: Object) -> dict[str, Any]:
    """What is kept of a pod."""
    return {
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "node": pod.get("spec", {}).get("nodeName"),
    }


# -- Why a pod does not start ------------------------------------------------------------------


def pod_problem(pod: Object, events: Iterable[Object]) -> Problem:
    """What a pod that has not started is waiting for."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        words = scheduled.get("message") or scheduled.get("reason", "")
        return Problem("unschedulable", f"cannot be scheduled: {words}")
    waiting = container(pod).get("state", {}).get("waiting", {})
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"):
        return image_problem(pod, reason, message, events)
    if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
        return Problem("config", f"its container cannot be made: {message or reason}", 10.0)
    for event in reversed(list(events)):
        if event.get("reason") in ("FailedMount", "FailedAttachVolume"):
            return Problem("mount", event.get("message", ""), 60.0)
        if event.get("reason") in ("FailedCreatePodSandBox", "FailedResourceClaimCreation"):
            return Problem("config", event.get("message", ""))
    node = pod.get("spec", {}).get("nodeName")
    what = "its container is being made" if node else "waits for a node"
    return Problem("slow", f"{what}{f' on {node}' if node else ''}")


def image_problem(pod: Object, reason: str, message: str, events: Iterable[Object]) -> Problem:
    image = next(
        (entry["image"] for entry in pod["spec"]["containers"] if entry["name"] == "task"), "?"
    )
    words = message
    if reason == "ImagePullBackOff" and "rpc error" not in words:
        failed = [e.get("message", "") for e in events if e.get("reason") == "Failed"]
        words = next((text for text in reversed(failed) if image in text), message)
    if reason == "ErrImageNeverPull":
        return Problem("image", f'cannot pull "{image}": not present on the node', 0.0)
    if reason == "InvalidImageName":
        return Problem("image", f'"{image}" is not the name of an image: {words}', 0.0)
    return Problem("image", f'cannot pull "{image}": {pull_failure(words)}', 10.0)


def pull_failure(words: str) -> str:
    """The kubelet's message without the names of the functions it came through."""
    for pattern in (
        r"failed to do request: (.*)",
        r"failed to resolve reference \S+: (.*)",
        r"desc = (.*)",
    ):
        match = re.search(pattern, words)
        if match:
            return match[1].strip()
    return words or "the image cannot be pulled"


def create_problem(events: Iterable[Object]) -> Problem | None:
    """Why the Job controller could not even create pods, from the Job's events."""
    for event in reversed(list(events)):
        if event.get("reason") != "FailedCreate":
            continue
        words = event.get("message", "")
        words = words.removeprefix("Error creating: ")
        words = re.sub(r'^pods "[^"]*" is forbidden: ', "", words)
        if "exceeded quota" in words or "failed quota" in words:
            return Problem("quota", words, 5.0)
        if "violates PodSecurity" in words:
            return Problem("security", f"the namespace refuses the pod: {words}", 5.0)
        return Problem("refused", f"pods cannot be created: {words}", 15.0)
    return None


CLOCKS_DIFFER = 5.0  # seconds between a condition and the event that tells of it


def node_doubt(pod: Object, events: Iterable[Object]) -> str:
    """What is wrong with the node of a pod that is said to run; nothing if nothing is.

    A node that is lost can say nothing any more: its pods stay "Running" for minutes.
    """
    ready = condition(pod, "Ready")
    if ready.get("status") != "False":
        return ""
    since = seconds(ready.get("lastTransitionTime")) or 0.0
    for event in events:
        at = seconds(event.get("lastTimestamp") or event.get("eventTime")) or 0.0
        if event.get("reason") == "NodeNotReady" and at >= since - CLOCKS_DIFFER:
            return f"node {pod['spec'].get('nodeName')} does not answer; is it still running?"
    return ""


# -- Jobs --------------------------------------------------------------------------------------


def indexes(text: str | None) -> set[int]:
    """ "0,2-4" as Kubernetes writes sets of indexes."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return found


def job_condition(job: Object, kind: str) -> Object | None:
    for entry in (job.get("status") or {}).get("conditions") or []:
        if entry["type"] == kind and entry["status"] == "True":
            return entry  # type: ignore[no-any-return]
    return None


def job_is_over(job: Object) -> bool:
    return bool(job_condition(job, "Complete") or job_condition(job, "Failed"))


def is_held(job: Object) -> bool:
    """Whether a Job is suspended by the keeper, until its pods are gone and it may queue again."""
    noted = EVICTED in (job["metadata"].get("annotations") or {})
    return noted and bool(job["spec"].get("suspend"))


def suspension(job: Object | None) -> Problem | None:
    """Why a Job that is suspended has no pods; None if it is not suspended."""
    if job is None or not job_condition(job, "Suspended"):
        return None
    if is_held(job):
        words = job["metadata"]["annotations"][EVICTED]
        return Problem("queued", f"evicted by Kueue: {words}")
    return Problem("suspended", "suspended")


def event_text(event: Object) -> str:
    return " ".join(str(event.get("message", "")).split())
