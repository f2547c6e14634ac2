"""What belongs to a run in a cluster: its plan, its labels, its manifests, its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tfcluster.archive import Run, read_json
from tfcluster.backends.docker_status import job_status
from tfcluster.backends.kube_state import hint_for
from tfcluster.errors import MissingError, TfclusterError, WaitTimeout
from tfcluster.events import JobStatus
from tfcluster.plan import Plan


def plan_of(run: Run) -> Plan | None:
    data = read_json(run.path / "plan.json")
    return Plan.from_dict(data) if data else None


def selector_of(run: Run) -> str:
    return f"tfcluster.io/job={run.job},tfcluster.io/run={run.id}"


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of a rendered text."""
    from ruamel.yaml import YAML

    return list(YAML(typ="safe").load_all(text))


def records_of(run: Run, plan: Plan) -> dict[str, dict[str, Any]]:
    return {task: read_json(run.path / "tasks" / f"{task}.json") or {} for task in plan.task_names}


def status_from(run: Run, plan: Plan, records: Mapping[str, Mapping[str, Any]]) -> JobStatus:
    return replace(job_status(run, plan, records, {}), backend="kubernetes")


def obstacle(
    run: Run, plan: Plan, task: str, problem: dict[str, Any], fatal: bool
) -> TfclusterError:
    """A task's problem as the error that ends `up`."""
    hint = hint_for(problem, run.record.get("context", ""))
    gone_on = "the job is still there: tfcluster status; end it: tfcluster down"
    if fatal:
        return MissingError(f"{task} {problem['message']}", evidence=[f"  {gone_on}"], hint=hint)
    return WaitTimeout(
        f"{task} has not started within {plan.start_timeout:g} s: {problem['message']}",
        evidence=[f"  {gone_on}"],
        hint=hint,
    )
