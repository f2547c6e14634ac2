"""What is true of a run on Docker, from the records that its log streams left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tfcluster.archive import Run, read_json
from tfcluster.backends.docker_containers import LABEL
from tfcluster.backends.docker_engines import Engine, translated
from tfcluster.backends.docker_site import listed
from tfcluster.events import Cause, JobStatus, Observed, Progress, job_state
from tfcluster.launcher import describe_exit
from tfcluster.plan import Plan

MIB = 1 << 20


def read_records(run: Run, plan: Plan) -> dict[str, dict[str, Any]]:
    return {task: read_json(run.path / "tasks" / f"{task}.json") or {} for task in plan.task_names}


def observed(plan: Plan, task: str, record: Mapping[str, Any]) -> Observed:
    role, _, index = task.rpartition("-")
    return Observed(
        task=task,
        role=role,
        index=int(index),
        state=record.get("state", "pending"),
        reason=record.get("reason", ""),
        exit_code=record.get("exitCode"),
        restarts=record.get("restarts", 0),
        address=plan.role(role).addresses[int(index)],
        progress=Progress.from_dict(record["progress"]) if record.get("progress") else None,
        pid=(record.get("program") or {}).get("pid"),
        started=record.get("started"),
        ended=record.get("ended"),
    )


def job_status(
    run: Run, plan: Plan, records: Mapping[str, Mapping[str, Any]], lost: Mapping[str, str]
) -> JobStatus:
    """The job from its tasks' records; `lost` says of tasks why nobody will bring them back."""
    tasks = tuple(
        replace(seen, state="stopped", reason=lost[task])
        if task in lost and not seen.over
        else seen
        for task, record in records.items()
        for seen in [observed(plan, task, record)]
    )
    causes = [r["cause"] for r in records.values() if r.get("state") == "failed" and r.get("cause")]
    ended = [task.ended for task in tasks if task.ended is not None]
    return JobStatus(
        job=run.job,
        run=run.id,
        backend="docker",
        state=job_state(tasks),
        tasks=tasks,
        result=next((r["result"] for r in records.values() if r.get("result")), None),
        cause=Cause.from_dict(min(causes, key=lambda cause: cause["time"])) if causes else None,
        started=run.record.get("created"),
        ended=max(ended) if len(ended) == len(tasks) else None,
    )


def containers_of(engine: Engine, run: Run) -> dict[str, dict[str, Any]]:
    """The run's containers on an engine, by task."""
    found = listed(engine, run.job, run.id)
    return {
        item["Labels"][f"{LABEL}.task"]: item for item in found if f"{LABEL}.task" in item["Labels"]
    }


def death_of(engine: Engine, container: Mapping[str, Any] | None) -> tuple[int, str]:
    """How a container ended whose launcher could not say it: exit code and words."""
    if container is None:
        return 137, "its container was removed"
    with translated(engine):
        details = engine.api.inspect_container(container["Id"])
    state = details["State"]
    code = int(state["ExitCode"])
    limit = details["HostConfig"].get("Memory") or 0
    if state.get("OOMKilled"):
        allowed = f", limit {limit // MIB} MiB" if limit else ""
        return 137, f"out of memory: the container was killed (exit code 137{allowed})"
    if state.get("Error"):
        return code, str(state["Error"])
    if code == 127:
        return code, "the image has no Python 3.8 or later for the launcher (exit code 127)"
    words = describe_exit(code)
    return code, f"its container was {words}" if code > 128 else f"its launcher ended: {words}"
