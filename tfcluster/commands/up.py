"""`tfcluster up`: start the job, or make it what the spec says, and watch it to its end."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.changes import Change
from tfcluster.commands import options
from tfcluster.commands.attach import Attachment
from tfcluster.commands.consent import NO, WATCH, Call, Consent, obtain_consent
from tfcluster.commands.outcome import check_outcome, say_results, summary
from tfcluster.converge import Deployment, deploy
from tfcluster.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_TOOL, WaitTimeout
from tfcluster.events import JobStatus, LogQuery
from tfcluster.fetching import known_results
from tfcluster.folding import Folding
from tfcluster.interrupts import Presses, watched_signals
from tfcluster.live import open_display
from tfcluster.plan import require_plan
from tfcluster.tables import counted, results_lines, state_text
from tfcluster.tail import Style

EXAMPLES = (
    ("tfcluster up", "cluster.yaml in this folder"),
    ("tfcluster up -d examples/mnist.yaml", "start, and leave it running"),
    ("tfcluster up --set roles.worker.replicas=4", "with four workers"),
    ("tfcluster up --backend kubernetes", "the same job in a cluster"),
)
READY = frozenset({"running", "serving", "succeeded"})
WAIT_TIMEOUT = "10m"
GOES_ON = "The job goes on: tfcluster logs -f, tfcluster down"


def command(
    spec: options.Spec = None,
    file: options.File = None,
    var: options.Var = None,
    set_: options.Set = None,
    backend: options.Backend = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="End or restart running tasks without asking.")
    ] = False,
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
    all_: Annotated[bool, typer.Option("--all", help="Show TensorFlow's notices too.")] = False,
) -> int:
    """Start the job, or make it what the spec says, and watch it to its end.

    A job that already runs is changed where the spec has changed: tasks that stay the same are
    left alone. Before it ends or restarts tasks that run, it shows what differs and asks; off a
    terminal it needs --yes. Ctrl-C stops the job; a second one kills it. Exit code 5 if the job
    fails, or is ended before it is done.
    """
    limit = options.seconds(wait_timeout or WAIT_TIMEOUT, "--wait-timeout")
    begun = time.time()
    loaded = options.load(spec, file, var, set_, backend)
    console.success(f"{options.shown_path(loaded)} is valid")
    call = Call(loaded, backend, yes)
    return carry_out(
        call, begun=begun, detach=detach, wait=wait, limit=limit, logs=logs, notices=all_
    )


def carry_out(
    call: Call,
    *,
    begun: float,
    detach: bool = False,
    wait: bool = False,
    limit: float = 0.0,
    logs: bool | None = None,
    notices: bool = False,
) -> int:
    """Start or change the job of a spec and watch it; the exit code."""
    consent = obtain_consent(call)
    if consent.answer == NO:
        console.say("Nothing was changed; the job goes on.")
        return EXIT_TOOL
    with watched_signals() as presses:
        if consent.answer == WATCH and consent.run is not None:
            deployment = as_it_is(consent.run)
        else:
            deployment = started(consent, presses)
        presses.goes_on = GOES_ON
        if deployment.ended is not None:
            console.say(f"Run {deployment.ended} was ended.")
        console.success(describe(deployment))
        for line in deployment.plan.interpreter_lines:
            console.say(f"  {line}")
        if detach and not wait and presses.settle():
            console.say("Watch it: tfcluster logs -f, tfcluster status. Stop it: tfcluster down")
            console.say("\n".join(planned_results(deployment)))
            return EXIT_OK
        shows = bool(logs) if wait or detach else logs is not False
        attachment = attach(deployment, presses, begun, shows)
        if wait:
            attachment.enough = all_ready
            attachment.deadline = time.monotonic() + limit
        attachment.folding = None if notices else Folding(deployment.plan)
        try:
            status = attachment.follow()
            if not (status.over or attachment.detached or presses.settle()):
                status = attachment.follow()  # a press that came last
        finally:
            attachment.display.close()
    if attachment.folding and (words := attachment.folding.summary("tfcluster logs --all")):
        console.say(words)
    return finish(attachment, status, wait)


def as_it_is(run: Run) -> Deployment:
    """A job that runs, to be watched."""
    plan = require_plan(run)
    return Deployment(run, plan, tuple(Change("keep", task) for task in plan.task_names))


def started(consent: Consent, presses: Presses) -> Deployment:
    """Start or change the tasks. A Ctrl-C takes effect when that is done: nothing half-started."""
    presses.deferred = "Stopping as soon as the tasks are started; press Ctrl-C again to give up."
    presses.given_up = "Gave up; what was started until now goes on. End it: tfcluster down"
    presses.goes_on = "What was started until now goes on: tfcluster status, tfcluster down"
    try:
        return deploy(
            consent.call.loaded,
            folder=Path.cwd(),
            say=console.say,
            agree=consent.check,
            begin=presses.begin,
        )
    finally:
        presses.begin()
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


def planned_results(deployment: Deployment) -> list[str]:
    """Where the results of a run will be that has only begun."""
    backend = load_backend(deployment.plan.backend)
    return results_lines(backend.results(deployment.plan, deployment.run), look=False)


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


def show_results(run: Run) -> None:
    """What has come back, also of a job that failed."""
    found = known_results(run)
    if found is not None:
        console.success(f"Brought back {found.text}")


def finish(attachment: Attachment, status: JobStatus, wait: bool) -> int:
    """Say how it ended; the exit code."""
    run = attachment.run
    if attachment.interrupted:
        count = counted(len(status.tasks), "task")
        console.success(f"Stopped {count}; logs are kept: tfcluster logs --run {run.id}")
        say_results(status)
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
    show_results(run)
    check_outcome(run, status)
    console.success(summary(run, status))
    say_results(status)
    return EXIT_OK
