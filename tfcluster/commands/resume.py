"""`tfcluster resume`: start the pods of a suspended job again."""

from __future__ import annotations

from tfcluster import console
from tfcluster.archive import job_lock
from tfcluster.backends import load_backend
from tfcluster.commands import options
from tfcluster.errors import EXIT_OK, UsageError


def command(file: options.File = None, job: options.Job = None) -> int:
    """Start the pods of a suspended job again; programs go on from their checkpoints."""
    run = options.find_job_run(file, job)
    options.running(run)
    change = getattr(load_backend(run.backend), "suspend", None)
    if change is None:
        raise UsageError(
            f"jobs on {run.backend} cannot be suspended",
            hint="end it with tfcluster down; tfcluster up goes on from the checkpoints",
        )
    with job_lock(run.job, "resume"):
        change(run, False)
    console.success("Resumed. Watch it: tfcluster logs -f, tfcluster status")
    return EXIT_OK
