"""What is true of the tasks of a local run: as their records say, or asked of their launchers.

A record may be damaged, and on a full disk it cannot be written. The launcher knows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from tfcluster.archive import Run
from tfcluster.backends.keeping import stale, watched
from tfcluster.backends.local.results import results_of
from tfcluster.backends.processes import alive
from tfcluster.backends.records import job_status, observed
from tfcluster.disk import disk_trouble
from tfcluster.errors import DamagedFile, StateWarning
from tfcluster.events import ENDED, JobStatus, Observed
from tfcluster.launch import exits
from tfcluster.launch import plan as launch_plan
from tfcluster.launch.record import TaskRecord
from tfcluster.launch.wire import ask
from tfcluster.plan import require_plan

LINES_LOST = "until that ends, what tasks print may be lost"
ANSWER = 1.0  # seconds for a launcher to answer


def look_at(run: Run) -> JobStatus:
    """The run as it is now; how it ended, if that is written down."""
    final = run.final_status()
    if final is not None:
        return final
    launch = readable_launch(run)
    kept = watched(run) or not stale(run)
    if launch is None:
        return JobStatus(run.job, run.id, "local", "pending" if kept else "stopped")
    trouble = disk_trouble(run.path)
    records = {task: record_of(run, launch, task, trouble) for task in launch_plan.tasks_of(launch)}
    status = status_of(run, launch, records, kept, trouble)
    if trouble:
        follows = "how the run ended waits to be written down" if status.over else LINES_LOST
        warnings.warn(f"{run.path}: {trouble}; {follows}", StateWarning, stacklevel=2)
    return status


def status_of(
    run: Run,
    launch: launch_plan.LaunchPlan,
    records: Mapping[str, TaskRecord],
    kept: bool = False,
    trouble: str = "",
) -> JobStatus:
    """The job from what is known of its tasks."""
    tasks = [seen(launch, task, record, kept, trouble) for task, record in records.items()]
    results = results_of(launch.get("logdir"), launch.get("checkpoints"))
    return job_status(run, tuple(tasks), records.values(), results)


def readable_launch(run: Run) -> launch_plan.LaunchPlan | None:
    """The launch plan; the plan that it was made from if it is damaged."""
    try:
        return run.files.read_launch()
    except DamagedFile as error:
        found = require_plan(run).launch(run.id)
        warnings.warn(error.message, StateWarning, stacklevel=2)
        return cast(launch_plan.LaunchPlan, {**found})


def record_of(run: Run, launch: launch_plan.LaunchPlan, task: str, trouble: str) -> TaskRecord:
    """What is known of a task: asked of its launcher where nothing, or nothing new, is written."""
    damaged: DamagedFile | None = None
    record: TaskRecord = {}
    try:
        record = run.files.read_task(task) or {}
    except DamagedFile as error:
        damaged = error
    if record.get("state") in ENDED or (record and not trouble):
        return record
    answer = asked(run, launch, task)
    if damaged is not None:
        words = "; its launcher was asked" if answer else ""
        warnings.warn(f"{damaged.message}{words}", StateWarning, stacklevel=2)
    if damaged is not None and answer is None:
        reason = "its record cannot be read, and its launcher is gone"
        return {"task": task, "state": "stopped", "kind": exits.LAUNCHER_KILLED, "reason": reason}
    return answer or record


def asked(run: Run, launch: launch_plan.LaunchPlan, task: str) -> TaskRecord | None:
    """The record of a task as its launcher has it; None if none answers."""
    try:
        address = launch_plan.control_address(launch, task)
        found = ask(address, run.files.require_key(), task, {"ask": "state"}, timeout=ANSWER)
    except (OSError, ValueError, DamagedFile):
        return None
    return cast(TaskRecord, found) if found.get("task") == task else None


def seen(
    launch: launch_plan.LaunchPlan, task: str, record: TaskRecord, kept: bool, trouble: str
) -> Observed:
    """One task from what is known of it. Without a keeper nobody will replace a dead launcher."""
    role, index = launch_plan.split_task(launch, task)
    found = observed(task, launch_plan.addresses(launch["roles"][role])[index], record)
    if found.over or alive(record.get("launcher")):
        return found
    if kept and not (record and trouble):
        return replace(found, state="starting" if record else "pending")
    reason = "its launcher and the run's keeper were killed" if record else "was never started"
    if record and trouble:
        reason = f"it is gone, and how it ended could not be written down: {trouble}"
    return replace(found, state="stopped", reason=reason, kind=exits.LAUNCHER_KILLED)
