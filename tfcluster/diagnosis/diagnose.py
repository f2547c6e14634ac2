"""From a run to a verdict."""

from __future__ import annotations

from tfcluster.archive import Run
from tfcluster.diagnosis.evidence import Evidence, gather
from tfcluster.diagnosis.failures import diagnose_failure
from tfcluster.diagnosis.stalls import diagnose_stall
from tfcluster.diagnosis.verdict import NOTHING, Verdict, fold
from tfcluster.events import JobStatus
from tfcluster.tables import state_text

ENDED_BY = ("down", "replaced", "failed")  # kinds of events that end a run as a whole


def diagnose_run(run: Run, status: JobStatus) -> Verdict:
    """Why this run failed, was stopped or stands still."""
    return diagnose(gather(run, status))


def diagnose(evidence: Evidence) -> Verdict:
    status = evidence.status
    if status.cause is not None:
        return diagnose_failure(evidence, status.cause)
    if status.state == "succeeded":
        return Verdict(NOTHING, "the job succeeded")
    if not status.over:
        return diagnose_stall(evidence)
    tasks = fold((task.task, state_text(task)) for task in status.tasks)
    for event in reversed(evidence.events):
        if event.task is None and event.kind in ENDED_BY:
            words = event.message or event.kind
            return Verdict(
                event.kind, f"the job was ended: {words}", time=event.time, followed=tasks
            )
    return Verdict("stopped", "the job was stopped", followed=tasks, certain=False)
