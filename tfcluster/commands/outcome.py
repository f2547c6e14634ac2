"""How a job ended, in words and as an exit code."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster import console
from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.backends.keeping import watched
from tfcluster.commands.options import status_of
from tfcluster.errors import DamagedFile, JobFailed, TfclusterError
from tfcluster.escapes import stripped
from tfcluster.events import Cause, JobStatus
from tfcluster.launch import exits
from tfcluster.results import TASK, is_empty
from tfcluster.tables import clock, problem, result_text, results_lines, stands_still, state_text

if TYPE_CHECKING:
    from tfcluster.diagnosis.verdict import Verdict

SETTLE_SECONDS = 10.0
SHOWN_LINES = 10
SHOWN_TASKS = 6
NOT_REACHED = {exits.PEER_MISSING, exits.NOT_LISTENING, exits.UNREACHABLE, exits.SILENCE}


def is_settled(run: Run, status: JobStatus, over_since: float | None) -> bool:
    """Whether the record of an ended run is complete, or nobody is left to complete it."""
    if not status.over:
        return False
    if run.final_status() is not None:
        return True
    # A task that has ended lingers for a while where it cannot reach the others.
    patience = SETTLE_SECONDS + (exits.LINGER if watched(run) else 0)
    return over_since is not None and time.monotonic() - over_since > patience


def wait_settled(run: Run) -> JobStatus:
    """The final status of a run that is over or about to be."""
    begun = time.monotonic()
    while True:
        status = status_of(run)
        if is_settled(run, status, begun) or not status.over:
            return status
        time.sleep(0.05)


def summary(run: Run, status: JobStatus) -> str:
    """`Done in 9.8 s: test accuracy 0.971, global step 2400. TensorBoard: …`."""
    length = ""
    if status.started and status.ended:
        length = f" in {clock(status.ended - status.started)}"
    result = result_text(status.result)
    if not result:
        return f"Done{length}."
    shows = load_backend(run.backend).shows_board(run)
    more = " TensorBoard: tfcluster tensorboard" if shows else ""
    return f"Done{length}: {result}.{more}"


def say_results(status: JobStatus) -> None:
    """Where the results are, if there are any."""
    there = [one for one in status.results if not is_empty(one)]
    how = "; how to copy them: tfcluster status -o wide" if any(one.copy for one in there) else ""
    if there:
        console.say("\n".join(results_lines(there)) + how)


def kept_results(status: JobStatus) -> list[str]:
    """Where results of a job are that did not succeed."""
    there = [one for one in status.results if one.kind != TASK and not is_empty(one)]
    return [f"  {line[0].lower()}{line[1:]}" for line in results_lines(there)]


def reason_of(run: Run, status: JobStatus) -> str:
    """Why a run has not succeeded: its first failure, or what was noted of it as a whole."""
    if status.cause is not None:
        return f"{status.cause.task}: {status.cause.reason}"
    if status.state not in ("failed", "stopped"):
        return ""
    if status.ended_by is not None:
        return status.ended_by.words
    noted = [one for one in run.events() if one.task is None and one.kind == "failed"]
    return noted[-1].message if noted else ""


def explain(run: Run, status: JobStatus) -> Verdict | None:
    """The cause of a failure or of a stall that can be seen; None where there is neither."""
    now = time.time()
    odd = any(stands_still(task, now) or problem(task) for task in status.tasks)
    if status.cause is None and (status.over or not odd):
        return None
    from tfcluster.diagnosis.diagnose import diagnose_run

    try:
        return diagnose_run(run, status)
    except DamagedFile:  # whoever reads that file says so
        return None


def check_outcome(run: Run, status: JobStatus) -> None:
    """Raise unless the job succeeded."""
    if status.state == "succeeded":
        return
    if status.cause is None:
        raise stopped(status)
    cause, verdict = status.cause, explain(run, status)
    evidence = [f"  cause: {verdict.summary}; more: tfcluster why"] if verdict else []
    evidence += [f"  {cause.task} | {stripped(line)}" for line in cause.lines[-SHOWN_LINES:]]
    evidence += [*others(status, cause.task), *kept_results(status)]
    raise JobFailed(
        f"{cause.task} failed: {cause.reason}",
        evidence=evidence,
        hint=advice(cause, status.backend),
    )


def stopped(status: JobStatus) -> TfclusterError:
    """A job that ended without success, and without a task that failed."""
    by = status.ended_by
    if by is not None and status.state != "failed":
        other = f"the new run: tfcluster logs -f --run {by.run}; " if by.run else ""
        return JobFailed(
            f'job "{status.job}" (run {status.run}) was {by.words}',
            hint=f"{other}its own lines: tfcluster logs --run {status.run}",
        )
    evidence = [f"  {task.task}: {state_text(task)}" for task in status.tasks]
    return JobFailed(
        f'job "{status.job}" {"failed" if status.state == "failed" else "was stopped"}',
        evidence=[*evidence[:SHOWN_TASKS], *kept_results(status)],
        hint=f"all lines: tfcluster logs --run {status.run}",
    )


def others(status: JobStatus, first: str) -> list[str]:
    """What the tasks that did not start it say."""
    rest = [task for task in status.tasks if task.task != first]
    lines = [f"  {task.task}: {state_text(task)}" for task in rest[:SHOWN_TASKS]]
    return lines + ([f"  … and {len(rest) - SHOWN_TASKS} more"] if rest[SHOWN_TASKS:] else [])


def module_advice(module: str, python: str | None, backend: str) -> str:
    """Where a module that a program lacks can come from."""
    if backend != "local":
        return f"install {module} in the image, or set workdir or PYTHONPATH to where it is"
    own = sys.executable
    if python != own and own_has(module):
        use = f"use it (command: [{own}, …])"
        return f"tfcluster's own Python has {module}: {use}, or install it for {python or 'yours'}"
    install = f"install it ({python or 'python'} -m pip install …)"
    lacks = "" if python == own else f"tfcluster's own Python ({own}) has no {module} either: "
    return f"{lacks}{install}, or set workdir or PYTHONPATH to where it is"


def own_has(module: str) -> bool:
    """Whether the interpreter that runs tfcluster has a module, this folder's own aside."""
    from importlib.machinery import PathFinder

    places = [place for place in sys.path if place and Path(place) != Path.cwd()]
    return PathFinder.find_spec(module.partition(".")[0], places) is not None


