"""Finished runs in the archive, without having run anything."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfcluster.archive import Run, create_run
from tfcluster.events import Cause, JobStatus, Observed, Progress, job_state
from tfcluster.plan import Plan, Resources, RolePlan
from tfcluster.results import Results

START = 1769860800.0


def role(name: str, replicas: int) -> RolePlan:
    return RolePlan(
        role=name,
        replicas=replicas,
        argv=("python3", "train.py"),
        env={"GREETING": "hello", "API_TOKEN": "hunter2"},
        env_files=(),
        workdir=None,
        restarts=3,
        restart_on=None,
        needs=(),
        serves=name == "ps",
        listens=name == "ps",
        resources=Resources(),
        addresses=tuple(f"127.0.0.1:{20000 + index}" for index in range(replicas)),
        control=tuple(f"127.0.0.1:{21000 + index}" for index in range(replicas)),
        digest="d",
    )


def plan(job: str = "mnist", **roles: int) -> Plan:
    return Plan(
        job=job,
        backend="local",
        strategy="between-graph",
        success=("worker",),
        start_timeout=60,
        deadline=None,
        stop_grace=10,
        barrier="tasks",
        cluster_roles=tuple(roles),
        roles=tuple(role(name, replicas) for name, replicas in roles.items()),
    )


def tasks(**states: str) -> tuple[Observed, ...]:
    """`tasks(ps_0="serving", worker_1="failed")`."""
    found = []
    for name, state in states.items():
        role_name, index = name.split("_")
        progress = Progress(step=640, total=1200, rate=412.4, loss=0.2914)
        found.append(
            Observed(
                task=f"{role_name}-{index}",
                role=role_name,
                index=int(index),
                state=state,
                exit_code={"succeeded": 0, "failed": 137}.get(state),
                address=f"127.0.0.1:2000{index}",
                progress=progress if role_name == "worker" else None,
            )
        )
    return tuple(found)


SUCCESS = tasks(ps_0="succeeded", worker_0="succeeded", worker_1="succeeded")


def write_run(
    job: str = "mnist",
    *,
    observed: tuple[Observed, ...] = SUCCESS,
    cause: Cause | None = None,
    result: dict[str, Any] | None = None,
    logs: dict[str, list[str]] | None = None,
    spec: Path | None = None,
    folder: Path | None = None,
    results: tuple[Results, ...] = (),
    settings: str = "",
    variables: dict[str, str] | None = None,
    overrides: tuple[str, ...] = (),
) -> Run:
    """A run that has ended, with everything that is left of it."""
    source = spec.read_text() if spec else ""
    run = create_run(
        job,
        backend="local",
        folder=folder or Path.cwd(),
        base=folder or Path.cwd(),
        spec=spec,
        source=source,
        variables=variables or {},
        overrides=overrides,
    )
    run.files.write_spec(settings)
    counts: dict[str, int] = {}
    for task in observed:
        counts[task.role] = counts.get(task.role, 0) + 1
    (run.path / "plan.json").write_text(json.dumps(plan(job, **counts).to_dict()))
    for name, lines in (logs or {}).items():
        records = [
            f"2026-01-31T12:00:0{n}.000000Z stdout F {text}\n" for n, text in enumerate(lines)
        ]
        (run.logs / f"{name}.log").write_text("".join(records))
    run.note("starting", "waiting for peers", "worker-0")
    status = JobStatus(job, run.id, "local", job_state(observed), observed, result, cause)
    run.settle(replace(status, started=START, ended=START + 9.84, results=results))
    time.sleep(0.001)  # runs are ordered by the time of their making
    return run
