"""What belongs to a run in a cluster: its plan, its labels, its manifests, what it waits for."""

from __future__ import annotations

from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.kubernetes.state import hint_for
from tfcluster.errors import MissingError, TfclusterError, WaitTimeout
from tfcluster.plan import Plan


def selector_of(run: Run) -> str:
    return f"tfcluster.io/job={run.job},tfcluster.io/run={run.id}"


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of a rendered text."""
    from ruamel.yaml import YAML

    return list(YAML(typ="safe").load_all(text))


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
