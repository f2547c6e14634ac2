"""`tfcluster restart`: start programs again, in place, with the same addresses."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.converge import LOCK_PATIENCE
from tfcluster.errors import EXIT_OK, UsageError
from tfcluster.events import Event, JobStatus
from tfcluster.joblock import job_lock
from tfcluster.launch.system import process_start
from tfcluster.plan import known_tasks, require_plan

ASKED = "restart-asked"  # the kind of the event that says which tasks were told to restart
START_PATIENCE = 10.0  # a program that was stopped is started again within this
EXAMPLES = (
    ("tfcluster restart worker-1", "one task"),
    ("tfcluster restart worker", "every task of a role"),
    ("tfcluster restart --all", "every task that has not ended"),
)


def command(
    tasks: options.Tasks = None,
    all_: Annotated[bool, typer.Option("--all", help="Every task that has not ended.")] = False,
    file: options.File = None,
    job: options.Job = None,
) -> int:
    """Start the programs of tasks again, in place. This does not count as a failure.

    Several calls at once are one restart.
    """
    called = called_at()
    run = options.find_job_run(file, job)
    status = options.running(run)
    plan = require_plan(run)
    if bool(tasks) == all_:
        problem = "restart what?" if not tasks else "either tasks or --all"
        raise UsageError(problem, hint=f"name tasks or roles, or give --all. {known_tasks(plan)}")
    names = options.select_tasks(plan, tasks)
    if all_:
        names = tuple(task.task for task in status.tasks if not task.over)
    with job_lock(run.place, "restart", patience=LOCK_PATIENCE):
        since = time.time() - plan.stop_grace - START_PATIENCE
        restarting = told_already(run.events(), options.running(run), called, since)
        left = [name for name in names if name not in restarting]
        if left:
            ask(run, left)
    if left:
        console.success(f"Restarting {listed(left)}")
    if len(left) < len(names):
        joined = [name for name in names if name in restarting]
        console.say(f"{listed(joined)}: another `tfcluster restart` is at it")
    return EXIT_OK


def ask(run: Run, tasks: list[str]) -> None:
    """Tell the tasks to restart, and write down which and how often they had been restarted."""
    backend = load_backend(run.backend)
    before = {task.task: task.restarts for task in backend.observe(run).tasks}
    asked = time.time()
    backend.restart(run, tasks)
    run.files.append_event(
        Event(asked, ASKED, listed(tasks), data={name: before[name] for name in tasks})
    )


def told_already(
    events: Iterable[Event], status: JobStatus, called: float, since: float
) -> set[str]:
    """The tasks that another command told to restart after this one was called, or, after `since`,
    that have not restarted yet: no more often than when they were told."""
    restarts = {task.task: task.restarts for task in status.tasks}
    return {
        name
        for event in events
        if event.kind == ASKED and event.time > min(called, since)
        for name, before in (event.data or {}).items()
        if event.time >= called or still(before, restarts.get(name, 0))
    }


def still(before: object, now: int) -> bool:
    return isinstance(before, int) and now <= before


def called_at() -> float:
    """When this process was started: importing takes longer than a restart."""
    ticks = process_start(os.getpid())
    if ticks is None or not ticks.isdecimal() or not hasattr(time, "CLOCK_BOOTTIME"):
        return time.time()
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def listed(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