def advice(cause: Cause, backend: str = "local") -> str:
    """What to do next, from what is known of the first failure."""
    role = cause.task.rpartition("-")[0]
    look = f"all lines: tfcluster logs {cause.task}"
    if cause.kind == exits.MODULE_MISSING and cause.module:
        return module_advice(cause.module, cause.python, backend)
    if cause.kind in NOT_REACHED:
        name = cause.peer or cause.task
        return f"see why {name} does not listen: tfcluster logs {name}. More time: start_timeout"
    if cause.kind == exits.NO_RESOURCES:
        limit = "docker.pids_limit" if backend == "docker" else "pids.max of the control group"
        return f"raise ulimit -u and ulimit -n, or {limit}. {look}"
    if cause.kind == exits.PORT_TAKEN:
        return "another process has the port; choose others with ports or local.port_range"
    if cause.kind == exits.DEADLINE:
        return f"give the job more time with deadline, or leave it out. {look}"
    if cause.kind == exits.OUT_OF_MEMORY:
        return f"raise roles.{role}.memory, or use smaller batches. {look}"
    if cause.exit_code == exits.EXIT_OUT_OF_MEMORY:
        return (
            "it was killed, or the system ran out of memory (137 often means that). "
            f"Restarts are set with roles.{role}.restarts. {look}"
        )
    if cause.kind == exits.CANNOT_START and cause.exit_code == 126:
        return "make the program executable, or start it through its interpreter"
    if cause.kind == exits.CANNOT_START:
        shows = f"tfcluster plan {cause.task}"
        return f"is it there, and on PATH if it is a command? `{shows}` shows what is started"
    return look
