"""`tfcluster up`: start the job, or make it what the spec says, and watch it to its end."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfcluster import console
from tfcluster.commands import options
from tfcluster.commands.attach import Attachment, Presses, watched_signals
from tfcluster.commands.outcome import check_outcome, summary
from tfcluster.converge import Deployment, deploy, live_run
from tfcluster.errors import EXIT_INTERRUPTED, EXIT_OK, WaitTimeout
from tfcluster.events import JobStatus, LogQuery
from tfcluster.live import open_display
from tfcluster.tables import counted, state_text
from tfcluster.tail import Style

if TYPE_CHECKING:
    from tfcluster.spec.loader import LoadedSpec

READY = frozenset({"running", "serving", "succeeded"})
WAIT_TIMEOUT = "10m"


def command(
    spec: options.Spec = None,
    file: options.File = None,
    var: options.Var = None,
    set_: options.Set = None,
    backend: options.Backend = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start, and leave it running.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return once every task runs (5 if the job fails).")
    ] = False,
    wait_timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="With --wait: exit 4 after this.  [default: 10m]"),
    ] = None,
    logs: Annotated[
        bool | None, typer.Option("--logs/--no-logs", help="Show what the tasks print.")
    ] = None,
) -> int:
    """Start the job, or make it what the spec says, and watch it to its end.

    A job that runs already is changed where the spec has changed: tasks that stay the same are
    left alone. Ctrl-C stops the job; a second one kills it. Exit code 5 if the job fails.
    """
    limit = options.seconds(wait_timeout or WAIT_TIMEOUT, "--wait-timeout")
    begun = time.time()
    loaded = options.load(spec, file, var, set_, backend)
    console.success(f"{options.shown_path(loaded)} is valid")
    with watched_signals() as presses:
        before = live_run(loaded.spec.name)
        deployment = started(loaded, presses)
        if before is not None and before[0].id != deployment.run.id:
            console.say(f"Run {before[0].id} was ended: the spec has changed for every task.")
        console.success(describe(deployment))
        if detach and not wait:
            console.say("Watch it: tfcluster logs -f, tfcluster status. Stop it: tfcluster down")
            return EXIT_OK
        attachment = attach(deployment, presses, begun, bool(logs) if wait else logs is not False)
        if wait:
            attachment.enough = all_ready
            attachment.deadline = time.monotonic() + limit
        try:
            status = attachment.follow()
        finally:
            attachment.display.close()
    return finish(attachment, status, wait)


def started(loaded: LoadedSpec, presses: Presses) -> Deployment:
    """Start or change the tasks. A Ctrl-C takes effect when that is done: nothing half-started."""
    presses.deferred = "Stopping as soon as the tasks are started; press Ctrl-C again to give up."
    try:
        return deploy(loaded, folder=Path.cwd(), say=console.say)
    finally:
        presses.deferred = ""


def describe(deployment: Deployment) -> str:
    """`3 tasks started (run 7f3a)`."""
    words = {"create": "started", "replace": "replaced", "remove": "removed", "keep": "unchanged"}
    counts = {
        word: sum(change.action == action for change in deployment.changes)
        for action, word in words.items()
    }
    run = f"(run {deployment.run.id})"
    if deployment.unchanged:
        verb = "is" if deployment.plan.size == 1 else "are"
        return f"{counted(deployment.plan.size, 'task')} {verb} running already, unchanged {run}"
    first, *rest = [(count, word) for word, count in counts.items() if count]
    parts = [f"{counted(first[0], 'task')} {first[1]}", *(f"{n} {word}" for n, word in rest)]
    return f"{', '.join(parts)} {run}"


def attach(deployment: Deployment, presses: Presses, begun: float, logs: bool) -> Attachment:
    fresh = all(change.action == "create" for change in deployment.changes)
    query = LogQuery(follow=True, since=None if fresh else begun)
    names = deployment.plan.task_names
    return Attachment(
        run=deployment.run,
        display=open_display(),
        presses=presses,
        style=Style(names=names, color=console.colored(sys.stdout)),
        grace=deployment.plan.stop_grace,
        query=query if logs else None,
    )


def all_ready(status: JobStatus) -> bool:
    return bool(status.tasks) and all(task.state in READY for task in status.tasks)


def finish(attachment: Attachment, status: JobStatus, wait: bool) -> int:
    """Say how it ended; the exit code."""
    run = attachment.run
    if attachment.interrupted:
        count = counted(len(status.tasks), "task")
        console.success(f"Stopped {count}; logs are kept: tfcluster logs --run {run.id}")
        return EXIT_INTERRUPTED
    if attachment.detached:
        console.say("Detached; the job keeps running: tfcluster logs -f, tfcluster down")
        return EXIT_INTERRUPTED
    if attachment.timed_out:
        late = [task for task in status.tasks if task.state not in READY]
        raise WaitTimeout(
            f"{counted(len(late), 'task')} not running in time",
            evidence=[f"  {task.task}: {state_text(task)}" for task in late[:6]],
            hint="the job goes on: tfcluster status, tfcluster logs -f",
        )
    if wait and all_ready(status) and not status.over:
        console.success(f"{counted(len(status.tasks), 'task')} running")
        return EXIT_OK
    check_outcome(status)
    console.success(summary(run, status))
    return EXIT_OK
