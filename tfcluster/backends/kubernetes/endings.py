"""How a pod ended, in words, and whether its task ended with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfcluster.backends.kubernetes.state import (
    condition,
    indexes,
    job_condition,
    seconds,
    terminated,
)
from tfcluster.events import is_usable
from tfcluster.launch import exits
from tfcluster.launch.exits import EXIT_DEADLINE, EXIT_KILLED, describe_exit
from tfcluster.launch.system import parse_object

Object = Mapping[str, Any]


def how_it_ended(pod: Object, task: str) -> dict[str, Any]:
    """The end of a pod's container: the launcher's own last word, or what the kubelet saw.

    Keys as in a launcher's record; `spoken` says whether the launcher could still say it.
    """
    end = terminated(pod) or {}
    ended = seconds(end.get("finishedAt"))
    record = parse_object((end.get("message") or "").encode()) or {}
    if record.get("task") == task and record.get("state"):
        kept = ("state", "kind", "reason", "exitCode", "restarts", "cause", "result", "progress")
        found = {key: record[key] for key in kept if record.get(key) is not None}
        if found["state"] == "stopped" and (words := disruption(pod)):
            # The launcher only knows that it was told to go.
            found["reason"] = words
        return {**found, "ended": when_ended(end, record.get("ended")), "spoken": True}
    code = end.get("exitCode")
    if code == 0:
        return {
            "state": "succeeded",
            "exitCode": 0,
            "kind": exits.FINISHED,
            "reason": "finished",
            "ended": ended,
            "spoken": False,
        }
    return {
        "state": "failed",
        "exitCode": 137 if code is None or code == EXIT_KILLED else code,
        "kind": exits.OUT_OF_MEMORY if end.get("reason") == "OOMKilled" else exits.LAUNCHER_KILLED,
        "reason": death(pod, end),
        "ended": ended,
        "spoken": False,
    }


def when_ended(end: Object, said: Any) -> float | None:
    """When a task ended. The kubelet counts whole seconds; its launcher knows better.

    A launcher may stay after the end of its task, so that is earlier, but within the pod's life.
    """
    begun, finished = seconds(end.get("startedAt")), seconds(end.get("finishedAt"))
    if finished is None or begun is None or not is_usable(said):
        return finished
    return float(min(max(said, begun), finished + 1))


def death(pod: Object, end: Object) -> str:
    """Why a pod ended whose launcher could not say it."""
    status = pod.get("status", {})
    limit = next(
        (
            (entry.get("resources") or {}).get("limits", {}).get("memory")
            for entry in pod.get("spec", {}).get("containers", [])
            if entry["name"] == "task"
        ),
        None,
    )
    if end.get("reason") == "OOMKilled":
        return (
            f"out of memory: killed at its limit{f' of {limit}' if limit else ''} (exit code 137)"
        )
    if disrupted := disruption(pod):
        return disrupted
    if status.get("reason") in ("Evicted", "NodeLost", "Preempting", "UnexpectedAdmissionError"):
        return f"{status['reason'].lower()}: {status.get('message', '')}".strip(": ")
    code = end.get("exitCode")
    if end.get("reason") in ("StartError", "ContainerCannotRun"):
        words = (end.get("message") or "").strip().splitlines()
        return f"its container cannot start: {words[0] if words else ''} (exit code {code})"
    if code is None:
        return f"its pod was lost: {status.get('message') or status.get('reason') or 'deleted'}"
    words = describe_exit(code)
    return f"its pod was {words}" if code > 128 else f"its launcher ended: {words}"


def disruption(pod: Object) -> str:
    """Who made the pod go, and why; nothing if it ended by itself."""
    evicted = condition(pod, "TerminationTarget")
    if evicted.get("status") == "True":
        return f"evicted by Kueue: {evicted.get('message', '')}".removesuffix(": ")
    disrupted = condition(pod, "DisruptionTarget")
    if disrupted.get("status") != "True":
        return ""
    node = pod.get("spec", {}).get("nodeName", "?")
    words = {
        "DeletionByTaintManager": f"node {node} became unusable",
        "DeletionByPodGC": f"node {node} was lost",
        "EvictionByEvictionAPI": f"evicted from node {node} (drained)",
        "PreemptionByScheduler": "preempted by a pod of higher priority",
        "TerminationByKubelet": f"evicted by node {node}",
    }
    said = words.get(disrupted.get("reason", ""), f"disrupted on node {node}")
    return f"{said}: {disrupted['message']}" if disrupted.get("message") else said


def cause_of(task: str, end: Object, ended: float, lines: Iterable[str]) -> dict[str, Any]:
    """The end of a task whose launcher could not say it, as launchers say it to each other."""
    return {
        "task": task,
        "kind": end.get("kind", exits.LAUNCHER_KILLED),
        "exitCode": end.get("exitCode"),
        "reason": end.get("reason", ""),
        "lines": list(lines),
        "time": ended,
    }


def is_final(end: Object) -> bool:
    """Whether the end of a pod is the end of its task, whatever the Job says.

    The launcher has decided so, or the exit code is not one that makes the Job try again.
    """
    code = int(end.get("exitCode") or 0)
    if end["state"] == "stopped":
        return code <= 128
    return bool(end["spoken"]) or code <= 128


def given_up(job: Object | None, index: int) -> bool:
    """Whether the Job controller makes no more pods for this index."""
    if job is None:
        return True
    status = job.get("status") or {}
    ended = job_condition(job, "Failed") or job_condition(job, "Complete")
    return bool(ended) or index in indexes(status.get("failedIndexes"))


def corrected(
    end: dict[str, Any], job: Object | None, index: int, deadline: float | None
) -> dict[str, Any]:
    """The end as the Job sees it: a launcher told to go does not know that no pod follows."""
    if job is None or end["state"] != "stopped" or end.get("exitCode", 0) <= 128:
        return end
    failed = job_condition(job, "Failed") or {}
    if failed.get("reason") == "DeadlineExceeded":
        words = f"the job's deadline of {deadline:g} s passed"
        return {
            **end,
            "state": "failed",
            "exitCode": EXIT_DEADLINE,
            "kind": exits.DEADLINE,
            "reason": words,
            "spoken": False,
        }
    if not given_up(job, index):
        return end
    words = f"its pod was deleted, and is not replaced ({end['reason']})"
    kind = exits.LAUNCHER_KILLED
    return {**end, "state": "failed", "kind": kind, "reason": words, "spoken": False}
