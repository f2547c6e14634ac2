"""How a job ended, in words and as an exit code."""

from __future__ import annotations

import re
import time

from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.backends.keeping import watched
from tfcluster.commands.options import status_of
from tfcluster.errors import JobFailed, TfclusterError
from tfcluster.events import Cause, JobStatus
from tfcluster.launch import exits
from tfcluster.tables import clock, result_text, state_text

SETTLE_SECONDS = 10.0
SHOWN_LINES = 10
SHOWN_TASKS = 6
LINGER = 20.0  # how long a launcher that has ended tries to reach peers that do not answer
NOT_REACHED = {exits.PEER_MISSING, exits.NOT_LISTENING, exits.UNREACHABLE, exits.SILENCE}


def is_settled(run: Run, status: JobStatus, over_since: float | None) -> bool:
    """Whether the record of an ended run is complete, or nobody is left to complete it."""
    if not status.over:
        return False
    if run.final_status() is not None:
        return True
    # A task that has ended lingers for a while where it cannot reach the others.
    patience = SETTLE_SECONDS + (LINGER if watched(run) else 0)
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


def check_outcome(status: JobStatus) -> None:
    """Raise unless the job succeeded."""
    if status.state == "succeeded":
        return
    if status.cause is None:
        raise stopped(status)
    cause = status.cause
    evidence = [f"  {cause.task} | {line}" for line in cause.lines[-SHOWN_LINES:]]
    evidence += others(status, cause.task)
    raise JobFailed(f"{cause.task} failed: {cause.reason}", evidence=evidence, hint=advice(cause))


def stopped(status: JobStatus) -> TfclusterError:
    """A job that ended without success, and without a task that failed."""
    evidence = [f"  {task.task}: {state_text(task)}" for task in status.tasks]
    return JobFailed(
        f'job "{status.job}" {"failed" if status.state == "failed" else "was stopped"}',
        evidence=evidence[:SHOWN_TASKS],
        hint=f"all lines: tfcluster logs --run {status.run}",
    )


def others(status: JobStatus, first: str) -> list[str]:
    """What the tasks that did not start it say."""
    rest = [task for task in status.tasks if task.task != first]
    lines = [f"  {task.task}: {state_text(task)}" for task in rest[:SHOWN_TASKS]]
    return lines + ([f"  … and {len(rest) - SHOWN_TASKS} more"] if rest[SHOWN_TASKS:] else [])


def advice(cause: Cause) -> str:
    """What to do next, from what is known of the first failure."""
    role, text = cause.task.rpartition("-")[0], "\n".join(cause.lines)
    look = f"all lines: tfcluster logs {cause.task}"
    if re.search(r"No module named '?tensorflow\b", text):
        return "TensorFlow is not installed here. Run: pip install 'tfcluster[trainer]'"
    missing = re.search(r"No module named '([\w.]+)'", text)
    if missing:
        return f"Python cannot find {missing[1]}. Install it, or set workdir or PYTHONPATH. {look}"
    if cause.kind in NOT_REACHED:
        name = cause.peer or cause.task
        return f"see why {name} does not listen: tfcluster logs {name}. More time: start_timeout"
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
    if cause.exit_code == 127:
        return "is the command installed and on PATH? `tfcluster plan` shows what is started"
    if cause.exit_code == 126:
        return "make the program executable, or start it through its interpreter"
    return look
