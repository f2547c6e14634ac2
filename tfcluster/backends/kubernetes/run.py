"""What belongs to a run in a cluster: its plan, its labels, its manifests, what it waits for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.kubernetes.state import OUTSIDE
from tfcluster.errors import MissingError, TfclusterError, WaitTimeout
from tfcluster.images import REPOSITORY
from tfcluster.plan import Plan


def selector_of(run: Run) -> str:
    return f"tfcluster.io/job={run.job},tfcluster.io/run={run.id}"


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of a rendered text."""
    from ruamel.yaml import YAML

    return list(YAML(typ="safe").load_all(text))


def obstacle_of(
    run: Run, plan: Plan, task: str, record: Mapping[str, Any]
) -> TfclusterError | None:
    """Why a task will not start by waiting longer; None if it may, or need not hurry."""
    problem = record.get("problem")
    if record.get("state") != "pending" or not problem or problem["kind"] in OUTSIDE:
        return None
    now = time.time()
    begun = max(run.record.applied or now, record.get("admitted") or 0.0)
    limit = problem["fatal_after"]
    fatal = limit is not None and now - problem["since"] >= limit
    late = now - begun > plan.start_timeout
    return obstacle(run, plan, task, problem, fatal) if fatal or late else None


def is_slow(record: Mapping[str, Any]) -> bool:
    """Whether nothing is known to be wrong with a task that has not started."""
    return (record.get("problem") or {}).get("kind") == "slow"


def obstacle(
    run: Run, plan: Plan, task: str, problem: dict[str, Any], fatal: bool
) -> TfclusterError:
    """A task's problem as the error that ends `up`."""
    hint = hint_for(problem, run.record.context or "")
    gone_on = "the job is still there: tfcluster status; end it: tfcluster down"
    if fatal:
        return MissingError(f"{task} {problem['message']}", evidence=[f"  {gone_on}"], hint=hint)
    return WaitTimeout(
        f"{task} has not started within {plan.start_timeout:g} s: {problem['message']}",
        evidence=[f"  {gone_on}"],
        hint=hint,
    )


HINTS = {
    "image": "is the name right, and may the cluster pull it? (image, image_pull.secrets)",
    "quota": "ask for less (cpu, memory, gpus, replicas), or have the quota raised",
    "security": "see kubernetes.pod_template: what was added there is not allowed here",
    "unschedulable": "what would fit: tfcluster fit",
    "config": "does every secret and config map in the spec exist in this namespace?",
    "mount": "does every claim, secret and config map in the spec exist in this namespace?",
    "refused": "see: tfcluster events",
    "slow": "see: tfcluster events",
    "unmanaged": "have Kueue installed, or leave kubernetes.queue out",
    "forbidden": "the rights for a queue: tfcluster rbac --queue | kubectl apply -f -",
}


def hint_for(problem: Mapping[str, Any], context: str) -> str:
    """What to do about a problem."""
    if problem["kind"] == "image" and context.startswith("kind-"):
        name = context.removeprefix("kind-")
        if f'"{REPOSITORY}:' in problem["message"]:
            return f"kind nodes do not share your images. Run: tfcluster build --load {name}"
        return (
            "is the name right? kind nodes do not share your images; one that is only here: "
            f"kind load docker-image IMAGE --name {name}"
        )
    return HINTS[problem["kind"]]
