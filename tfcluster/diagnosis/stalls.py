"""A job that has not ended: what it waits for, and which task keeps the others waiting."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

from tfcluster.diagnosis.evidence import Evidence
from tfcluster.diagnosis.verdict import NOTHING, Verdict, fold
from tfcluster.events import is_usable
from tfcluster.tables import clock, problem, reason_text, stalled

STILL_WAITING = re.compile(
    r"CreateSession still waiting for response from worker: /job:(\w+)/replica:\d+/task:(\d+)"
)
# Why a pod does not start -> what to do about it.
PENDING_ADVICE = {
    "unschedulable": ("tfcluster fit says what the cluster has room for",),
    "image": ("check the name of the image; kind nodes need: tfcluster build --load",),
    "quota": ("ask for less, or have the namespace's quota raised: kubectl describe quota",),
    "security": ("let the spec follow the namespace's pod security level",),
    "mount": ("check that the claim, secret or config map is there and bound",),
    "config": ("kubectl describe pod shows what the kubelet wants",),
    "refused": ("kubectl describe job shows what refuses the pods",),
    "queued": ("it starts by itself when the queue has room",),
    "suspended": ("tfcluster resume starts it again",),
}


def diagnose_stall(evidence: Evidence, now: float | None = None) -> Verdict:
    """The verdict on a job that runs or is about to."""
    moment = time.time() if now is None else now
    found = next((verdict for find in FINDERS if (verdict := find(evidence, moment))), None)
    if found is None:
        return Verdict(NOTHING, "nothing is wrong that tfcluster can see", certain=False)
    rest = [
        (task.task, reason_text(task, moment) or task.state)
        for task in evidence.status.tasks
        if task.task != found.task and not task.over
    ]
    return replace(found, followed=fold(rest))


def find_pending(evidence: Evidence, now: float) -> Verdict | None:
    """A task that cannot start, in the words of whoever should start it."""
    for task, told in evidence.problems.items():
        seen = evidence.task(task)
        if seen is None or seen.state not in ("pending", "starting"):
            continue
        advice = PENDING_ADVICE.get(told.kind, ())
        return Verdict(
            told.kind,
            f"{task} does not start: {told.message}",
            task=task,
            evidence=(told.message,),
            advice=advice,
            certain=told.kind != "slow",
        )
    return None


def find_stopped(evidence: Evidence, now: float) -> Verdict | None:
    """A task whose program was stopped, or that does not answer at all."""
    for task in evidence.status.tasks:
        doing = evidence.doing.get(task.task, {})
        if task.over:
            continue
        if doing.get("stopped"):
            return Verdict(
                "stopped-peer",
                f"{task.task} is stopped (SIGSTOP): it does nothing until it is continued",
                task=task.task,
                time=since if is_usable(since := doing["stopped"]) else None,
                advice=(f"continue it: kill -CONT {task.pid}", f"tfcluster restart {task.task}"),
            )
    for task in evidence.status.tasks:
        if not task.over and task.silent_since is not None:
            return Verdict(
                "silent-peer",
                f"{task.task} has not answered for {clock(now - task.silent_since)}:"
                " it is stopped, paused or cut off",
                task=task.task,
                time=task.silent_since,
                advice=(f"tfcluster restart {task.task}", f"tfcluster logs {task.task}"),
                certain=False,
            )
    return None


def find_finished_peer(evidence: Evidence, now: float) -> Verdict | None:
    """A program that waits for the session of a task that has ended already."""
    for task in evidence.status.tasks:
        if task.over:
            continue
        for text in reversed(evidence.texts(task.task)[-20:]):
            match = STILL_WAITING.search(text)
            peer = f"{match[1]}-{match[2]}" if match else ""
            seen = evidence.task(peer)
            if seen is not None and seen.over:
                return Verdict(
                    "finished-peer",
                    f"{task.task} waits for {peer}, which has {seen.state} already",
                    task=peer,
                    evidence=(text,),
                    advice=(
                        "give the session device filters, so that a worker needs only the ps and"
                        " itself: tf.compat.v1.ConfigProto(device_filters=['/job:ps',"
                        f" '/job:{task.role}/task:{task.index}'])",
                    ),
                )
    return None


def find_waiting(evidence: Evidence, now: float) -> Verdict | None:
    """Of the tasks that wait for each other, the one that waits for none."""
    waits = {
        task.task: peers
        for task in evidence.status.tasks
        if not task.over and (peers := tuple(evidence.doing.get(task.task, {}).get("waitsFor", ())))
    }
    if not waits:
        return None
    waiting = next(iter(waits))
    blamed, passed = waits[waiting][0], {waiting}
    while blamed in waits and blamed not in passed:
        passed.add(blamed)
        blamed = waits[blamed][0]
    other = evidence.task(blamed)
    state = f" ({other.state})" if other else ""
    return Verdict(
        "waiting",
        f"{waiting} waits for {blamed}{state}",
        task=blamed,
        evidence=fold((task, f"waits for {', '.join(peers[:4])}") for task, peers in waits.items()),
        advice=(f"tfcluster logs {blamed}",),
    )


def find_standing_still(evidence: Evidence, now: float) -> Verdict | None:
    """Tasks that run and report no progress, the one longest without it first."""
    still = [(stalled(task, now), task) for task in evidence.status.tasks]
    longest = max(still, key=lambda pair: pair[0], default=(0.0, None))
    length, task = longest
    if not length or task is None:
        return None
    return Verdict(
        "no-progress",
        f"{task.task} has made no progress for {clock(length)}",
        task=task.task,
        time=task.progressed,
        evidence=tuple(evidence.texts(task.task)[-3:]),
        advice=(f"tfcluster logs {task.task}", f"tfcluster restart {task.task}"),
        certain=False,
    )


def find_problem(evidence: Evidence, now: float) -> Verdict | None:
    """A task that goes on and says what is wrong."""
    for task in evidence.status.tasks:
        if words := problem(task):
            return Verdict(
                "problem",
                f"{task.task} goes on, but reports: {words}",
                task=task.task,
                evidence=tuple(evidence.texts(task.task)[-3:]),
                advice=(f"tfcluster logs {task.task}",),
            )
    return None


FINDERS: tuple[Callable[[Evidence, float], Verdict | None], ...] = (
    find_pending,
    find_stopped,
    find_finished_peer,
    find_waiting,
    find_standing_still,
    find_problem,
)
